//! Whether threads still turn: each is asked from outside, and answers with its next turn.
//!
//! A thread that sleeps is woken for it, so that an idle one costs a wake-up a question and a busy one nothing. It
//! reads no clock. Its invariant: silence is counted in questions and not in time, so a machine or a process that stood still blames
//! no thread.

use crate::poller::WakeUp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A thread, to those who wake it or ask whether it turns.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) wake_up: WakeUp,
    /// The thread's loop has begun and was not asked to end.
    is_expected: AtomicBool,
    asked: AtomicU64,
    answered: AtomicU64,
    silent: AtomicU32,
}

impl Pulse {
    pub(crate) fn new() -> std::io::Result<Arc<Pulse>> {
        Ok(Arc::new(Pulse {
            wake_up: WakeUp::new()?,
            is_expected: AtomicBool::default(),
            asked: AtomicU64::default(),
            answered: AtomicU64::default(),
            silent: AtomicU32::default(),
        }))
    }

    /// The thread begins its loop.
    pub(crate) fn begin(&self) {
        self.is_expected.store(true, Ordering::Relaxed);
    }

    /// The thread's loop ends because it was asked to; a panic's unwinding does not come here.
    pub(crate) fn end(&self) {
        self.is_expected.store(false, Ordering::Relaxed);
    }

    /// The thread turns.
    #[inline]
    pub(crate) fn turned(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        if self.answered.load(Ordering::Relaxed) != asked {
            self.answered.store(asked, Ordering::Relaxed);
        }
    }

    /// Whether it has not turned for long, and not since either.
    pub(crate) fn is_stuck(&self) -> bool {
        let is_silent = self.silent.load(Ordering::Relaxed) >= Pulses::STUCK;
        is_silent && self.answered.load(Ordering::Relaxed) != self.asked.load(Ordering::Relaxed)
    }

    /// Asks again, unless the last question is still open; how many times in a row it was.
    pub(crate) fn ask(&self) -> u32 {
        if !self.is_expected.load(Ordering::Relaxed) {
            return 0;
        }
        let asked = self.asked.load(Ordering::Relaxed);
        let silent = match self.answered.load(Ordering::Relaxed) == asked {
            true => {
                self.asked.store(asked + 1, Ordering::Relaxed);
                0
            }
            false => self.silent.load(Ordering::Relaxed).saturating_add(1),
        };
        self.silent.store(silent, Ordering::Relaxed);
        silent
    }
}

/// The threads of a transport, to be asked; one asker at a time.
#[derive(Debug, Clone, Default)]
pub struct Pulses(pub(crate) Vec<(String, Arc<Pulse>)>);

/// A thread that has not turned for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Its name.
    pub thread: String,
    /// Questions in a row that it has not answered.
    pub silent: u32,
}

impl Pulses {
    /// Questions in a row without an answer, after which a thread counts as stuck: no new connection is given to it.
    pub const STUCK: u32 = 3;

    /// These and those of another transport.
    #[must_use]
    pub fn and(mut self, others: Pulses) -> Pulses {
        self.0.extend(others.0);
        self
    }

    /// Asks every thread, and says which have not answered the last [`Pulses::STUCK`].
    pub fn ask(&self) -> Vec<Stuck> {
        let asked = self.0.iter().map(|(thread, pulse)| {
            let silent = pulse.ask();
            pulse.wake_up.send();
            let thread = thread.clone();
            Stuck { thread, silent }
        });
        asked.filter(|found| found.silent >= Pulses::STUCK).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn silence_is_counted_in_questions() {
        let pulse = Pulse::new().unwrap();
        assert_eq!([pulse.ask(), pulse.ask()], [0, 0], "it has not begun");
        pulse.begin();
        assert_eq!([pulse.ask(), pulse.ask(), pulse.ask()], [0, 1, 2]);
        assert!(!pulse.is_stuck());
        assert_eq!(pulse.ask(), 3);
        assert!(pulse.is_stuck());
        pulse.turned();
        assert!(!pulse.is_stuck());
        assert_eq!([pulse.ask(), pulse.ask()], [0, 1]);
        pulse.end();
        assert_eq!(pulse.ask(), 0);
    }
}
