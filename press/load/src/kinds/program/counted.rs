//! What a client program tells of its calls, as the figures of one load.
//!
//! Its invariants: a call is counted only if it began within the measurement, and in the second in which it ended; the calls of
//! one caller do not overlap, began after the `go`, and ended before they were told.

use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live};

use super::frame::{Frame, Times};
use crate::check::{Answer, Verified};
use crate::counting::{Counting, Sent};
use crate::event_loop::SECOND;
use crate::plan::{Handed, Plan};

/// How much later than its end a call may be told, so that it still is in its second.
const TOLD_LATE: u64 = SECOND / 2;
/// What two conversions between clocks may differ by.
const SLACK: u64 = 1_000_000;

/// The figures of the calls so far.
pub(super) struct Counted {
    plan: Arc<Plan>,
    counting: Counting,
    /// The load's 0 on the clock that the program reads.
    epoch_ns: u64,
    /// When the last call of each caller ended.
    ends: Vec<u64>,
    /// Calls that ended after the second that is counted.
    later: Vec<(u64, u64)>,
    /// When that second ends, and when the measurement does.
    second: u64,
    until: u64,
}

impl Counted {
    pub(super) fn new(plan: &Arc<Plan>, live: &Arc<Live>) -> Result<Counted, String> {
        let epoch_ns = plan.clock.epoch_ns();
        Ok(Counted {
            counting: Counting::new(plan, live),
            epoch_ns: epoch_ns.map_err(|error| error.to_string())?,
            ends: vec![0; plan.connections],
            later: Vec::new(),
            second: u64::MAX,
            until: u64::MAX,
            plan: plan.clone(),
        })
    }

    /// A load begins.
    pub(super) fn begin(&mut self, now: u64) {
        self.counting.begin();
        self.ends.fill(now);
        self.later.clear();
        (self.second, self.until) = (u64::MAX, u64::MAX);
    }

    /// Tells when the measurement begins, once that is known.
    pub(super) fn measure(&mut self, from: Option<u64>, span: Duration) {
        if let Some(from) = from
            && self.counting.measure_from.is_none()
        {
            self.counting.measure_from = Some(from);
            self.second = from + SECOND;
            self.until = from + span.as_nanos() as u64;
        }
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.until
    }

    /// Takes a frame; true where it is the last of the load.
    pub(super) fn take(&mut self, frame: Frame<'_>) -> Result<bool, String> {
        match frame {
            Frame::Done => return Ok(true),
            Frame::Calls { caller, times } => {
                let mut begin = None;
                for end in self.moments(caller, times)? {
                    if let Some(begin) = begin.replace(end) {
                        self.answered(begin, end);
                    }
                }
            }
            Frame::Failed {
                caller,
                times,
                is_wrong,
                why,
            } => {
                let moments = self.moments(caller, times)?;
                if let [begin, end] = moments[..]
                    && begin < self.until
                {
                    self.failed(begin, end, is_wrong, &why);
                }
            }
            other => return Err(format!("said {} while it was to call", other.name())),
        }
        Ok(false)
    }

    /// The times of a caller on the load's clock, checked.
    fn moments(&mut self, caller: usize, times: Times<'_>) -> Result<Vec<u64>, String> {
        let callers = self.ends.len();
        let last = self.ends.get_mut(caller);
        let last = last.ok_or_else(|| format!("told of caller {caller}, expected 0 to {}", callers - 1))?;
        let moments: Vec<u64> = times
            .iter()
            .map(|time| time.saturating_sub(self.epoch_ns))
            .collect();
        let (begin, end) = (moments.first().copied(), moments.last().copied());
        let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(0));
        if begin + SLACK < *last {
            return Err(format!(
                "told of a call of caller {caller} that began {} ns before its last ended, or before `go`",
                *last - begin
            ));
        }
        if !moments.is_sorted() {
            return Err(format!(
                "told of a call of caller {caller} that ended before it began"
            ));
        }
        let now = self.plan.clock.now();
        if end > now + SLACK {
            return Err(format!(
                "told of a call of caller {caller} that ends {} ns from now; times are of CLOCK_MONOTONIC",
                end - now
            ));
        }
        *last = end;
        Ok(moments)
    }

    fn answered(&mut self, begin: u64, end: u64) {
        if begin >= self.until {
            return;
        }
        if end >= self.second && self.second < self.until && self.counting.is_measured(begin) {
            self.later.push((begin, end));
            return;
        }
        self.counting.sent(begin);
        let nothing = Answer::Bytes(&[]);
        self.counting
            .answered(&call(begin), nothing, end, |_, _| Ok(Verified::Nothing));
    }

    fn failed(&mut self, begin: u64, end: u64, is_wrong: bool, why: &str) {
        self.counting.sent(begin);
        match is_wrong {
            true => self
                .counting
                .answered(&call(begin), Answer::Bytes(&[]), end, |_, _| Err(why.to_owned())),
            false => self
                .counting
                .failed(&call(begin), ErrorKind::Status, None, why, end),
        }
    }

    /// Ends the seconds of which all was told.
    pub(super) fn roll(&mut self, now: u64) {
        while self.second < self.until && now >= self.second.saturating_add(TOLD_LATE) {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        self.counting.tally.roll();
        self.second += SECOND;
        for (begin, end) in std::mem::take(&mut self.later) {
            self.answered(begin, end);
        }
    }

    /// What the load came to.
    pub(super) fn hand_over(&mut self) -> Handed {
        while !self.later.is_empty() {
            self.end_second();
        }
        let callers = self.ends.len() as u64;
        // The callers are the program's: who of them was slow is not known, so there are no silences.
        self.counting.hand_over(Vec::new(), |tally| {
            tally.counters.connections_opened = callers;
        })
    }
}

/// A call that began when it was due.
fn call(begin: u64) -> Sent {
    Sent {
        due: begin,
        eligible: begin,
        at: begin,
        index: 0,
        over: false,
    }
}
