//! Twenty times the capacity, under a clock of the test's own and runs that differ: who was let in is answered in time, and no
//! instance waits for work.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::Bench;
use std::time::{Duration, Instant};

const INSTANCES: usize = 8;
const US: Duration = Duration::from_micros(1);
const DEADLINE: Duration = Duration::from_millis(100);

/// Numbers that differ from run to run and not from test to test.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % limit
    }

    /// A run of about a millisecond; one in sixty-four is held up for three more.
    fn run(&mut self) -> Duration {
        let held_up = if self.below(64) == 0 { 3000 } else { 0 };
        (900 + self.below(400) + held_up) * US
    }
}

/// What became of the calls.
#[derive(Debug, Default)]
struct Outcome {
    refused: usize,
    in_time: usize,
    /// Let in, and dropped or answered after their deadline.
    late: usize,
    /// What the runs that were in time took.
    worked: Duration,
    lasted: Duration,
}

/// A run under way: when it ends, and the deadline of its call.
type Span = Option<(Instant, Instant)>;

struct Machine {
    bench: Bench,
    runs: [Span; INSTANCES],
    numbers: Numbers,
    outcome: Outcome,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        Machine {
            bench: Bench::new(INSTANCES, 1, 1 << 20),
            runs: [None; INSTANCES],
            numbers: Numbers(seed),
            outcome: Outcome::default(),
        }
    }

    /// Lets time go on to `until`, and every instance do what is due by then.
    fn pass(&mut self, until: Instant) {
        while let Some((end, instance)) = self.next_end().filter(|(end, _)| *end <= until) {
            self.bench.now = end;
            let deadline = self.runs[instance].take().unwrap().1;
            *(if end <= deadline {
                &mut self.outcome.in_time
            } else {
                &mut self.outcome.late
            }) += 1;
            self.fetch(instance);
        }
        self.bench.now = until;
    }

    fn next_end(&self) -> Option<(Instant, usize)> {
        let running = self.runs.iter().enumerate();
        running
            .filter_map(|(instance, run)| Some(((*run)?.0, instance)))
            .min()
    }

    fn fetch(&mut self, instance: usize) {
        self.bench.next(instance);
        self.outcome.late += self.bench.cut.dropped.len();
        if let Some(call) = self.bench.cut.batch.first() {
            let took = self.numbers.run();
            self.outcome.worked += took;
            self.runs[instance] = Some((self.bench.now + took, call.request.deadline.unwrap()));
        }
    }

    fn call(&mut self, source: u64) {
        match self.bench.submit(source, Some(DEADLINE)) {
            Err(_) => self.outcome.refused += 1,
            Ok(accepted) if accepted.call => {
                let idle = self.runs.iter().position(Option::is_none).unwrap();
                self.fetch(idle);
            }
            Ok(_) => {}
        }
    }
}

/// Calls of that many connections at twenty times the capacity for `span`, until all are answered.
fn overloaded(seed: u64, connections: u32, span: Duration) -> Outcome {
    let mut machine = Machine::new(seed);
    let start = machine.bench.now;
    // Eight instances take 140 us a call on average.
    while machine.bench.now < start + span {
        let pause = machine.numbers.below(14) * US;
        machine.pass(machine.bench.now + pause);
        let source = machine.numbers.below(connections);
        machine.call(source.into());
    }
    machine.pass(start + span + 2 * DEADLINE);
    assert!(machine.runs.iter().all(Option::is_none));
    machine.outcome.lasted = span;
    machine.outcome
}

#[test]
fn who_is_let_in_is_answered_in_time_and_no_instance_waits() {
    for (seed, connections) in [(1, 1), (2, 1), (3, 32), (4, 32), (5, 1000)] {
        let outcome = overloaded(seed, connections, Duration::from_secs(2));
        let admitted = outcome.in_time + outcome.late;
        assert!(outcome.refused > 15 * admitted, "{outcome:?}");
        assert!(outcome.late * 100 < admitted, "seed {seed}: {outcome:?}");
        // The queue outlasts the load by less than a deadline.
        let busy = outcome.worked.as_secs_f64() / INSTANCES as f64;
        assert!(busy > outcome.lasted.as_secs_f64(), "seed {seed}: {outcome:?}");
    }
}

/// All calls at once, in a few milliseconds: the forecast has seen few runs when most are let in.
#[test]
fn who_is_let_in_of_a_burst_is_answered_in_time() {
    for (seed, connections) in [(6, 1), (7, 1), (8, 32)] {
        let outcome = overloaded(seed, connections, Duration::from_millis(60));
        let admitted = outcome.in_time + outcome.late;
        assert!(admitted > 400 && outcome.refused > admitted, "{outcome:?}");
        assert!(outcome.late * 20 < admitted, "seed {seed}: {outcome:?}");
    }
}
