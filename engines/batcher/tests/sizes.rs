//! With `batch_sizes`, a model sees runs of these sizes alone, and nobody sees a row that was added.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Gate, GateModel, check_answer, check_error, submit};
use millpond_backends_interface::Signature;
use millpond_engines_batcher::{Batcher, BatcherOptions, Error};
use std::sync::Arc;

fn options(batch_sizes: &[usize]) -> BatcherOptions {
    BatcherOptions {
        batch_sizes: batch_sizes.to_vec(),
        inline_us_max: 0,
        ..BatcherOptions::default()
    }
}

fn start((model, gate): (GateModel, Gate), batch_sizes: &[usize]) -> (Batcher, Gate) {
    let batcher = Batcher::start("gate", Arc::new(model), options(batch_sizes)).expect("it starts");
    (batcher, gate)
}

#[test]
fn a_run_is_padded_by_its_last_row() {
    let (batcher, gate) = start(GateModel::free(), &[1, 4, 8]);
    for (rows, runs) in [
        (1, vec![1]),
        (2, vec![4]),
        (4, vec![4]),
        (5, vec![8]),
        (9, vec![8, 1]),
        (11, vec![8, 4]),
    ] {
        let values: Vec<f32> = (0..rows).map(|row| row as f32 + 1.0).collect();
        check_answer(&submit(&batcher, &values), &values);
        let entered = gate.all_entered();
        let sizes: Vec<usize> = entered.iter().map(Vec::len).collect();
        assert_eq!(sizes, runs, "{rows} rows");
        let all = entered.concat();
        assert_eq!(all[..rows], values);
        assert!(
            all[rows..].iter().all(|value| *value == values[rows - 1]),
            "{all:?}"
        );
    }
    let stats = batcher.stats();
    assert_eq!((stats.rows, stats.padded_rows), (32, 2 + 3 + 1));
}

#[test]
fn a_batch_fills_a_size_rather_than_half_of_the_next() {
    let (batcher, gate) = start(GateModel::held(), &[1, 4, 8]);
    let first = submit(&batcher, &[100.0]);
    assert_eq!(gate.entered(), [100.0]);
    // Six fill more than half of eight.
    let six: Vec<_> = (0..6)
        .map(|at| (at as f32, submit(&batcher, &[at as f32])))
        .collect();
    gate.release_one();
    check_answer(&first, &[100.0]);
    assert_eq!(gate.entered(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0]);
    // Two are half of four.
    let two: Vec<_> = (6..8)
        .map(|at| (at as f32, submit(&batcher, &[at as f32])))
        .collect();
    gate.release_one();
    for (value, answers) in &six {
        let answer = check_answer(answers, &[*value]);
        assert_eq!((answer.timing.batch_rows, answer.timing.batch_requests), (6, 6));
    }
    for (value, answers) in &two {
        assert_eq!(gate.entered(), [*value]);
        gate.release_one();
        check_answer(answers, &[*value]);
    }
}

#[test]
fn a_row_that_was_added_fails_nobody_else() {
    let (batcher, gate) = start(GateModel::held(), &[1, 4]);
    let first = submit(&batcher, &[100.0]);
    gate.entered();
    // The last one has NaN as its output, and so have its copies.
    let three = [1.0, 2.0, gate::NAN].map(|value| (value, submit(&batcher, &[value])));
    gate.release_one();
    check_answer(&first, &[100.0]);
    assert_eq!(gate.entered(), [1.0, 2.0, gate::NAN, gate::NAN]);
    gate.release_one();
    let [one, two, bad] = &three;
    check_answer(&one.1, &[1.0]);
    check_answer(&two.1, &[2.0]);
    check_error(&bad.1, "is NaN at element 0");
}

#[test]
fn each_size_is_warmed_up() {
    let (batcher, gate) = start(GateModel::free(), &[2, 8]);
    let sizes = batcher.options().warm_up_sizes();
    let runs = batcher.warm_up(&sizes).unwrap();
    assert_eq!(runs.iter().map(|run| run.rows).collect::<Vec<_>>(), [2, 8]);
    let entered: Vec<usize> = gate.all_entered().iter().map(Vec::len).collect();
    assert_eq!(entered, [2, 2, 8, 8]);
}

#[test]
fn a_model_without_a_batch_has_no_sizes() {
    let model = GateModel::free().0.with_signature(Signature::default());
    let refused = Batcher::start("gate", Arc::new(model), options(&[1, 4]));
    let Err(Error::Option { problem }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        problem,
        "models.gate.batch_sizes: the model has no batch; leave it out"
    );
}
