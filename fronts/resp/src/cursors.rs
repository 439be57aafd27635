//! Cursors of SCAN on stores: numbers that stand for the keys to go on with.
//!
//! Any connection may go on with a cursor of another. Its invariants: what is kept is bounded, the oldest goes first; and a number
//! stands for one key of one database.

use std::collections::{HashMap, VecDeque};
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
    keys: HashMap<u64, (u32, Box<[u8]>)>,
    /// The oldest first.
    order: VecDeque<u64>,
    bytes: usize,
}

impl Cursors {
    /// The number that stands for a key of a database; never 0.
    pub(crate) fn keep(&self, database: u32, key: &[u8]) -> u64 {
        let number = (self.numbers.hash_one((database, key)) & NUMBER_MAX).max(1);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.keys.insert(number, (database, key.into())) {
            Some((_, before)) => kept.bytes -= before.len(),
            None => kept.order.push_back(number),
        }
        kept.bytes += key.len();
        while kept.order.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX {
            let oldest = kept.order.pop_front();
            let Some((_, key)) = oldest.and_then(|oldest| kept.keys.remove(&oldest)) else {
                break;
            };
            kept.bytes -= key.len();
        }
        number
    }

    /// The key that a number stands for in a database, if it is still kept.
    pub(crate) fn key(&self, database: u32, number: u64) -> Option<Box<[u8]>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, key) = kept.keys.get(&number)?;
        (*of == database).then(|| key.clone())
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
    fn long_keys_are_bounded_by_their_bytes() {
        let cursors = Cursors::default();
        let key = |number: usize| [&number.to_le_bytes()[..], &[0; 65_528]].concat();
        let numbers: Vec<u64> = (0..70).map(|number| cursors.keep(0, &key(number))).collect();
        let kept = numbers.iter().filter(|number| cursors.key(0, **number).is_some());
        assert_eq!(kept.count(), KEPT_BYTES_MAX / (64 << 10));
    }
}
