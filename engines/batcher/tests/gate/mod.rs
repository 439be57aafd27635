//! A model whose runs the test can hold: each run tells the test which rows it got and
//! waits to be let go. Not a mock of a backend: the function it computes is real, so
//! that mixed-up rows show. Invariant: a run ends only after the gate let it.
#![allow(dead_code)] // each test file uses its own part of this

use millpond_backends_interface::{Error, Instance, Loss, Model, Port, Signature};
use millpond_engines_batcher::{Answer, Batcher, BatcherOptions, Error as InferError, Rejected, Request};
use millpond_tensor::{ElementType, Tensor};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A row with this value makes the run fail.
pub const POISON: f32 = 666.0;
/// A row with this value makes the run panic.
pub const BOMB: f32 = 667.0;
/// A row with this value has NaN as its output.
pub const NAN: f32 = 668.0;

/// A row with this value ends the model's process, and no other comes.
pub const CRASH: f32 = 671.0;

/// A row with this value makes the run use its thread's processor for [`LONG`].
pub const HEAVY: f32 = 669.0;
/// A row with this value keeps the run's thread off its processor for [`LONG`].
pub const IDLE: f32 = 670.0;
/// Longer than ten times two milliseconds.
pub const LONG: Duration = Duration::from_millis(25);

/// What the model computes: `y = 2 x + 1`.
pub fn function(x: f32) -> f32 {
    if x == NAN { f32::NAN } else { 2.0 * x + 1.0 }
}

/// One run, as the model saw it when it began.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub values: Vec<f32>,
    pub thread: String,
    /// Where the input's elements were, to tell a copy from none.
    pub address: usize,
    /// When nobody waits for it any more.
    pub deadline: Option<Instant>,
}

pub struct GateModel {
    signature: Signature,
    runs: SyncSender<Run>,
    /// `None`: runs are not held.
    releases: Option<Arc<Mutex<Receiver<()>>>>,
    pub instances: AtomicUsize,
    /// Instances after this many cannot be made.
    pub instances_max: usize,
    /// Whether a run takes requests that are not joined.
    pub takes_requests: bool,
}

struct GateInstance {
    runs: SyncSender<Run>,
    releases: Option<Arc<Mutex<Receiver<()>>>>,
    /// That of the run it is at.
    deadline: Option<Instant>,
    /// Whether its process has ended.
    is_gone: bool,
}

/// The test's end.
pub struct Gate {
    pub runs: Receiver<Run>,
    /// Dropped when the gate is opened for good.
    release: Option<SyncSender<()>>,
}

impl Gate {
    /// Waits until a run has begun and says what it got.
    pub fn entered(&self) -> Vec<f32> {
        self.runs.recv().expect("a run begins").values
    }

    /// Lets one run go.
    pub fn release_one(&self) {
        self.release
            .as_ref()
            .expect("the gate is closed")
            .send(())
            .expect("the model is there");
    }

    /// Lets all runs go from now on.
    pub fn open(&mut self) {
        self.release = None;
    }

    /// The runs that began since the last look.
    pub fn all_entered(&self) -> Vec<Vec<f32>> {
        self.runs.try_iter().map(|run| run.values).collect()
    }
}

fn port(name: &str) -> Port {
    Port {
        name: name.into(),
        element_type: ElementType::F32,
        shape: vec![None, Some(1)],
    }
}

impl GateModel {
    pub fn held() -> (GateModel, Gate) {
        let (release, releases) = sync_channel(1024);
        let (mut model, mut gate) = GateModel::free();
        model.releases = Some(Arc::new(Mutex::new(releases)));
        gate.release = Some(release);
        (model, gate)
    }

    pub fn free() -> (GateModel, Gate) {
        let (runs, seen) = sync_channel(1 << 16);
        let model = GateModel {
            signature: Signature {
                inputs: vec![port("x")],
                outputs: vec![port("y")],
                batched: true,
            },
            runs,
            releases: None,
            instances: AtomicUsize::new(0),
            instances_max: usize::MAX,
            takes_requests: false,
        };
        (
            model,
            Gate {
                runs: seen,
                release: None,
            },
        )
    }

    pub fn with_signature(mut self, signature: Signature) -> GateModel {
        self.signature = signature;
        self
    }
}

impl Model for GateModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        if self.instances.fetch_add(1, Ordering::SeqCst) >= self.instances_max {
            return Err(Error::Run {
                problem: "no memory for another instance".into(),
            });
        }
        Ok(Box::new(GateInstance {
            runs: self.runs.clone(),
            releases: self.releases.clone(),
            deadline: None,
            is_gone: false,
        }))
    }

    fn takes_requests(&self) -> bool {
        self.takes_requests
    }
}

impl Instance for GateInstance {
    fn run_by(&mut self, inputs: Vec<Tensor>, deadline: Option<Instant>) -> Result<Vec<Tensor>, Error> {
        self.deadline = deadline;
        self.run(inputs)
    }

    /// As workers do: a run that loses the process has no results but that.
    fn run_requests(
        &mut self,
        requests: Vec<Vec<Tensor>>,
        deadline: Option<Instant>,
    ) -> Vec<Result<Vec<Tensor>, Error>> {
        let values = requests.iter().filter_map(|inputs| inputs[0].f32());
        if let Some(lost) = self.lost(&values.collect::<Vec<_>>().concat()) {
            return vec![Err(lost)];
        }
        let runs = requests.into_iter();
        runs.map(|inputs| self.run_by(inputs, deadline)).collect()
    }

    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let values = inputs[0].f32().expect("x is f32").to_vec();
        let thread = thread::current().name().unwrap_or_default().to_string();
        let address = inputs[0].f32().map_or(0, |elements| elements.as_ptr() as usize);
        drop(self.runs.try_send(Run {
            values: values.clone(),
            thread,
            address,
            deadline: self.deadline,
        }));
        if let Some(releases) = &self.releases {
            // An error means that the gate is open.
            let _ = releases.lock().expect("no run panics in here").recv();
        }
        if values.contains(&IDLE) {
            thread::sleep(LONG);
        }
        if values.contains(&HEAVY) {
            let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
            let until = used() + LONG;
            while used() < until {}
        }
        if let Some(lost) = self.lost(&values) {
            return Err(lost);
        }
        if values.contains(&POISON) {
            return Err(Error::Run {
                problem: "poison".into(),
            });
        }
        assert!(!values.contains(&BOMB), "bomb");
        let outputs: Vec<f32> = values.iter().map(|&x| function(x)).collect();
        Ok(vec![Tensor::new(inputs[0].shape().to_vec(), outputs)?])
    }
}

impl GateInstance {
    /// That its process was not there, or was ended by one of these rows.
    fn lost(&mut self, values: &[f32]) -> Option<Error> {
        let loss = match self.is_gone {
            true => Loss::Absent,
            false if values.contains(&CRASH) => Loss::Crash,
            false => return None,
        };
        self.is_gone = true;
        let problem = format!("its process: {loss:?}");
        Some(Error::Lost { loss, problem })
    }
}

pub type Answers = Receiver<Result<Answer, InferError>>;

/// A request of these rows whose result arrives at the returned end.
pub fn request(values: &[f32]) -> (Request, Answers) {
    let (send, answers) = sync_channel(2); // room for a second answer, so that one would be seen
    let inputs = vec![Tensor::new(vec![values.len(), 1], values.to_vec()).expect("the shape fits")];
    let request = Request {
        source: 0,
        priority: Default::default(),
        inputs,
        rows: values.len(),
        deadline: None,
        gone: Arc::new(AtomicBool::new(false)),
        kept_bytes: 0,
        done: Box::new(move |result| send.send(result).expect("the test listens")),
    };
    (request, answers)
}

pub fn submit(batcher: &Batcher, values: &[f32]) -> Answers {
    let (request, answers) = request(values);
    accept(batcher, request);
    answers
}

pub fn submit_until(batcher: &Batcher, values: &[f32], deadline: Instant) -> Answers {
    let (mut request, answers) = request(values);
    request.deadline = Some(deadline);
    accept(batcher, request);
    answers
}

pub fn accept(batcher: &Batcher, request: Request) {
    let submitted = batcher.submit(request).map_err(|(rejected, _)| rejected);
    assert_eq!(submitted, Ok(()));
}

pub fn refuse(batcher: &Batcher, values: &[f32]) -> (Rejected, Request) {
    batcher
        .submit(request(values).0)
        .expect_err("the request is refused")
}

pub fn start(model: GateModel, instances: usize, batch_size_max: usize, queue_max: usize) -> Batcher {
    let options = BatcherOptions {
        instances,
        batch_size_max,
        queue_max,
        queue_bytes_max: usize::MAX,
        ..BatcherOptions::default()
    };
    Batcher::start("gate", Arc::new(model), options).expect("it starts")
}

/// The only answer that ever comes: these rows, computed.
pub fn check_answer(answers: &Answers, values: &[f32]) -> Answer {
    let answer = answers.recv().expect("an answer").expect("outputs");
    let expected: Vec<f32> = values.iter().map(|&x| function(x)).collect();
    assert_eq!(answer.outputs[0].f32(), Some(expected.as_slice()));
    assert_eq!(answer.outputs[0].shape(), [values.len(), 1]);
    // The sender went away with the request: no second answer can come.
    assert!(answers.recv().is_err());
    answer
}

/// The only answer that ever comes is an error with these words.
pub fn check_error(answers: &Answers, words: &str) {
    let error = answers
        .recv()
        .expect("an answer")
        .expect_err("an error")
        .to_string();
    assert!(error.contains(words), "{error}");
    assert!(answers.recv().is_err());
}
