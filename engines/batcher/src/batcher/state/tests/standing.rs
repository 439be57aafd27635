//! More calls than a model can serve, for long and in bursts: who waits, and who is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::simulation::*;
use super::{Bench, MS};
use crate::batcher::state::*;

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
        "{load:?}\n  {:.0} a second, p50 {:.2} ms, p99 {:.2} ms, {} refused, {} late, {} episodes",
        outcome.per_s(),
        outcome.percentile(0.5),
        outcome.percentile(0.99),
        outcome.refused,
        outcome.late,
        outcome.episodes,
    );
}

#[test]
fn under_overload_a_queue_is_a_few_runs_long_and_no_instance_waits() {
    for per_ms in [2.0 * CAPACITY, 10.0 * CAPACITY, 40.0] {
        let here = Load {
            ms: 11_000.0,
            counted_from_ms: 1_000.0,
            ..load([at_random(per_ms)])
        };
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
        assert!(here.late < 40 && before.late < 40, "of 44,000");
    }
}

fn burst(work_ms: f64, every: f64) -> Callers {
    Callers::Bursts {
        calls: (work_ms * CAPACITY) as usize,
        every,
        connections: 64,
    }
}

/// Refusals of a group from a time on, in milliseconds.
fn refused(outcome: &Outcome, group: usize, from: f64) -> usize {
    let is_of = |(of, ms): &&(usize, f64)| *of == group && *ms >= from;
    outcome.refused_at.iter().filter(is_of).count()
}

#[test]
fn bursts_pass_up_to_the_deadline() {
    for seed in 1..9 {
        for callers in [
            vec![burst(40.0, 1000.0)],
            vec![at_random(0.3 * CAPACITY), burst(40.0, 1000.0)],
        ] {
            let load = Load {
                seed,
                ..load(callers)
            };
            let outcome = simulate(&load);
            tell(&load, &outcome);
            assert_eq!((outcome.refused, outcome.late, outcome.episodes), (0, 0, 0));
            assert!(outcome.percentile(0.99) > 10.0 * RUN, "some did wait");
        }
    }
}

/// A queue that stands because so many callers wait for their answers refuses nobody: they would come back at once.
#[test]
fn closed_loops_whose_calls_are_in_time_are_not_refused() {
    let load = load([closed(100, (0.2, 0.1))]);
    let outcome = simulate(&load);
    tell(&load, &outcome);
    assert!(outcome.percentile(0.5) > 10.0 * RUN);
    assert_eq!((outcome.refused, outcome.late, outcome.episodes), (0, 0, 0));
}

#[test]
fn several_instances_share_the_queue() {
    let here = Load {
        instances: 4,
        ms: 11_000.0,
        counted_from_ms: 1_000.0,
        ..load([at_random(10.0 * CAPACITY)])
    };
    let outcome = simulate(&here);
    tell(&here, &outcome);
    assert!(outcome.per_s() >= 0.98 * 4.0 * 1e3 * CAPACITY);
    assert!(outcome.percentile(0.5) <= 5.0 * RUN && outcome.percentile(0.99) <= 10.0 * RUN);
}

/// A crowd that comes back at once, and comes again ten milliseconds after a refusal: an overload before it, or a run that is held up, costs it an
/// episode at most.
#[test]
fn a_crowd_that_comes_back_at_once_is_refused_for_an_episode_at_most() {
    let crowd = Load {
        retry_ms: Some(10.0),
        ms: 20_000.0,
        ..load([closed(100, (0.3, 0.05))])
    };
    let held_up = Load {
        held_up: vec![(3_000.0, 60.0)],
        ..crowd.clone()
    };
    let outcome = simulate(&held_up);
    tell(&held_up, &outcome);
    assert!(outcome.per_s() >= 0.98 * 1e3 * CAPACITY);
    assert_eq!(refused(&outcome, 0, 3_000.0 + 400.0 * RUN), 0);
    let behind_overload = Load {
        callers: vec![closed(100, (0.3, 0.05)), at_random(4.0 * CAPACITY)],
        until_ms: vec![f64::INFINITY, 300.0],
        ..crowd
    };
    let outcome = simulate(&behind_overload);
    tell(&behind_overload, &outcome);
    assert_eq!(outcome.episodes, 1);
    assert!(refused(&outcome, 0, 0.0) > 100);
    assert_eq!(refused(&outcome, 0, 400.0 * RUN), 0);
}

/// Calls that nobody could answer in time do not make a queue stand.
#[test]
fn a_crowd_beside_hopeless_calls_is_not_refused() {
    let mut bench = Bench::new(1, 8, 4096);
    bench.teach(2 * MS);
    let mut back: Vec<u64> = (0..100).collect();
    let mut hopeless = 0;
    for _ in 0..2_000 {
        for source in back.drain(..) {
            bench.submit(source, Some(500 * MS)).unwrap();
        }
        hopeless += usize::from(bench.submit(9999, Some(MS)).is_err());
        back = bench.next(0);
        bench.now += 2 * MS;
    }
    assert!(hopeless > 1_900, "{hopeless}");
    assert_eq!(bench.state.standing.episodes(), 0);
}

/// Where the limit on bytes refuses, and deadlines never would, a queue stands as well.
#[test]
fn a_queue_that_bytes_keep_standing_is_cut_too() {
    let options = BatcherOptions {
        instances: 1,
        batch_size_max: 8,
        queue_bytes_max: 200 << 10,
        ..BatcherOptions::default()
    };
    let mut bench = Bench::new(1, 8, 4096);
    bench.state = State::new(&options, bench.now);
    bench.teach(2 * MS);
    let mut longest = Vec::new();
    for _ in 0..270 {
        for source in 0..64 {
            let mut request = bench.request(source, Some(5000 * MS));
            request.kept_bytes = 1 << 10;
            drop(bench.state.submit(request, bench.now));
        }
        longest.push(bench.state.waiting.backlog().requests);
        assert_eq!(bench.next(0).len(), 8);
        bench.now += 2 * MS;
    }
    assert_eq!(bench.state.standing.episodes(), 1);
    assert!(longest[..17].contains(&192) && longest[60..250].iter().all(|waiting| *waiting < 40));
}

/// After an overload a burst passes again, even one that comes every second.
#[test]
fn what_stood_is_forgotten_when_it_has_drained() {
    for every in [400.0, 1000.0] {
        let load = Load {
            ms: 8_000.0,
            from_ms: vec![0.0, 2_050.0],
            // The first two seconds alone.
            until_ms: vec![2_000.0, f64::INFINITY],
            ..load([at_random(10.0 * CAPACITY), burst(35.0, every)])
        };
        let outcome = simulate(&load);
        tell(&load, &outcome);
        assert!(refused(&outcome, 0, 0.0) > 50_000);
        assert_eq!(refused(&outcome, 1, 0.0), 0);
        assert!(outcome.percentile(0.5) <= 5.0 * RUN);
    }
}

/// A burst that meets an episode loses calls by it, and the next one does not.
#[test]
fn a_burst_each_second_meets_one_episode_at_most() {
    let load = Load {
        ms: 8_000.0,
        from_ms: vec![0.0, 150.0],
        until_ms: vec![200.0, f64::INFINITY],
        ..load([at_random(10.0 * CAPACITY), burst(35.0, 1_000.0)])
    };
    let outcome = simulate(&load);
    tell(&load, &outcome);
    assert!(refused(&outcome, 1, 0.0) > 0);
    assert_eq!(refused(&outcome, 1, 1_000.0), 0);
    assert_eq!(outcome.episodes, 1);
}

/// Requests of many runs each: one may wait for each instance, so none of them idles.
#[test]
fn requests_of_many_runs_keep_all_instances_busy() {
    for instances in [1, 4] {
        let mut bench = Bench::new(instances, 8, 4096);
        bench.state.forecast.learn(8, 2 * MS);
        let mut ends = vec![None; instances];
        let (mut answered, mut refused) = (0, 0);
        let start = bench.now;
        // A call every 5 ms an instance, of 20 ms.
        for turn in 0..20_000u32 {
            bench.now = start + 5 * MS * turn / instances as u32;
            for (instance, end) in ends.iter_mut().enumerate() {
                if end.is_some_and(|end| end <= bench.now) {
                    answered += 1;
                    *end = (!bench.next(instance).is_empty()).then(|| bench.now + 20 * MS);
                }
            }
            let mut request = bench.request(u64::from(turn % 64), Some(500 * MS));
            request.rows = 80;
            match bench.state.submit(request, bench.now) {
                Ok(Accepted { call: true, .. }) => {
                    bench.state.called -= 1;
                    bench.state.take_place();
                    let instance = ends.iter().position(Option::is_none).unwrap();
                    bench.next(instance);
                    ends[instance] = Some(bench.now + 20 * MS);
                }
                Ok(_) => {}
                Err(_) => refused += 1,
            }
        }
        assert!(
            bench.state.standing.episodes() > 0 && refused > 14_000,
            "{refused}"
        );
        assert!(answered > 4_900, "{instances} instances: {answered} of 5,000");
    }
}
