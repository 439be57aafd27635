//! The search for an order of recorded calls, and the map that says whether a call fits behind others.
//!
//! It runs nothing. Its invariant: a history passes only if some order of all its calls respects their times and explains every answer.

use std::collections::{BTreeMap, HashSet};

/// What was asked, of keys by their numbers.
#[derive(Debug, Clone)]
pub enum Asked {
    Get(usize),
    /// Of one moment.
    GetAll,
    Put(Vec<usize>, i64),
    /// Put if the key has the version that the thread saw last.
    PutIfSeen(usize, i64),
    Remove(usize),
    Increment(usize, i64),
}

/// What the call answered. Entries are a version and a value.
#[derive(Debug, Clone)]
pub enum Found {
    Read(Vec<(usize, Option<(u64, i64)>)>),
    /// The version of each key, in order.
    Wrote(Vec<u64>),
    /// The version that it asked for, and the new one.
    WroteAt(u64, u64),
    /// The version that it asked for, and the one that was there.
    Conflict(u64, u64),
    /// Whether it was there.
    Removed(bool),
    /// The new version and sum.
    Counted(u64, i64),
}

/// A call, and when it began and ended by a clock of all threads.
#[derive(Debug, Clone)]
pub struct Call {
    pub asked: Asked,
    pub found: Found,
    pub began: u64,
    pub ended: u64,
}

/// A naive map: entries by key, and the highest version that a caller was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Map {
    entries: BTreeMap<usize, (u64, i64)>,
    last: u64,
}

impl Map {
    fn version(&self, key: usize) -> u64 {
        self.entries.get(&key).map_or(0, |entry| entry.0)
    }

    /// Gives the key this version, which must be a new one.
    fn write(&mut self, key: usize, version: u64, value: i64) -> bool {
        let is_new = version > self.last;
        self.last = version;
        self.entries.insert(key, (version, value));
        is_new
    }

    /// The map behind the call; nothing where its answer does not fit.
    fn after(&self, call: &Call) -> Option<Map> {
        let mut map = self.clone();
        let fits = match (&call.asked, &call.found) {
            (Asked::Get(_) | Asked::GetAll, Found::Read(read)) => read
                .iter()
                .all(|(key, entry)| map.entries.get(key) == entry.as_ref()),
            (Asked::Put(keys, value), Found::Wrote(versions)) => {
                let mut pairs = keys.iter().zip(versions);
                keys.len() == versions.len() && pairs.all(|(key, version)| map.write(*key, *version, *value))
            }
            (Asked::PutIfSeen(key, value), Found::WroteAt(expected, version)) => {
                map.version(*key) == *expected && map.write(*key, *version, *value)
            }
            (Asked::PutIfSeen(key, _), Found::Conflict(expected, found)) => {
                map.version(*key) == *found && expected != found
            }
            (Asked::Remove(key), Found::Removed(was_there)) => {
                map.entries.remove(key).is_some() == *was_there
            }
            (Asked::Increment(key, by), Found::Counted(version, sum)) => {
                let before = map.entries.get(key).map_or(0, |entry| entry.1);
                before + by == *sum && map.write(*key, *version, *sum)
            }
            _ => false,
        };
        fits.then_some(map)
    }
}

/// Whether the calls can have taken effect in one order, each between its beginning and its end, on a map without keys.
pub fn is_linearizable(history: &[Call]) -> bool {
    assert!(history.len() <= 64);
    let all = u64::MAX
        .checked_shr(64 - history.len() as u32)
        .unwrap_or_default();
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, Map::default())];
    while let Some((done, map)) = open.pop() {
        if done == all {
            return true;
        }
        let left = || history.iter().enumerate().filter(|(at, _)| done & 1 << at == 0);
        // What began behind the end of a call that is left comes after it.
        let first_end = left().map(|(_, call)| call.ended).min().unwrap_or_default();
        for (at, call) in left().filter(|(_, call)| call.began < first_end) {
            if let Some(map) = map.after(call) {
                let state = (done | 1 << at, map);
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

fn call(asked: Asked, found: Found, (began, ended): (u64, u64)) -> Call {
    Call {
        asked,
        found,
        began,
        ended,
    }
}

#[test]
fn answers_that_no_order_explains_are_found() {
    let put = |times| call(Asked::Put(vec![0], 7), Found::Wrote(vec![5]), times);
    let read = |entry, times| call(Asked::Get(0), Found::Read(vec![(0, entry)]), times);
    // Beside the put a reader may see it or not, behind it it must.
    assert!(is_linearizable(&[put((0, 3)), read(None, (1, 2))]));
    assert!(is_linearizable(&[put((0, 3)), read(Some((5, 7)), (1, 2))]));
    assert!(!is_linearizable(&[put((0, 1)), read(None, (2, 3))]));
    // Once one reader has seen it, a later one must.
    let after = [put((0, 9)), read(Some((5, 7)), (1, 2)), read(None, (3, 4))];
    assert!(!is_linearizable(&after));
    // Half of two keys that were put at once.
    let both = call(Asked::Put(vec![0, 1], 7), Found::Wrote(vec![5, 6]), (0, 9));
    let half = call(
        Asked::GetAll,
        Found::Read(vec![(0, Some((5, 7))), (1, None)]),
        (1, 2),
    );
    assert!(!is_linearizable(&[both, half]));
    // Two that count from the same number, and a conflict with what was there.
    let count = |version, times| call(Asked::Increment(0, 1), Found::Counted(version, 1), times);
    assert!(!is_linearizable(&[count(5, (0, 3)), count(6, (1, 2))]));
    let conflict = call(Asked::PutIfSeen(0, 1), Found::Conflict(0, 4), (2, 3));
    assert!(!is_linearizable(&[put((0, 1)), conflict]));
}
