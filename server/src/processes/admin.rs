//! The admin port of several processes, served by their parent.
//! Its invariant: it answers while processes start, drain or die, and never waits for one of them, or for the parent's thread, on its own.

use super::parent::Event;
use crate::admin::View;
use crate::watch::{LastTurn, TURN_HOPELESS, TURN_MAX};
use millpond_calls::Reply;
use millpond_wire_schema::{Code, Status};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the parent's thread says of the processes, and of itself.
#[derive(Debug)]
pub(super) struct State {
    /// Why calls should not come now; nothing where every process is ready.
    why_not_ready: Mutex<Option<String>>,
    turned: LastTurn,
}

impl State {
    pub(super) fn new() -> State {
        State {
            why_not_ready: Mutex::new(Some("no process has started".to_owned())),
            turned: LastTurn::now(),
        }
    }

    pub(super) fn set(&self, why_not_ready: Option<String>) {
        *self.words() = why_not_ready;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.words().is_none()
    }

    /// The thread turns.
    pub(super) fn beat(&self) {
        self.turned.note();
    }

    fn words(&self) -> MutexGuard<'_, Option<String>> {
        self.why_not_ready.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.state.words().clone()
    }

    fn why_hopeless(&self) -> Option<String> {
        let is_hopeless = self.state.turned.is_older_than(TURN_HOPELESS);
        is_hopeless.then(|| "the parent of the processes does not turn".to_owned())
    }

    fn metrics(&self, reply: Reply<'_>) {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        let asked = self.events.try_send(Event::Page(reply.later()));
        if let Err(Full(Event::Page(ticket)) | Disconnected(Event::Page(ticket))) = asked {
            let ex = "the parent of the processes is busy; ask again";
            ticket.error(&Status::new(Code::Overloaded, ex));
        }
    }
}
