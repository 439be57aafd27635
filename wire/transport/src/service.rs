//! What the transport calls for every request, and the ways to answer: at once, early with more to do afterwards, or later from
//! any thread.
//!
//! Its invariant: a [`Reply`] that is dropped unanswered and a [`Ticket`] that is dropped unsent both answer an error,
//! so that no caller waits for ever.

use crate::answer::{Body, Form};
use crate::clock::Clock;
use crate::native::{Frames, PushError, Pusher};
use crate::outlet::Outlet;
use crate::peer::Peer;
use crate::session::Turn;
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A method, by frame or by `/service/METHOD`.
    Method(&'a str),
    /// Any other HTTP path.
    Path {
        /// GET, POST, …
        verb: &'a str,
        /// The path, percent-encoded.
        path: &'a str,
    },
}

/// What stands beside the payload (HTTP headers); a payload's own reserved keys come before it.
#[derive(Clone, Copy, Default)]
pub struct Meta<'a> {
    /// `X-Deadline-Ms`.
    pub deadline_ms: Option<u64>,
    /// `traceparent`.
    pub trace: Option<&'a str>,
    /// What follows `Bearer` in `Authorization`.
    pub token: Option<&'a str>,
}

impl std::fmt::Debug for Meta<'_> {
    /// Says that there is a token, and not which.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Meta")
            .field("deadline_ms", &self.deadline_ms)
            .field("trace", &self.trace)
            .field("has_token", &self.token.is_some())
            .finish()
    }
}

/// One request, borrowing from the connection's input.
#[derive(Debug)]
pub struct Request<'a> {
    /// Method or path.
    pub target: Target<'a>,
    /// How the payload is written.
    pub encoding: Encoding,
    /// One map, not yet decoded.
    pub payload: &'a [u8],
    /// Headers.
    pub meta: Meta<'a>,
    /// When its last byte was there to be read: deadlines count from here.
    pub received: Instant,
    /// The clock of the turn that serves it.
    pub clock: &'a Clock,
    /// Who asks.
    pub peer: Peer,
    /// The connection it came by: no other of this process has the number.
    pub connection: u64,
    /// Whether nobody between the peer and this server can read it: by encryption, or because it came over a Unix socket.
    pub encrypted: bool,
    /// Nobody: the process calls itself, over [`crate::Transport::rehearse`].
    pub rehearsal: bool,
}

impl<'a> Request<'a> {
    /// A request of the connection whose turn it is, with nothing beside its payload.
    pub(crate) fn new(
        turn: &Turn<'a>,
        target: Target<'a>,
        encoding: Encoding,
        payload: &'a [u8],
    ) -> Request<'a> {
        Request {
            target,
            encoding,
            payload,
            meta: Meta::default(),
            received: turn.clock().began(),
            clock: turn.clock(),
            peer: turn.peer(),
            connection: turn.connection(),
            encrypted: turn.is_encrypted(),
            rehearsal: turn.is_rehearsal(),
        }
    }
}

/// Makes a call, which has one answer or is in flight after it, whatever the service does; one that came by frames knows the
/// session that can call its peer.
pub(crate) fn call<S: Service>(
    service: &S,
    turn: &mut Turn<'_>,
    form: Form,
    request: Request<'_>,
    frames: Option<&mut Frames>,
) -> Outcome {
    let start = turn.out().len();
    let mut outcome = Outcome::Dropped;
    if let Some(ex) = turn.over_limit() {
        form.error(turn.out(), &Status::new(Code::Overloaded, ex));
        outcome = Outcome::Answered;
    } else {
        let reply = Reply {
            form,
            turn: turn.reborrow(),
            frames,
            outcome: &mut outcome,
            base64: false,
        };
        service.call(request, reply);
        if outcome == Outcome::Dropped {
            let status = Status::new(Code::Internal, "the handler returned no answer");
            form.error(turn.out(), &status);
        }
    }
    turn.finish(start);
    outcome
}

/// Answers requests. It is called on the net threads and must not block them.
pub trait Service: Clone + Send + 'static {
    /// Serves one request, in one of three ways:
    ///
    /// - it answers `reply` and returns;
    /// - it answers `reply` early and goes on: the answer leaves when this returns, so what takes longer is handed to another
    ///   thread first, which may call the peer by [`Reply::pusher`];
    /// - it keeps [`Reply::detach`]'s ticket, which any thread answers when the work is done, and may go on after that.
    ///
    /// A reply that is dropped answers an error, and so does a ticket.
    fn call(&self, request: Request<'_>, reply: Reply<'_>);

    /// Told in the turn in which the kernel has taken all bytes of a ticket's answer that said since when it was ready
    /// ([`Ticket::set_ready`]), and under what mark. Rehearsals and answers that never left are not told.
    fn written(&self, mark: u16, since: Instant) {
        let _ = (mark, since);
    }

    /// Told at the end of each turn of a net thread, after what it answered was sent; when the turn began.
    fn turned(&self, began: Instant) {
        let _ = began;
    }

    /// Whether HTTP's GET may call that method: it changes nothing, so whoever follows a link or loads an image may ask for it.
    /// A GET of another is refused, and so is one of HTTP's other verbs of any.
    fn takes_get(&self, method: &str) -> bool {
        let _ = method;
        true
    }

    /// Told of a call that was refused with `status` before the service was asked about it: by the connection's bounds, or for
    /// its verb.
    fn refused(&self, method: &str, status: &Status) {
        let _ = (method, status);
    }
}

/// How a call ended for its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Dropped,
    Answered,
    /// And with that the connection ends.
    AnsweredLast,
    Detached,
}

/// The way back to the caller.
pub struct Reply<'c> {
    pub(crate) form: Form,
    pub(crate) turn: Turn<'c>,
    /// The session whose peer can be called.
    pub(crate) frames: Option<&'c mut Frames>,
    pub(crate) outcome: &'c mut Outcome,
    pub(crate) base64: bool,
}

impl Reply<'_> {
    /// The way to call the peer of this connection, now and later, from any thread.
    ///
    /// What it sends leaves after an answer that is made on the spot; with answers of tickets it keeps the order in which one
    /// thread makes both.
    ///
    /// # Errors
    /// [`PushError::Http`] for a call that came by HTTP.
    pub fn pusher(&mut self) -> Result<Pusher, PushError> {
        let frames = self.frames.as_mut().ok_or(PushError::Http)?;
        Ok(frames.pusher(&mut self.turn))
    }

    /// Binary blocks of a JSON answer as base64 text.
    pub fn set_base64(&mut self, base64: bool) {
        self.base64 = base64;
    }

    /// Answers at once.
    pub fn ok(mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        self.form.ok(self.turn.out(), self.base64, write);
        *self.outcome = Outcome::Answered;
    }

    /// Answers an error at once.
    pub fn error(mut self, status: &Status) {
        self.form.error(self.turn.out(), status);
        *self.outcome = match self.form.ends_with(status) {
            true => Outcome::AnsweredLast,
            false => Outcome::Answered,
        };
    }

    /// Answers an HTTP body at once; a frame gets an error, because it has no place for one.
    pub fn body(mut self, body: &Body<'_>) {
        self.form.body(self.turn.out(), body);
        *self.outcome = Outcome::Answered;
    }

    /// Takes the call off the net thread; it counts as in flight until the ticket is sent or dropped.
    pub fn detach(mut self) -> Ticket {
        *self.outcome = Outcome::Detached;
        Ticket {
            form: self.form,
            outlet: self.turn.detach(),
            base64: self.base64,
            ready: None,
            sent: false,
        }
    }
}

/// The right, and the duty, to answer one call later.
#[derive(Debug)]
pub struct Ticket {
    form: Form,
    outlet: Outlet,
    base64: bool,
    /// When the work was done and only its writing was left, and a mark; nothing is measured where it is not told.
    ready: Option<(Instant, u16)>,
    sent: bool,
}

impl Ticket {
    /// Turns true when the caller has gone: work not begun is not worth doing.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(self.outlet.gone())
    }

    /// From here on it is only written: [`Service::written`] hears that under that mark, once it is.
    pub fn set_ready(&mut self, ready: Instant, mark: u16) {
        self.ready = Some((ready, mark));
    }

    /// Answers.
    pub fn ok(mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        let mut bytes = Vec::with_capacity(256);
        self.form.ok(&mut bytes, self.base64, write);
        self.send(bytes, self.form.is_last());
    }

    /// Answers an HTTP body, as [`Reply::body`].
    pub fn body(mut self, body: &Body<'_>) {
        let mut bytes = Vec::with_capacity(body.bytes.len() + 256);
        self.form.body(&mut bytes, body);
        self.send(bytes, self.form.is_last());
    }

    /// Answers an error.
    pub fn error(mut self, status: &Status) {
        self.fail(status);
    }

    fn fail(&mut self, status: &Status) {
        let mut bytes = Vec::with_capacity(128);
        self.form.error(&mut bytes, status);
        self.send(bytes, self.form.ends_with(status));
    }

    fn send(&mut self, bytes: Vec<u8>, close: bool) {
        self.sent = true;
        self.outlet.answer(bytes, close, self.ready);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.sent {
            self.fail(&Status::new(Code::Internal, "the handler returned no answer"));
        }
    }
}
