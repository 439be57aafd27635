//! The executor with stages of the tests' own: what is skipped, what waits, what is let go of.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::opening::Work;
use crate::{Ask, Given, Items, Samples, Stage, Step, Wait, submit};
use millpond_backends_interface::{Error as ModelError, Instance, Model as LoadedModel, Signature};
use millpond_engines_batcher::BatcherOptions;
use millpond_tensor::Tensor;
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
            Act::Give(number) => Step::Value(floats(vec![*number; given.rows()])),
            Act::Skip => Step::Skip,
            Act::Model(batcher) => Step::Wait(Wait::new(batcher, taken().cloned().collect(), given.rows())),
            Act::Less => {
                let sums = taken().fold(vec![-1.0; given.rows()], |sums, tensor| {
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
    let stages: Vec<Ready> = stages
        .into_iter()
        .enumerate()
        .map(|(at, (act, takes))| Ready {
            name: Arc::from(at.to_string()),
            work: Work::Here(Box::new(act)),
            takes: takes.to_vec(),
            checks: Vec::new(),
            filters: Vec::new(),
            gives: at..at + 1,
            waits: true,
            is_alone: false,
            counts: Arc::default(),
        })
        .collect();
    let mut readers = vec![0; stages.len()];
    readers[stages.len() - 1] = 1;
    let takes = stages.iter().flat_map(|stage| &stage.takes);
    takes.for_each(|at| readers[*at] += 1);
    Arc::new(Pipeline {
        plan: Plan {
            name: "p".to_owned(),
            request: RequestKind::Samples,
            inputs: Vec::new(),
            declared: Default::default(),
            stages: Vec::new(),
            outputs: Vec::new(),
        },
        sample_width: 1,
        scores: Some(stages.len() - 1),
        stages,
        readers,
        outputs: Vec::new(),
        tables: Vec::new(),
        models: vec![Model {
            name: "double".to_owned(),
            batcher: Arc::clone(batcher),
            row_bytes: 4,
        }],
        threads: Vec::new(),
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
                priority: Default::default(),
                deadline: None,
                gone: Arc::default(),
                kept_bytes: 0,
            };
            let (send, done) = mpsc::sync_channel(2);
            let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
            waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
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
    let pipeline = pipeline(
        &batcher,
        vec![
            (Act::Give(1.0), &[]),
            (Act::Less, &[0]),
            (model, &[1]),
            (Act::Less, &[0, 2]),
        ],
    );
    let Ok(Progress::Waits(waiting)) = pipeline.run(&request(&samples(3))) else {
        panic!("it waits")
    };
    let held: Vec<bool> = waiting.held().collect();
    assert_eq!(held, [true, false, false, false]);
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let pipeline = pipeline(&batcher(), vec![(Act::Give(1.0), &[])]);
    let (texts, _) = samples(3);
    let refused = pipeline.run(&request(&(texts, vec![1, 3]))).err().unwrap();
    assert_eq!(refused.to_string(), "key \"samples[1]\" is 2 strings; expected 1");
}

/// What a stage on threads of its own does: the sum of all images, or a refusal where one is empty.
struct Sum {
    /// It runs on its caller's thread instead.
    here: bool,
}

impl Stage for Sum {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let images = given.value(0)?;
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        assert_eq!(name != "infer-p/sum-0", self.here, "it runs on {name}");
        let sum = |image: &Tensor| match image.of::<u8>() {
            Some([]) => Err(Error::Request {
                problem: "an image is empty".to_owned(),
            }),
            Some([1]) => Err(Error::not_given("an image of another size")),
            Some([2]) => panic!("two"),
            pixels => Ok(pixels.unwrap().iter().map(|pixel| f32::from(*pixel)).sum::<f32>()),
        };
        let sums = images
            .tensors()?
            .iter()
            .map(sum)
            .collect::<Result<Vec<f32>, _>>()?;
        let tensor = Tensor::new(vec![sums.len()], sums).unwrap();
        Ok(Step::Value(images.with(Items::Tensor(tensor))))
    }
}

/// A pipeline of values whose one stage runs on threads of its own.
fn on_threads() -> Arc<Pipeline> {
    on_threads_of(Sum { here: false })
}

fn on_threads_of(stage: impl Stage + 'static) -> Arc<Pipeline> {
    let keys = crate::threads::ThreadKeys::default();
    let threads = crate::threads::Threads::start("p/sum".to_owned(), keys, Box::new(stage)).unwrap();
    let source = Source::Input("images".to_owned());
    let sum = Ready {
        name: Arc::from("sum"),
        work: Work::Threads(threads),
        takes: vec![0],
        checks: vec![Check {
            at: 0,
            key: "sum.from".to_owned(),
            kinds: vec![crate::Kind::Tensors],
            words: None,
        }],
        filters: Vec::new(),
        gives: 1..2,
        waits: true,
        is_alone: true,
        counts: Arc::default(),
    };
    Arc::new(Pipeline {
        plan: Plan {
            name: "p".to_owned(),
            request: RequestKind::Values,
            inputs: vec![source],
            declared: Default::default(),
            stages: Vec::new(),
            outputs: Vec::new(),
        },
        sample_width: 0,
        scores: None,
        stages: vec![sum],
        readers: vec![1, 1],
        outputs: vec![(Arc::from("sum"), 1)],
        tables: Vec::new(),
        models: Vec::new(),
        threads: Vec::new(),
    })
}

/// What it comes to for images of these pixels, in rows of so many.
fn sums(pipeline: &Arc<Pipeline>, images: &[&[u8]], offsets: &[u32]) -> Result<Value, String> {
    let image = |pixels: &&[u8]| Tensor::new(vec![1, pixels.len()], pixels.to_vec()).unwrap();
    let value = Value {
        items: Items::Tensors(images.iter().map(image).collect()),
        offsets: Some(offsets.into()),
    };
    let values = Values {
        inputs: vec![("images".to_owned(), value)],
        outputs: Vec::new(),
    };
    let Ok(Progress::Waits(waiting)) = pipeline.run_values(values) else {
        panic!("it waits for its thread")
    };
    let ask = Ask {
        source: 1,
        priority: Default::default(),
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
    };
    let (send, done) = mpsc::sync_channel(1);
    let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
    waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
    let mut output = done.recv().unwrap().map_err(|error| error.to_string())?;
    assert_eq!(output.values[0].0.as_ref(), "sum");
    Ok(output.values.remove(0).1)
}

#[test]
fn a_stage_may_run_on_threads_of_its_own_and_keeps_rows() {
    let pipeline = on_threads();
    let sum = sums(&pipeline, &[&[1, 2], &[250, 9, 1], &[5, 0]], &[0, 0, 2, 3]).unwrap();
    assert_eq!(sum.tensor().unwrap().f32(), Some(&[3.0, 260.0, 5.0][..]));
    assert_eq!(
        (sum.offsets.as_deref(), sum.row_count()),
        (Some(&[0, 0, 2, 3][..]), 3)
    );
    let none = sums(&pipeline, &[], &[0, 0]).unwrap();
    assert_eq!((none.items.len(), none.row_count()), (0, 1));
}

#[test]
fn what_such_a_stage_refuses_is_the_requests_fault_and_what_breaks_is_its_own() {
    let pipeline = on_threads();
    assert_eq!(
        sums(&pipeline, &[&[]], &[0, 1]),
        Err("an image is empty".to_owned())
    );
    let broken = sums(&pipeline, &[&[1]], &[0, 1]).unwrap_err();
    assert!(
        broken.starts_with("model `p/sum` failed: a stage does not get an image"),
        "{broken}"
    );
    let panicked = sums(&pipeline, &[&[2]], &[0, 1]).unwrap_err();
    assert!(panicked.contains("it panicked: two"), "{panicked}");
    assert!(sums(&pipeline, &[&[3, 4]], &[0, 1]).is_ok());
}

#[test]
fn a_value_of_another_kind_is_refused_by_stage_and_key() {
    let pipeline = on_threads();
    let values = Values {
        inputs: vec![("images".to_owned(), floats(vec![1.0]))],
        outputs: Vec::new(),
    };
    let refused = pipeline.run_values(values).err().unwrap().to_string();
    assert_eq!(
        refused,
        "stage \"sum\" of pipeline \"p\" takes tensors by its key sum.from, and this request gives it f32[1]"
    );
}

mod here;
