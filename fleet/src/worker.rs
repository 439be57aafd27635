//! A process that reads orders from its input and answers on its output, each on a thread of its own.
//!
//! The invariant: the parent never waits for a process that does not read.

use crate::{Process, hear, say};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufReader};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Orders that wait for a process to read them.
const ORDERS_MAX: usize = 2048;

/// What is heard of a process.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard<S> {
    /// It said this.
    Said(S),
    /// It says nothing any more: it has ended, or said something that is no message, and why.
    Gone(Option<String>),
}

/// The process and the way to it.
#[derive(Debug)]
pub struct Worker<O> {
    process: Arc<Process>,
    /// Its input ends when this is gone.
    orders: SyncSender<O>,
    silent: Arc<AtomicU32>,
}

impl<O: Serialize + Send + 'static> Worker<O> {
    /// Starts it; `name` is the ending of its threads' names. `heard` gets what it says, and at last that it is gone.
    pub(crate) fn start<S: DeserializeOwned>(
        mut command: Command,
        name: usize,
        heard: impl FnMut(Heard<S>) + Send + 'static,
    ) -> io::Result<Worker<O>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = Arc::new(Process::start(&mut command)?);
        let pipes = process.take_input().zip(process.take_output());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("its pipes are not there"))?;
        let (orders, to_say) = sync_channel(ORDERS_MAX);
        let silent: Arc<AtomicU32> = Arc::default();
        let thread = |way: &str| std::thread::Builder::new().name(format!("{way}-{name}"));
        thread("to-process").spawn(move || tell(input, &to_say))?;
        let ears = Arc::clone(&silent);
        thread("of-process").spawn(move || listen(output, &ears, heard))?;
        Ok(Worker {
            process,
            orders,
            silent,
        })
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Gives it an order; false where it has not read for long.
    pub fn tell(&self, order: O) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// Counts one more look, or question, since it last said anything; how many there were before.
    pub fn count_silence(&self) -> u32 {
        self.silent.fetch_add(1, Ordering::Relaxed)
    }
}

/// Writes orders until there are none; the input ends with this thread.
fn tell<O: Serialize>(mut input: ChildStdin, to_say: &Receiver<O>) {
    for order in to_say {
        if say(&mut input, &order).is_err() {
            return;
        }
    }
}

fn listen<S: DeserializeOwned>(output: ChildStdout, silent: &AtomicU32, mut heard: impl FnMut(Heard<S>)) {
    let mut output = BufReader::new(output);
    let why = loop {
        let said = hear(&mut output);
        silent.store(0, Ordering::Relaxed);
        match said {
            Some(Ok(said)) => heard(Heard::Said(said)),
            Some(Err(why)) => break Some(why),
            None => break None,
        }
    };
    heard(Heard::Gone(why));
}
