//! A model that takes requests as they are: they share a run and are not joined, and one that fails fails alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Answers, accept, request};
use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_tensor::{ElementType, Tensor};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Gives each request the number of its elements. A first element of -1 fails that request, of -2 panics, and of -3 loses a result.
struct Counts {
    signature: Signature,
    runs: SyncSender<usize>,
    /// A run ends when something comes.
    release: Arc<Mutex<Receiver<()>>>,
}

struct Counting(SyncSender<usize>, Arc<Mutex<Receiver<()>>>);

impl Model for Counts {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(Counting(self.runs.clone(), Arc::clone(&self.release))))
    }

    fn takes_requests(&self) -> bool {
        true
    }
}

fn count(inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    let first = inputs[0].f32().unwrap().first().copied();
    match first {
        Some(-1.0) => Err(Error::Run {
            problem: "it is -1".to_owned(),
        }),
        Some(-2.0) => panic!("it is -2"),
        _ => Ok(vec![Tensor::new(vec![], vec![inputs[0].len() as f32])?]),
    }
}

impl Instance for Counting {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        self.run_requests(vec![inputs], None).remove(0)
    }

    fn run_requests(
        &mut self,
        requests: Vec<Vec<Tensor>>,
        _: Option<Instant>,
    ) -> Vec<Result<Vec<Tensor>, Error>> {
        self.0.send(requests.len()).unwrap();
        // Open for good once the test has dropped its end.
        let _ = self.1.lock().unwrap().recv();
        let is_lost = |inputs: &Vec<Tensor>| inputs[0].f32().unwrap().first() == Some(&-3.0);
        let lost = requests.len() > 1 && requests.iter().any(is_lost);
        requests
            .iter()
            .skip(usize::from(lost))
            .map(|inputs| count(inputs))
            .collect()
    }
}

fn counts(batched: bool) -> (Counts, Receiver<usize>, SyncSender<()>) {
    let port = |shape: &[Option<usize>]| Port {
        name: "x".to_owned(),
        element_type: ElementType::F32,
        shape: shape.to_vec(),
    };
    let signature = Signature {
        inputs: vec![port(&[None])],
        outputs: vec![port(&[])],
        batched,
    };
    let (runs, seen) = sync_channel(16);
    let (release, releases) = sync_channel(16);
    let model = Counts {
        signature,
        runs,
        release: Arc::new(Mutex::new(releases)),
    };
    (model, seen, release)
}

fn submit(batcher: &Batcher, values: &[f32]) -> Answers {
    let (mut request, answers) = request(values);
    request.inputs = vec![Tensor::new(vec![values.len()], values.to_vec()).unwrap()];
    request.rows = batcher.model().signature().rows(&request.inputs);
    accept(batcher, request);
    answers
}

/// What was counted, or a part of the error.
fn check(answers: &Answers, expected: Result<f32, &str>) {
    match (answers.recv().unwrap(), expected) {
        (Ok(answer), Ok(count)) => assert_eq!(answer.outputs[0].f32(), Some(&[count][..])),
        (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
        (found, expected) => panic!("{found:?}, expected {expected:?}"),
    }
}

/// A first request holds the instance; the others wait together, and go when all are there.
fn together(others: &[&[f32]]) -> (Vec<Answers>, Vec<usize>, Batcher) {
    let (model, seen, release) = counts(false);
    let options = BatcherOptions {
        batch_size_max: 4,
        warm_up: Some(vec![1]),
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("counts", Arc::new(model), options).unwrap();
    let first = submit(&batcher, &[0.0]);
    assert_eq!(seen.recv().unwrap(), 1);
    let answers: Vec<Answers> = others.iter().map(|values| submit(&batcher, values)).collect();
    drop(release);
    check(&first, Ok(1.0));
    let results: Vec<_> = answers.iter().map(|answers| answers.recv().unwrap()).collect();
    let answers = results
        .into_iter()
        .map(|result| {
            let (send, again) = sync_channel(1);
            send.send(result).unwrap();
            again
        })
        .collect();
    (answers, seen.try_iter().collect(), batcher)
}

#[test]
fn requests_of_any_shape_share_a_run() {
    let (answers, runs, batcher) = together(&[&[1.0, 2.0], &[], &[5.0], &[6.0; 3], &[7.0; 9]]);
    for (answers, expected) in answers.iter().zip([2.0, 0.0, 1.0, 3.0, 9.0]) {
        check(answers, Ok(expected));
    }
    // Each counts as a row, whatever its sizes: at most four a run.
    assert_eq!(runs, [4, 1]);
    assert_eq!(batcher.stats().rows, 6);
}

#[test]
fn one_that_fails_fails_alone_and_costs_no_second_run() {
    let (answers, runs, _batcher) = together(&[&[1.0, 2.0], &[-1.0], &[5.0]]);
    check(&answers[0], Ok(2.0));
    check(&answers[1], Err("it is -1"));
    check(&answers[2], Ok(1.0));
    assert_eq!(runs, [3]);
}

#[test]
fn a_panic_and_a_lost_result_are_found_one_by_one() {
    for (bad, expected) in [(-2.0, Err("it panicked")), (-3.0, Ok(1.0))] {
        let (answers, runs, _batcher) = together(&[&[1.0, 2.0], &[bad], &[5.0]]);
        check(&answers[0], Ok(2.0));
        check(&answers[1], expected);
        check(&answers[2], Ok(1.0));
        assert_eq!(runs, [3, 1, 1, 1]);
    }
}

#[test]
fn such_a_model_has_no_batch_besides() {
    let (model, _seen, _release) = counts(true);
    let refused = Batcher::start("counts", Arc::new(model), BatcherOptions::default()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("models.counts: it takes requests as they are"),
        "{refused}"
    );
}
