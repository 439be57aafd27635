//! Everything one client thread records.
//!
//! Its invariants: one thread writes it and nobody reads it until that thread is done, so nothing here is shared; and once
//! it is finished, its latency is the sum of its seconds' latencies, sample for sample.

use serde::{Deserialize, Serialize};

use crate::{Counters, ErrorKind, Latency, PackedLatency};

/// How requests ended, with the latencies of the answers: of one second, or of one operation of a mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split<L> {
    /// Answers: `ok` and `unchecked`.
    pub answers: u64,
    /// Refusals.
    pub refused: u64,
    /// Wrong answers and errors.
    pub failed: u64,
    /// Latencies of the answers.
    pub latency: L,
}

/// The counts and latencies of one thread, or of a whole point after merging. JSON holds what is finished.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// How everything ended.
    pub counters: Counters,
    /// Latencies of answers from their intended send time; empty until [`Tally::finish`], which derives it.
    pub latency: Latency,
    /// Latencies of the same answers from the moment the request was handed to the kernel.
    pub service: Latency,
    /// How late the load generator sent them.
    pub lateness: Latency,
    /// Latencies of refusals, which are never mixed with answers.
    pub latency_refused: Latency,
    /// By operation; empty when there is one operation only.
    pub operations: Vec<Split<Latency>>,
    /// The seconds that ended, by [`Tally::roll`] or [`Tally::finish`].
    pub seconds: Vec<Split<PackedLatency>>,
    /// The second that has not ended: where latencies are recorded, so that each costs one record, not two.
    #[serde(skip)]
    current: Split<Latency>,
}

impl Tally {
    /// An empty tally that splits by operation when there are two or more.
    pub fn with_operations(count: usize) -> Tally {
        let split = if count > 1 { count } else { 0 };
        Tally {
            operations: vec![Split::default(); split],
            ..Tally::default()
        }
    }

    /// A right answer to operation number `operation`, counted from 0; times in nanoseconds.
    #[inline]
    pub fn answer(&mut self, operation: usize, latency_ns: u64, service_ns: u64, lateness_ns: u64) {
        self.counters.ok += 1;
        self.record(operation, latency_ns, service_ns, lateness_ns);
    }

    /// An answer that sampling left unchecked; arguments as for [`Tally::answer`].
    #[inline]
    pub fn unchecked(&mut self, operation: usize, latency_ns: u64, service_ns: u64, lateness_ns: u64) {
        self.counters.unchecked += 1;
        self.record(operation, latency_ns, service_ns, lateness_ns);
    }

    #[inline]
    fn record(&mut self, operation: usize, latency_ns: u64, service_ns: u64, lateness_ns: u64) {
        self.current.answers += 1;
        self.current.latency.record_ns(latency_ns);
        self.service.record_ns(service_ns);
        self.lateness.record_ns(lateness_ns);
        if let Some(operation) = self.operations.get_mut(operation) {
            operation.answers += 1;
            operation.latency.record_ns(latency_ns);
        }
    }

    /// An answer to operation number `operation` that is not what it must be.
    pub fn wrong(&mut self, operation: usize, why: impl FnOnce() -> String) {
        self.counters.wrong += 1;
        self.counters.note("wrong", why);
        self.failed(operation);
    }

    /// A refusal of operation number `operation` with the server's code, after `latency_ns` nanoseconds.
    pub fn refused(&mut self, operation: usize, code: u32, latency_ns: u64) {
        *self.counters.refused.entry(code).or_default() += 1;
        self.latency_refused.record_ns(latency_ns);
        self.current.refused += 1;
        if let Some(operation) = self.operations.get_mut(operation) {
            operation.refused += 1;
        }
    }

    /// A request of operation number `operation` without an answer; `code` is what a server that answered with a failure
    /// said.
    pub fn error(
        &mut self,
        operation: usize,
        kind: ErrorKind,
        code: Option<u32>,
        why: impl FnOnce() -> String,
    ) {
        *self.counters.errors.entry(kind).or_default() += 1;
        if let Some(code) = code {
            *self.counters.status_codes.entry(code).or_default() += 1;
        }
        self.counters.note(kind.as_str(), why);
        self.failed(operation);
    }

    fn failed(&mut self, operation: usize) {
        self.current.failed += 1;
        if let Some(operation) = self.operations.get_mut(operation) {
            operation.failed += 1;
        }
    }

    /// Ends the current second, empty or not, and begins the next one.
    pub fn roll(&mut self) {
        self.seconds.push(self.ended());
        let current = &mut self.current;
        (current.answers, current.refused, current.failed) = (0, 0, 0);
        current.latency.clear();
    }

    /// The current second as it would be if it ended now.
    fn ended(&self) -> Split<PackedLatency> {
        let current = &self.current;
        Split {
            answers: current.answers,
            refused: current.refused,
            failed: current.failed,
            latency: current.latency.pack(),
        }
    }

    /// Ends the last second if anything is in it, and derives [`Tally::latency`]. Calling it again changes nothing.
    pub fn finish(&mut self) {
        if !self.current.is_empty() {
            self.roll();
        }
        self.latency.clear();
        for second in &self.seconds {
            self.latency.add(&second.latency);
        }
    }

    /// Adds another thread's tally, its second i to second i of this one; seconds that have not ended end here. Of two
    /// finished tallies comes a finished one; otherwise [`Tally::finish`] makes it so.
    pub fn merge(&mut self, other: &Tally) {
        self.counters.merge(&other.counters);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.latency_refused.merge(&other.latency_refused);
        if self.operations.len() < other.operations.len() {
            self.operations
                .resize_with(other.operations.len(), Split::default);
        }
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(theirs, Latency::merge);
        }
        if !self.current.is_empty() {
            self.roll();
        }
        let unfinished = (!other.current.is_empty()).then(|| other.ended());
        for (index, theirs) in other.seconds.iter().chain(unfinished.as_ref()).enumerate() {
            match self.seconds.get_mut(index) {
                Some(mine) => mine.merge(theirs, PackedLatency::merge),
                None => self.seconds.push(theirs.clone()),
            }
        }
    }
}

impl<L> Split<L> {
    fn is_empty(&self) -> bool {
        self.answers + self.refused + self.failed == 0
    }

    fn merge(&mut self, other: &Split<L>, latencies: fn(&mut L, &L)) {
        self.answers += other.answers;
        self.refused += other.refused;
        self.failed += other.failed;
        latencies(&mut self.latency, &other.latency);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_outcome_is_offered_once_and_merging_adds() {
        let mut one = Tally::with_operations(2);
        one.answer(0, 10_000, 9_000, 1_000);
        one.unchecked(1, 20_000, 20_000, 1);
        one.wrong(1, || "14 scores".into());
        one.wrong(1, || "never kept".into());
        one.refused(0, 30_101, 3_000);
        one.error(0, ErrorKind::Status, Some(30_108), || "model failed".into());
        one.error(0, ErrorKind::Unexpected, None, || "number 7 twice".into());
        one.counters.not_sent += 5;
        one.counters.cut += 1;
        one.counters.late += 3;
        one.finish();
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
        assert_eq!((one.service.count(), one.lateness.count()), (2, 2));
        let split = |tally: &Tally| {
            let of = |o: &Split<Latency>| (o.answers, o.refused, o.failed, o.latency.count());
            tally.operations.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(split(&one), [(1, 1, 2, 1), (1, 0, 2, 1)]);

        let mut both = one.clone();
        both.merge(&one);
        assert_eq!(both.counters.offered(), 26);
        assert_eq!(both.counters.late, 6);
        assert_eq!(both.counters.status_codes[&30_108], 2);
        assert_eq!(both.counters.first["wrong"], "14 scores");
        assert_eq!(both.latency.count(), 4);
        assert_eq!(split(&both), [(2, 2, 4, 2), (2, 0, 4, 2)]);
        assert_eq!(both.seconds.len(), 1);
        assert_eq!(
            (
                both.seconds[0].answers,
                both.seconds[0].refused,
                both.seconds[0].failed
            ),
            (4, 2, 8)
        );
    }

    #[test]
    fn a_single_operation_is_not_split() {
        let mut tally = Tally::with_operations(1);
        tally.answer(0, 1, 1, 1);
        assert_eq!(tally.operations, []);
    }

    #[test]
    fn unfinished_seconds_meet_the_same_seconds_of_others() {
        let mut short = Tally::default();
        short.answer(0, 1_000, 1_000, 1);
        let mut long = Tally::default();
        long.roll();
        long.roll();
        long.answer(0, 2_000, 2_000, 1);
        for (mut one, other) in [(short.clone(), &long), (long.clone(), &short)] {
            one.merge(other);
            one.finish();
            let answers: Vec<u64> = one.seconds.iter().map(|second| second.answers).collect();
            assert_eq!(answers, [1, 0, 1]);
            assert_eq!(one.latency.count(), 2);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// However samples are split over threads and seconds, what is merged is what one histogram would have held.
        #[test]
        fn threads_and_seconds_merge_bit_for_bit(
            samples in prop::collection::vec((0u64..70_000_000_000, 0usize..4, 0usize..5), 0..400),
        ) {
            let mut whole = Latency::new();
            let mut threads = vec![Tally::default(); 4];
            for second in 0..5 {
                for &(ns, thread, _) in samples.iter().filter(|sample| sample.2 == second) {
                    whole.record_ns(ns);
                    threads[thread].answer(0, ns, ns / 2, 7);
                }
                threads.iter_mut().for_each(Tally::roll);
            }
            threads.iter_mut().for_each(Tally::finish);
            let mut merged = threads[0].clone();
            threads[1..].iter().for_each(|thread| merged.merge(thread));
            prop_assert_eq!(&merged.latency, &whole);
            prop_assert_eq!(merged.seconds.len(), 5);
            merged.finish();
            prop_assert_eq!(&merged.latency, &whole);
            prop_assert_eq!(merged.counters.ok, whole.count());
            prop_assert_eq!(merged.service.count(), whole.count());
        }
    }
}
