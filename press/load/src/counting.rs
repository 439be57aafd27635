//! What a thread counts of one load, over a network or not.
//!
//! Its invariant: a request is counted once, and only if it was due within the measurement.

use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live, Silence, Tally};

use crate::check::{Answer, Sampling, Verified};
use crate::plan::{Handed, Plan};

/// When a request was sent, and which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// When it was meant to be sent.
    pub(crate) due: u64,
    /// When it was due and its connection could take it.
    pub(crate) eligible: u64,
    /// When it was handed to the kernel, or called; 0 before.
    pub(crate) at: u64,
    pub(crate) index: u32,
    /// Whether it was answered or given up.
    pub(crate) over: bool,
}

/// The figures of one thread and load.
pub(crate) struct Counting {
    plan: Arc<Plan>,
    live: Arc<Live>,
    pub(crate) tally: Tally,
    /// When the measurement begins, as far as that is known.
    pub(crate) measure_from: Option<u64>,
    /// Requests sent in the measurement.
    sent: u64,
    warm_up_answers: u64,
    warm_up_failed: u64,
    last_end: Option<u64>,
    /// Time in which there was nothing to do.
    pub(crate) idle_ns: u64,
    sampling: Sampling,
    /// Where the numbers of an answer are read into.
    numbers: Vec<f32>,
}

impl Counting {
    pub(crate) fn new(plan: &Arc<Plan>, live: &Arc<Live>) -> Counting {
        Counting {
            plan: plan.clone(),
            live: live.clone(),
            tally: Tally::with_operations(plan.operations),
            measure_from: None,
            sent: 0,
            warm_up_answers: 0,
            warm_up_failed: 0,
            last_end: None,
            idle_ns: 0,
            sampling: Sampling::default(),
            numbers: Vec::new(),
        }
    }

    /// Begins a load at 0, and gives what was counted since the last.
    pub(crate) fn begin(&mut self) -> Tally {
        (self.measure_from, self.last_end) = (None, None);
        (self.sent, self.idle_ns) = (0, 0);
        (self.warm_up_answers, self.warm_up_failed) = (0, 0);
        std::mem::replace(&mut self.tally, Tally::with_operations(self.plan.operations))
    }

    /// What is handed over when the load is done, its tally first made whole by `complete`.
    pub(crate) fn hand_over(&mut self, silences: Vec<Silence>, complete: impl FnOnce(&mut Tally)) -> Handed {
        let mut tally = std::mem::take(&mut self.tally);
        complete(&mut tally);
        tally.finish();
        Handed {
            tally,
            last_end: self.last_end,
            sent: self.sent,
            warm_up_answers: self.warm_up_answers,
            warm_up_failed: self.warm_up_failed,
            idle: Duration::from_nanos(self.idle_ns),
            silences,
        }
    }

    pub(crate) fn is_measured(&self, due: u64) -> bool {
        self.measure_from.is_some_and(|from| due >= from)
    }

    /// A request that was due then is sent.
    #[inline]
    pub(crate) fn sent(&mut self, due: u64) {
        self.sent += u64::from(self.is_measured(due));
        Live::bump(&self.live.sent);
    }

    fn operation(&self, sent: &Sent) -> usize {
        let operation = self.plan.operation_of.get(sent.index as usize);
        operation.map_or(0, |&at| usize::from(at))
    }

    /// Counts an answer, after checking it, by `verify` too, unless sampling leaves it out.
    pub(crate) fn answered(
        &mut self,
        sent: &Sent,
        answer: Answer<'_>,
        now: u64,
        verify: impl FnOnce(usize, Answer<'_>) -> Result<Verified, String>,
    ) {
        let latency = now.saturating_sub(sent.due);
        Live::bump(&self.live.answers);
        Live::add(&self.live.latency_ns_sum, latency);
        if !self.is_measured(sent.due) {
            self.warm_up_answers += 1;
            return;
        }
        self.last_end = Some(now);
        let index = sent.index as usize;
        let operation = self.operation(sent);
        let (service, lateness) = (now.saturating_sub(sent.at), sent.at.saturating_sub(sent.eligible));
        if !self.sampling.takes(self.plan.checker.share()) {
            return self.tally.unchecked(operation, latency, service, lateness);
        }
        let checked = verify(index, answer).and_then(|verified| {
            let (checker, numbers) = (&self.plan.checker, &mut self.numbers);
            let checked = match verified {
                Verified::Nothing => checker.check(index, answer, numbers),
                Verified::OneMap => checker.check_content(index, answer, numbers),
            };
            checked.map_err(|wrong| wrong.to_string())
        });
        match checked {
            Ok(()) => self.tally.answer(operation, latency, service, lateness),
            Err(wrong) => {
                self.tally
                    .wrong(operation, || format!("request {}: {wrong}", index + 1));
                Live::bump(&self.live.failed);
            }
        }
    }

    pub(crate) fn refused(&mut self, sent: &Sent, code: u32, now: u64) {
        Live::bump(&self.live.refused);
        if self.is_measured(sent.due) {
            self.last_end = Some(now);
            let operation = self.operation(sent);
            self.tally.refused(operation, code, now.saturating_sub(sent.due));
        }
    }

    pub(crate) fn failed(&mut self, sent: &Sent, kind: ErrorKind, code: Option<u32>, why: &str, now: u64) {
        Live::bump(&self.live.failed);
        if !self.is_measured(sent.due) {
            self.warm_up_failed += 1;
        } else {
            self.last_end = Some(now);
            let (operation, index) = (self.operation(sent), sent.index + 1);
            self.tally
                .error(operation, kind, code, || format!("request {index}: {why}"));
        }
    }

    /// Counts a failure that no request on its way had.
    pub(crate) fn failed_unsent(&mut self, kind: ErrorKind, why: impl FnOnce() -> String) {
        self.tally.error(0, kind, None, why);
        Live::bump(&self.live.failed);
    }
}
