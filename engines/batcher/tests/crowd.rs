//! Many threads at once: every request is answered exactly once, with its own rows in
//! their order, however they were cut; and warm-up reaches every instance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)]

mod gate;

use gate::{GateModel, check_answer, refuse, request, start, submit};
use millpond_engines_batcher::Rejected;
use std::sync::Barrier;

const THREADS: usize = 8;
const REQUESTS: usize = 400;

/// The rows of one request: distinct over all threads, small enough to be exact in f32.
fn values(thread: usize, number: usize) -> Vec<f32> {
    let rows = 1 + (thread * 7 + number * 13) % 6;
    (0..rows)
        .map(|row| ((thread * REQUESTS + number) * 6 + row) as f32 + 1000.0)
        .collect()
}

fn check_crowd(instances: usize, batch_size_max: usize) {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, instances, batch_size_max, THREADS * REQUESTS);
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (batcher, together) = (&batcher, &together);
            scope.spawn(move || {
                together.wait();
                let waiting: Vec<gate::Answers> = (0..REQUESTS)
                    .map(|number| submit(batcher, &values(thread, number)))
                    .collect();
                for (number, answers) in waiting.iter().enumerate() {
                    check_answer(answers, &values(thread, number));
                }
            });
        }
    });
    let stats = batcher.stats();
    let requests = (THREADS * REQUESTS) as u64;
    assert_eq!(
        (stats.accepted, stats.answered, stats.failed, stats.refused),
        (requests, requests, 0, 0)
    );
    assert_eq!((stats.queued, stats.expired, stats.abandoned), (0, 0, 0));
    let rows: usize = (0..THREADS)
        .flat_map(|thread| (0..REQUESTS).map(move |number| values(thread, number).len()))
        .sum();
    assert_eq!(stats.rows, rows as u64);
}

#[test]
fn every_request_gets_its_own_rows_back() {
    check_crowd(1, 64);
    check_crowd(2, 16);
    check_crowd(4, 1); // larger requests in chunks
}

/// One request at a time: an idle instance must always be found, or this never ends.
#[test]
fn no_wake_up_is_lost() {
    for instances in [1, 3] {
        let (model, _gate) = GateModel::free();
        let batcher = start(model, instances, 8, 4);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let batcher = &batcher;
                scope.spawn(move || {
                    for number in 0..2000 {
                        let expected = values(thread, number % REQUESTS);
                        check_answer(&submit(batcher, &expected), &expected);
                    }
                });
            }
        });
        assert_eq!(batcher.stats().answered, 4000);
    }
}

/// Refusals under pressure: each request is either answered or handed back, never both.
#[test]
fn a_full_queue_loses_nothing() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 2, 4, 2);
    let refused: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let batcher = &batcher;
                scope.spawn(move || {
                    let mut refused = 0;
                    let mut accepted = Vec::new();
                    for number in 0..REQUESTS {
                        let (request, answers) = request(&values(thread, number));
                        match batcher.submit(request) {
                            Ok(()) => accepted.push((number, answers)),
                            Err((Rejected::QueueFull { queue_max: 2, .. }, _)) => refused += 1,
                            Err((rejected, _)) => panic!("{rejected}"),
                        }
                    }
                    for (number, answers) in accepted {
                        check_answer(&answers, &values(thread, number));
                    }
                    refused
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let stats = batcher.stats();
    assert_eq!(stats.refused, refused as u64);
    assert_eq!(stats.answered + stats.refused, (THREADS * REQUESTS) as u64);
}

#[test]
fn warm_up_reaches_every_instance() {
    let (model, gate) = GateModel::free();
    let batcher = start(model, 3, 8, 1);
    let warm_up = batcher.warm_up(&[1, 8]).unwrap();
    let reached: Vec<(usize, usize)> = warm_up.iter().map(|run| (run.instance, run.rows)).collect();
    assert_eq!(reached, [(0, 1), (0, 8), (1, 1), (1, 8), (2, 1), (2, 8)]);
    let runs: Vec<gate::Run> = gate.runs.try_iter().collect();
    assert_eq!(runs.len(), 12);
    for instance in 0..3 {
        let name = format!("infer-gate-{instance}");
        assert_eq!(runs.iter().filter(|run| run.thread == name).count(), 4, "{name}");
    }
    // It is no traffic, and the instances are idle again.
    assert_eq!((batcher.stats().batches, batcher.stats().accepted), (0, 0));
    check_answer(&submit(&batcher, &[1.0]), &[1.0]);
}

#[test]
fn warm_up_sizes_that_no_run_can_have_are_refused() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 1, 8, 8);
    for size in [0, 9] {
        let error = batcher.warm_up(&[1, size]).unwrap_err().to_string();
        let expected = format!("warm_up holds {size}; expected rows from 1 to batch_size_max (8)");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_request_that_comes_during_warm_up_is_served() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 1);
    std::thread::scope(|scope| {
        let warming = scope.spawn(|| batcher.warm_up(&[2]));
        assert_eq!(gate.entered(), [0.0, 0.0]);
        let waiting = submit(&batcher, &[1.0]);
        assert!(matches!(
            refuse(&batcher, &[2.0]).0,
            Rejected::QueueFull {
                queued: 1,
                queue_max: 1
            }
        ));
        gate.open();
        check_answer(&waiting, &[1.0]);
        assert_eq!(warming.join().unwrap().unwrap().len(), 1);
    });
}
