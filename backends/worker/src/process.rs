//! One worker process: started, spoken with, ended.
//!
//! It decides nothing about restarts. Its invariants: the process and all of its group are gone when this is; nothing that it says is
//! believed before it is compared with what was asked.

use crate::channel::{self, Channel, Heard};
use crate::log;
use crate::memory::{self, Memory};
use crate::message::{Message, VERSION, Way};
use crate::placed::{Group, Placed};
use crate::{outputs, signature};
use millpond_backends_interface::Signature;
use millpond_backends_interface::foreign::number_of;
use millpond_fleet::Process;
use millpond_tensor::Tensor;
use millpond_threads::join_by;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The least shared memory, in bytes.
const MEMORY_BYTES_MIN: usize = 64 << 10;
/// How long the end of a process is waited for that says nothing any more.
const END_MAX: Duration = Duration::from_secs(1);

/// Why a worker gave no outputs.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its own words about this run; it can run others.
    Run(String),
    /// There is none, and why.
    Start(String),
    /// It was gone before it could be asked: no run failed by it.
    Unasked(String),
    /// It is of no use any more.
    Lost(String),
    /// It was not answered in time.
    Late,
    /// It was in a run that did not end, and is of no use any more.
    Hung(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Lost(format!("cannot be spoken with: {error}"))
    }
}

/// What a run is held against.
pub(crate) struct Bounds<'a> {
    pub(crate) signature: &'a Signature,
    /// When it is given up.
    pub(crate) until: Instant,
    /// Bytes that its inputs may take, and its outputs.
    pub(crate) bytes_max: usize,
}

/// A running process.
pub(crate) struct Running {
    channel: Channel,
    process: Process,
    /// What the thread of its log sees of its end.
    ended: Arc<AtomicBool>,
    /// That thread, which gives whether the process wrote anything.
    log: Option<JoinHandle<bool>>,
    inputs: Option<Memory>,
    outputs: Option<Memory>,
    /// The run that it is at.
    number: u64,
    /// When it was started.
    pub(crate) started: Instant,
    /// It has said what it takes and gives.
    pub(crate) is_ready: bool,
}

impl Running {
    /// Starts it; `what` is what it is to load, in JSON.
    pub(crate) fn start(
        mut command: Command,
        what: &str,
        memory_bytes_max: Option<u64>,
        about: &str,
    ) -> io::Result<Running> {
        let (channel, theirs) = channel::pair()?;
        let (said, says) = io::pipe()?;
        command
            .stdin(Stdio::from(theirs))
            .stdout(says.try_clone()?)
            .stderr(says);
        let process = Process::start(&mut command)?;
        // Their ends are the process's alone from here on.
        drop(command);
        let pid = process.pid();
        let ended = Arc::new(AtomicBool::new(false));
        let mut running = Running {
            channel,
            process,
            ended: Arc::clone(&ended),
            log: None,
            inputs: None,
            outputs: None,
            number: 0,
            started: Instant::now(),
            is_ready: false,
        };
        if let Some(bytes) = memory_bytes_max {
            let limit = Rlimit {
                current: Some(bytes),
                maximum: Some(bytes),
            };
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            prlimit(pid, Resource::Data, limit)?;
        }
        running.log = Some(log::follow(said, format!("{about}, process {pid}"), ended)?);
        let asked = running.channel.send(&Message::Start {
            version: VERSION,
            what: what.to_owned(),
        });
        match asked {
            // It has ended already: how, is heard when it should be ready.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
        Ok(running)
    }

    /// What it takes and gives, once it has loaded.
    pub(crate) fn ready(&mut self, until: Instant) -> Result<Signature, Failure> {
        let signature = match self.hear(until)? {
            Message::Ready { version, signature } if version == VERSION => signature,
            Message::Ready { version, .. } => {
                return Err(Failure::Lost(format!(
                    "speaks version {version} of the protocol, and this server version {VERSION}"
                )));
            }
            Message::Failed { number: 0, text } => return Err(Failure::Run(text)),
            other => return Err(unasked(&other)),
        };
        let signature = signature::read(&signature)
            .map_err(|problem| Failure::Lost(format!("gave a signature that cannot be: {problem}")))?;
        self.is_ready = true;
        Ok(signature)
    }

    /// Runs the model on these inputs.
    pub(crate) fn run(&mut self, inputs: &[Tensor], bounds: &Bounds<'_>) -> Result<Vec<Tensor>, Failure> {
        let tensors = self.lend(inputs.iter(), bounds.bytes_max)?;
        let number = self.number + 1;
        match self.ask(&Message::Run { number, tensors }, bounds)? {
            Message::Answer { tensors, .. } => {
                let rows = bounds.signature.rows(inputs);
                let read = outputs::read(self.outputs.as_ref(), &tensors, bounds.signature, rows);
                read.map_err(Failure::Run)
            }
            other => Err(unasked(&other)),
        }
    }

    /// Runs the model once for these requests, each with its own inputs, and gives what each comes to.
    pub(crate) fn run_requests(
        &mut self,
        requests: &[Vec<Tensor>],
        bounds: &Bounds<'_>,
    ) -> Result<Vec<Result<Vec<Tensor>, String>>, Failure> {
        let placed = self.lend(requests.iter().flatten(), bounds.bytes_max)?;
        let mut placed = placed.into_iter();
        let groups = requests
            .iter()
            .map(|inputs| Group::of(placed.by_ref().take(inputs.len()).collect()));
        let (number, requests) = (self.number + 1, groups.collect::<Vec<_>>());
        let count = requests.len();
        match self.ask(&Message::Requests { number, requests }, bounds)? {
            Message::Results { results, .. } => {
                let read = outputs::read_results(self.outputs.as_ref(), &results, bounds.signature, count);
                read.map_err(Failure::Run)
            }
            other => Err(unasked(&other)),
        }
    }

    /// Has it do the next run, and hears what that comes to.
    fn ask(&mut self, run: &Message, bounds: &Bounds<'_>) -> Result<Message, Failure> {
        self.number += 1;
        let number = self.number;
        let asked = self.channel.send(run);
        asked.map_err(|error| Failure::Unasked(error.to_string()))?;
        let mut has_grown = false;
        loop {
            match self.hear(bounds.until)? {
                Message::Failed { number: of, text } if of == number => return Err(Failure::Run(text)),
                Message::Needs { number: of, bytes } if of == number && !has_grown => {
                    has_grown = true;
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    self.outputs = Some(self.share(Way::Outputs, bytes, bounds.bytes_max)?);
                }
                done @ (Message::Answer { number: of, .. } | Message::Results { number: of, .. })
                    if of == number =>
                {
                    return Ok(done);
                }
                other => return Err(unasked(&other)),
            }
        }
    }

    /// Puts inputs where the worker sees them, and says where.
    fn lend<'t>(
        &mut self,
        inputs: impl Iterator<Item = &'t Tensor> + Clone,
        bytes_max: usize,
    ) -> Result<Vec<Placed>, Failure> {
        let too_large = || Failure::Run(format!("its inputs take more than {bytes_max} bytes"));
        let (mut end, mut tensors) = (0usize, Vec::new());
        for tensor in inputs.clone() {
            let at = memory::aligned(end).ok_or_else(too_large)?;
            let bytes = memory::space(tensor.elements());
            end = at.checked_add(bytes).ok_or_else(too_large)?;
            tensors.push(Placed {
                element_type: number_of(tensor.element_type()),
                at: at as u64,
                bytes: bytes as u64,
                shape: tensor.shape().iter().map(|size| *size as u64).collect(),
            });
        }
        if end > bytes_max {
            return Err(too_large());
        }
        let memory = match self.inputs.take() {
            Some(memory) if memory.len() >= end => memory,
            _ => self
                .share(Way::Inputs, end, bytes_max)
                .map_err(|failure| match failure {
                    Failure::Lost(why) => Failure::Unasked(why),
                    other => other,
                })?,
        };
        for (tensor, placed) in inputs.zip(&tensors) {
            let written = usize::try_from(placed.at).ok();
            let written = written.and_then(|at| memory.write(at, tensor.elements()));
            written.ok_or_else(too_large)?;
        }
        self.inputs = Some(memory);
        Ok(tensors)
    }

    /// Shares memory of so many bytes at least with the worker.
    fn share(&self, way: Way, bytes: usize, bytes_max: usize) -> Result<Memory, Failure> {
        if bytes > bytes_max {
            let what = match way {
                Way::Inputs => "inputs",
                Way::Outputs => "outputs",
            };
            return Err(Failure::Lost(format!(
                "wants {bytes} bytes for its {what}, and {bytes_max} are the most"
            )));
        }
        let bytes = bytes.max(MEMORY_BYTES_MIN).next_power_of_two();
        let (memory, file) = Memory::create(bytes)?;
        let bytes = bytes as u64;
        self.channel
            .send_with(&Message::Memory { way, bytes }, file.as_fd())?;
        Ok(memory)
    }

    /// The next message; the end of the worker otherwise.
    fn hear(&mut self, until: Instant) -> Result<Message, Failure> {
        match self.channel.hear(until)? {
            Heard::Message(message) => Ok(message),
            Heard::Nonsense(why) => Err(Failure::Lost(format!("said what is no message: {why}"))),
            Heard::End => Err(Failure::Lost(self.how_it_ended())),
            Heard::Unread => Err(Failure::Unasked(self.how_it_ended())),
            Heard::Nothing => Err(Failure::Late),
        }
    }

    /// How it ended, of a worker that cannot be spoken with any more.
    pub(crate) fn how_it_ended(&self) -> String {
        match self.process.ended_by(Instant::now() + END_MAX) {
            Some(status) => format!("ended ({status})"),
            None => "closed its channel".to_owned(),
        }
    }

    /// Whether it has ended, as far as that can be known without waiting.
    pub(crate) fn is_gone(&self) -> bool {
        self.process.ended().is_some()
    }

    /// Ends it, and waits until all that it wrote has been passed on; whether it wrote anything.
    pub(crate) fn end(mut self) -> bool {
        let log = self.log.take();
        drop(self);
        let ended = log.map(|thread| join_by(thread, Instant::now() + END_MAX));
        // A thread that goes on stands in a write.
        !matches!(ended, Some(Ok(Ok(false))))
    }

    /// Its number to the system.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill();
        self.ended.store(true, Ordering::Release);
    }
}

fn unasked(message: &Message) -> Failure {
    let kind = match message {
        Message::Start { .. } | Message::Memory { .. } | Message::Run { .. } | Message::Requests { .. } => {
            "a server's message"
        }
        Message::Ready { .. } => "that it is ready",
        Message::Failed { .. } => "that a run failed that is not this one",
        Message::Answer { .. } | Message::Results { .. } => "the outputs of a run that is not this one",
        Message::Needs { .. } => "that it needs memory, out of turn",
    };
    Failure::Lost(format!("said {kind}"))
}
