//! What a front calls for every request; and the service that has methods serve: the one way of every call, and its turn.
//!
//! It decodes the payload's map and nothing of its meaning. The answers of a turn leave together, so they are timed together; those
//! of calls that waited for its end leave after that, and have their own times. Its invariants: a call is refused for the first
//! reason that holds, in this order: address, unknown method, the method's rules, stopping, not ready, bad payload, token; and
//! between two turns a service holds nothing.

use crate::access::Login;
use crate::{Call, Calls, Host, MethodId, Outbound, Peer, Reply, Serve, Served};
use arc_swap::Guard;
use millpond_wire_payload::{Encoding, Payload, Reserved};
use millpond_wire_schema::{Code, Status};
use std::cell::{Ref, RefCell, RefMut};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Answers requests. Each net thread has a copy, which must not block it.
pub trait Service: Clone + Send + 'static {
    /// The method of that name. A front asks once a call; a service that serves all calls alike has one method of all names.
    fn find(&self, name: &str) -> Option<MethodId> {
        let _ = name;
        Some(MethodId::default())
    }

    /// Serves one call, in one of three ways:
    ///
    /// - it answers `reply` and returns;
    /// - it answers `reply` early and goes on: the answer leaves when this returns, so what takes longer is handed to another
    ///   thread first, which may call the caller by [`Reply::pusher`];
    /// - it keeps [`Reply::later`]'s ticket, which any thread answers when the work is done, and may go on after that.
    fn call(&self, call: &Call<'_>, reply: Reply<'_>);

    /// Calls of that method come next on the connection, with these payloads: a hint to fetch what they will read.
    fn look_ahead(&self, method: MethodId, encoding: Encoding, payloads: &[&[u8]]) {
        let _ = (method, encoding, payloads);
    }

    /// Answers an HTTP request of that peer's for a path that is no method's, percent-encoded as it came.
    fn visit(&self, verb: &str, path: &str, peer: Peer, reply: Reply<'_>) {
        let _ = peer;
        let ex = format!("{verb} {path} is not served here");
        reply.error(&Status::new(Code::UnknownMethod, ex));
    }

    /// Whether the peer may call anything: for what its front answers itself.
    ///
    /// # Errors
    /// Where it may not.
    fn admits(&self, peer: Peer) -> Result<(), Status> {
        let _ = peer;
        Ok(())
    }

    /// What is known of a token that a connection logs in with: that of the named group, or of any.
    ///
    /// # Errors
    /// Where the peer may not call at all.
    fn login(&self, peer: Peer, group: Option<&str>, token: &str) -> Result<Login, Status> {
        let _ = (peer, group, token);
        Ok(Login::NoTokens)
    }

    /// Counts a call that its front refused with `status`: by the connection's bounds, or for its verb.
    fn refused(&self, method: Option<MethodId>, status: &Status) {
        let _ = (method, status);
    }

    /// What its thread has on its way to other servers, where it calls any.
    fn outbound(&self) -> Option<&Outbound> {
        None
    }

    /// Whether calls wait for the end of the turn.
    fn has_batch(&self) -> bool {
        false
    }

    /// Serves them: every connection had its turn, and what this answers on the spot leaves before the next.
    fn serve_batch(&self, began: Instant) {
        let _ = began;
    }

    /// Ends the turn that began at `began`; its answers have been sent. `written` has the method of each ticket's answer of which the
    /// kernel took the last byte in this turn, and when the answer was ready; tickets without
    /// [`Ticket::set_ready`](crate::Ticket::set_ready) are not in it.
    fn turned(&self, began: Instant, written: impl Iterator<Item = (MethodId, Instant)>) {
        let _ = (began, written);
    }
}

/// What the methods of a process are served with.
pub trait Backing: 'static {
    /// What serves from ready to stop, loaded once a turn.
    type State: Send + Sync;
    /// Where calls of a net thread's turn wait for its end. Nothing waits in it between turns.
    type Batch: Default + Send;
    /// What a net thread keeps from turn to turn; calls that are under way to other servers share it.
    type Kept: Default + Send + 'static;

    /// Whether calls wait.
    fn waits(batch: &Self::Batch) -> bool;

    /// The turn hook: serves all that wait, when every connection had its turn and before the thread waits for anything.
    fn serve(batch: &mut Self::Batch);
}

/// Has the methods of a table serve; with what a net thread keeps from the beginning of a turn to its end.
pub struct MethodService<S: Backing> {
    /// What all threads share.
    pub calls: Arc<Calls<S>>,
    pub(crate) host: Arc<dyn Host>,
    /// Loaded for the first call of the turn that needs it.
    state: RefCell<Option<Guard<Arc<S::State>>>>,
    /// Calls that wait for its end.
    batch: RefCell<S::Batch>,
    /// Calls to other servers.
    pub(crate) outbound: Outbound,
    pub(crate) kept: Arc<Mutex<S::Kept>>,
    /// Calls that were answered at once.
    answered: RefCell<Vec<(MethodId, u32)>>,
}

/// Another net thread has turns of its own.
impl<S: Backing> Clone for MethodService<S> {
    fn clone(&self) -> MethodService<S> {
        MethodService::new(Arc::clone(&self.calls), Arc::clone(&self.host))
    }
}

impl<S: Backing> MethodService<S> {
    /// Serves those calls in that process.
    pub fn new(calls: Arc<Calls<S>>, host: Arc<dyn Host>) -> MethodService<S> {
        MethodService {
            calls,
            host,
            state: RefCell::default(),
            batch: RefCell::default(),
            outbound: Outbound::default(),
            kept: Arc::default(),
            answered: RefCell::default(),
        }
    }

    /// Serves a call that the process makes while it warms up, of a method that needs `state`. It is counted and logged nowhere.
    pub fn rehearse(&self, state: &S::State, asked: &Call<'_>, mut reply: Reply<'_>) {
        let Ok(method) = asked.method else { return };
        let mut call = Served::new(self, method, asked, true, reply.hand_on());
        let Serve::Ready(serve) = &call.entry().serve else {
            return;
        };
        let payload = self.read(&call);
        if let Err(status) = payload.and_then(|payload| serve(state, &mut call, &payload)) {
            call.refuse(&status);
        }
    }

    /// Refuses a caller's call by address, by the method's rules, and while the process stops.
    fn admit(&self, call: &Served<'_, S>) -> Result<(), Status> {
        if call.arrival.is_internal {
            // The process that sent it on has admitted it, maybe before both were told to stop, and waits for its end.
            return Ok(());
        }
        let (method, entry) = (call.arrival.method, call.entry());
        let access = &self.calls.access;
        if !access.is_open(method) {
            let caller = call.asked.caller;
            access.admit_peer(caller.peer)?;
            access.admit(method, &entry.name, caller.peer, caller.encrypted)?;
        }
        // What is asked while a server stops is whether it does, and what ends the calls that it drains.
        let ends = matches!(entry.serve, Serve::Always(_) | Serve::Draining(_));
        if !ends && self.calls.is_stopping() {
            let ex = "the server is stopping; call another one";
            return Err(Status::new(Code::Stopping, ex));
        }
        Ok(())
    }

    /// Reads a payload as far as everybody must, and checks its token, or else that of its headers.
    #[inline]
    fn read<'c>(&self, call: &Served<'c, S>) -> Result<Payload<'c>, Status> {
        let payload = Payload::new(call.asked.encoding, call.asked.payload)?;
        let (method, access) = (call.arrival.method, &self.calls.access);
        if !call.arrival.is_internal && !access.is_open(method) {
            let token = Reserved::of(&payload)?.token.map(|token| token.0);
            let token = token.or(call.asked.meta.token);
            access.open(method, &call.entry().name, token)?;
        }
        Ok(payload)
    }

    /// What serves all calls of this turn.
    ///
    /// # Errors
    /// [`Code::NotReady`] before the process is ready.
    #[inline]
    fn state(&self) -> Result<Ref<'_, S::State>, Status> {
        if self.state.borrow().is_none() {
            *self.state.borrow_mut() = self.calls.state();
        }
        let state = Ref::filter_map(self.state.borrow(), |state| state.as_ref().map(|state| &***state));
        state.map_err(|_| {
            let ex = "the server is warming up; /readyz on the admin port turns 200 when it is done";
            Status::new(Code::NotReady, ex)
        })
    }

    pub(crate) fn batch(&self) -> RefMut<'_, S::Batch> {
        self.batch.borrow_mut()
    }

    /// A call was answered; it is counted, unless nothing is.
    #[inline]
    pub(crate) fn answered(&self, method: MethodId) {
        if !self.calls.statistics.answered_at_once(method) {
            return;
        }
        let mut answered = self.answered.borrow_mut();
        match answered.iter_mut().find(|(of, _)| *of == method) {
            Some((_, calls)) => *calls += 1,
            None => answered.push((method, 1)),
        }
    }

    /// What has left now: each call that was answered at once took all of the turn.
    fn time(&self, began: Instant, written: impl Iterator<Item = (MethodId, Instant)>) {
        let (mut answered, mut written) = (self.answered.borrow_mut(), written.peekable());
        if answered.is_empty() && written.peek().is_none() {
            return;
        }
        let (now, statistics) = (Instant::now(), &self.calls.statistics);
        for (method, calls) in answered.drain(..) {
            statistics.timed(method, now.saturating_duration_since(began), calls);
        }
        for (method, since) in written {
            statistics.wrote(method, now.saturating_duration_since(since));
        }
    }
}

impl<S: Backing> Service for MethodService<S> {
    fn find(&self, name: &str) -> Option<MethodId> {
        self.calls.methods.named(name)
    }

    fn call(&self, asked: &Call<'_>, mut reply: Reply<'_>) {
        let calls = &self.calls;
        let method = match asked.method {
            Ok(method) => method,
            Err(name) => return calls.unknown(name, asked.caller.peer, reply),
        };
        let is_internal = asked.caller.peer == Peer::Process;
        let mut call = Served::new(self, method, asked, is_internal, reply.hand_on());
        let (connection, bytes) = (asked.caller.connection, asked.payload.len());
        tracing::trace!(method = calls.methods.name(method), connection, bytes, "called");
        let served = self.admit(&call).and_then(|()| match &call.entry().serve {
            Serve::Always(serve) | Serve::UntilStop(serve) => {
                let payload = self.read(&call)?;
                serve(&mut call, &payload)
            }
            Serve::Ready(serve) | Serve::Draining(serve) => {
                let (state, payload) = (self.state()?, self.read(&call)?);
                serve(&state, &mut call, &payload)
            }
            Serve::Configured(serve) => {
                let (_state, payload) = (self.state()?, self.read(&call)?);
                serve(&mut call, &payload)
            }
        });
        if let Err(status) = served {
            call.refuse(&status);
        }
    }

    #[inline]
    fn look_ahead(&self, method: MethodId, encoding: Encoding, payloads: &[&[u8]]) {
        if let (Some(ahead), Encoding::Msgpack) = (self.calls.methods.entry(method).ahead, encoding)
            && let Ok(state) = self.state()
        {
            ahead(&state, payloads);
        }
    }

    fn visit(&self, verb: &str, path: &str, peer: Peer, reply: Reply<'_>) {
        match self.calls.access.admit_peer(peer) {
            Ok(()) => self.host.visit(verb, path, reply),
            Err(status) => reply.error(&status),
        }
    }

    fn admits(&self, peer: Peer) -> Result<(), Status> {
        self.calls.access.admit_peer(peer)
    }

    fn login(&self, peer: Peer, group: Option<&str>, token: &str) -> Result<Login, Status> {
        self.calls.access.admit_peer(peer)?;
        Ok(self.calls.access.login(group, token))
    }

    fn refused(&self, method: Option<MethodId>, status: &Status) {
        match method {
            Some(method) => self.calls.statistics.failed(method, status),
            None => self.calls.statistics.unknown(),
        }
    }

    fn outbound(&self) -> Option<&Outbound> {
        let calls = &self.calls;
        (calls.nodes().is_some() || calls.stores_at().is_some()).then_some(&self.outbound)
    }

    fn has_batch(&self) -> bool {
        S::waits(&self.batch.borrow())
    }

    /// What was answered before the batch was sent before it, so it is timed first.
    fn serve_batch(&self, began: Instant) {
        self.time(began, std::iter::empty());
        S::serve(&mut self.batch.borrow_mut());
    }

    fn turned(&self, began: Instant, written: impl Iterator<Item = (MethodId, Instant)>) {
        *self.state.borrow_mut() = None;
        self.time(began, written);
    }
}
