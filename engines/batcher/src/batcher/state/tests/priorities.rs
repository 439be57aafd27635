//! Who is served first where calls have levels, and that nobody starves: under a clock of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::simulation::{Callers, Load, Outcome, closed, simulate};
use super::*;

impl Bench {
    fn submit_at(&mut self, level: u8, source: u64, left: Option<Duration>) -> Result<Accepted, Rejected> {
        let request = Request {
            priority: Priority::new(level).unwrap(),
            ..self.request(source, left)
        };
        let submitted = self.state.submit(request, self.now);
        submitted.map_err(|(rejected, _)| rejected)
    }

    /// One run after another of one request each, until nothing waits: their sources.
    fn drain(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.next(0).pop()).collect()
    }
}

/// One instance that is busy with a request of source 0, whose runs take a millisecond: a level is gained in four.
fn busy(queue_max: usize) -> Bench {
    let mut bench = Bench::new(1, 1, queue_max);
    bench.teach(MS);
    bench.submit(0, None).unwrap();
    assert_eq!(bench.next(0), [0]);
    bench
}

#[test]
fn better_levels_go_first_and_sources_of_a_level_in_turn() {
    let mut bench = busy(100);
    for (level, source) in [
        (9, 90),
        (5, 50),
        (5, 50),
        (5, 51),
        (0, 1),
        (0, 1),
        (0, 2),
        (4, 40),
    ] {
        bench.submit_at(level, source, None).unwrap();
    }
    assert_eq!(bench.drain(), [1, 2, 1, 40, 50, 51, 50, 90]);
    assert_eq!(bench.state.occupancy().queued, 0);
}

#[test]
fn what_waits_gains_a_level_every_four_full_runs() {
    // Of level 5 against level 3, which is two levels or eight runs better.
    for (waited, expected) in [(7, [3, 5]), (9, [5, 3])] {
        let mut bench = busy(100);
        bench.submit_at(5, 5, None).unwrap();
        bench.now += waited * MS;
        bench.submit_at(3, 3, None).unwrap();
        // The run that was held up so long is not measured before this is decided.
        let step = bench.state.forecast.level_step();
        assert!(step > 39 * MS / 10 && step < 41 * MS / 10, "{step:?}");
        let level = bench.state.waiting.turn(|| step);
        assert_eq!(level as u64, expected[0], "after {waited} runs");
    }
}

#[test]
fn in_a_full_queue_the_lowest_level_gives_way_first() {
    let mut bench = busy(4);
    for (level, source) in [(5, 50), (9, 90), (9, 91), (7, 70)] {
        assert!(bench.submit_at(level, source, None).unwrap().evicted.is_none());
    }
    let gives_way = |bench: &mut Bench, level, source| {
        let accepted = bench.submit_at(level, source, None)?;
        Ok(accepted.evicted.map(|evicted| evicted.request.source))
    };
    let full = Err(Rejected::QueueFull {
        queued: 4,
        queue_max: 4,
    });
    // Each has one: within a level nobody gives way, and the last of the lowest does to a better one.
    assert_eq!(gives_way(&mut bench, 9, 92), full);
    assert_eq!(gives_way(&mut bench, 8, 80), Ok(Some(91)));
    assert_eq!(gives_way(&mut bench, 5, 51), Ok(Some(90)));
    assert_eq!(gives_way(&mut bench, 5, 52), Ok(Some(80)));
    assert_eq!(gives_way(&mut bench, 5, 53), Ok(Some(70)));
    assert_eq!(gives_way(&mut bench, 5, 54), full);
    assert_eq!(gives_way(&mut bench, 6, 60), full);
    assert_eq!(gives_way(&mut bench, 0, 1), Ok(Some(53)));
    assert_eq!(bench.drain(), [1, 50, 51, 52]);
}

#[test]
fn who_has_waited_long_enough_does_not_give_way_to_better_ones() {
    let mut bench = busy(1);
    bench.submit_at(9, 90, None).unwrap();
    bench.now += 37 * MS;
    assert!(bench.submit_at(0, 1, None).is_err(), "nine levels are 36 ms");
    assert_eq!(bench.drain(), [90]);
}

/// What a request is told to wait for: rows that run before it, counted in runs of a millisecond.
#[test]
fn the_forecast_counts_what_goes_before_a_request_at_its_level() {
    let mut bench = busy(1000);
    for source in 0..20 {
        bench.submit_at(5, source, None).unwrap();
    }
    let refused = |bench: &Bench, level, ms: u32| {
        let request = Request {
            priority: Priority::new(level).unwrap(),
            ..bench.request(99, Some(ms * MS))
        };
        bench.state.too_late(&Asked::of(&request), bench.now).is_some()
    };
    // Before level 4 goes the run on its way alone; before level 5 and 6 twenty others.
    assert!(!refused(&bench, 4, 4));
    assert!(refused(&bench, 5, 15) && !refused(&bench, 5, 30));
    assert!(refused(&bench, 6, 15) && !refused(&bench, 6, 30));
    // All of them have gained two levels after 8 ms, and half of their time after 16.
    bench.now += 16 * MS;
    assert!(refused(&bench, 3, 5) && !refused(&bench, 3, 18));
    assert!(!refused(&bench, 0, 4));
}

/// A load of 64 callers that come back at once, of level 0, beside one of level 9: there is always more of level 0 than a run takes.
fn flood(priorities: Vec<u8>) -> Outcome {
    simulate(&Load {
        batch_size_max: 8,
        run: (1.0, 0.1),
        priorities,
        ms: 4_000.0,
        ..Load::of([closed(64, (0.3, 0.1)), closed(1, (0.3, 0.1))])
    })
}

fn worst(latencies: &[f64]) -> f64 {
    latencies.iter().copied().fold(0.0, f64::max)
}

#[test]
fn nobody_starves_beside_a_flood_of_a_better_level() {
    let run = 1.8;
    let (alike, levels) = (flood(Vec::new()), flood(vec![0, 9]));
    let (served, rare) = (&levels.latencies[0], &levels.latencies[1]);
    // It yields for nine levels of four runs, to what was there and its own run besides.
    let bound = (9.0 * 4.0 + 64.0 / 8.0 + 4.0) * run;
    assert!(worst(rare) < bound, "{} ms, at most {bound}", worst(rare));
    assert!(rare.len() > 40, "{} answers", rare.len());
    // And it does yield, at no cost to what is served.
    assert!(worst(rare) > 2.0 * worst(&alike.latencies[1]));
    assert!(levels.per_s() > 0.99 * alike.per_s() && served.len() > 15_000);
}

#[test]
fn a_rare_caller_of_a_better_level_waits_for_a_run_or_two() {
    let outcome = flood(vec![9, 0]);
    let p90 = |latencies: &[f64]| {
        let mut sorted = latencies.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() * 9 / 10]
    };
    // What is on its way and its own.
    assert!(
        p90(&outcome.latencies[1]) < 2.2 * 1.8,
        "{}",
        p90(&outcome.latencies[1])
    );
    assert!(p90(&outcome.latencies[0]) > 10.0);
}

/// Twice the capacity, a third of it each at levels 0, 5 and 9, with 50 ms to answer.
#[test]
fn under_overload_better_levels_are_answered_and_who_is_let_in_is_in_time() {
    let open = Callers::Open {
        per_ms: 3.0,
        connections: 16,
    };
    let load = Load {
        batch_size_max: 8,
        run: (1.0, 0.1),
        deadline_ms: Some(50.0),
        priorities: vec![0, 5, 9],
        ..Load::of(vec![open; 3])
    };
    let outcome = simulate(&load);
    let [first, default, last] = [0, 1, 2].map(|group| outcome.latencies[group].len());
    assert!(first as f64 > 0.97 * 3.0 * load.ms, "{first} {default} {last}");
    assert!(default < first && last < default, "{first} {default} {last}");
    let admitted = outcome.late + first + default + last;
    assert!(
        outcome.late * 50 < admitted,
        "{} of {admitted} late",
        outcome.late
    );
    assert!(outcome.per_s() > 0.95 * 8.0 / 1.8e-3, "{}", outcome.per_s());
}

/// The same level for all is as if nobody named one.
#[test]
fn one_level_for_all_is_no_level() {
    let load = |priorities| Load {
        deadline_ms: Some(50.0),
        priorities,
        ms: 2_000.0,
        ..Load::of([
            closed(10, (0.3, 0.1)),
            Callers::Open {
                per_ms: 2.0,
                connections: 16,
            },
        ])
    };
    let without = simulate(&load(Vec::new()));
    for level in [0, 5, 9] {
        let with = simulate(&load(vec![level; 2]));
        assert_eq!(with.latencies, without.latencies, "level {level}");
    }
}
