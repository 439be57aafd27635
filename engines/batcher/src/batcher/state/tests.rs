//! The queue under a clock of the test's own: who is served, who gives way and who is refused, moment by moment.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bytes;
mod filling;
mod held;
mod lent;
mod overload;
mod priorities;
mod returning;
mod simulation;
mod standing;
mod swept;

use super::*;
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A queue, its instances, and a clock that only the test moves.
pub(super) struct Bench {
    pub(super) state: State,
    pub(super) now: Instant,
    pub(super) cut: Cut,
}

impl Bench {
    pub(super) fn new(instances: usize, batch_size_max: usize, queue_max: usize) -> Bench {
        let options = BatcherOptions {
            instances,
            batch_size_max,
            queue_max,
            queue_bytes_max: usize::MAX,
            ..BatcherOptions::default()
        };
        let now = Instant::now();
        Bench {
            state: State::new(&options, now),
            now,
            cut: Cut::default(),
        }
    }

    /// One row of `source`, with so much time left; without, it has no deadline.
    fn request(&self, source: u64, left: Option<Duration>) -> Request {
        Request {
            source,
            priority: Priority::DEFAULT,
            inputs: Vec::new(),
            rows: 1,
            deadline: left.map(|left| self.now + left),
            gone: Arc::default(),
            kept_bytes: 0,
            done: Box::new(|_| ()),
        }
    }

    pub(super) fn submit(&mut self, source: u64, left: Option<Duration>) -> Result<Accepted, Rejected> {
        let submitted = self.state.submit(self.request(source, left), self.now);
        if let Ok(Accepted { call: true, .. }) = submitted {
            self.state.called -= 1; // it wakes at once
            self.state.take_place();
        }
        submitted.map_err(|(rejected, _)| rejected)
    }

    /// Whether such a request would be refused now.
    fn is_too_late(&self, source: u64, left: Duration) -> bool {
        let request = self.request(source, Some(left));
        self.state.too_late(&Asked::of(&request), self.now).is_some()
    }

    /// `instance` is through with what it had.
    pub(super) fn act(&mut self, instance: usize) -> Act {
        self.cut.batch.clear();
        self.cut.dropped.clear();
        self.state.next(instance.into(), self.now, &mut self.cut)
    }

    /// As [`Bench::act`]: the sources of the batch that it cuts.
    pub(super) fn next(&mut self, instance: usize) -> Vec<u64> {
        self.act(instance);
        self.cut
            .batch
            .iter()
            .map(|waiting| waiting.request.source)
            .collect()
    }

    /// Teaches it that a run takes so long, by running one request after the other on one instance.
    fn teach(&mut self, took: Duration) {
        for _ in 0..64 {
            self.submit(0, None).unwrap();
            assert_eq!(self.next(0), [0]);
            self.now += took;
            assert_eq!(self.next(0), [0; 0]);
        }
    }
}

#[test]
fn one_of_a_quiet_source_is_in_the_next_batch_beside_ten_thousand() {
    let mut bench = Bench::new(1, 64, 20_000);
    for _ in 0..10_000 {
        bench.submit(1, None).unwrap();
    }
    bench.submit(2, None).unwrap();
    let batch = bench.next(0);
    assert_eq!((batch.len(), batch[1]), (64, 2));
    assert_eq!(batch.iter().filter(|source| **source == 1).count(), 63);
}

#[test]
fn nothing_is_refused_before_anything_was_measured() {
    let mut bench = Bench::new(1, 1, 1000);
    for _ in 0..1000 {
        bench.submit(1, Some(MS / 1000)).unwrap();
    }
}

/// How many requests wait when the first one is refused that has 100 ms left and a run takes `took`.
fn admitted(took: Duration) -> usize {
    let mut bench = Bench::new(1, 1, 1000);
    bench.teach(took);
    bench.submit(1, None).unwrap();
    bench.next(0);
    let refused = (0..1000).find_map(|waiting| Some((waiting, bench.submit(1, Some(100 * MS)).err()?)));
    let (waiting, rejected) = refused.unwrap();
    let Rejected::TooLate {
        wait_us,
        run_us,
        left_us,
    } = rejected
    else {
        panic!("{rejected:?}")
    };
    let over_us = (wait_us + run_us).saturating_sub(left_us);
    assert_eq!(left_us, 100_000, "{rejected:?}");
    assert!(
        over_us > 0 && over_us <= took.as_micros() as u64 + 1000,
        "{rejected:?}"
    );
    waiting
}

/// One run is on its way and one is the request's own: of twenty runs in 100 ms, eighteen might wait before it, and a sixteenth of
/// that wait is kept in hand.
#[test]
fn refusals_begin_earlier_when_runs_take_longer() {
    assert_eq!(admitted(Duration::from_micros(4_990)), 17);
    assert_eq!(admitted(Duration::from_micros(9_990)), 8);
    assert_eq!(admitted(Duration::from_micros(19_990)), 3);
}

/// At a queue of the same length, whether a request is refused follows what runs take now.
#[test]
fn a_model_that_becomes_slower_is_noticed_at_the_same_length() {
    let mut bench = Bench::new(1, 1, 1000);
    bench.teach(5 * MS);
    for _ in 0..11 {
        bench.submit(1, None).unwrap();
    }
    assert_eq!(bench.next(0), [1]);
    let mut refused = Vec::new();
    for took in [5 * MS, 10 * MS, 5 * MS].iter().flat_map(|took| [*took; 40]) {
        bench.now += took;
        bench.submit(1, None).unwrap();
        assert_eq!(bench.next(0), [1]);
        assert_eq!(bench.state.occupancy().queued, 10);
        // One on its way, ten waiting, its own: sixty milliseconds, or a hundred and twenty.
        refused.push(bench.is_too_late(1, 90 * MS));
        // One of another source waits for one turn only.
        assert!(!bench.is_too_late(2, 35 * MS));
    }
    let changes: Vec<usize> = (1..refused.len())
        .filter(|&at| refused[at] != refused[at - 1])
        .collect();
    assert!(!refused[0] && changes.len() == 2, "{changes:?}");
    assert!(
        (40..60).contains(&changes[0]) && (80..110).contains(&changes[1]),
        "{changes:?}"
    );
}

#[test]
fn an_idle_instance_is_always_used() {
    let mut bench = Bench::new(2, 1, 1000);
    bench.teach(100 * MS);
    // Both are idle, then one: a millisecond is not enough for a run, and yet nobody is refused.
    for instance in 0..2 {
        assert!(bench.submit(1, Some(MS)).unwrap().call);
        assert_eq!(bench.next(instance), [1]);
    }
    assert!(matches!(bench.submit(1, Some(MS)), Err(Rejected::TooLate { .. })));
    // The first of them is done and nothing waits: its run was short, and it is free again.
    bench.now += MS;
    assert!(bench.next(0).is_empty());
    assert!(bench.submit(1, Some(MS)).unwrap().call);
}

#[test]
fn a_deadline_that_has_passed_is_not_called_overload() {
    let mut bench = Bench::new(1, 1, 1000);
    bench.teach(10 * MS);
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    bench.submit(1, Some(Duration::ZERO)).unwrap();
    assert!(bench.next(0).is_empty());
    assert_eq!(bench.cut.dropped.len(), 1);
}

#[test]
fn what_is_ahead_is_what_has_turns_before() {
    let mut bench = Bench::new(1, 1, 1000);
    bench.teach(10 * MS);
    for _ in 0..101 {
        bench.submit(1, None).unwrap();
    }
    assert_eq!(bench.next(0), [1]);
    // A hundred wait, and one of another source waits for the run on its way and one turn: 10 + 10, a little in hand, and 10.
    assert!(bench.submit(1, Some(1000 * MS)).is_err());
    assert!(bench.submit(2, Some(29 * MS)).is_err());
    assert!(bench.submit(2, Some(32 * MS)).is_ok());
    assert!(bench.submit(2, Some(32 * MS)).is_err());
}

#[test]
fn a_full_queue_is_shared_out() {
    let mut bench = Bench::new(1, 1, 4);
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    for _ in 0..4 {
        assert!(bench.submit(1, None).unwrap().evicted.is_none());
    }
    let full = Rejected::QueueFull {
        queued: 4,
        queue_max: 4,
    };
    assert_eq!(bench.submit(1, None).unwrap_err(), full);
    for source in [2, 2, 3] {
        let evicted = bench.submit(source, None).unwrap().evicted;
        assert!(evicted.is_some(), "source {source}");
    }
    // One or two each: nobody has two more than a newcomer would.
    assert_eq!(bench.submit(2, None).unwrap_err(), full);
    assert_eq!(bench.state.occupancy().queued, 4);
    let mut served = [0; 5];
    for _ in 0..4 {
        served[bench.next(0)[0] as usize] += 1;
    }
    assert_eq!(served.iter().max(), Some(&2));
    assert!(served[1] > 0 && served[2] > 0 && served[3] > 0, "{served:?}");
}

#[test]
fn where_nobody_may_wait_nobody_gives_way() {
    let mut bench = Bench::new(1, 1, 0);
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    assert!(bench.submit(2, None).is_err());
}

#[test]
fn what_would_be_refused_is_told_without_a_request() {
    let mut bench = Bench::new(1, 1, 2);
    let asked = |bench: &Bench, source, left: Option<Duration>| {
        let deadline = left.map(|left| bench.now + left);
        let asked = Asked {
            source,
            priority: Priority::DEFAULT,
            rows: 1,
            bytes: 0,
            deadline,
        };
        bench.state.refusal(&asked, bench.now)
    };
    bench.teach(10 * MS);
    assert_eq!(asked(&bench, 1, Some(MS)), None, "an instance is idle");
    for _ in 0..3 {
        bench.submit(1, None).unwrap();
        bench.next(0);
    }
    bench.submit(1, None).unwrap();
    assert!(matches!(
        asked(&bench, 1, Some(MS)),
        Some(Rejected::TooLate { .. })
    ));
    assert_eq!(asked(&bench, 1, None), None);
    bench.submit(1, None).unwrap();
    assert!(matches!(asked(&bench, 1, None), Some(Rejected::QueueFull { .. })));
    assert_eq!(asked(&bench, 2, None), None, "source 1 would give way");
    assert!(bench.submit(2, None).unwrap().evicted.is_some());
    bench.state.stopping = true;
    assert_eq!(asked(&bench, 2, None), Some(Rejected::Stopping));
}

#[test]
fn a_thread_runs_what_fits_its_budget_until_one_run_takes_ten_times_as_long() {
    let mut bench = Bench::new(1, 4, 8);
    let takes = |bench: &mut Bench, rows, others| {
        let request = bench.request(1, None);
        bench
            .state
            .takes_inline(&request, rows, others, Noticed::at(bench.now))
            .is_some()
    };
    assert!(!takes(&mut bench, 0, 0.0), "nothing was measured");
    bench.teach(MS / 10);
    assert!(takes(&mut bench, 0, 0.0) && takes(&mut bench, 0, 0.000_09));
    assert!(!takes(&mut bench, 0, 0.000_11), "of another model");
    // Sizes that were not seen are taken to cost what their rows do.
    assert!(takes(&mut bench, 1, 0.0) && !takes(&mut bench, 2, 0.0));
    for _ in 0..2 {
        bench.submit(1, None).unwrap();
    }
    assert_eq!(bench.next(0), [1, 1]);
    assert!(
        takes(&mut bench, 0, 0.0),
        "the instance is busy, and nothing waits"
    );
    bench.submit(1, None).unwrap();
    assert!(!takes(&mut bench, 0, 0.0), "one waits");
    assert_eq!(bench.next(0), [1]);
    let mut swept = |used, lasted| {
        let swept = Swept {
            rows: 1,
            used,
            lasted,
            ended: bench.now,
            answered: &[],
        };
        bench.state.swept(0, Some(swept))
    };
    assert!(!swept(2 * MS, 30 * MS) && swept(2 * MS + MS / 1000, 30 * MS));
    for _ in 0..128 {
        assert!(!swept(MS / 10, MS / 10), "it is said once");
    }
    assert!(!takes(&mut bench, 0, 0.0), "it is over for good");
}
