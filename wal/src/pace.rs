//! Syncs at an interval, for a log whose groups are answered before they are synced.
//!
//! It reads no clock: whoever waits for the next group says what time it is. Invariants: a sync of what was written begins no later than
//! the interval after the log thread first saw it written, or where the sync before ends, if that is later; it covers what was written
//! before it began; and while nothing was written nothing is waited for.

use std::time::{Duration, Instant};

use crate::Durability;
use crate::log::Log;
use crate::queue::{Pending, Queue, Work};

/// When the next sync is due.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nothing where only segments' ends and the close are synced.
    every: Option<Duration>,
    /// Groups that were written.
    written: u64,
    /// Those of them that a sync has covered.
    synced: u64,
    /// Those that the sync that goes on will have covered.
    begun: Option<u64>,
    /// Since when some wait for a sync to begin, as far as the log thread has looked.
    since: Option<Instant>,
}

impl Pace {
    pub fn set(&mut self, every: Option<Duration>) {
        self.every = every;
    }

    pub fn wrote(&mut self) {
        self.written += 1;
    }

    /// A sync begins.
    pub fn begin(&mut self) {
        (self.begun, self.since) = (Some(self.written), None);
    }

    /// The sync that went on has ended. Whether it has failed is no matter: nothing more is written then.
    pub fn ended(&mut self) {
        self.synced = self.begun.take().unwrap_or(self.synced);
    }

    /// All was synced that was written.
    pub fn synced(&mut self) {
        self.begin();
        self.ended();
    }

    /// Whether something was written that no sync has covered.
    pub fn is_behind(&self) -> bool {
        self.written > self.synced
    }

    /// How long until a sync is due; zero where it is now, nothing where none is.
    pub fn due_in(&mut self, now: Instant) -> Option<Duration> {
        let covered = self.begun.unwrap_or(self.synced);
        let every = self.every.filter(|_| self.written > covered)?;
        let since = *self.since.get_or_insert(now);
        Some((since + every).saturating_duration_since(now))
    }
}

/// Waits for work and takes it as [`Queue::take_within`] does, and syncs the log when that is due meanwhile. Without `longest` it
/// returns when there is work, with an empty group when the queue was nudged, and `None` once the queue is closed and empty.
pub fn next_group<W: Work>(
    queue: &Queue<W>,
    mut log: Option<&mut Log>,
    bytes_max: usize,
    longest: Option<Duration>,
) -> Option<Vec<Pending<W>>> {
    loop {
        let due_in = log.as_mut().and_then(|log| log.keep_pace(Instant::now()));
        let wait = match (due_in, longest) {
            (None, None) => {
                let group = queue.take(bytes_max);
                queue.take_nudge();
                return group;
            }
            (Some(due_in), Some(longest)) => due_in.min(longest),
            (Some(wait), None) | (None, Some(wait)) => wait,
        };
        let group = queue.take_within(bytes_max, wait)?;
        if queue.take_nudge() || !group.is_empty() || longest.is_some_and(|longest| wait == longest) {
            return Some(group);
        }
    }
}

/// What is wrong with an interval of syncs, if anything is. `at` is the section, as in `ordered.events`.
///
/// # Errors
/// The problem, its key, and what to do.
pub fn check_sync_every(at: &str, durability: Durability, sync_every_ms: Option<u64>) -> Result<(), String> {
    match (sync_every_ms, durability) {
        (None, _) | (Some(1..), Durability::Logged) => Ok(()),
        (Some(0), Durability::Logged) => Err(format!(
            "{at}.sync_every_ms is 0; expected at least 1, or set durability = \"synced\" to sync before each answer"
        )),
        (Some(_), Durability::Synced) => Err(format!(
            "{at}.sync_every_ms goes with durability = \"logged\"; with \"synced\" each group is synced before it is answered: leave it out, or set \"logged\""
        )),
        (Some(_), Durability::Memory) => Err(format!(
            "{at}.sync_every_ms goes with durability = \"logged\"; with \"memory\" there is no log: leave it out, or set \"logged\""
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_sync_is_due_an_interval_after_the_first_write_that_none_covers() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        pace.wrote();
        assert_eq!(pace.due_in(at(0)), None, "no interval was set");
        pace.synced();
        pace.set(Some(Duration::from_millis(100)));
        assert_eq!(pace.due_in(at(0)), None, "nothing was written");
        pace.wrote();
        assert_eq!(pace.due_in(at(10)), Some(Duration::from_millis(100)));
        pace.wrote();
        assert_eq!(
            pace.due_in(at(70)),
            Some(Duration::from_millis(40)),
            "the first counts"
        );
        assert_eq!(pace.due_in(at(500)), Some(Duration::ZERO));
        pace.synced();
        assert_eq!(pace.due_in(at(500)), None);
        pace.wrote();
        assert_eq!(pace.due_in(at(600)), Some(Duration::from_millis(100)));
    }

    #[test]
    fn what_is_written_while_a_sync_goes_on_waits_for_the_next_one() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        pace.set(Some(Duration::from_millis(100)));
        pace.wrote();
        pace.begin();
        assert_eq!(pace.due_in(at(0)), None, "it is being synced");
        assert!(pace.is_behind());
        pace.wrote();
        assert_eq!(pace.due_in(at(10)), Some(Duration::from_millis(100)));
        pace.ended();
        assert!(pace.is_behind(), "the sync began before the second write");
        assert_eq!(pace.due_in(at(70)), Some(Duration::from_millis(40)));
        pace.begin();
        pace.ended();
        assert!(!pace.is_behind());
        assert_eq!(pace.due_in(at(200)), None);
    }

    #[test]
    fn an_interval_goes_with_a_log_that_is_not_synced_group_by_group() {
        let check = |durability, sync_every_ms, expected: &str| {
            let found = check_sync_every("ordered.events", durability, sync_every_ms);
            let found = found.err().unwrap_or_default();
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.contains(expected), "{found}");
        };
        check(Durability::Synced, None, "");
        check(Durability::Logged, Some(1), "");
        check(Durability::Logged, Some(0), "ordered.events.sync_every_ms is 0");
        check(
            Durability::Synced,
            Some(5),
            "with \"synced\" each group is synced",
        );
        check(Durability::Memory, Some(5), "with \"memory\" there is no log");
    }
}
