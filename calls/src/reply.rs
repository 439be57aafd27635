//! The way back to a caller: at once, early with more to do afterwards, or later from any thread.
//!
//! It knows no protocol: a [`Sink`] does. Its invariant: a [`Reply`] that is dropped unanswered and a [`Ticket`] that is dropped
//! unsent both answer an error, so that no caller waits for ever.

use crate::MethodId;
use crate::push::{PushError, Pusher};
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::{Code, Status};
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Where an answer is written, in the protocol that its call came by.
pub trait Answer {
    /// Begins the answer; its map is appended to the bytes, in that encoding. Nothing where nobody waits for an answer.
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)>;

    /// Ends the answer that was begun, wanted or not.
    fn finish(&mut self);

    /// Answers an error.
    fn error(&mut self, status: &Status);

    /// Answers what is no method's (health, metrics), with HTTP's status and type. Where the protocol has no place for that, it is an
    /// error.
    fn body(&mut self, http_status: u16, content_type: &str, bytes: &[u8]);
}

/// Where a call is answered while it is served.
pub trait Sink: Answer {
    /// The same for another thread.
    fn later(&mut self) -> Box<dyn Later>;

    /// The way to call the caller, now and later, from any thread.
    ///
    /// # Errors
    /// [`PushError::Http`] where its protocol has none.
    fn pusher(&mut self) -> Result<Pusher, PushError> {
        Err(PushError::Http)
    }
}

/// Where a call is answered from any thread.
pub trait Later: Answer + Send {
    /// Turns true when the caller has gone.
    fn gone(&self) -> Arc<AtomicBool>;

    /// From then on the answer is only to be written, which is measured for that method.
    fn set_ready(&mut self, ready: Instant, method: MethodId) {
        let _ = (ready, method);
    }
}

/// The right, and the duty, to answer a call: dropped unanswered, it answers an error.
pub struct Owed<A: DerefMut<Target: Answer>> {
    answer: A,
    base64: bool,
    is_answered: bool,
}

/// The answer that is owed to a call while it is served.
pub type Reply<'c> = Owed<&'c mut dyn Sink>;

/// The answer that is owed to a call by any thread: the call is in flight until it is sent.
pub type Ticket = Owed<Box<dyn Later>>;

impl<A: DerefMut<Target: Answer>> Owed<A> {
    fn new(answer: A, base64: bool) -> Owed<A> {
        Owed {
            answer,
            base64,
            is_answered: false,
        }
    }

    /// Binary blocks of a JSON answer as base64 text.
    pub fn set_base64(&mut self, base64: bool) {
        self.base64 = base64;
    }

    /// Answers.
    #[inline]
    pub fn ok(mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        if let Some((out, encoding)) = self.answer.begin() {
            write(&mut Encoder::new(out, encoding, self.base64));
        }
        self.answer.finish();
        self.is_answered = true;
    }

    /// Answers an error.
    pub fn error(mut self, status: &Status) {
        self.answer.error(status);
        self.is_answered = true;
    }

    /// Answers what is no method's, with HTTP's status and type.
    pub fn body(mut self, http_status: u16, content_type: &str, bytes: &[u8]) {
        self.answer.body(http_status, content_type, bytes);
        self.is_answered = true;
    }
}

impl<A: DerefMut<Target: Answer>> Drop for Owed<A> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer.error(&lost());
        }
    }
}

/// The error of a call that nobody answered.
#[cold]
pub(crate) fn lost() -> Status {
    Status::new(Code::Internal, "the handler returned no answer")
}

impl<'c> Reply<'c> {
    /// The reply to a call of that sink's.
    pub fn to(sink: &'c mut dyn Sink) -> Reply<'c> {
        Owed::new(sink, false)
    }

    /// The way to call the caller, now and later, from any thread.
    ///
    /// What it sends leaves after an answer that is made on the spot; with answers of tickets it keeps the order in which one
    /// thread makes both.
    ///
    /// # Errors
    /// [`PushError::Http`] where the protocol has no such way.
    pub fn pusher(&mut self) -> Result<Pusher, PushError> {
        self.answer.pusher()
    }

    /// Hands the right and the duty on.
    pub(crate) fn hand_on(&mut self) -> Reply<'_> {
        self.is_answered = true;
        Owed::new(&mut *self.answer, self.base64)
    }

    /// Takes the call to another thread.
    pub fn later(mut self) -> Ticket {
        self.is_answered = true;
        Owed::new(self.answer.later(), self.base64)
    }
}

impl Ticket {
    /// Turns true when the caller has gone: work not begun is not worth doing.
    pub fn gone(&self) -> Arc<AtomicBool> {
        self.answer.gone()
    }

    /// From then on the answer is only to be written, which is measured for that method.
    pub fn set_ready(&mut self, ready: Instant, method: MethodId) {
        self.answer.set_ready(ready, method);
    }
}
