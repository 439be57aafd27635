//! How an answer comes to its connection: at once, or by the mailbox.
//! Its invariant: what is begun and not finished never leaves.

use crate::answer::{Form, Open};
use crate::native::Frames;
use crate::outlet::Outlet;
use crate::session::Turn;
use millpond_calls::{Answer, Later, PushError, Pusher, Reply, Sink};
use millpond_wire_frame::Encoding;
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Has a call served, or refuses it where its connection is one too many; one that came by frames knows the session that can call
/// its peer.
#[inline]
pub(crate) fn serve(
    turn: &mut Turn<'_>,
    form: Form,
    frames: Option<&mut Frames>,
    serve: impl FnOnce(Reply<'_>),
) {
    match turn.over_limit() {
        Some(ex) => refuse(turn, form, &Status::new(Code::Overloaded, ex)),
        None => answer(turn, form, frames, serve),
    }
}

/// Answers an error.
pub(crate) fn refuse(turn: &mut Turn<'_>, form: Form, status: &Status) {
    answer(turn, form, None, |reply| reply.error(status));
}

/// Has a call answered, which has one answer or is in flight after it, whatever is done.
#[inline]
pub(crate) fn answer(
    turn: &mut Turn<'_>,
    form: Form,
    frames: Option<&mut Frames>,
    answer: impl FnOnce(Reply<'_>),
) {
    let start = turn.out().len();
    let mut answering = Answering {
        form,
        open: Open::default(),
        turn: turn.reborrow(),
        frames,
    };
    answer(Reply::to(&mut answering));
    turn.finish(start);
}

/// The answer of a call while it is served.
struct Answering<'c> {
    form: Form,
    open: Open,
    turn: Turn<'c>,
    /// The session whose peer can be called.
    frames: Option<&'c mut Frames>,
}

impl Answer for Answering<'_> {
    #[inline]
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        self.form.begin(0, self.turn.out(), &mut self.open)
    }

    #[inline]
    fn finish(&mut self) {
        self.form.finish(self.turn.out(), &mut self.open);
    }

    fn error(&mut self, status: &Status) {
        self.form.error(self.turn.out(), status);
        if self.form.ends_with(status) {
            self.turn.close();
        }
    }

    fn body(&mut self, http_status: u16, content_type: &str, bytes: &[u8]) {
        self.form.body(self.turn.out(), http_status, content_type, bytes);
    }
}

impl Sink for Answering<'_> {
    fn later(&mut self) -> Box<dyn Later> {
        Box::new(Deferred {
            form: self.form,
            open: Open::default(),
            out: Vec::new(),
            outlet: self.turn.detach(),
            ready: None,
        })
    }

    fn pusher(&mut self) -> Result<Pusher, PushError> {
        let frames = self.frames.as_mut().ok_or(PushError::Http)?;
        Ok(frames.pusher(&mut self.turn))
    }
}

/// The answer of a call that another thread serves.
struct Deferred {
    form: Form,
    open: Open,
    out: Vec<u8>,
    outlet: Outlet,
    /// When the work was done and only its writing was left, and a mark; nothing is measured where it is not told.
    ready: Option<(Instant, u16)>,
}

impl Deferred {
    fn send(&mut self, close: bool) {
        self.outlet
            .answer(std::mem::take(&mut self.out), close, self.ready);
    }
}

impl Answer for Deferred {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        self.out = Vec::with_capacity(256);
        self.form.begin(0, &mut self.out, &mut self.open)
    }

    fn finish(&mut self) {
        self.form.finish(&mut self.out, &mut self.open);
        self.send(self.form.is_last());
    }

    fn error(&mut self, status: &Status) {
        // What may have been begun is not sent.
        self.out = Vec::with_capacity(128);
        self.form.error(&mut self.out, status);
        self.send(self.form.ends_with(status));
    }

    fn body(&mut self, http_status: u16, content_type: &str, bytes: &[u8]) {
        self.form.body(&mut self.out, http_status, content_type, bytes);
        self.send(self.form.is_last());
    }
}

impl Later for Deferred {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.outlet.gone)
    }

    fn set_ready(&mut self, ready: Instant, mark: u16) {
        self.ready = Some((ready, mark));
    }
}
