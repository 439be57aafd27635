//! Cursors of SCAN on stores: numbers that stand for the keys to go on with.
//!
//! Any connection may go on with a cursor of another. Its invariants: what is kept is bounded, and the one that was given or used the
//! longest ago goes first; a number stands for one key of one database.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

/// Cursors that are kept, and bytes of their keys.
const KEPT_MAX: usize = 4096;
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Clients may read a cursor as a number with a sign.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// Those of all connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    kept: Mutex<Kept>,
    /// The same key has the same number; nobody can choose keys whose numbers are alike.
    numbers: RandomState,
}

#[derive(Debug, Default)]
struct Kept {
    keys: HashMap<u64, Cursor>,
    /// Their numbers by their last use.
    order: BTreeMap<u64, u64>,
    /// Uses so far.
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Cursor {
    database: u32,
    key: Box<[u8]>,
    /// Its last use.
    used: u64,
}

impl Kept {
    /// Another use.
    fn count(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn forget(&mut self, cursor: &Cursor) {
        self.order.remove(&cursor.used);
        self.bytes -= cursor.key.len();
    }
}

impl Cursors {
    /// The number that stands for a key of a database; never 0.
    pub(crate) fn keep(&self, database: u32, key: &[u8]) -> u64 {
        let number = (self.numbers.hash_one((database, key)) & NUMBER_MAX).max(1);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let used = kept.count();
        let cursor = Cursor {
            database,
            key: key.into(),
            used,
        };
        if let Some(before) = kept.keys.insert(number, cursor) {
            kept.forget(&before);
        }
        kept.order.insert(used, number);
        kept.bytes += key.len();
        while kept.order.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX {
            let oldest = kept.order.pop_first();
            let Some(cursor) = oldest.and_then(|(_, oldest)| kept.keys.remove(&oldest)) else {
                break;
            };
            kept.bytes -= cursor.key.len();
        }
        number
    }

    /// The key that a number stands for in a database, if it is still kept.
    pub(crate) fn key(&self, database: u32, number: u64) -> Option<Box<[u8]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        let used = kept.count();
        let cursor = kept.keys.get_mut(&number)?;
        if cursor.database != database {
            return None;
        }
        kept.order.remove(&std::mem::replace(&mut cursor.used, used));
        kept.order.insert(used, number);
        Some(cursor.key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cursors_go_first() {
        let cursors = Cursors::default();
        let numbers: Vec<u64> = (0..KEPT_MAX + 10)
            .map(|number| cursors.keep(3, format!("key{number}").as_bytes()))
            .collect();
        assert!(numbers.iter().all(|number| (1..=NUMBER_MAX).contains(number)));
        let found = |at: usize| numbers.get(at).and_then(|number| cursors.key(3, *number));
        assert_eq!((found(0), found(9)), (None, None));
        assert_eq!(found(10).as_deref(), Some(&b"key10"[..]));
        let last = numbers.last().copied().unwrap_or_default();
        assert_eq!(cursors.key(4, last), None, "of another database");
        let again = cursors.keep(3, format!("key{}", KEPT_MAX + 9).as_bytes());
        assert_eq!(again, last, "the same key");
    }

    #[test]
    fn cursors_that_are_given_again_or_used_stay() {
        let cursors = Cursors::default();
        let keep = |number: usize| cursors.keep(0, format!("key{number}").as_bytes());
        let numbers: Vec<u64> = (0..KEPT_MAX).map(keep).collect();
        let [given, used, neither, ..] = numbers.as_slice() else {
            panic!("no cursors");
        };
        assert_eq!(keep(0), *given);
        assert_eq!(cursors.key(0, *used).as_deref(), Some(&b"key1"[..]));
        assert_eq!(cursors.key(7, *neither), None, "a look from elsewhere is no use");
        let more = KEPT_MAX..2 * KEPT_MAX - 2;
        more.for_each(|number| {
            keep(number);
        });
        let is_there = [given, used, neither].map(|number| cursors.key(0, *number).is_some());
        assert_eq!(is_there, [true, true, false]);
        keep(0);
        let kept = cursors.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = kept.keys.values().map(|cursor| cursor.key.len()).sum();
        assert_eq!((kept.keys.len(), kept.bytes), (kept.order.len(), bytes));
    }

    #[test]
    fn long_keys_are_bounded_by_their_bytes() {
        let cursors = Cursors::default();
        let key = |number: usize| [&number.to_le_bytes()[..], &[0; 65_528]].concat();
        let numbers: Vec<u64> = (0..70).map(|number| cursors.keep(0, &key(number))).collect();
        let kept = numbers.iter().filter(|number| cursors.key(0, **number).is_some());
        assert_eq!(kept.count(), KEPT_BYTES_MAX / (64 << 10));
    }
}
