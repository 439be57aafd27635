//! The admin port of several processes, served by their parent.
//! Its invariant: it answers while processes start, drain or die, and never waits for one of them on its own thread.

use super::running::Event;
use crate::admin::View;
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// All processes as one.
#[derive(Clone)]
pub(super) struct Together {
    /// Set while every process is ready.
    pub(super) is_ready: Arc<AtomicBool>,
    pub(super) events: SyncSender<Event>,
}

impl View for Together {
    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    fn metrics(&self, reply: Reply<'_>) {
        let asked = self.events.try_send(Event::Page(reply.detach()));
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
