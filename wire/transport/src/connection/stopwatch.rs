//! The time of the calls that one read brought: the clock is looked at once and again for each, and once for a run of short ones.
//!
//! It counts nothing. Its invariants: a run is of one mark and one read, and so small that none of its answers could have left
//! much sooner, as no answer leaves before the calls of its read are served; an open run ends with the next look at the clock.

use std::time::{Duration, Instant};

/// Calls of one run: what the first of them is told of the time is not much older when the last begins.
const RUN_CALLS_MAX: u32 = 64;

/// Short calls of one read that were served one after the other, under one mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// What the service calls them.
    pub mark: u16,
    /// How many there are.
    pub calls: u32,
    /// How many of them were answered with a result.
    pub answered: u32,
    /// When their last byte was read.
    pub received: Instant,
    /// When the first of them began.
    pub began: Instant,
    /// When the last of them was answered: with that all answers are ready, as they leave together.
    pub ready: Instant,
}

impl Run {
    /// How long one of its calls was worked on, each having an equal part of the run.
    pub fn work(&self) -> Duration {
        self.ready.saturating_duration_since(self.began) / self.calls.max(1)
    }

    /// How long one of its calls waited, the work on the others included.
    pub fn queue(&self) -> Duration {
        let whole = self.ready.saturating_duration_since(self.received);
        whole.saturating_sub(self.work())
    }
}

/// What is known of the time while the calls of one read are served.
pub(crate) struct Stopwatch {
    pub(crate) received: Instant,
    /// Nothing was served since then.
    looked: Option<Instant>,
    /// It is open: when it is ready is not known.
    run: Option<Run>,
    /// It is over, and nobody was told of it yet.
    ended: Option<Run>,
    /// The last of the connection's measured answers are those of the open run, or of the one that has ended.
    pub(super) is_timed: bool,
}

impl Stopwatch {
    /// For calls that were read just now.
    pub(super) fn start() -> Stopwatch {
        let now = Instant::now();
        Stopwatch {
            looked: Some(now),
            ..Stopwatch::since(now)
        }
    }

    /// For calls that were read then.
    pub(super) fn since(received: Instant) -> Stopwatch {
        Stopwatch {
            received,
            looked: None,
            run: None,
            ended: None,
            is_timed: false,
        }
    }

    /// Looks at the clock, which ends the open run.
    pub(crate) fn look(&mut self) -> Instant {
        let now = Instant::now();
        self.looked = None;
        self.end(now);
        now
    }

    /// The open run ended then, if there is one.
    pub(super) fn end(&mut self, ready: Instant) {
        if let Some(run) = self.run.take() {
            self.ended = Some(Run { ready, ..run });
        }
    }

    /// A call becomes one of a run; when that began.
    pub(crate) fn join(&mut self, mark: u16) -> Instant {
        match &mut self.run {
            Some(run) if run.mark == mark && run.calls < RUN_CALLS_MAX => {
                run.calls += 1;
                run.began
            }
            _ => self.begin(mark),
        }
    }

    #[cold]
    fn begin(&mut self, mark: u16) -> Instant {
        let began = match self.looked.take() {
            Some(looked) => looked,
            None => self.look(),
        };
        self.run = Some(Run {
            mark,
            calls: 1,
            answered: 0,
            received: self.received,
            began,
            ready: began,
        });
        began
    }

    /// The call that joined last is answered with a result.
    pub(crate) fn answered(&mut self) {
        if let Some(run) = &mut self.run {
            run.answered += 1;
        }
    }

    /// Ends the open run: nothing more is served.
    pub(super) fn stop(&mut self) {
        if self.run.is_some() {
            self.look();
        }
    }

    /// A run that is over, once.
    pub(super) fn take_ended(&mut self) -> Option<Run> {
        self.ended.take()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_parts_of_a_run_add_up_to_its_time() {
        let received = Instant::now();
        let after = |us| received + Duration::from_micros(us);
        let run = Run {
            mark: 1,
            calls: 4,
            answered: 3,
            received,
            began: after(10),
            ready: after(18),
        };
        assert_eq!(run.work(), Duration::from_micros(2));
        assert_eq!(run.queue(), Duration::from_micros(16));
    }

    #[test]
    fn calls_of_one_mark_are_one_run_until_the_clock_is_looked_at() {
        let mut stopwatch = Stopwatch::start();
        let received = stopwatch.received;
        for answered in [true, false, true] {
            assert_eq!(stopwatch.join(7), received, "nothing was served before");
            if answered {
                stopwatch.answered();
            }
        }
        assert_eq!(stopwatch.take_ended(), None);
        let now = stopwatch.look();
        let expected = Run {
            mark: 7,
            calls: 3,
            answered: 2,
            received,
            began: received,
            ready: now,
        };
        assert_eq!(stopwatch.take_ended(), Some(expected));
        stopwatch.stop();
        assert_eq!(stopwatch.take_ended(), None, "it is told once");
        assert!(stopwatch.join(7) >= now, "what was looked at before is old");
    }

    #[test]
    fn another_mark_or_too_many_calls_begin_another_run() {
        let mut stopwatch = Stopwatch::start();
        let first = stopwatch.join(7);
        let second = stopwatch.join(8);
        let ended = stopwatch.take_ended().unwrap();
        assert_eq!((ended.mark, ended.calls, ended.began), (7, 1, first));
        assert_eq!(ended.ready, second, "one look ends the one and begins the other");
        for _ in 1..RUN_CALLS_MAX {
            assert_eq!(stopwatch.join(8), second);
        }
        assert_eq!(stopwatch.take_ended(), None);
        stopwatch.join(8);
        assert_eq!(stopwatch.take_ended().unwrap().calls, RUN_CALLS_MAX);
        stopwatch.stop();
        assert_eq!(stopwatch.take_ended().unwrap().calls, 1);
    }
}
