//! Stages whose work is too long for the thread that brings a request: they run on threads of their own, behind a queue.
//!
//! It is the batcher over a stage in the place of a model; it joins nothing. Invariants: such a stage never runs on a net thread. A
//! local caller runs it on its own thread when one of the stage's threads is idle. What the stage refuses is an error of the
//! request, as it is elsewhere.

use crate::packed::{self, pack, pack_refusal, unpack};
use crate::stage::{Given, Slot, Stage, Step};
use crate::{Ask, Error, Value};
use millpond_backends_interface::{Error as ModelError, Instance, Model, Signature};
use millpond_engines_batcher::{self as batcher, Batcher, BatcherOptions, Timing, Worked};
use millpond_tensor::Tensor;
use std::sync::Arc;
use std::time::Instant;

/// Bytes that requests may hold while they wait and run.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Requests that may wait.
const QUEUE_MAX: usize = 4096;

/// The common keys of stages with threads of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadKeys {
    pub(crate) instances: Option<usize>,
    pub(crate) queue_max: Option<usize>,
    pub(crate) queue_bytes_max: Option<usize>,
}

/// A stage on threads of its own.
pub(crate) struct Threads {
    pub(crate) batcher: Arc<Batcher>,
    stage: Arc<dyn Stage>,
}

/// A caller that runs such a stage itself, where one of its threads is idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) source: u64,
    pub(crate) deadline: Option<Instant>,
    /// Beside the request's values.
    pub(crate) kept_bytes: usize,
}

impl Caller {
    pub(crate) fn of(ask: &Ask) -> Caller {
        Caller {
            source: ask.source,
            deadline: ask.deadline,
            kept_bytes: ask.kept_bytes,
        }
    }
}

impl Threads {
    /// Starts them; `name` is the pipeline's and the stage's.
    pub(crate) fn start(name: String, keys: ThreadKeys, stage: Box<dyn Stage>) -> Result<Threads, String> {
        let options = BatcherOptions {
            instances: keys.instances.unwrap_or(1),
            batch_size_max: 1,
            queue_max: keys.queue_max.unwrap_or(QUEUE_MAX),
            queue_bytes_max: keys.queue_bytes_max.unwrap_or(QUEUE_BYTES_MAX),
            inline_us_max: 0,
            ..BatcherOptions::default()
        };
        let stage: Arc<dyn Stage> = Arc::from(stage);
        let model = StageModel {
            stage: Arc::clone(&stage),
            signature: Signature::default(),
        };
        let batcher = Batcher::start(name, Arc::new(model), options).map_err(|error| error.to_string())?;
        Ok(Threads {
            batcher: Arc::new(batcher),
            stage,
        })
    }

    /// Runs the stage on the caller's own thread, with values as they are; `None` where it has to wait.
    pub(crate) fn run_here(
        &self,
        given: &Given<'_>,
        caller: &Caller,
        bytes: usize,
    ) -> Result<Option<(Step, Timing)>, Error> {
        let work = || match outcome(self.stage.run(given)) {
            Ok(Outcome::Value(value)) => Ok(Ok(Step::Value(value))),
            Ok(Outcome::Skip) => Ok(Ok(Step::Skip)),
            Ok(Outcome::Refusal(problem)) => Ok(Err(Error::Request { problem })),
            Err(error) => Err(error.to_string()),
        };
        let worked = self
            .batcher
            .work_here(caller.source, bytes, caller.deadline, work);
        match worked {
            Ok(None) => Ok(None),
            Ok(Some(Worked { result, timing })) => Ok(Some((result??, timing))),
            Err(reason) => {
                let model = self.batcher.name().to_owned();
                Err(Error::Model(batcher::Error::Rejected { model, reason }))
            }
        }
    }
}

/// What a run of such a stage comes to, if the stage itself does not fail.
enum Outcome {
    Value(Value),
    Skip,
    /// The request's fault, and not that of the stage.
    Refusal(String),
}

fn outcome(ran: Result<Step, Error>) -> Result<Outcome, Error> {
    match ran {
        Ok(Step::Value(value)) => Ok(Outcome::Value(value)),
        Ok(Step::Skip) => Ok(Outcome::Skip),
        Ok(Step::Values(_) | Step::Wait(_)) => Err(Error::not_given("a thread that can wait")),
        Err(error @ (Error::Request { .. } | Error::Missing { .. })) => {
            Ok(Outcome::Refusal(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// What a request of `rows` rows sends to the thread.
pub(crate) fn inputs(
    rows: Option<usize>,
    values: impl Iterator<Item = Result<Value, Error>>,
) -> Result<Vec<Tensor>, Error> {
    let mut tensors = vec![packed::row(vec![rows.map_or(-1, |rows| rows as i64)])?];
    for value in values {
        pack(value?, &mut tensors)?;
    }
    Ok(tensors)
}

/// What came back.
pub(crate) fn output(tensors: Vec<Tensor>) -> Result<Step, Error> {
    match tensors.is_empty() {
        true => Ok(Step::Skip),
        false => unpack(&mut tensors.into_iter()).map(Step::Value),
    }
}

/// A stage in the place of a model.
struct StageModel {
    stage: Arc<dyn Stage>,
    /// It names nothing: any tensors come and go.
    signature: Signature,
}

impl Model for StageModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Running(Arc::clone(&self.stage))))
    }
}

struct Running(Arc<dyn Stage>);

impl Running {
    fn step(&self, inputs: Vec<Tensor>) -> Result<Step, Error> {
        let mut tensors = inputs.into_iter();
        let rows = tensors.next().and_then(|head| head.of::<i64>()?.first().copied());
        let mut slots = Vec::new();
        while !tensors.as_slice().is_empty() {
            slots.push(Slot::of(unpack(&mut tensors)?));
        }
        let takes: Vec<usize> = (0..slots.len()).collect();
        let rows = rows.and_then(|rows| usize::try_from(rows).ok());
        self.0.run(&Given::new(&slots, &takes, rows))
    }
}

impl Instance for Running {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let mut outputs = Vec::new();
        let packed = outcome(self.step(inputs)).and_then(|outcome| match outcome {
            Outcome::Value(value) => pack(value, &mut outputs),
            Outcome::Skip => Ok(()),
            Outcome::Refusal(problem) => pack_refusal(&problem, &mut outputs),
        });
        let problem = |error: Error| ModelError::Run {
            problem: error.to_string(),
        };
        packed.map(|()| outputs).map_err(problem)
    }
}
