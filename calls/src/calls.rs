//! The one way of every call: from its name to what serves it, and to what is counted and logged of it.
//!
//! It decodes the payload's map and nothing of its meaning. Its invariant: a call is refused for the first reason that
//! holds, in this order: address, unknown method, the method's rules, stopping, not ready, bad payload, token.

use crate::{
    Access, Admission, Arrival, Backing, Call, Host, MethodId, Methods, ModelTime, Peer, Reply, Serve,
    Served, SlowLog, Statistics, Turn,
};
use arc_swap::{ArcSwap, Guard};
use millpond_wire_payload::{Payload, Reserved};
use millpond_wire_schema::{Code, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Characters of an unknown method's name that the log shows.
const UNKNOWN_SHOWN_MAX: usize = 64;
/// Bytes of an error's words that the log shows; whoever called has all of them.
const EX_SHOWN_BYTES_MAX: usize = 512;

/// What every call meets, whatever its method. Methods are served with `S`.
pub struct Calls<S: Backing> {
    /// The table.
    pub methods: Methods<S>,
    /// Who may call what.
    pub access: Access,
    /// How many calls are worked on, and until when.
    pub admission: Arc<Admission>,
    /// What is counted of them.
    pub statistics: Statistics,
    /// Which of them are slow.
    pub slow: SlowLog,
    /// Bytes that an answer may hold.
    pub answer_bytes_max: usize,
    /// Set when the process begins to stop.
    stopping: AtomicBool,
    /// Set once everything is open and warm.
    state: OnceLock<Arc<ArcSwap<S::State>>>,
}

impl<S: Backing> Calls<S> {
    /// Nothing serves yet.
    pub fn new(
        access: Access,
        admission: Admission,
        methods: Methods<S>,
        slow_ms: u64,
        answer_bytes_max: usize,
    ) -> Calls<S> {
        Calls {
            access,
            admission: Arc::new(admission),
            statistics: Statistics::new(methods.all().count()),
            slow: SlowLog::new(slow_ms),
            answer_bytes_max,
            stopping: AtomicBool::new(false),
            state: OnceLock::new(),
            methods,
        }
    }

    /// From now on methods are served from that state, which may be another one each turn.
    pub fn open(&self, state: Arc<ArcSwap<S::State>>) {
        let _ = self.state.set(state);
    }

    /// What serves now, if anything does yet.
    pub fn state(&self) -> Option<Guard<Arc<S::State>>> {
        Some(self.state.get()?.load())
    }

    /// From now on calls are refused.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether calls are refused because the process stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Serves a call in that turn of a net thread.
    pub fn serve(self: &Arc<Self>, asked: &Call<'_>, mut reply: Reply<'_>, turn: &Turn<S>, host: &dyn Host) {
        let method = match asked.method {
            Ok(method) => method,
            Err(name) => return self.unknown(name, asked.caller.peer, reply),
        };
        let mut call = Served::new(self, host, method, asked, Some(turn), reply.hand_on());
        let (connection, bytes) = (asked.caller.connection, asked.payload.len());
        tracing::trace!(method = self.methods.name(method), connection, bytes, "called");
        let served = self.admit(&call).and_then(|()| {
            if let Serve::Always(serve) | Serve::UntilStop(serve) = &call.entry().serve {
                let payload = self.read(&call)?;
                return serve(&mut call, &payload);
            }
            let state = turn.state(self).ok_or_else(|| {
                let ex = "the server is warming up; /readyz on the admin port turns 200 when it is done";
                Status::new(Code::NotReady, ex)
            })?;
            self.serve_from(&state, &mut call)
        });
        if let Err(status) = served {
            call.refuse(&status);
        }
    }

    /// Serves a call of the process's own, before it is ready: from `state`, and counted nowhere.
    pub fn rehearse(
        self: &Arc<Self>,
        state: &S::State,
        asked: &Call<'_>,
        mut reply: Reply<'_>,
        host: &dyn Host,
    ) {
        if let Ok(method) = asked.method {
            let mut call = Served::new(self, host, method, asked, None, reply.hand_on());
            if let Err(status) = self.serve_from(state, &mut call) {
                call.refuse(&status);
            }
        }
    }

    /// Has what serves its method serve it.
    #[inline]
    fn serve_from(&self, state: &S::State, call: &mut Served<'_, S>) -> Result<(), Status> {
        let payload = self.read(call)?;
        match &call.entry().serve {
            Serve::Always(serve) | Serve::UntilStop(serve) => serve(call, &payload),
            Serve::Ready(serve) => serve(state, call, &payload),
            Serve::Configured(serve) => serve(call, &payload),
        }
    }

    fn unknown(&self, name: &str, peer: Peer, reply: Reply<'_>) {
        if let Err(status) = self.access.admit_peer(peer) {
            return reply.error(&status);
        }
        self.statistics.unknown();
        let shown: String = name.chars().take(UNKNOWN_SHOWN_MAX).collect();
        tracing::debug!(method = ?shown, code = Code::UnknownMethod.number(), "refused");
        let ex = format!("unknown method {name:?}; methods are {}", self.methods.names());
        reply.error(&Status::new(Code::UnknownMethod, ex));
    }

    /// Refuses by address, by the method's rules, and while the process stops.
    fn admit(&self, call: &Served<'_, S>) -> Result<(), Status> {
        let (method, entry) = (call.arrival.method, call.entry());
        if !self.access.is_open(method) {
            let caller = call.asked.caller;
            self.access.admit_peer(caller.peer)?;
            self.access
                .admit(method, &entry.name, caller.peer, caller.encrypted)?;
        }
        // What is asked while a server stops is whether it does.
        if !matches!(entry.serve, Serve::Always(_)) && self.is_stopping() {
            let ex = "the server is stopping; call another one";
            return Err(Status::new(Code::Stopping, ex));
        }
        Ok(())
    }

    /// Reads a payload as far as everybody must, and checks its token, or else that of its headers.
    #[inline]
    fn read<'c>(&self, call: &Served<'c, S>) -> Result<Payload<'c>, Status> {
        let payload = Payload::new(call.asked.encoding, call.asked.payload)?;
        let method = call.arrival.method;
        if !call.arrival.is_own && !self.access.is_open(method) {
            let token = Reserved::of(&payload)?.token.map(|token| token.0);
            let token = token.or(call.asked.meta.token);
            self.access.open(method, &call.entry().name, token)?;
        }
        Ok(payload)
    }

    /// Counts a call that its front refused.
    pub fn refused_before(&self, method: Option<MethodId>, status: &Status) {
        match method {
            Some(method) => self.statistics.failed(method, status),
            None => self.statistics.unknown(),
        }
    }

    /// Counts and logs a call that gets an error.
    pub(crate) fn refused(&self, arrival: &Arrival, trace: Option<&str>, status: &Status) {
        if arrival.is_own {
            return;
        }
        self.statistics.failed(arrival.method, status);
        let (method, code) = (self.methods.name(arrival.method), status.code.number());
        // It may quote what the caller sent.
        let ex = &status.ex[..status.ex.floor_char_boundary(EX_SHOWN_BYTES_MAX)];
        tracing::debug!(method, code, ?ex, "refused");
        if self.slow.ms() > 0 {
            self.slow.note(method, arrival, Instant::now(), trace, code, None);
        }
    }

    /// Counts a call of another thread's whose result was ready at `ready`.
    pub(crate) fn answered(
        &self,
        arrival: &Arrival,
        ready: Instant,
        trace: Option<&str>,
        model: Option<ModelTime>,
    ) {
        if arrival.is_own {
            return;
        }
        self.statistics.answered(arrival, ready, model);
        let method = self.methods.name(arrival.method);
        self.slow.note(method, arrival, ready, trace, 0, model);
    }

    /// Logs a call that was answered at once.
    pub(crate) fn tell(&self, arrival: &Arrival, ready: Instant, trace: Option<&str>) {
        let method = self.methods.name(arrival.method);
        self.slow.note(method, arrival, ready, trace, 0, None);
        tracing::debug!(
            method,
            us = ready.saturating_duration_since(arrival.received).as_micros() as u64,
            trace,
            "answered"
        );
    }
}
