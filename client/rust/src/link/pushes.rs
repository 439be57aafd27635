//! The server's calls on a connection: handed to the handler, a limited number at a time, and answered.
//!
//! It does not read the connection. Its invariants: a call that wants an answer gets one, whatever the handler does; an
//! answer goes to the connection that its call came over or nowhere.

use super::{Link, Phase, State};
use crate::push::{Push, PushHandler};
use millpond_wire_frame::{Encoding, Frame, FrameKind, write_frame};
use millpond_wire_schema::payload::Encoder;
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::OwnedSemaphorePermit;

impl Link {
    /// Begins to work on a call of the server's; `seq` is `None` where it wants no answer.
    pub(super) fn take_push(self: &Arc<Self>, frame: Frame<'_>, method: &str, seq: Option<u32>) {
        let mut answering = Answering {
            link: self.clone(),
            connection: self.lock().connection,
            encoding: frame.encoding,
            seq,
            place: None,
        };
        let Some(handler) = &self.terms.options.push_handler else {
            answering.refuse(&Status::new(Code::UnknownMethod, "this client serves no methods"));
            return;
        };
        let Ok(place) = self.pushes.clone().try_acquire_owned() else {
            self.pushes_refused.fetch_add(1, Ordering::Relaxed);
            let pushes_max = self.terms.options.pushes_max.max(1);
            let ex = format!("this client works on {pushes_max} calls of this connection already");
            answering.refuse(&Status::new(Code::Overloaded, ex));
            return;
        };
        answering.place = Some(place);
        let push = Push {
            method: method.to_owned(),
            encoding: frame.encoding,
            payload: frame.payload.to_vec(),
            is_oneway: seq.is_none(),
        };
        tokio::spawn(work(handler.clone(), push, answering));
    }

    /// Queues the answer of a push without waiting. A server that floods the link and does not read is left unanswered.
    fn queue_answer(&self, connection: u64, encoding: Encoding, status: u8, seq: u32, payload: &[u8]) {
        let mut state = self.lock();
        let is_open = matches!(state.phase, Phase::Open(_)) && state.connection == connection;
        if is_open && state.out.len() < self.frame_bytes_max() {
            self.write_answer(&mut state, encoding, status, seq, payload);
        }
    }

    fn write_answer(&self, state: &mut State, encoding: Encoding, status: u8, seq: u32, payload: &[u8]) {
        let kind = FrameKind::Answer { status, seq };
        if write_frame(&mut state.out, encoding, kind, payload).is_ok() {
            self.wake.notify_one();
        }
    }
}

async fn work(handler: PushHandler, push: Push, answering: Answering) {
    // A handler that panics, here or while it waits, unwinds through `answering`, which then answers.
    let result = handler.work(push).await;
    answering.answer(result).await;
}

/// Owes the server an answer.
struct Answering {
    link: Arc<Link>,
    /// The link's connection that the call came over.
    connection: u64,
    encoding: Encoding,
    /// `None` once nothing is left to answer.
    seq: Option<u32>,
    /// Counts the call until it is answered.
    place: Option<OwnedSemaphorePermit>,
}

impl Answering {
    /// Queues what the handler returned, as soon as there is space.
    async fn answer(mut self, result: Result<Vec<u8>, Status>) {
        let payload = match result {
            Err(status) => return self.refuse(&status),
            Ok(payload) if self.link.check_size("", &payload).is_ok() => payload,
            Ok(payload) => {
                let (bytes, limit) = (payload.len(), self.link.frame_bytes_max());
                let ex = format!(
                    "the client's answer has {bytes} bytes; expected one map in a frame of at most {limit}"
                );
                return self.refuse(&Status::new(Code::Internal, ex));
            }
        };
        let Some(seq) = self.seq.take() else {
            return;
        };
        // Where the connection has closed, nobody waits for the answer.
        if let Ok(mut state) = self.link.with_space().await
            && state.connection == self.connection
        {
            self.link
                .write_answer(&mut state, self.encoding, 0, seq, &payload);
        }
    }

    /// Answers an error at once.
    fn refuse(&mut self, status: &Status) {
        let Some(seq) = self.seq.take() else {
            return;
        };
        let mut payload = Vec::new();
        status.encode(&mut Encoder::new(&mut payload, self.encoding, false));
        self.link
            .queue_answer(self.connection, self.encoding, 1, seq, &payload);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let ex = "the client's handler did not finish: it panicked, or its runtime stopped";
        self.refuse(&Status::new(Code::Internal, ex));
    }
}
