//! The stop of the processes: they are told, then killed, then left behind.
//!
//! Its invariant: it ends in time, whatever a process does; even one that the system cannot kill, because it stands in a disk
//! that does not answer, is not waited for.

use super::{Fleet, Order};
use crate::stop::{GONE_LATE, KILL_LATE};
use std::time::{Duration, Instant};

/// What killed processes may take to end where everything is to end at once.
const KILLED_MAX: Duration = Duration::from_millis(500);

/// A stop under way.
pub(super) struct Stopping {
    /// When what is left is killed; nothing once it was.
    kill_at: Option<Instant>,
    /// When what is left even then is left behind.
    give_up_at: Instant,
}

impl Stopping {
    /// When something is due.
    pub(super) fn next(&self) -> Instant {
        self.kill_at.unwrap_or(self.give_up_at)
    }
}

impl Fleet {
    /// Tells every process to stop, once.
    pub(super) fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        tracing::info!("stopping the processes");
        let drained = Instant::now() + self.beginning.drain_max;
        self.stopping = Some(Stopping {
            kill_at: Some(drained + KILL_LATE),
            give_up_at: drained + GONE_LATE,
        });
        for member in &mut self.members {
            member.again_at = None;
            if let Some(running) = &mut member.running
                && !running.tell(Order::Stop)
            {
                running.kill();
            }
        }
        self.publish();
    }

    /// Kills every process, whatever it does.
    pub(super) fn stop_at_once(&mut self) {
        self.stop();
        let now = Instant::now();
        self.stopping = Some(Stopping {
            kill_at: Some(now),
            give_up_at: now + KILLED_MAX,
        });
    }

    /// Kills what has not stopped in time.
    pub(super) fn stop_on_time(&mut self, now: Instant) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if stopping.kill_at.take_if(|at| now >= *at).is_none() {
            return;
        }
        for member in &mut self.members {
            if let Some(running) = &mut member.running {
                tracing::error!(pid = running.pid(), "a process has not stopped; it is killed");
                running.kill();
            }
        }
    }

    /// Whether nothing is left to wait for; what has not even ended by being killed is left behind.
    pub(super) fn is_over(&mut self) -> bool {
        let Some(stopping) = &self.stopping else {
            return false;
        };
        if stopping.kill_at.is_none() && Instant::now() >= stopping.give_up_at {
            for (number, member) in self.members.iter_mut().enumerate() {
                if let Some(running) = member.running.take() {
                    let pid = running.pid();
                    tracing::error!(
                        process = number,
                        pid,
                        "a process cannot be ended; it is left behind"
                    );
                    self.left.push(format!("process {number} (pid {pid})"));
                    running.leave();
                }
            }
        }
        self.members.iter().all(|member| member.running.is_none())
    }
}
