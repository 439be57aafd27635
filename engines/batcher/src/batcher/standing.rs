//! Whether a queue stands: for a while it was never short, and what it keeps waiting it only keeps waiting. It knows no clock and
//! refuses nothing. Its invariant: a queue that turns hardly anybody away does not stand, however long it is.
//!
//! As in CoDel (RFC 8289): a queue that serves a burst becomes short again; one that stays above a target for an interval
//! serves nobody by its length. Both are counted in full runs, so nothing is configured.

use std::time::{Duration, Instant};

/// Full runs that a call may wait in a queue that stands, and the least that this is.
const TARGET_RUNS: f64 = 3.0;
const TARGET_MIN: f64 = 1e-3;
/// Full runs after which a queue stands that was always above the target, and the least that this is.
const INTERVAL_RUNS: f64 = 16.0;
const INTERVAL_MIN: f64 = 10e-3;
/// Of so many calls that come meanwhile one must be refused at least: then more come than are served. Callers that wait for
/// their answers can keep a queue long for ever; they would only come back at once.
const REFUSED_OF: u64 = 32;
/// The last so many calls tell, or half as many.
const CAME_MAX: u64 = 2048;

/// A queue that may stand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    /// Since when every look has found it above the target.
    above_since: Option<Instant>,
    /// Calls that came meanwhile, and those of them that were refused, by a deadline or for want of a place.
    came: u64,
    refused: u64,
    /// It stands; when the target refused somebody last, or it began to.
    stands_since: Option<Instant>,
}

/// Seconds that a call may wait in a queue that stands, where a full run takes so many.
fn target(run: f64) -> f64 {
    (TARGET_RUNS * run).max(TARGET_MIN)
}

fn interval(run: f64) -> Duration {
    Duration::from_secs_f64((INTERVAL_RUNS * run).clamp(INTERVAL_MIN, 1e6))
}

impl Standing {
    /// What is left in the queue behind a batch that was just cut will take `left` seconds; a full run takes `run`.
    pub(super) fn look(&mut self, left: f64, run: f64, now: Instant) {
        if left <= target(run) {
            (self.above_since, self.came, self.refused) = (None, 0, 0);
        }
        let is_over = |since: Instant| now.saturating_duration_since(since) >= interval(run);
        match self.stands_since {
            // Drained, and nobody came too much for a while.
            Some(since) if left <= 0.0 && is_over(since) => self.stands_since = None,
            None if left > target(run) => {
                let since = *self.above_since.get_or_insert(now);
                if self.refused * REFUSED_OF > self.came && is_over(since) {
                    self.stands_since = Some(now);
                }
            }
            _ => {}
        }
    }

    /// A call was accepted.
    pub(super) fn accepted(&mut self) {
        self.came += 1;
        if self.came == CAME_MAX {
            // What was long ago counts less.
            (self.came, self.refused) = (self.came / 2, self.refused / 2);
        }
    }

    /// A call was refused, by the target, by a deadline, or for want of a place.
    pub(super) fn refused(&mut self, now: Instant) {
        self.accepted();
        self.refused += 1;
        if let Some(since) = &mut self.stands_since {
            *since = now;
        }
    }

    /// The seconds that a call may wait, if the queue stands.
    pub(super) fn limit(&self, run: f64) -> Option<f64> {
        self.stands_since.map(|_| target(run))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const MS: f64 = 1e-3;

    /// Looks every two milliseconds, a run's time, at a queue that is so many milliseconds long, with ten calls before each look, one of
    /// them refused where `refuses` says so; whether it stood after each.
    fn stood(lengths: impl IntoIterator<Item = (u32, bool)>) -> Vec<bool> {
        let mut now = Instant::now();
        let mut standing = Standing::default();
        let look = |(ms, refuses): (u32, bool)| {
            now += Duration::from_millis(2);
            (0..9).for_each(|_| standing.accepted());
            if refuses {
                standing.refused(now);
            }
            standing.look(f64::from(ms) * MS, 2.0 * MS, now);
            standing.limit(2.0 * MS).is_some()
        };
        lengths.into_iter().map(look).collect()
    }

    #[test]
    fn a_long_queue_stands_after_an_interval_and_not_before() {
        let stood = stood([(50, true); 40]);
        assert_eq!(stood.iter().position(|stands| *stands), Some(16));
        assert!(stood[16..].iter().all(|stands| *stands));
    }

    #[test]
    fn a_queue_that_is_short_once_in_a_while_does_not_stand() {
        let lengths = (0..400).map(|turn| (if turn % 16 == 0 { 6 } else { 50 }, true));
        assert!(!stood(lengths).contains(&true));
    }

    #[test]
    fn a_queue_that_refuses_hardly_anybody_does_not_stand() {
        assert!(!stood([(50, false); 400]).contains(&true));
        let now_and_then = |turn: usize| (50, turn.is_multiple_of(5));
        assert!(!stood((0..400).map(now_and_then)).contains(&true));
    }

    #[test]
    fn what_was_long_ago_counts_no_more() {
        let quiet = [(50, false); 4000].into_iter();
        let stood = stood(quiet.chain([(50, true); 100]));
        assert!(!stood[..4000].contains(&true) && stood[4099]);
    }

    #[test]
    fn it_stands_until_it_has_drained_and_refuses_nobody() {
        let full = [(50, true); 20].into_iter();
        // At the target and refusing, empty and refusing, not empty and refusing nobody: it still stands.
        for lengths in [[(4, true); 40], [(0, true); 40], [(4, false); 40]] {
            assert!(
                stood(full.clone().chain(lengths))[17..]
                    .iter()
                    .all(|stands| *stands)
            );
        }
        let drained = stood(full.chain([(0, false); 40]));
        assert_eq!(drained[20..].iter().position(|stands| !*stands), Some(15));
    }

    #[test]
    fn the_target_is_a_few_runs_and_no_less_than_threads_need() {
        let standing = Standing {
            stands_since: Some(Instant::now()),
            ..Standing::default()
        };
        assert_eq!(standing.limit(1.8 * MS), Some(TARGET_RUNS * 1.8 * MS));
        assert_eq!(standing.limit(0.01 * MS), Some(MS));
    }
}
