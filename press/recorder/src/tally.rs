//! Everything one client thread records.
//!
//! Its invariant: one thread writes it and nobody reads it until that thread is done, so nothing here is shared.

use std::time::Duration;

use crate::{Counters, ErrorKind, Latency};

/// The counts and latencies of one thread, or of a whole point after merging.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// How everything ended.
    pub counters: Counters,
    /// Latencies of answers: `ok` and `unchecked`.
    pub latency: Latency,
    /// Latencies of refusals, which are never mixed with answers.
    pub latency_refused: Latency,
}

impl Tally {
    /// A right answer.
    #[inline]
    pub fn ok(&mut self, took: Duration) {
        self.counters.ok += 1;
        self.latency.record(took);
    }

    /// An answer that sampling left unchecked.
    #[inline]
    pub fn unchecked(&mut self, took: Duration) {
        self.counters.unchecked += 1;
        self.latency.record(took);
    }

    /// An answer that is not what it must be.
    pub fn wrong(&mut self, why: impl FnOnce() -> String) {
        self.counters.wrong += 1;
        self.counters.note("wrong", why);
    }

    /// A refusal with the server's code.
    pub fn refused(&mut self, code: u32, took: Duration) {
        *self.counters.refused.entry(code).or_default() += 1;
        self.latency_refused.record(took);
    }

    /// A request without an answer; `code` is what a server that answered with a failure said.
    pub fn error(&mut self, kind: ErrorKind, code: Option<u32>, why: impl FnOnce() -> String) {
        *self.counters.errors.entry(kind).or_default() += 1;
        if let Some(code) = code {
            *self.counters.status_codes.entry(code).or_default() += 1;
        }
        self.counters.note(kind.as_str(), why);
    }

    /// Adds another thread's tally.
    pub fn merge(&mut self, other: &Tally) {
        self.counters.merge(&other.counters);
        self.latency.merge(&other.latency);
        self.latency_refused.merge(&other.latency_refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_offered_once_and_merging_adds() {
        let us = Duration::from_micros;
        let mut one = Tally::default();
        one.ok(us(10));
        one.unchecked(us(20));
        one.wrong(|| "14 scores".into());
        one.wrong(|| "never kept".into());
        one.refused(30_101, us(3));
        one.error(ErrorKind::Status, Some(30_108), || "model failed".into());
        one.error(ErrorKind::Timeout, None, || "late".into());
        one.counters.not_sent += 5;
        one.counters.cut += 1;
        assert_eq!(one.counters.offered(), 13);
        assert_eq!(
            (
                one.counters.answers(),
                one.counters.refused_total(),
                one.counters.failed_total()
            ),
            (2, 1, 4)
        );
        assert_eq!((one.latency.count(), one.latency_refused.count()), (2, 1));

        let mut both = one.clone();
        both.merge(&one);
        assert_eq!(both.counters.offered(), 26);
        assert_eq!(both.counters.status_codes[&30_108], 2);
        assert_eq!(both.counters.first["wrong"], "14 scores");
        assert_eq!(both.latency.count(), 4);
    }
}
