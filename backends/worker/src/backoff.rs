//! When a worker that failed is started again. It starts nothing and reads no clock.
//!
//! Its invariant: the first failure after a success costs no wait, and those that follow each other wait longer and longer, up to a limit.

use std::time::{Duration, Instant};

/// The wait behind the second failure in a row.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(10);

/// Failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// It ran.
    pub(crate) fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// It failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = match self.failures {
            1 => None,
            more => {
                let doubled = 1u32.checked_shl(more - 2).unwrap_or(u32::MAX);
                now.checked_add(FIRST.saturating_mul(doubled).min(LONGEST))
            }
        };
    }

    /// How often it has failed since it last ran.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// How long it is to wait before it is started again.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let not_before = self.not_before.unwrap_or(now);
        not_before.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_until_a_success() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..40 {
            backoff.failed(now);
            waits.push(backoff.wait(now).as_millis());
        }
        assert_eq!(waits[..5], [0, 100, 200, 400, 800]);
        assert_eq!(waits[8..], [10_000; 32]);
        assert_eq!(backoff.wait(now + Duration::from_secs(4)), Duration::from_secs(6));
        assert_eq!(backoff.wait(now + Duration::from_secs(40)), Duration::ZERO);
        backoff.succeeded();
        backoff.failed(now);
        assert_eq!((backoff.wait(now), backoff.failures()), (Duration::ZERO, 1));
    }
}
