//! More calls than a model can serve, for long and in bursts: who waits, and who is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::simulation::*;

/// Milliseconds of a full run.
const RUN: f64 = 1.8;
/// Calls that can be served in a millisecond.
const CAPACITY: f64 = 8.0 / RUN;

/// A model of 1 ms and 0.1 ms a row, up to 8, calls of 64 connections, and 50 ms for each.
fn load(callers: impl Into<Vec<Callers>>) -> Load {
    Load {
        batch_size_max: 8,
        run: (1.0, 0.1),
        deadline_ms: Some(50.0),
        ms: 10_000.0,
        ..Load::of(callers)
    }
}

fn at_random(per_ms: f64) -> Callers {
    Callers::Open {
        per_ms,
        connections: 64,
    }
}

fn tell(load: &Load, outcome: &Outcome) {
    println!(
        "{load:?}\n  {:.0} a second, p50 {:.2} ms, p99 {:.2} ms, {} refused, {} late",
        outcome.per_s(),
        outcome.percentile(0.5),
        outcome.percentile(0.99),
        outcome.refused,
        outcome.late,
    );
}

#[test]
fn under_overload_a_queue_is_a_few_runs_long_and_no_instance_waits() {
    for per_ms in [2.0 * CAPACITY, 10.0 * CAPACITY, 40.0] {
        let here = load([at_random(per_ms)]);
        let before = Load {
            deadlines_alone: true,
            ..here.clone()
        };
        let [before, here] = [before, here].map(|load| {
            let outcome = simulate(&load);
            tell(&load, &outcome);
            outcome
        });
        assert!(here.per_s() >= 0.99 * before.per_s());
        assert!(before.percentile(0.5) > 12.0 * RUN, "or there is nothing to show");
        assert!(here.percentile(0.5) <= 5.0 * RUN && here.percentile(0.99) <= 10.0 * RUN);
        assert!(here.late <= before.late);
    }
}

#[test]
fn bursts_pass_up_to_the_deadline() {
    let burst = Callers::Bursts {
        calls: (40.0 * CAPACITY) as usize,
        every: 1000.0,
        connections: 64,
    };
    let load = load([at_random(0.3 * CAPACITY), burst]);
    let before = simulate(&Load {
        deadlines_alone: true,
        ..load.clone()
    });
    let outcome = simulate(&load);
    tell(&load, &outcome);
    assert_eq!(
        outcome.refused_at, before.refused_at,
        "those that deadlines refuse"
    );
    assert_eq!(outcome.late, 0);
    assert!(outcome.percentile(0.99) > 10.0 * RUN, "some did wait");
}

/// A queue that stands because so many callers wait for their answers refuses nobody: they would come back at once.
#[test]
fn closed_loops_whose_calls_are_in_time_are_not_refused() {
    let load = load([closed(100, (0.2, 0.1))]);
    let outcome = simulate(&load);
    tell(&load, &outcome);
    assert!(outcome.percentile(0.5) > 10.0 * RUN);
    assert_eq!((outcome.refused, outcome.late), (0, 0));
}

#[test]
fn several_instances_share_the_queue() {
    let here = Load {
        instances: 4,
        ..load([at_random(10.0 * CAPACITY)])
    };
    let outcome = simulate(&here);
    tell(&here, &outcome);
    assert!(outcome.per_s() >= 0.98 * 4.0 * 1e3 * CAPACITY);
    assert!(outcome.percentile(0.5) <= 5.0 * RUN && outcome.percentile(0.99) <= 10.0 * RUN);
}

/// After an overload a burst passes again.
#[test]
fn what_stood_is_forgotten_when_it_has_drained() {
    let overload = Callers::Bursts {
        calls: 50,
        every: 1.0,
        connections: 64,
    };
    let burst = Callers::Bursts {
        calls: 150,
        every: 400.0,
        connections: 64,
    };
    let load = Load {
        ms: 4_000.0,
        // The first half of the time alone.
        until_ms: vec![2_000.0, f64::INFINITY],
        ..load([overload, burst])
    };
    let outcome = simulate(&load);
    tell(&load, &outcome);
    let at = |from: f64| outcome.refused_at.iter().filter(|ms| **ms >= from).count();
    assert!(at(0.0) > 50_000, "{}", at(0.0));
    assert_eq!(at(2_100.0), 0);
    assert!(outcome.percentile(0.5) <= 5.0 * RUN);
}
