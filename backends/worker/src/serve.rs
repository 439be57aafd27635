//! The worker's side, for workers written in Rust: load what the server says, run what it asks, until it is gone.
//!
//! Its invariant: the process ends when the server does, even while a run of the model hangs.

use crate::channel::{Channel, Heard};
use crate::memory::{self, Memory};
use crate::message::{Message, VERSION, Way};
use crate::placed::Placed;
use crate::signature;
use millpond_backends_interface::foreign::{number_of, type_of};
use millpond_backends_interface::{Error, Instance, Model, Signature};
use millpond_tensor::Tensor;
use millpond_threads::contain;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

/// Serves the server at the other end of standard input. `load` makes the model that its words in JSON name.
///
/// # Errors
/// When standard input is no channel to a server, or breaks.
pub fn serve(load: impl FnOnce(&str) -> Result<Arc<dyn Model>, Error>) -> io::Result<()> {
    let mut channel = Channel::of(io::stdin().as_fd().try_clone_to_owned()?);
    end_with_server()?;
    let (heard, _) = channel.hear_with()?;
    let what = match heard {
        Heard::Message(Message::Start { version, what }) if version == VERSION => what,
        Heard::Message(Message::Start { version, .. }) => {
            let text =
                format!("the server speaks version {version} of the protocol, and this worker {VERSION}");
            return channel.send(&Message::Failed { number: 0, text });
        }
        Heard::End | Heard::Unread => return Ok(()),
        other => return Err(io::Error::other(format!("it began with {other:?}"))),
    };
    let made = contained(|| {
        let model = load(&what)?;
        let instance = model.instance()?;
        Ok((model, instance))
    });
    let (model, instance) = match made {
        Ok(made) => made,
        Err(text) => return channel.send(&Message::Failed { number: 0, text }),
    };
    let signature = model.signature().clone();
    channel.send(&Message::Ready {
        version: VERSION,
        signature: signature::write(&signature),
    })?;
    let mut serving = Serving {
        channel,
        instance,
        signature,
        inputs: None,
        outputs: None,
    };
    while serving.serve_one()? {}
    Ok(())
}

/// What is done, or words about why not; a panic has some.
fn contained<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, String> {
    match contain(work) {
        Ok(Ok(done)) => Ok(done),
        // The server puts the same words in front of a run that failed.
        Ok(Err(Error::Run { problem } | Error::Load { problem, .. })) => Err(problem),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("it panicked: {panic}")),
    }
}

/// Ends this process, and what it has started, once the server at the other end of standard input has closed it: a thread watches.
/// Returns the number of the descriptor that it watches, which a forked process inherits without the thread.
///
/// # Errors
/// When standard input cannot be duplicated, or the thread cannot be started.
pub fn end_with_server() -> io::Result<RawFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let watched = socket.as_raw_fd();
    let watch = move || {
        let mut end = [PollFd::new(&socket, PollFlags::RDHUP)];
        // Anything but an interruption is the end.
        while matches!(poll(&mut end, None), Err(rustix::io::Errno::INTR) | Ok(0)) {}
        if getpgrp() == getpid() {
            let _ = kill_process_group(getpgrp(), Signal::KILL);
        }
        // Nothing that the model left to do at an end may hang.
        let _ = kill_process(getpid(), Signal::KILL);
    };
    thread::Builder::new()
        .name("watch-server".to_owned())
        .spawn(watch)
        .map(|_| watched)
}

/// The model and the memory that is shared.
struct Serving {
    channel: Channel,
    instance: Box<dyn Instance>,
    signature: Signature,
    inputs: Option<Memory>,
    outputs: Option<Memory>,
}

impl Serving {
    /// Does what the next message asks; false at the end.
    fn serve_one(&mut self) -> io::Result<bool> {
        let (heard, file) = self.channel.hear_with()?;
        match heard {
            Heard::Message(Message::Memory { way, bytes }) => {
                self.map(way, bytes, file)?;
            }
            Heard::Message(Message::Run { number, tensors }) => self.run(number, &tensors)?,
            Heard::End | Heard::Unread => return Ok(false),
            other => return Err(io::Error::other(format!("unexpected: {other:?}"))),
        }
        Ok(true)
    }

    fn map(&mut self, way: Way, bytes: u64, file: Option<OwnedFd>) -> io::Result<()> {
        let file = file.ok_or_else(|| io::Error::other("memory without a descriptor"))?;
        let memory = Memory::of(file, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        match way {
            Way::Inputs => self.inputs = Some(memory),
            Way::Outputs => self.outputs = Some(memory),
        }
        Ok(())
    }

    fn run(&mut self, number: u64, tensors: &[Placed]) -> io::Result<()> {
        let ran = self.inputs(tensors).and_then(|inputs| {
            let instance = &mut self.instance;
            contained(|| instance.run(inputs))
        });
        let placed = ran.and_then(|outputs| {
            let placed = place(&outputs, &self.signature)?;
            Ok((outputs, placed))
        });
        let (outputs, placed) = match placed {
            Ok(placed) => placed,
            Err(text) => return self.channel.send(&Message::Failed { number, text }),
        };
        let bytes = placed.last().map_or(0, |last| last.at + last.bytes);
        let has = self.outputs.as_ref().map_or(0, Memory::len) as u64;
        if has < bytes || self.outputs.is_none() {
            self.channel.send(&Message::Needs { number, bytes })?;
            let (heard, file) = self.channel.hear_with()?;
            match heard {
                Heard::Message(Message::Memory {
                    way: Way::Outputs,
                    bytes,
                }) => {
                    self.map(Way::Outputs, bytes, file)?;
                }
                Heard::End | Heard::Unread => return Ok(()),
                other => return Err(io::Error::other(format!("unexpected: {other:?}"))),
            }
        }
        let written = self.outputs.as_ref().and_then(|memory| {
            let mut both = outputs.iter().zip(&placed);
            both.try_for_each(|(tensor, placed)| {
                memory.write(usize::try_from(placed.at).ok()?, tensor.elements())
            })
        });
        match written {
            Some(()) => self.channel.send(&Message::Answer {
                number,
                tensors: placed,
            }),
            None => Err(io::Error::other("the server's memory is too small")),
        }
    }

    /// Copies the inputs of a run.
    fn inputs(&self, tensors: &[Placed]) -> Result<Vec<Tensor>, String> {
        let memory = self.inputs.as_ref().ok_or("there is no memory of inputs")?;
        let inputs = tensors.iter().map(|placed| {
            let element_type = type_of(placed.element_type).ok_or("an input has no known type")?;
            let number = |number: &u64| usize::try_from(*number).unwrap_or(usize::MAX);
            let shape: Vec<usize> = placed.shape.iter().map(number).collect();
            let len = shape.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
            let len = len.ok_or("an input is too large")?;
            let data = memory
                .read(element_type, number(&placed.at), number(&placed.bytes), len)
                .map_err(|problem| format!("an input {problem}"))?;
            Tensor::new(shape, data).map_err(|error| error.to_string())
        });
        inputs.collect()
    }
}

/// Where outputs come to lie.
fn place(outputs: &[Tensor], signature: &Signature) -> Result<Vec<Placed>, String> {
    if outputs.len() != signature.outputs.len() {
        return Err(format!(
            "it gave {} outputs, {} expected",
            outputs.len(),
            signature.outputs.len()
        ));
    }
    let mut end = 0usize;
    let placed = outputs.iter().map(|tensor| {
        let bytes = memory::space(tensor.elements());
        let at = memory::aligned(end).ok_or("its outputs are too large")?;
        end = at.checked_add(bytes).ok_or("its outputs are too large")?;
        Ok(Placed {
            element_type: number_of(tensor.element_type()),
            at: at as u64,
            bytes: bytes as u64,
            shape: tensor.shape().iter().map(|size| *size as u64).collect(),
        })
    });
    placed.collect()
}
