//! Entries that have expired are removed, a few at a time, from the first key to the last and over again.
//!
//! Readers pass them over before. It removes nothing itself: whoever has the store's writes in hand does. Invariant: where no entry expires
//! nothing is looked at.

use std::time::{Duration, Instant};

use crate::index::Index;
use crate::judge::Changed;

/// How often some entries are looked at, while any expires.
const EVERY: Duration = Duration::from_millis(10);
/// How many at once: a part of a millisecond.
const LOOKED_AT: usize = 1024;

/// How far it is.
pub(crate) struct Sweep {
    from: Vec<u8>,
    at: Instant,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            from: Vec::new(),
            at: Instant::now(),
        }
    }
}

impl Sweep {
    /// How long its next part can be waited for.
    pub fn wait(&self, index: &Index) -> Option<Duration> {
        (index.expiring() > 0).then(|| EVERY.saturating_sub(self.at.elapsed()))
    }

    pub fn is_due(&self, index: &Index) -> bool {
        self.wait(index) == Some(Duration::ZERO)
    }

    /// What is to be removed now; nobody else may write until it is.
    pub fn due(&mut self, index: &Index) -> Vec<Changed> {
        if !self.is_due(index) {
            return Vec::new();
        }
        let (expired, next) = index.expired(&self.from, LOOKED_AT);
        self.from = next.unwrap_or_default();
        self.at = Instant::now();
        expired.into_iter().map(Changed::removed).collect()
    }
}
