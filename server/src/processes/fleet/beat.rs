//! Finds the processes that run and do nothing: each that is ready is asked every second whether it hears.
//!
//! Its invariant: silence is counted in questions and not in time, so a machine or a parent that stood still blames nobody.

use super::{Fleet, Member};
use crate::processes::message::Order;
use std::time::{Duration, Instant};

/// How often each process is asked.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// Each is asked for its metrics with one question in so many, which keeps most of what it counted if it is killed; and not all in the
/// same second, because a dozen processes that print a page at a time keep their net threads waiting.
const PAGE_EVERY: usize = 10;
/// These pages are for nobody who asked for metrics; such rounds have higher numbers.
const NO_ROUND: u64 = 0;
/// Questions in a row without a word, after which a process counts as not ready, and is killed.
const UNREADY: u32 = 3;
const KILLED: u32 = 10;

impl Member {
    /// It accepts, and has said something lately.
    pub(super) fn is_ready(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.ready_since.is_some() && running.silent < UNREADY)
    }
}

impl Fleet {
    /// Asks every process that accepts, where it is time, and kills those that have not answered for long.
    pub(super) fn beat_on_time(&mut self, now: Instant) {
        if self.stopping.is_none() && now >= self.beat_at {
            self.beat_at = now + BEAT;
            self.beat();
        }
    }

    pub(super) fn beat(&mut self) {
        for (number, member) in self.members.iter_mut().enumerate() {
            let running = member.running.as_mut();
            let Some(running) = running.filter(|running| running.ready_since.is_some()) else {
                continue;
            };
            let pid = running.pid();
            if running.silent == UNREADY {
                tracing::warn!(process = number, pid, "does not answer its parent; not ready");
            }
            if running.silent == KILLED {
                tracing::error!(process = number, pid, "has not answered its parent; it is killed");
                running.kill();
            }
            running.silent += 1;
            // Where there is no room it is silent too.
            running.tell(match (self.beats + number) % PAGE_EVERY {
                0 => Order::Metrics { round: NO_ROUND },
                _ => Order::Beat,
            });
        }
        self.beats = self.beats.wrapping_add(1);
        self.publish();
    }

    /// The process has said something.
    pub(super) fn heard_of(&mut self, number: usize) {
        if let Some(running) = &mut self.members[number].running
            && std::mem::take(&mut running.silent) >= UNREADY
        {
            tracing::info!(process = number, pid = running.pid(), "answers its parent again");
            self.publish();
        }
    }
}
