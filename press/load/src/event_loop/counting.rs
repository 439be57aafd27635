//! What a thread counts of each request that ended.
//!
//! Its invariant: a request is counted once, and only if it was due within the measurement.

use millpond_press_recorder::{ErrorKind, Live};

use super::ClientThread;
use super::connection::Sent;
use crate::check::Answer;
use crate::protocol::Protocol;

impl<P: Protocol> ClientThread<P> {
    pub(super) fn is_measured(&self, sent: &Sent) -> bool {
        self.measure_from.is_some_and(|from| sent.due >= from)
    }

    pub(super) fn operation(&self, sent: &Sent) -> usize {
        self.plan
            .operation_of
            .get(sent.index as usize)
            .map_or(0, |&at| usize::from(at))
    }

    /// Counts an answer, after checking it unless sampling leaves it out.
    pub(super) fn answered(&mut self, sent: &Sent, answer: Answer<'_>, now: u64) {
        let latency = now.saturating_sub(sent.due);
        Live::bump(&self.line.live.answers);
        Live::add(&self.line.live.latency_ns_sum, latency);
        if !self.is_measured(sent) {
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
        let verified = self.protocol.verify(index, answer);
        let wrong = verified.and_then(|()| {
            let checked = self.plan.checker.check(index, answer, &mut self.numbers);
            checked.map_err(|wrong| wrong.to_string())
        });
        match wrong {
            Ok(()) => self.tally.answer(operation, latency, service, lateness),
            Err(wrong) => {
                self.tally
                    .wrong(operation, || format!("request {}: {wrong}", index + 1));
                Live::bump(&self.line.live.failed);
            }
        }
    }

    pub(super) fn refused(&mut self, sent: &Sent, code: u32, now: u64) {
        Live::bump(&self.line.live.refused);
        if self.is_measured(sent) {
            self.last_end = Some(now);
            let operation = self.operation(sent);
            self.tally.refused(operation, code, now.saturating_sub(sent.due));
        }
    }

    pub(super) fn failed(&mut self, sent: &Sent, kind: ErrorKind, code: Option<u32>, why: &str, now: u64) {
        Live::bump(&self.line.live.failed);
        if !self.is_measured(sent) {
            self.warm_up_failed += 1;
        } else {
            self.last_end = Some(now);
            let (operation, index) = (self.operation(sent), sent.index + 1);
            self.tally
                .error(operation, kind, code, || format!("request {index}: {why}"));
        }
    }
}
