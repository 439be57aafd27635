//! The admin port of several processes, served by their parent.
//! Its invariant: it answers while processes start, drain or die, and never waits for one of them, or for the parent's thread, on its own.

use super::parent::Event;
use crate::admin::View;
use crate::watch::{LastTurn, TURN_HOPELESS, TURN_MAX};
use millpond_calls::Reply;
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// What the parent's thread says of the processes, and of itself.
#[derive(Debug)]
pub(super) struct State {
    is_ready: AtomicBool,
    turned: LastTurn,
}

impl State {
    pub(super) fn new() -> State {
        State {
            is_ready: AtomicBool::new(false),
            turned: LastTurn::now(),
        }
    }

    /// Every process is ready, or not.
    pub(super) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// The thread turns.
    pub(super) fn beat(&self) {
        self.turned.note();
    }
}

/// All processes as one.
#[derive(Clone)]
pub(super) struct Together {
    pub(super) state: Arc<State>,
    pub(super) events: SyncSender<Event>,
}

impl View for Together {
    fn why_not_ready(&self) -> Option<String> {
        if self.state.turned.is_older_than(TURN_MAX) {
            return Some("the parent of the processes does not turn".to_owned());
        }
        let is_ready = self.state.is_ready();
        (!is_ready).then(|| "not every process is; see millpond_process_ready in /metrics".to_owned())
    }

    fn why_hopeless(&self) -> Option<String> {
        let is_hopeless = self.state.turned.is_older_than(TURN_HOPELESS);
        is_hopeless.then(|| "the parent of the processes does not turn".to_owned())
    }

    fn metrics(&self, reply: Reply<'_>) {
        let asked = self.events.try_send(Event::Page(reply.later()));
        if let Err(refused) = asked {
            use std::sync::mpsc::TrySendError::{Disconnected, Full};
            let (Full(event) | Disconnected(event)) = refused;
            if let Event::Page(ticket) = event {
                ticket.error(&Status::new(
                    Code::Overloaded,
                    "the parent of the processes is busy; ask again",
                ));
            }
        }
    }
}
