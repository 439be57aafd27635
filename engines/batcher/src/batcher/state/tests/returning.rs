//! Waiting for callers against cutting greedily, under loads of every kind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::simulation::*;

/// Mean and deviation of what a caller takes to come back, in milliseconds.
const BACK_AFTER: [(f64, f64); 5] = [(0.1, 0.05), (0.3, 0.1), (1.0, 0.5), (3.0, 2.0), (10.0, 8.0)];

/// The load cut greedily, and as it is.
fn both(load: &Load) -> [Outcome; 2] {
    let greedy = Load {
        greedy: true,
        ..load.clone()
    };
    let [greedy, waiting] = [simulate(&greedy), simulate(load)];
    assert_eq!(greedy.counts.holds, 0);
    println!(
        "{load:?}\n  {:.0} a second, p50 {:.2} ms, p99 {:.2} ms; waiting {:.0}, {:.2}, {:.2}, {} waits of {:?} in all",
        greedy.per_s(),
        greedy.percentile(0.5),
        greedy.percentile(0.99),
        waiting.per_s(),
        waiting.percentile(0.5),
        waiting.percentile(0.99),
        waiting.counts.holds,
        waiting.counts.held,
    );
    [greedy, waiting]
}

/// So many answers a second at least, give or take three in a hundred.
fn check(load: &Load, per_s: f64) {
    let [_, waiting] = both(load);
    assert!(
        waiting.per_s() >= 0.97 * per_s,
        "{:.0} of {per_s}: {load:?}",
        waiting.per_s()
    );
}

/// Each with as many answers a second as a rule gave that was tried on paper, or more.
#[test]
fn closed_loops_are_no_longer_locked_into_halves() {
    for (callers, per_s) in [
        (1, 454.0),
        (2, 820.0),
        (3, 1168.0),
        (4, 1485.0),
        (6, 1600.0),
        (10, 1667.0),
    ] {
        check(&Load::of([closed(callers, (0.1, 0.05))]), per_s);
    }
    for (callers, per_s) in [(2, 765.0), (4, 1390.0), (6, 1480.0), (8, 1667.0)] {
        check(&Load::of([closed(callers, (0.3, 0.1))]), per_s);
    }
    for (callers, per_s) in [(2, 2900.0), (4, 5300.0), (6, 5900.0)] {
        let run = (0.5, 0.02);
        check(
            &Load {
                run,
                ..Load::of([closed(callers, (0.1, 0.05))])
            },
            per_s,
        );
    }
}

#[test]
fn no_closed_loop_is_slower_than_greedily() {
    for run in [(2.0, 0.1), (0.5, 0.02), (0.1, 0.02), (0.0, 1.0)] {
        for back_after in BACK_AFTER {
            for callers in [1, 2, 3, 4, 6, 8, 10] {
                let callers = [closed(callers, back_after)];
                let [greedy, waiting] = both(&Load {
                    run,
                    ms: 3_000.0,
                    ..Load::of(callers)
                });
                assert!(waiting.per_s() >= 0.98 * greedy.per_s());
            }
        }
    }
}

#[test]
fn a_lone_caller_pays_nothing() {
    for back_after in BACK_AFTER {
        let [greedy, waiting] = both(&Load::of([closed(1, back_after)]));
        assert_eq!(waiting.counts.holds, 0);
        assert_eq!(waiting.latencies, greedy.latencies);
    }
}

#[test]
fn calls_at_random_times_are_served_as_greedily() {
    for part in [0.3, 0.6, 0.9] {
        for connections in [1, 4, 64] {
            let per_ms = part * 4.0 / 2.4;
            let [greedy, waiting] = both(&Load::of([Callers::Open { per_ms, connections }]));
            for percentile in [0.5, 0.99] {
                assert!(waiting.percentile(percentile) <= 1.02 * greedy.percentile(percentile));
            }
        }
    }
}

#[test]
fn bursts_are_served_no_later() {
    let bursts = Callers::Bursts {
        calls: 10,
        every: 20.0,
        connections: 10,
    };
    let [greedy, waiting] = both(&Load::of([bursts]));
    for percentile in [0.5, 0.99] {
        assert!(waiting.percentile(percentile) <= 1.01 * greedy.percentile(percentile));
    }
}

#[test]
fn callers_that_wait_and_callers_that_do_not_are_told_apart() {
    for callers in [2, 4, 6] {
        let open = Callers::Open {
            per_ms: 0.5,
            connections: 64,
        };
        let [greedy, waiting] = both(&Load::of([closed(callers, (0.1, 0.05)), open]));
        assert!(waiting.per_s() >= greedy.per_s());
        // The instance does a third more than before, for those that wait for their answers.
        let p50 = |outcome: &Outcome| {
            let mut open = outcome.latencies[1].clone();
            open.sort_by(f64::total_cmp);
            open[open.len() / 2]
        };
        assert!(
            p50(&waiting) <= 1.06 * p50(&greedy),
            "{} {}",
            p50(&waiting),
            p50(&greedy)
        );
    }
}

#[test]
fn several_instances_wait_where_no_other_is_free_soon() {
    for instances in [2, 3] {
        for (callers, least) in [(2, 1.0), (4, 1.2), (6, 1.3), (8, 1.4), (12, 1.0)] {
            for (back_after, least) in [((0.1, 0.05), least), ((1.0, 0.5), 0.99), ((3.0, 2.0), 0.99)] {
                let [greedy, waiting] = both(&Load {
                    instances,
                    ..Load::of([closed(callers, back_after)])
                });
                assert!(waiting.per_s() >= 0.999 * least * greedy.per_s());
            }
        }
    }
}

/// Several callers behind one connection, callers of several rows, and many callers of a large batch.
#[test]
fn what_comes_back_is_a_request_and_its_rows() {
    let group = |callers, connections, rows| Callers::Closed {
        callers,
        connections,
        back_after: (0.1, 0.05),
        rows,
    };
    for (callers, per_s) in [(2, 820.0), (4, 1485.0), (6, 1600.0)] {
        check(&Load::of([group(callers, 1, 1)]), per_s);
    }
    let of_two_rows = |callers| Load {
        batch_size_max: 8,
        ..Load::of([group(callers, callers, 2)])
    };
    for (callers, least) in [(2, 1.7), (4, 1.6), (6, 1.2)] {
        let [greedy, waiting] = both(&of_two_rows(callers));
        assert!(waiting.per_s() >= 0.97 * least * greedy.per_s());
    }
    for callers in [32, 48] {
        let [greedy, waiting] = both(&Load {
            batch_size_max: 64,
            run: (1.0, 0.02),
            ..Load::of([closed(callers, (0.2, 0.1))])
        });
        assert!(waiting.per_s() >= 1.15 * greedy.per_s());
    }
}

/// Callers keep a rhythm until they are known, and then come when nobody expects them.
#[test]
fn callers_that_break_their_habit_are_soon_not_waited_for() {
    let habit = Callers::Turning {
        callers: 4,
        back_after: [(0.2, 0.02), (1.9, 0.02)],
        turns_after: 24,
    };
    let [greedy, waiting] = both(&Load::of([habit]));
    assert!(waiting.per_s() >= 0.95 * greedy.per_s());
}

/// Callers that run their own requests where they can are in step with each other as much as those that hand them over.
#[test]
fn callers_that_run_the_model_themselves_lose_no_batches() {
    for instances in [1, 2] {
        for run in [(2.0, 0.1), (0.5, 0.02), (0.1, 0.02)] {
            for back_after in BACK_AFTER {
                for callers in [1, 2, 4, 10] {
                    let load = Load {
                        run,
                        instances,
                        ms: 3_000.0,
                        ..Load::of([closed(callers, back_after)])
                    };
                    let [handed, here] = [false, true].map(|here| {
                        let outcome = simulate(&Load { here, ..load.clone() });
                        assert_eq!((outcome.refused, outcome.late), (0, 0));
                        outcome
                    });
                    println!(
                        "{load:?}\n  {:.0} a second, here {:.0}",
                        handed.per_s(),
                        here.per_s()
                    );
                    assert!(here.per_s() >= 0.97 * handed.per_s());
                }
            }
        }
    }
}
