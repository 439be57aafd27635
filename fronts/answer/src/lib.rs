//! What all fronts share: how a call reaches its service, and its answer the connection, at once or by the mailbox.
//!
//! It knows no protocol: a [`Form`] writes one. Its invariant: what is begun and not finished never leaves.

use millpond_calls::{
    Answer, Call, Caller, Clock, Later, Meta, MethodId, Outbound, Peer, PushError, Pusher, Reply, Service,
    Sink,
};
use millpond_net::{Local, Mark, Outlet, Outward, Turn};
use millpond_wire_payload::Encoding;
use millpond_wire_schema::{Code, Status};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// How answers are written in one protocol, and what one of them needs of its call. One call, one answer, in the call's encoding.
pub trait Form: Clone + Send + 'static {
    /// Where an answer that was begun lies.
    type Open: Default + Send;

    /// Begins an answer; what is appended to the bytes becomes its payload. Nothing is, where nobody waits for one.
    fn begin<'o>(self, out: &'o mut Vec<u8>, open: &'o mut Self::Open)
    -> Option<(&'o mut Vec<u8>, Encoding)>;

    /// Ends the answer that was begun.
    fn finish(self, out: &mut Vec<u8>, open: &mut Self::Open);

    /// Answers an error.
    fn error(self, out: &mut Vec<u8>, status: &Status);

    /// Answers a body where the protocol has a place for one, and an error elsewhere.
    fn body(self, out: &mut Vec<u8>, _http_status: u16, _content_type: &str, _bytes: &[u8]) {
        let ex = "this path is served over HTTP only";
        self.error(out, &Status::new(Code::UnknownMethod, ex));
    }

    /// Whether its connection ends with the answer, `error` being what it says if it is one.
    fn is_last(&self, _error: Option<&Status>) -> bool {
        false
    }
}

/// A session whose peer can be called.
pub trait Duplex {
    /// The way to call it.
    fn pusher(&mut self, turn: &mut Turn<'_>) -> Pusher;
}

/// What a net thread serves calls with: its copy of the service, and the clock of its turns.
pub struct Serving<S> {
    /// What answers.
    pub service: S,
    clock: Clock,
    /// Takes its calls to other servers, where it may make any.
    reach: Option<RefCell<Box<dyn Reach<S>>>>,
}

/// Takes the calls of one net thread to other servers, over connections that it has the thread open.
pub trait Reach<S>: Send {
    /// The same for another net thread, without a connection yet.
    fn another(&self) -> Box<dyn Reach<S>>;

    /// When it is to have a turn although nothing happened.
    fn wake_at(&self) -> Option<Instant>;

    /// Takes what was sent, looks what is late, and says what is to be done with connections.
    fn turn(&mut self, outbound: &Outbound, now: Instant, asked: &mut Vec<Outward<Serving<S>>>);
}

/// Another net thread has a clock and connections of its own.
impl<S: Clone> Clone for Serving<S> {
    fn clone(&self) -> Serving<S> {
        let another = |reach: &RefCell<Box<dyn Reach<S>>>| RefCell::new(reach.borrow().another());
        Serving {
            service: self.service.clone(),
            clock: self.clock.clone(),
            reach: self.reach.as_ref().map(another),
        }
    }
}

impl<S: Service> Serving<S> {
    /// Serves with copies of that service.
    pub fn new(service: S) -> Serving<S> {
        let clock = Clock::start();
        Serving {
            service,
            clock,
            reach: None,
        }
    }

    /// Its calls to other servers are taken there by that.
    #[must_use]
    pub fn reaching(mut self, reach: Option<Box<dyn Reach<S>>>) -> Serving<S> {
        self.reach = reach.map(RefCell::new);
        self
    }

    /// When this turn began.
    pub fn began(&self) -> Instant {
        self.clock.began()
    }

    /// A call of the turn's connection to the method of that name, with nothing beside its payload.
    #[inline]
    pub fn call<'a>(
        &'a self,
        turn: &Turn<'_>,
        name: &'a str,
        encoding: Encoding,
        payload: &'a [u8],
    ) -> Call<'a> {
        let peer = Peer::from(turn.peer().0);
        Call {
            method: self.service.find(name).ok_or(name),
            encoding,
            payload,
            meta: Meta::default(),
            caller: Caller {
                peer,
                connection: turn.connection(),
                encrypted: turn.has_layer() || peer == Peer::Unix,
            },
            received: turn.received(self.clock.began()),
            clock: &self.clock,
        }
    }
}

impl<S: Service> Local for Serving<S> {
    fn begin(&self) -> Instant {
        self.clock.begin()
    }

    #[inline]
    fn last_read(&self) -> Option<Instant> {
        Some(self.clock.last())
    }

    fn has_batch(&self) -> bool {
        self.service.has_batch()
    }

    fn serve_batch(&self) {
        self.service.serve_batch(self.clock.began());
    }

    fn reaches_out(&self) -> bool {
        self.reach.is_some()
    }

    fn wake_at(&self) -> Option<Instant> {
        let timers = self.service.outbound().and_then(Outbound::wake_at);
        let reach = self.reach.as_ref();
        let reach = reach.and_then(|reach| reach.borrow().wake_at());
        timers.into_iter().chain(reach).min()
    }

    fn outward(&self, asked: &mut Vec<Outward<Self>>) {
        if let (Some(reach), Some(outbound)) = (&self.reach, self.service.outbound()) {
            let now = self.clock.read();
            outbound.turn(now);
            reach.borrow_mut().turn(outbound, now, asked);
        }
    }

    fn end(&self, written: impl Iterator<Item = (Mark, Instant)>) {
        let written = written.map(|(mark, since)| (MethodId::from_bits(mark), since));
        self.service.turned(self.clock.began(), written);
    }
}

/// Has a call served, or refuses it where its connection is one too many; `duplex` is the session, if its peer can be called.
#[inline]
pub fn serve<F: Form>(
    turn: &mut Turn<'_>,
    form: F,
    duplex: Option<&mut (dyn Duplex + 'static)>,
    serve: impl FnOnce(Reply<'_>),
) {
    match turn.over_limit() {
        Some(ex) => refuse(turn, form, &Status::new(Code::Overloaded, ex)),
        None => answer(turn, form, duplex, serve),
    }
}

/// Answers an error.
pub fn refuse(turn: &mut Turn<'_>, form: impl Form, status: &Status) {
    answer(turn, form, None, |reply| reply.error(status));
}

/// Has a call answered, which has one answer or is in flight after it, whatever is done.
#[inline]
pub fn answer<F: Form>(
    turn: &mut Turn<'_>,
    form: F,
    duplex: Option<&mut (dyn Duplex + 'static)>,
    answer: impl FnOnce(Reply<'_>),
) {
    let start = turn.out().len();
    let mut answering = Answering {
        form,
        open: F::Open::default(),
        turn: &mut *turn,
        duplex,
    };
    answer(Reply::to(&mut answering));
    turn.finish(start);
}

/// The answer of a call while it is served.
struct Answering<'c, 't, F: Form> {
    form: F,
    open: F::Open,
    turn: &'c mut Turn<'t>,
    duplex: Option<&'c mut (dyn Duplex + 'static)>,
}

impl<F: Form> Answer for Answering<'_, '_, F> {
    #[inline]
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        self.form.clone().begin(self.turn.out(), &mut self.open)
    }

    #[inline]
    fn finish(&mut self) {
        self.form.clone().finish(self.turn.out(), &mut self.open);
    }

    fn error(&mut self, status: &Status) {
        self.form.clone().error(self.turn.out(), status);
        if self.form.is_last(Some(status)) {
            self.turn.close();
        }
    }

    fn body(&mut self, http_status: u16, content_type: &str, bytes: &[u8]) {
        let form = self.form.clone();
        form.body(self.turn.out(), http_status, content_type, bytes);
    }
}

impl<F: Form> Sink for Answering<'_, '_, F> {
    fn later(&mut self) -> Box<dyn Later> {
        Box::new(Deferred {
            form: self.form.clone(),
            open: F::Open::default(),
            out: Vec::new(),
            outlet: self.turn.detach(),
            ready: None,
        })
    }

    fn pusher(&mut self) -> Result<Pusher, PushError> {
        let duplex = self.duplex.as_mut().ok_or(PushError::Http)?;
        Ok(duplex.pusher(self.turn))
    }
}

/// The answer of a call that another thread serves.
struct Deferred<F: Form> {
    form: F,
    open: F::Open,
    out: Vec<u8>,
    outlet: Outlet,
    /// When the result was ready, and of which method it is ([`MethodId::to_bits`]); without it the writing is not measured.
    ready: Option<(Instant, Mark)>,
}

impl<F: Form> Deferred<F> {
    fn send(&mut self, error: Option<&Status>) {
        let (out, close) = (std::mem::take(&mut self.out), self.form.is_last(error));
        self.outlet.answer(out, close, self.ready);
    }
}

impl<F: Form> Answer for Deferred<F> {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        self.out = Vec::with_capacity(256);
        self.form.clone().begin(&mut self.out, &mut self.open)
    }

    fn finish(&mut self) {
        self.form.clone().finish(&mut self.out, &mut self.open);
        self.send(None);
    }

    fn error(&mut self, status: &Status) {
        // What may have been begun is not sent.
        self.out = Vec::with_capacity(128);
        self.form.clone().error(&mut self.out, status);
        self.send(Some(status));
    }

    fn body(&mut self, http_status: u16, content_type: &str, bytes: &[u8]) {
        let form = self.form.clone();
        form.body(&mut self.out, http_status, content_type, bytes);
        self.send(None);
    }
}

impl<F: Form> Later for Deferred<F> {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.outlet.gone)
    }

    fn set_ready(&mut self, ready: Instant, method: MethodId) {
        self.ready = Some((ready, method.to_bits()));
    }
}
