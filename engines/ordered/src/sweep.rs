//! Entries that have expired are removed, a few at a time, from the first key to the last and over again.
//!
//! Readers pass them over before. It removes nothing itself: whoever has the store's writes in hand does. Invariant: where no entry expires
//! nothing is looked at.

use std::time::{Duration, Instant};

use crate::index::Index;

/// How often some entries are looked at, while any expires; without a pause where a quarter of the last had.
const EVERY: Duration = Duration::from_millis(10);
/// How many at once: a part of a millisecond.
const LOOKED_AT: usize = 1024;

/// How far it is.
pub(crate) struct Sweep {
    from: Vec<u8>,
    at: Instant,
    pause: Duration,
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
    pub fn wait(&self, index: &Index) -> Option<Duration> {
        (index.expiring() > 0).then(|| self.pause.saturating_sub(self.at.elapsed()))
    }

    pub fn is_due(&self, index: &Index) -> bool {
        self.wait(index) == Some(Duration::ZERO)
    }

    /// The keys that are to be removed now; nobody else may write until it is.
    pub fn due(&mut self, index: &Index) -> Vec<Vec<u8>> {
        if !self.is_due(index) {
            return Vec::new();
        }
        let (expired, next) = index.expired(&self.from, LOOKED_AT);
        self.from = next.unwrap_or_default();
        self.at = Instant::now();
        self.pause = if expired.len() * 4 >= LOOKED_AT {
            Duration::ZERO
        } else {
            EVERY
        };
        expired
    }
}
