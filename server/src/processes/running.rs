//! A process that was started: told over its input, heard from its output, each on a thread of its own.
//!
//! Its invariant: the parent never waits for a process that does not read; and when a [`Running`] is gone, so is its process.

use super::message::{Order, Said, hear, say};
use crate::Error;
use millpond_wire_transport::Ticket;
use std::io::BufReader;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

/// Orders that wait for a process to read them.
const ORDERS_MAX: usize = 2048;

/// What the parent's thread is told.
pub(super) enum Event {
    /// A process said something.
    Said { who: Who, said: Said },
    /// It says nothing any more: it has ended.
    Gone(Who),
    /// Somebody asks for the metrics.
    Page(Ticket),
    /// Files are to be read again.
    Reload,
    /// Everything is to stop.
    Stop,
    /// Everything is to end at once.
    Kill,
}

/// A process: its number, and which of those that had the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) number: usize,
    pub(super) life: u64,
}

/// The process and the way to it.
pub(super) struct Running {
    child: Child,
    orders: SyncSender<Order>,
    /// It has been told what was tuned until then, and is told what is from then on.
    pub(super) is_warm: bool,
    /// Since when it accepts.
    pub(super) ready_since: Option<Instant>,
    /// How often it was asked since it last said something.
    pub(super) silent: u32,
    /// How often in a row it has said that it is not ready.
    pub(super) unfit: u32,
    /// It was killed, and its end is still to come.
    pub(super) is_killed: bool,
    /// It cannot be ended, and so is not waited for.
    is_left: bool,
}

impl Running {
    /// Starts it, in a group of its own: signals from a terminal are for the parent, which stops it in order.
    pub(super) fn start(
        mut command: Command,
        who: Who,
        events: &SyncSender<Event>,
    ) -> Result<Running, Error> {
        let failed = |error: std::io::Error| {
            Error::Process(format!(
                "process {} cannot be started: {error}; see `millpond doctor` for the limits",
                who.number
            ))
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (orders, to_say) = sync_channel(ORDERS_MAX);
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // From here on it is ended by whatever fails.
        let running = Running {
            child,
            orders,
            is_warm: false,
            ready_since: None,
            silent: 0,
            unfit: 0,
            is_killed: false,
            is_left: false,
        };
        let (Some(input), Some(output)) = (input, output) else {
            return Err(failed(std::io::Error::other("its pipes are not there")));
        };
        let thread = |way: &str| std::thread::Builder::new().name(format!("{way}-{}", who.number));
        thread("to-process")
            .spawn(move || tell(input, &to_say))
            .map_err(failed)?;
        let events = events.clone();
        thread("of-process")
            .spawn(move || listen(output, who, &events))
            .map_err(failed)?;
        Ok(running)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something; false where it has not read for long.
    pub(super) fn tell(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// How it ended; it has closed its output, so it is not waited for long.
    pub(super) fn end(mut self) -> std::io::Result<ExitStatus> {
        // Nothing to one that is ending, whose status is settled.
        let _ = self.child.kill();
        self.child.wait()
    }

    /// Lets go of one that does not end, and does not wait for it.
    pub(super) fn leave(mut self) {
        self.is_left = true;
    }

    /// Ends it at once; that it has gone is heard like any other end.
    pub(super) fn kill(&mut self) {
        self.is_killed = true;
        let _ = self.child.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_left && matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Writes orders until there are none; the input ends with this thread, which tells the process to stop.
fn tell(mut input: ChildStdin, to_say: &Receiver<Order>) {
    for order in to_say {
        if say(&mut input, &order).is_err() {
            return;
        }
    }
}

fn listen(output: ChildStdout, who: Who, events: &SyncSender<Event>) {
    let mut output = BufReader::new(output);
    while let Some(said) = hear(&mut output) {
        if events.send(Event::Said { who, said }).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Gone(who));
}
