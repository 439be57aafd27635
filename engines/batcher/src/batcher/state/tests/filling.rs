//! Waits for a batch to fill: under arrivals of every kind, and moment by moment.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::simulation::*;
use super::{Bench, MS};
use crate::batcher::state::*;

/// The load without waits for batches to fill, and with waits of up to so many microseconds.
fn both(load: &Load, delay_us: u64) -> [Outcome; 2] {
    let delayed = Load {
        delay_us,
        ..load.clone()
    };
    let outcomes = [simulate(load), simulate(&delayed)];
    assert_eq!(outcomes[0].filling, Default::default());
    for outcome in &outcomes {
        let rows = outcome.latencies.concat().len() as f64 / outcome.runs as f64;
        println!(
            "{delay_us} us: {:.0} a second, {rows:.2} rows a run, p50 {:.2} ms, p99 {:.2} ms, {:?}",
            outcome.per_s(),
            outcome.percentile(0.5),
            outcome.percentile(0.99),
            outcome.filling
        );
    }
    outcomes
}

fn rows_a_run(outcome: &Outcome) -> f64 {
    outcome.latencies.concat().len() as f64 / outcome.runs as f64
}

fn open(per_ms: f64) -> Load {
    Load::of([Callers::Open {
        per_ms,
        connections: 64,
    }])
}

#[test]
fn steady_arrivals_fill_batches() {
    for instances in [1, 3] {
        let load = Load {
            instances,
            ..open(1.0)
        };
        let [greedy, delayed] = both(&load, 10_000);
        assert!(rows_a_run(&greedy) < 2.7, "{}", rows_a_run(&greedy));
        assert!(rows_a_run(&delayed) > 3.7, "{}", rows_a_run(&delayed));
        assert!(delayed.filling.filled * 10 > delayed.filling.delays * 8);
    }
}

#[test]
fn one_connection_with_many_calls_at_a_time_fills_batches() {
    let load = Load {
        instances: 2,
        ..Load::of([Callers::Open {
            per_ms: 1.0,
            connections: 1,
        }])
    };
    let [greedy, delayed] = both(&load, 10_000);
    assert!(rows_a_run(&delayed) > 1.3 * rows_a_run(&greedy));
}

#[test]
fn slow_arrivals_never_wait() {
    let [greedy, delayed] = both(&open(0.1), 5_000);
    assert_eq!(delayed.filling.delays, 0);
    assert_eq!(delayed.latencies, greedy.latencies);
}

#[test]
fn one_caller_never_waits_and_two_cannot_fill_four() {
    for callers in [1, 2, 3] {
        for back_after in [(0.1, 0.05), (1.0, 0.5)] {
            let [greedy, delayed] = both(&Load::of([closed(callers, back_after)]), 10_000);
            assert_eq!(delayed.filling.delays, 0, "{callers}");
            assert_eq!(delayed.latencies, greedy.latencies);
        }
    }
}

/// Four callers behind one connection cannot fill eight rows, and nobody can know it before it was tried.
#[test]
fn waits_in_vain_are_given_up() {
    let callers = Callers::Closed {
        callers: 4,
        connections: 1,
        back_after: (0.1, 0.05),
        rows: 1,
    };
    let load = Load {
        batch_size_max: 8,
        ..Load::of([callers])
    };
    let [greedy, delayed] = both(&load, 10_000);
    assert!(delayed.per_s() > 0.95 * greedy.per_s());
    assert!(delayed.filling.delays < 100, "{:?}", delayed.filling);
}

#[test]
fn bursts_pay_for_few_waits() {
    let load = Load::of([Callers::Bursts {
        calls: 6,
        every: 40.0,
        connections: 6,
    }]);
    let [greedy, delayed] = both(&load, 5_000);
    assert_eq!(delayed.filling.delays, 0, "the next burst is too far away");
    assert_eq!(delayed.latencies, greedy.latencies);
}

#[test]
fn short_runs_never_wait() {
    let load = Load {
        run: (0.03, 0.001),
        ..open(1.0)
    };
    let [_, delayed] = both(&load, 10_000);
    assert_eq!(delayed.filling.delays, 0);
}

#[test]
fn no_request_comes_too_late_for_a_wait() {
    let load = Load {
        deadline_ms: Some(9.0),
        ..open(0.8)
    };
    let [_, delayed] = both(&load, 10_000);
    assert!(delayed.filling.delays > 100, "{:?}", delayed.filling);
    assert_eq!((delayed.late, delayed.refused), (0, 0));
    assert!(delayed.latencies.concat().iter().all(|ms| *ms <= 9.0));
}

/// Four rows, runs of two milliseconds, an arrival a millisecond from ever new sources, and 5 ms to fill.
fn bench(instances: usize) -> Bench {
    let mut bench = Bench::new(instances, 4, 64);
    let options = BatcherOptions {
        instances,
        batch_size_max: 4,
        batch_delay_us_max: 5_000,
        ..BatcherOptions::default()
    };
    bench.state = State::new(&options, bench.now);
    bench.teach(2 * MS);
    for source in 0..70 {
        bench.now += MS;
        bench
            .state
            .filling
            .arrivals
            .came(1000 + source, 1, false, bench.now);
    }
    bench.now += MS;
    bench
}

fn until(bench: &mut Bench) -> Option<Duration> {
    match bench.act(0) {
        Act::Hold(until) => Some(until - bench.now),
        _ => None,
    }
}

#[test]
fn the_batch_runs_when_it_is_full() {
    let mut bench = bench(1);
    assert!(bench.submit(1, None).unwrap().call);
    assert!(until(&mut bench).is_some());
    for source in 2..4 {
        bench.now += MS;
        let accepted = bench.submit(source, None).unwrap();
        assert!(!accepted.call);
        assert!(until(&mut bench).is_some());
    }
    assert!(bench.submit(4, None).unwrap().ends_hold);
    assert_eq!(bench.next(0), [1, 2, 3, 4]);
    let counts = bench.state.occupancy().filling;
    assert_eq!((counts.delays, counts.delayed, counts.filled), (1, 2 * MS, 1));
}

#[test]
fn the_first_request_of_a_batch_says_when_it_runs_at_the_latest() {
    let mut bench = bench(1);
    bench.submit(1, None).unwrap();
    assert!(until(&mut bench).is_some());
    bench.now += 2 * MS;
    bench.submit(2, None).unwrap();
    bench.now += MS;
    bench.submit(3, None).unwrap();
    assert_eq!(until(&mut bench), Some(2 * MS), "five after the first came");
    bench.now += 2 * MS;
    assert_eq!(bench.next(0), [1, 2, 3]);
    assert_eq!(bench.state.occupancy().filling.filled, 0);
}

#[test]
fn the_earliest_deadline_says_when_it_runs_at_the_latest() {
    let mut bench = bench(1);
    bench.submit(1, None).unwrap();
    assert!(until(&mut bench).unwrap() > 3 * MS);
    bench.now += MS;
    // A full run takes two milliseconds, and a quarter of it is kept in hand.
    let left = 5 * MS;
    bench.submit(2, Some(left)).unwrap();
    let waits = until(&mut bench).unwrap();
    assert!(waits <= 5 * MS / 2 && waits > 2 * MS, "{waits:?}");
    assert!(
        bench.submit(3, Some(5 * MS / 2)).unwrap().ends_hold,
        "no time to wait"
    );
    assert_eq!(bench.next(0), [1, 2, 3]);
}

#[test]
fn nobody_is_waited_for_who_is_late() {
    let mut bench = bench(1);
    bench.submit(1, None).unwrap();
    let waits = until(&mut bench).unwrap();
    assert!(waits < 5 * MS, "four gaps: {waits:?}");
    bench.now += waits;
    assert_eq!(bench.next(0), [1]);
}

#[test]
fn a_stop_and_a_request_that_does_not_fit_end_the_wait() {
    let mut stopping = bench(1);
    stopping.submit(1, None).unwrap();
    assert!(until(&mut stopping).is_some());
    stopping.state.stopping = true;
    assert_eq!(stopping.next(0), [1]);

    let mut bench = bench(1);
    bench.submit(1, None).unwrap();
    assert!(until(&mut bench).is_some());
    let mut large = bench.request(2, None);
    large.rows = 4;
    let accepted = bench.state.submit(large, bench.now).unwrap();
    assert!(accepted.ends_hold);
    assert_eq!(bench.next(0), [1]);
}

#[test]
fn an_instance_that_becomes_free_leaves_what_another_one_waits_with() {
    let mut bench = bench(2);
    // The second one runs a full batch.
    let mut full = bench.request(9, None);
    full.rows = 4;
    assert!(bench.state.submit(full, bench.now).unwrap().call);
    bench.state.called -= 1;
    bench.state.take_place();
    assert_eq!(bench.next(1), [9]);
    bench.now += MS;
    bench.submit(1, None).unwrap();
    assert!(until(&mut bench).is_some());
    bench.now += MS;
    assert!(matches!(bench.act(1), Act::Rest));
    assert_eq!(bench.state.idle, 1);
    assert!(!bench.submit(2, None).unwrap().call, "it joins the first");
    bench.submit(3, None).unwrap();
    assert!(bench.submit(4, None).unwrap().ends_hold);
    assert_eq!(bench.next(0), [1, 2, 3, 4]);
}
