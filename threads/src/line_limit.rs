//! Lines of the log that anybody can cause at any rate: one a second is written, the others are counted.
//!
//! It writes nothing itself. Its invariant: a line that is left out is in the number of the next one, or in that of
//! [`LineLimit::untold`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// From one line to the next.
const EVERY_MS: u64 = 1000;

/// The lines of one cause; threads share it.
///
/// ```
/// use millpond_threads::{LeftOut, LineLimit};
///
/// let limit = LineLimit::default();
/// assert_eq!(limit.admits(), Some(LeftOut(None)));
/// assert_eq!(limit.admits(), None);
/// ```
#[derive(Debug)]
pub struct LineLimit {
    began: Instant,
    /// When the last line was written, in ms from the beginning and one more; zero where none was.
    written_ms: AtomicU64,
    left_out: AtomicU64,
}

/// How many lines were left out before the one that may be written, if any: a field of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut(pub Option<u64>);

impl Default for LineLimit {
    fn default() -> LineLimit {
        LineLimit {
            began: Instant::now(),
            written_ms: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }
}

impl LineLimit {
    /// Whether a line may be written now; one that may not is counted.
    pub fn admits(&self) -> Option<LeftOut> {
        self.admits_at(self.now_ms())
    }

    /// Lines that were left out, where no further one has told of them for so long that one might: they count as told.
    pub fn untold(&self) -> Option<u64> {
        self.untold_at(self.now_ms())
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn admits_at(&self, now_ms: u64) -> Option<LeftOut> {
        let written = self.written_ms.load(Ordering::Relaxed);
        // One of several threads writes it.
        let writes = is_due(written, now_ms)
            && self
                .written_ms
                .compare_exchange(written, now_ms + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !writes {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(LeftOut(self.take_left_out()))
    }

    fn untold_at(&self, now_ms: u64) -> Option<u64> {
        let is_due = is_due(self.written_ms.load(Ordering::Relaxed), now_ms);
        is_due.then(|| self.take_left_out()).flatten()
    }

    fn take_left_out(&self) -> Option<u64> {
        if self.left_out.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        (left_out > 0).then_some(left_out)
    }
}

fn is_due(written_ms: u64, now_ms: u64) -> bool {
    written_ms == 0 || now_ms + 1 >= written_ms + EVERY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_and_the_number_of_the_others() {
        let limit = LineLimit::default();
        assert_eq!(limit.admits_at(0), Some(LeftOut(None)));
        for ms in [0, 1, 999] {
            assert_eq!(limit.admits_at(ms), None);
        }
        assert_eq!(limit.untold_at(999), None);
        assert_eq!(limit.admits_at(1000), Some(LeftOut(Some(3))));
        assert_eq!(limit.admits_at(1001), None);
        assert_eq!(limit.untold_at(1999), None);
        assert_eq!(limit.untold_at(2000), Some(1));
        assert_eq!(limit.untold_at(3000), None);
        assert_eq!(limit.admits_at(3000), Some(LeftOut(None)));
    }
}
