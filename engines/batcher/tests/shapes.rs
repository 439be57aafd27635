//! Models without a batch run one call at a time, and calls whose rows differ in shape do not share a run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Answers, GateModel, accept, check_answer, function, request, start};
use millpond_backends_interface::{Port, Signature};
use millpond_engines_batcher::Batcher;
use millpond_tensor::{ElementType, Tensor};

fn signature(shape: &[Option<usize>], batched: bool) -> Signature {
    let port = |name: &str| Port {
        name: name.into(),
        element_type: ElementType::F32,
        shape: shape.to_vec(),
    };
    Signature {
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        batched,
    }
}

fn submit(batcher: &Batcher, shape: &[usize], values: &[f32]) -> Answers {
    let (mut request, answers) = request(values);
    request.inputs = vec![Tensor::new(shape.to_vec(), values.to_vec()).unwrap()];
    request.rows = batcher.model().signature().rows(&request.inputs);
    accept(batcher, request);
    answers
}

/// The answer has the shape that went in; the requests of its run.
fn check(answers: &Answers, shape: &[usize], values: &[f32]) -> usize {
    let answer = answers.recv().unwrap().unwrap();
    let expected: Vec<f32> = values.iter().map(|x| function(*x)).collect();
    assert_eq!(answer.outputs, [Tensor::new(shape.to_vec(), expected).unwrap()]);
    answer.timing.batch_requests
}

#[test]
fn a_model_without_a_batch_runs_one_call_at_a_time() {
    for shape in [vec![Some(2), Some(1)], vec![None, Some(1)]] {
        let (model, mut gate) = GateModel::held();
        let batcher = start(model.with_signature(signature(&shape, false)), 1, 8, 8);
        let first = submit(&batcher, &[2, 1], &[1.0, 2.0]);
        assert_eq!(gate.entered(), [1.0, 2.0]);
        let waiting = [3.0, 5.0].map(|x| submit(&batcher, &[2, 1], &[x, x + 1.0]));
        gate.open();
        assert_eq!(check(&first, &[2, 1], &[1.0, 2.0]), 1);
        assert_eq!(check(&waiting[0], &[2, 1], &[3.0, 4.0]), 1);
        assert_eq!(check(&waiting[1], &[2, 1], &[5.0, 6.0]), 1);
        assert_eq!(gate.all_entered(), [[3.0, 4.0], [5.0, 6.0]]);
        // Sizes of batches are nothing to it.
        let warm_up = batcher.warm_up(&[1, 4, 8]).unwrap();
        let rows: Vec<usize> = warm_up.iter().map(|run| run.rows).collect();
        assert_eq!((rows, batcher.stats().rows), (vec![1], 3));
    }
}

#[test]
fn a_scalar_is_taken_and_given() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model.with_signature(signature(&[], false)), 1, 8, 8);
    assert_eq!(check(&submit(&batcher, &[], &[4.0]), &[], &[4.0]), 1);
}

#[test]
fn calls_share_a_run_where_their_rows_have_one_shape() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model.with_signature(signature(&[None, None], true)), 1, 8, 8);
    let first = submit(&batcher, &[1, 1], &[0.0]);
    gate.entered();
    let narrow = [1.0, 4.0].map(|x| submit(&batcher, &[1, 1], &[x]));
    let wide = submit(&batcher, &[1, 2], &[2.0, 3.0]);
    let last = submit(&batcher, &[1, 1], &[5.0]);
    gate.open();
    check_answer(&first, &[0.0]);
    assert_eq!(
        narrow.map(|answers| answers.recv().unwrap().unwrap().timing.batch_requests),
        [3, 3]
    );
    assert_eq!(check(&wide, &[1, 2], &[2.0, 3.0]), 1);
    assert_eq!(check(&last, &[1, 1], &[5.0]), 3);
    assert_eq!(gate.all_entered(), [vec![1.0, 4.0, 5.0], vec![2.0, 3.0]]);
    assert_eq!(batcher.warm_up(&[2]).unwrap().len(), 1);
}
