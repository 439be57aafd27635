//! Entries that have expired are removed, a few at a time, from the first key to the last and over again; and so is what a store that evicts
//! has beyond its limit, as where it was opened with a lower one.
//!
//! Readers pass over what has expired before. It removes nothing itself: whoever has the store's writes in hand does. Invariant: where
//! nothing is to go nothing is looked at.

use std::time::{Duration, Instant};

use crate::eviction::{Room, Victims, Wanted};
use crate::index::Index;

/// How often some entries are looked at, while any expires; without a pause where a quarter of the last had.
const EVERY: Duration = Duration::from_millis(10);
/// How long after nothing could be removed it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How many at once: a part of a millisecond.
const LOOKED_AT: usize = 1024;

/// How far it is.
pub(crate) struct Sweep {
    from: Vec<u8>,
    at: Instant,
    pause: Duration,
}

/// What is to be removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub keys: Vec<Vec<u8>>,
    /// How many of them make room.
    pub evicted: usize,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            from: Vec::new(),
            at: Instant::now(),
            pause: EVERY,
        }
    }
}

impl Sweep {
    /// How long its next part can be waited for.
    pub fn wait(&self, index: &Index, room: &Room) -> Option<Duration> {
        let is_any = index.expiring() > 0 || room.beyond(index) > 0;
        is_any.then(|| self.pause.saturating_sub(self.at.elapsed()))
    }

    /// The keys that are to be removed now, where it is due; nobody else may write until they are.
    pub fn due(&mut self, index: &Index, room: &Room) -> Due {
        self.at = Instant::now();
        let beyond = room.beyond(index);
        if beyond > 0 {
            let evicted = self.evicted(index, room, beyond);
            // Where none that may go is found, what has expired is all that makes room.
            if !evicted.keys.is_empty() || index.expiring() == 0 {
                return evicted;
            }
        }
        self.expired(index)
    }

    fn expired(&mut self, index: &Index) -> Due {
        let (keys, next) = index.expired(&self.from, LOOKED_AT);
        self.from = next.unwrap_or_default();
        self.pause = match keys.len() * 4 >= LOOKED_AT {
            true => Duration::ZERO,
            false => EVERY,
        };
        Due { keys, evicted: 0 }
    }

    fn evicted(&mut self, index: &Index, room: &Room, bytes: u64) -> Due {
        let wanted = Wanted {
            bytes,
            entries_max: LOOKED_AT,
            now_ms: index.clock().now_ms(),
        };
        let keys: Vec<Vec<u8>> = Victims::draw(index, room, &wanted, |_| true)
            .keys
            .into_iter()
            .collect();
        self.pause = if keys.is_empty() { AGAIN } else { Duration::ZERO };
        let evicted = keys.len();
        Due { keys, evicted }
    }

    /// They could not be removed: it goes on with them a while later.
    pub fn failed(&mut self, due: Due) {
        (self.at, self.pause) = (Instant::now(), AGAIN);
        if let (0, Some(first)) = (due.evicted, due.keys.into_iter().next()) {
            self.from = first;
        }
    }
}
