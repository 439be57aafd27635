//! Several sources at one batcher: each has its turn, and a full queue is shared out between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)]

mod gate;

use gate::{GateModel, accept, check_answer, check_error, refuse, request, start, submit};
use millpond_engines_batcher::{Batcher, BatcherOptions, Priority, Rejected};
use std::sync::Arc;

fn submit_from(batcher: &Batcher, source: u64, value: f32) -> gate::Answers {
    let (mut request, answers) = request(&[value]);
    request.source = source;
    accept(batcher, request);
    answers
}

#[test]
fn one_beside_ten_thousand_is_in_the_next_batch() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 64, 20_000);
    let first = submit(&batcher, &[0.0]);
    gate.entered();
    let many: Vec<gate::Answers> = (0..10_000)
        .map(|number| submit_from(&batcher, 1, number as f32 + 1000.0))
        .collect();
    let one = submit_from(&batcher, 2, 1.0);
    gate.open();
    check_answer(&first, &[0.0]);
    check_answer(&one, &[1.0]);
    for (number, answers) in many.iter().enumerate() {
        check_answer(answers, &[number as f32 + 1000.0]);
    }
    let runs = gate.all_entered();
    assert!(runs[0].contains(&1.0), "{:?}", runs[0]);
    let of_many: Vec<f32> = runs
        .concat()
        .into_iter()
        .filter(|value| *value >= 1000.0)
        .collect();
    assert!(of_many.is_sorted(), "first come first served within a source");
}

#[test]
fn the_newest_of_the_source_with_most_makes_room() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 1, 3);
    let first = submit_from(&batcher, 1, 0.0);
    gate.entered();
    let waiting: Vec<gate::Answers> = [1.0, 2.0, 3.0]
        .map(|value| submit_from(&batcher, 1, value))
        .into();
    let newcomer = submit_from(&batcher, 2, 4.0);
    // Answered already, by the thread that submitted the newcomer.
    check_error(&waiting[2], "gave way to another connection's");
    let (mut again, _answers) = request(&[5.0]);
    again.source = 1;
    let full = Rejected::QueueFull {
        queued: 3,
        queue_max: 3,
    };
    assert_eq!(batcher.submit(again).unwrap_err().0, full);
    gate.open();
    check_answer(&first, &[0.0]);
    check_answer(&waiting[0], &[1.0]);
    check_answer(&waiting[1], &[2.0]);
    check_answer(&newcomer, &[4.0]);
    assert_eq!(gate.all_entered(), [vec![1.0], vec![4.0], vec![2.0]]);
    let stats = batcher.stats();
    assert_eq!((stats.accepted, stats.answered, stats.evicted), (5, 4, 1));
    assert_eq!((stats.refused, stats.queue_full, stats.too_late), (1, 1, 0));
}

/// Under pressure from several sources each accepted request gets one answer: its own, or that it gave way.
#[test]
fn a_full_queue_that_is_shared_loses_nothing() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 2, 4, 3);
    std::thread::scope(|scope| {
        for source in 0..6 {
            let batcher = &batcher;
            scope.spawn(move || {
                let mut accepted = Vec::new();
                for number in 0..400 * (source + 1) {
                    // Above the values that mean something to the model.
                    let value = number as f32 + 1000.0;
                    let (mut request, answers) = request(&[value]);
                    request.source = source;
                    match batcher.submit(request) {
                        Ok(()) => accepted.push((value, answers)),
                        Err((Rejected::QueueFull { .. }, _)) => {}
                        Err((rejected, _)) => panic!("{rejected}"),
                    }
                }
                for (value, answers) in accepted {
                    match answers.recv().unwrap() {
                        Ok(answer) => {
                            assert_eq!(answer.outputs[0].f32(), Some(&[gate::function(value)][..]));
                        }
                        Err(error) => assert!(error.to_string().contains("gave way"), "{error}"),
                    }
                    assert!(answers.recv().is_err(), "no second answer");
                }
            });
        }
    });
    let stats = batcher.stats();
    assert_eq!(stats.accepted, stats.answered + stats.evicted);
    assert_eq!(stats.refused, stats.queue_full);
    assert_eq!(stats.queued, 0);
}

/// One row of one f32 is four bytes; the bound counts what runs as well, and what `done` keeps.
#[test]
fn bytes_that_wait_and_run_are_bounded_and_counted() {
    let (model, mut gate) = GateModel::held();
    let options = BatcherOptions {
        batch_size_max: 1,
        queue_bytes_max: 12,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("gate", Arc::new(model), options).unwrap();
    let first = submit(&batcher, &[0.0]);
    gate.entered();
    let waiting = [submit(&batcher, &[1.0]), submit_from(&batcher, 2, 2.0)];
    let full = Rejected::BytesFull {
        held: 12,
        bytes: 4,
        queue_bytes_max: 12,
    };
    assert_eq!(
        batcher.refusal(None, (0, Priority::DEFAULT), 1, 4, None),
        Some(full)
    );
    assert_eq!(refuse(&batcher, &[3.0]).0, full);
    let (mut large, _answers) = request(&[3.0]);
    large.kept_bytes = 9;
    let too_many = Rejected::TooManyBytes {
        bytes: 13,
        queue_bytes_max: 12,
    };
    assert_eq!(batcher.submit(large).unwrap_err().0, too_many);
    gate.open();
    check_answer(&first, &[0.0]);
    check_answer(&waiting[0], &[1.0]);
    check_answer(&waiting[1], &[2.0]);
    let stats = batcher.stats();
    assert_eq!((stats.accepted, stats.answered, stats.evicted), (3, 3, 0));
    assert_eq!((stats.refused, stats.queue_bytes, stats.queue_full), (3, 3, 0));
}
