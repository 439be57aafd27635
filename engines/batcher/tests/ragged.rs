//! With `ragged = "pad"`, requests of several lengths share a run, and each gets its own length back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Answers, Gate, GateModel, accept, function, request};
use millpond_backends_interface::{Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions, Ragged};
use millpond_tensor::{ElementType, Tensor};
use std::sync::Arc;

fn signature(element_type: ElementType, shape: &[Option<usize>]) -> Signature {
    let port = |name: &str| Port {
        name: name.into(),
        element_type,
        shape: shape.to_vec(),
    };
    Signature {
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        batched: true,
    }
}

fn start(pad_value: i64, pad_lengths: &[usize]) -> (Batcher, Gate) {
    let (model, gate) = GateModel::held();
    let model = model.with_signature(signature(ElementType::F32, &[None, None]));
    let options = BatcherOptions {
        ragged: Ragged::Pad,
        pad_value,
        pad_lengths: pad_lengths.to_vec(),
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("gate", Arc::new(model), options).expect("it starts");
    (batcher, gate)
}

/// A request of one row.
fn submit(batcher: &Batcher, values: &[f32]) -> Answers {
    let (mut request, answers) = request(values);
    request.inputs = vec![Tensor::new(vec![1, values.len()], values.to_vec()).unwrap()];
    request.rows = 1;
    accept(batcher, request);
    answers
}

/// The answer is as long as the request; the requests of its run.
fn check(answers: &Answers, values: &[f32]) -> usize {
    let answer = answers.recv().unwrap().unwrap();
    let expected: Vec<f32> = values.iter().map(|x| function(*x)).collect();
    assert_eq!(
        answer.outputs,
        [Tensor::new(vec![1, values.len()], expected).unwrap()]
    );
    answer.timing.batch_requests
}

/// The runs of these requests, which wait together, and that each is answered.
fn runs(pad_value: i64, pad_lengths: &[usize], requests: &[&[f32]]) -> Vec<Vec<f32>> {
    let (batcher, mut gate) = start(pad_value, pad_lengths);
    let first = submit(&batcher, &[1.0; 4]);
    gate.entered();
    let waiting: Vec<(&[f32], Answers)> = requests
        .iter()
        .map(|values| (*values, submit(&batcher, values)))
        .collect();
    gate.open();
    check(&first, &[1.0; 4]);
    for (values, answers) in &waiting {
        check(answers, values);
    }
    gate.all_entered()
}

#[test]
fn rows_are_padded_to_the_longest_of_their_run() {
    assert_eq!(
        runs(9, &[], &[&[1.0, 2.0], &[3.0, 4.0, 5.0], &[6.0]]),
        [[1.0, 2.0, 9.0, 3.0, 4.0, 5.0, 6.0, 9.0, 9.0]]
    );
    assert_eq!(runs(9, &[], &[&[1.0, 2.0], &[3.0, 4.0]]), [[1.0, 2.0, 3.0, 4.0]]);
}

#[test]
fn rows_are_padded_to_the_next_of_the_lengths() {
    assert_eq!(
        runs(0, &[2, 4], &[&[1.0, 2.0, 3.0], &[4.0]]),
        [[1.0, 2.0, 3.0, 0.0, 4.0, 0.0, 0.0, 0.0]]
    );
    // Alone as well; longer than all of them, it keeps its length.
    assert_eq!(runs(0, &[2, 4], &[&[1.0; 3]]), [[1.0, 1.0, 1.0, 0.0]]);
    assert_eq!(runs(0, &[2, 4], &[&[1.0; 5]]), [[1.0; 5]]);
}

#[test]
fn a_run_is_at_most_half_padding() {
    let long = [2.0; 100];
    let found = runs(0, &[], &[&[1.0], &[3.0], &long]);
    assert_eq!(found, [vec![1.0, 3.0], long.to_vec()]);
}

#[test]
fn a_bad_request_fails_alone() {
    let (batcher, mut gate) = start(0, &[]);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let good = submit(&batcher, &[1.0, 2.0]);
    let bad = submit(&batcher, &[gate::POISON]);
    gate.open();
    check(&first, &[1.0]);
    assert_eq!(check(&good, &[1.0, 2.0]), 1);
    gate::check_error(&bad, "poison");
}

#[test]
fn what_cannot_be_padded_is_refused() {
    let refused = |signature: Signature, options: BatcherOptions| {
        let model = GateModel::free().0.with_signature(signature);
        Batcher::start("gate", Arc::new(model), options)
            .unwrap_err()
            .to_string()
    };
    let pad = |pad_value: i64, pad_lengths: &[usize]| BatcherOptions {
        ragged: Ragged::Pad,
        pad_value,
        pad_lengths: pad_lengths.to_vec(),
        ..BatcherOptions::default()
    };
    let free = [None, None];
    for (element_type, shape, options, words) in [
        (
            ElementType::F32,
            &[None, Some(1)],
            pad(0, &[]),
            "no input with a free size beside it",
        ),
        (
            ElementType::U8,
            &free,
            pad(256, &[]),
            "pad_value is 256, which input `x: u8[N, ?]` cannot hold",
        ),
        (ElementType::Bytes, &free, pad(1, &[]), "cannot hold"),
        (
            ElementType::F32,
            &free,
            pad(0, &[4, 2]),
            "pad_lengths is [4, 2]; expected ascending",
        ),
        (ElementType::F32, &free, pad(0, &[0]), "pad_lengths is [0]"),
        (
            ElementType::F32,
            &free,
            BatcherOptions {
                ragged: Ragged::Bucket,
                ..pad(0, &[2])
            },
            "models.gate.pad_lengths is of use with ragged = \"pad\" alone",
        ),
    ] {
        let problem = refused(signature(element_type, shape), options);
        assert!(problem.contains(words), "{problem}");
    }
    let (batcher, _gate) = {
        let (model, gate) = GateModel::free();
        let model = model.with_signature(signature(ElementType::F32, &free));
        let options = BatcherOptions {
            queue_bytes_max: 64,
            ..pad(0, &[1024])
        };
        (Batcher::start("gate", Arc::new(model), options).unwrap(), gate)
    };
    gate::check_error(
        &submit(&batcher, &[1.0]),
        "take 4096 bytes, more than queue_bytes_max (64)",
    );
}
