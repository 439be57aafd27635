//! The executor with stages of the tests' own: what is skipped, what waits, what is let go of.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::Samples;
use millpond_backends_interface::{Error as ModelError, Instance, Model as LoadedModel, Signature};
use millpond_engines_batcher::BatcherOptions;
use std::borrow::Cow;
use std::sync::mpsc;

/// A model that doubles `x`; a run of a value below zero fails.
struct Double(Signature);
struct Doubling;

impl LoadedModel for Double {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Doubling))
    }
}

impl Instance for Doubling {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let values = inputs[0].f32().unwrap();
        if values.iter().any(|value| *value < 0.0) {
            let problem = "below zero".to_owned();
            return Err(ModelError::Run { problem });
        }
        let doubled: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
        Ok(vec![Tensor::new(inputs[0].shape().to_vec(), doubled)?])
    }
}

fn batcher() -> Arc<Batcher> {
    let port = |name: &str| Port {
        name: name.to_owned(),
        element_type: ElementType::F32,
        shape: vec![None],
    };
    let signature = Signature {
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        batched: true,
    };
    let options = BatcherOptions::default();
    Arc::new(Batcher::start("double", Arc::new(Double(signature)), options).unwrap())
}

fn floats(values: Vec<f32>) -> Value {
    Value::rows(Items::Tensor(Tensor::new(vec![values.len()], values).unwrap()))
}

/// What a stage of a test does.
enum Act {
    /// As many zeros as there are rows, and the number.
    Give(f32),
    Skip,
    /// Runs the model on what it takes.
    Model(Arc<Batcher>),
    /// The sum of all that it takes, less one.
    Less,
    Fail,
}

impl Stage for Act {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let taken = || given.values().map(|value| value.tensor().unwrap());
        Ok(match self {
            Act::Give(number) => Step::Value(floats(vec![*number; given.rows])),
            Act::Skip => Step::Skip,
            Act::Model(batcher) => Step::Wait(Wait::new(batcher, taken().cloned().collect(), given.rows)),
            Act::Less => {
                let sums = taken().fold(vec![-1.0; given.rows], |sums, tensor| {
                    let both = sums.iter().zip(tensor.f32().unwrap());
                    both.map(|(sum, value)| sum + value).collect()
                });
                Step::Value(floats(sums))
            }
            Act::Fail => return Err(Error::not_given("anything")),
        })
    }
}

/// A pipeline of these stages, each with the positions of those that it takes.
fn pipeline(batcher: &Arc<Batcher>, stages: Vec<(Act, &[usize])>) -> Arc<Pipeline> {
    let ready = |(act, takes): (Act, &[usize])| Ready {
        stage: Box::new(act) as Box<dyn Stage>,
        takes: takes.to_vec(),
        spent: Vec::new(),
    };
    Arc::new(Pipeline {
        plan: Plan {
            name: "p".to_owned(),
            request: RequestKind::Samples,
            inputs: Vec::new(),
            stages: Vec::new(),
        },
        sample_width: 1,
        stages: stages.into_iter().map(ready).collect(),
        tables: Vec::new(),
        model: Model {
            name: "double".to_owned(),
            batcher: Arc::clone(batcher),
            row_bytes: 4,
        },
        later: Vec::new(),
    })
}

/// Samples of one string each.
fn samples(rows: usize) -> (Vec<Cow<'static, [u8]>>, Vec<usize>) {
    (vec![b"a".as_slice().into(); rows], (1..=rows).collect())
}

fn request<'a>((texts, ends): &'a (Vec<Cow<'static, [u8]>>, Vec<usize>)) -> Samples<'a> {
    Samples { texts, ends }
}

/// Runs it for two rows to its end; the scores, or the error.
fn scores(pipeline: &Arc<Pipeline>) -> Result<Option<Vec<f32>>, String> {
    let output = match pipeline.run(&request(&samples(2))) {
        Ok(Progress::Done(output)) => Ok(output),
        Ok(Progress::Waits(waiting)) => {
            let ask = Ask {
                source: 1,
                deadline: None,
                gone: Arc::default(),
                kept_bytes: 0,
            };
            let (send, done) = mpsc::sync_channel(2);
            let (batcher, request) = waiting.request(ask, move |output| send.send(output).unwrap());
            assert!(batcher.submit(request).is_ok());
            let output = done.recv().unwrap();
            assert!(done.recv().is_err(), "one result");
            output
        }
        Err(error) => Err(error),
    };
    let output = output.map_err(|error| error.to_string())?;
    Ok(output.scores().map(<[f32]>::to_vec))
}

#[test]
fn stages_go_on_where_the_model_has_answered() {
    let batcher = batcher();
    let model = || Act::Model(Arc::clone(&batcher));
    let one = pipeline(
        &batcher,
        vec![(Act::Give(5.0), &[]), (model(), &[0]), (Act::Less, &[0, 1])],
    );
    assert_eq!(scores(&one), Ok(Some(vec![14.0; 2])));
    let two = pipeline(
        &batcher,
        vec![
            (Act::Give(1.0), &[]),
            (model(), &[0]),
            (Act::Less, &[1]),
            (model(), &[2]),
        ],
    );
    assert_eq!(scores(&two), Ok(Some(vec![2.0; 2])));
    let failing = |last| pipeline(&batcher, vec![(Act::Give(1.0), &[]), (model(), &[0]), last]);
    assert!(
        scores(&failing((Act::Fail, &[1])))
            .unwrap_err()
            .contains("a stage does not get")
    );
    let below = pipeline(&batcher, vec![(Act::Give(-1.0), &[]), (model(), &[0])]);
    assert_eq!(
        scores(&below),
        Err("model `double` failed: below zero".to_owned())
    );
}

#[test]
fn what_takes_a_skipped_value_is_skipped() {
    let batcher = batcher();
    let model = Act::Model(Arc::clone(&batcher));
    let all = pipeline(&batcher, vec![(Act::Skip, &[]), (Act::Less, &[0]), (model, &[1])]);
    assert_eq!(scores(&all), Ok(None));
    let some = pipeline(
        &batcher,
        vec![(Act::Skip, &[]), (Act::Give(2.0), &[]), (Act::Less, &[1])],
    );
    assert_eq!(scores(&some), Ok(Some(vec![1.0; 2])));
}

#[test]
fn values_are_let_go_of_before_the_wait() {
    let batcher = batcher();
    let model = Act::Model(Arc::clone(&batcher));
    let mut pipeline = pipeline(
        &batcher,
        vec![
            (Act::Give(1.0), &[]),
            (Act::Less, &[0]),
            (model, &[1]),
            (Act::Less, &[0, 2]),
        ],
    );
    Arc::get_mut(&mut pipeline).unwrap().stages[2].spent = vec![1];
    let Ok(Progress::Waits(waiting)) = pipeline.run(&request(&samples(3))) else {
        panic!("it waits")
    };
    let held: Vec<bool> = waiting.run.values.iter().map(Option::is_some).collect();
    assert_eq!(held, [true, false]);
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let pipeline = pipeline(&batcher(), vec![(Act::Give(1.0), &[])]);
    let (texts, _) = samples(3);
    let refused = pipeline.run(&request(&(texts, vec![1, 3]))).err().unwrap();
    assert_eq!(refused.to_string(), "key \"samples[1]\" is 2 strings; expected 1");
}
