//! Finds the processes that run and do nothing: each that is ready is asked over and over whether it hears and its threads turn.
//!
//! One that is silent for [`STUCK`] questions is not ready, and one that is for [`HOPELESS`], or says so often that it is not ready
//! itself, is killed. Its invariant: silence is counted in questions and not in time, so a machine or a parent that stood still blames nobody.

use super::Parent;
use crate::processes::message::Order;
use crate::watch::{HOPELESS, STUCK};

/// Each is asked for its metrics with one question in so many (ten seconds), which keeps most of what it counted if it is killed; and not
/// all at the same time, because a dozen processes that print a page at a time keep their net threads waiting.
const PAGE_EVERY: usize = 33;
/// These pages are for nobody who asked for metrics; such rounds have higher numbers.
const NO_ROUND: u64 = 0;

impl Parent {
    /// Asks every process that accepts, and kills those that have not answered for long.
    pub(super) fn beat(&mut self) {
        for (number, worker) in self.fleet.workers() {
            let life = &mut self.members[number].life;
            if life.ready_since.is_none() {
                continue;
            }
            let (pid, silent) = (life.pid, worker.count_silence());
            if silent >= STUCK && !std::mem::replace(&mut life.is_silent, true) {
                tracing::warn!(process = number, pid, "does not answer its parent; not ready");
            }
            // Answers that come together count together, so a count may pass a limit without meeting it.
            if silent.max(life.unfit) >= HOPELESS && !std::mem::replace(&mut life.is_killed, true) {
                let what = match silent {
                    HOPELESS.. => "has not answered its parent",
                    _ => "has been stuck for long",
                };
                tracing::error!(process = number, pid, "{what}; it is killed");
                worker.process().kill();
            }
            // Where there is no room it is silent too.
            worker.tell(match (self.beats + number) % PAGE_EVERY {
                0 => Order::Metrics { round: NO_ROUND },
                _ => Order::Beat,
            });
        }
        self.beats = self.beats.wrapping_add(1);
        self.watch_own_threads();
        self.publish();
    }

    /// The parent has threads too: those of the admin port. Where they are stuck nobody can ask there, so the log says it.
    fn watch_own_threads(&mut self) {
        let stuck: Vec<String> = (self.beginning.admin.ask().into_iter())
            .map(|found| found.thread)
            .collect();
        if stuck != self.stuck {
            match stuck.as_slice() {
                [] => tracing::info!("all threads of the parent turn again"),
                names => tracing::error!("{} of the parent does not turn", names.join(", ")),
            }
            self.stuck = stuck;
        }
    }

    /// The process has said whether its threads turn.
    pub(super) fn has_beaten(&mut self, number: usize, why_not_ready: Option<&str>) {
        let life = &mut self.members[number].life;
        let (pid, before) = (life.pid, life.unfit);
        life.unfit = why_not_ready.map_or(0, |_| before.saturating_add(1));
        life.why_unfit = why_not_ready.map_or(String::new(), |why| format!("is not ready ({why})"));
        match why_not_ready {
            Some(why) if before == 0 => tracing::error!(process = number, pid, why, "is not ready"),
            None if before > 0 => tracing::info!(process = number, pid, "is ready again"),
            _ => return,
        }
        self.publish();
    }

    /// The process has said something.
    pub(super) fn heard_of(&mut self, number: usize) {
        let life = &mut self.members[number].life;
        if std::mem::take(&mut life.is_silent) {
            tracing::info!(process = number, pid = life.pid, "answers its parent again");
            self.publish();
        }
    }
}
