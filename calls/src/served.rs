//! A call while it is served, and after another thread took it.
//!
//! It decides nothing about a call. Its invariant: a call is counted once, as answered or as failed.

use crate::push::Pusher;
use crate::reply::lost;
use crate::{
    Arrival, Backing, Call, Calls, Cost, Host, MethodId, MethodService, MethodSpec, Outbound, Peer, Permit,
    Reply, Spent, Ticket,
};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Code, Status};
use std::cell::RefMut;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Bytes of a payload beyond which its call takes long enough for the clock to be read behind it.
const SHORT_BYTES_MAX: usize = 16 << 10;

/// A call that its method serves.
pub struct Served<'a, S: Backing> {
    /// What every call meets.
    pub calls: &'a Arc<Calls<S>>,
    /// The process around it.
    pub host: &'a Arc<dyn Host>,
    /// What is asked, and by whom.
    pub asked: &'a Call<'a>,
    /// Which method it is of, and since when.
    pub arrival: Arrival,
    /// The service of its net thread, at the end of whose turn it may be served.
    service: &'a MethodService<S>,
    /// Taken by whatever answers.
    reply: Option<Reply<'a>>,
}

impl<'a, S: Backing> Served<'a, S> {
    pub(crate) fn new(
        service: &'a MethodService<S>,
        method: MethodId,
        asked: &'a Call<'a>,
        is_internal: bool,
        reply: Reply<'a>,
    ) -> Served<'a, S> {
        let arrival = Arrival {
            method,
            received: asked.received,
            entered: match service.calls.methods.entry(method).cost {
                Cost::Detached | Cost::Batched => asked.clock.read(),
                Cost::Short | Cost::Unbounded => asked.clock.last(),
            },
            is_internal,
        };
        Served {
            calls: &service.calls,
            host: &service.host,
            asked,
            arrival,
            service,
            reply: Some(reply),
        }
    }

    pub(crate) fn entry(&self) -> &'a MethodSpec<S> {
        self.calls.methods.entry(self.arrival.method)
    }

    /// When this call becomes worthless.
    ///
    /// # Errors
    /// [`Code::DeadlinePassed`] when that was before.
    #[inline]
    pub fn deadline(&self, payload_ms: Option<u64>) -> Result<Instant, Status> {
        let beside_ms = self.asked.meta.deadline_ms;
        let budget_ms = match self.asked.caller.peer {
            // What is left of the payload's.
            Peer::Process => beside_ms.or(payload_ms),
            Peer::Inet(_) | Peer::Unix => payload_ms.or(beside_ms),
        };
        self.calls.admission.deadline(&self.arrival, budget_ms)
    }

    /// The level that the caller gave this call, from 0 (first) to 9; a payload's own comes before a header's.
    #[inline]
    pub fn priority(&self, payload: Option<u8>) -> Option<u8> {
        payload.or(self.asked.meta.priority)
    }

    /// Binary blocks of a JSON answer as base64 text.
    pub fn set_base64(&mut self, base64: bool) {
        if let Some(reply) = &mut self.reply {
            reply.set_base64(base64);
        }
    }

    /// The way to call the caller, now and later, from any thread.
    ///
    /// # Errors
    /// Where its protocol has none.
    pub fn pusher(&mut self) -> Result<Pusher, Status> {
        let reply = self.reply.as_mut().ok_or_else(twice)?;
        Ok(reply.pusher()?)
    }

    /// Answers at once; it is counted, and logged where somebody wants a line of it.
    #[inline]
    pub fn answer(&mut self, trace: Option<&str>, write: impl FnOnce(&mut Encoder<'_>)) {
        self.answer_after(Spent::default(), trace, write);
    }

    /// As [`Served::answer`], where it is known what the call took.
    #[inline]
    pub fn answer_after(
        &mut self,
        spent: Spent<'_>,
        trace: Option<&str>,
        write: impl FnOnce(&mut Encoder<'_>),
    ) {
        let Some(reply) = self.reply.take() else { return };
        reply.ok(write);
        if self.arrival.is_internal {
            return;
        }
        self.service.answered(self.arrival.method);
        let calls = self.calls;
        if self.is_long() || calls.slow.ms() > 0 || tracing::enabled!(tracing::Level::DEBUG) {
            let trace = trace.or(self.asked.meta.trace);
            calls.tell(&self.arrival, self.asked.clock.read(), trace, spent);
        }
    }

    /// Whether the clock is read behind it, so that what comes next is not taken for its time.
    #[inline]
    fn is_long(&self) -> bool {
        self.entry().cost == Cost::Unbounded || self.asked.payload.len() > SHORT_BYTES_MAX
    }

    /// Answers an error at once, counted and logged.
    pub(crate) fn refuse(&mut self, status: &Status) {
        if let Some(reply) = self.reply.take() {
            self.calls.refused(&self.arrival, self.asked.meta.trace, status);
            reply.error(status);
        }
    }

    /// Where it may wait for the end of its turn, if its method's calls do: then the hook serves it, on this thread, once it is
    /// detached. An internal call waits in none.
    pub fn batch(&self) -> Option<RefMut<'a, S::Batch>> {
        (self.entry().cost == Cost::Batched && !self.arrival.is_internal).then(|| self.turn_end())?
    }

    /// What the hook at the end of its turn will serve, to add to it; no turn of a rehearsal ends.
    pub fn turn_end(&self) -> Option<RefMut<'a, S::Batch>> {
        let is_rehearsal = self.arrival.is_internal && self.asked.caller.peer != Peer::Process;
        (!is_rehearsal).then(|| self.service.batch())
    }

    /// Calls to other servers and processes; an internal call sends none.
    pub fn outbound(&self) -> Option<(&'a Outbound, &'a Arc<Mutex<S::Kept>>)> {
        (!self.arrival.is_internal).then_some((&self.service.outbound, &self.service.kept))
    }

    /// Takes the call to another thread, or to the end of its turn; it holds the permit until it is answered. `trace` is the payload's own.
    ///
    /// # Errors
    /// Where it was answered already.
    pub fn detach(&mut self, permit: Option<Permit>, trace: Option<&str>) -> Result<Detached<S>, Status> {
        let reply = self.reply.take().ok_or_else(twice)?;
        Ok(Detached {
            calls: Arc::clone(self.calls),
            arrival: self.arrival,
            trace: trace.or(self.asked.meta.trace).map(str::to_owned),
            ticket: Some(reply.later()),
            is_counted: false,
            _permit: permit,
        })
    }
}

#[cold]
fn twice() -> Status {
    Status::new(Code::Internal, "the call was answered already")
}

/// A call that any thread answers. Dropped unanswered, as by a panic, it is counted as failed.
pub struct Detached<S: Backing> {
    /// What every call meets.
    pub calls: Arc<Calls<S>>,
    /// Which method it is of, and since when.
    pub arrival: Arrival,
    /// The trace that it belongs to.
    pub trace: Option<String>,
    /// Taken by whatever answers.
    ticket: Option<Ticket>,
    /// Its result was ready.
    is_counted: bool,
    /// Given back when the answer is on its way.
    _permit: Option<Permit>,
}

impl<S: Backing> Detached<S> {
    /// Turns true when the caller has gone: work not begun is not worth doing.
    pub fn gone(&self) -> Arc<AtomicBool> {
        self.ticket.as_ref().map(Ticket::gone).unwrap_or_default()
    }

    /// Binary blocks of a JSON answer as base64 text.
    pub fn set_base64(&mut self, base64: bool) {
        if let Some(ticket) = &mut self.ticket {
            ticket.set_base64(base64);
        }
    }

    /// Its result is ready: counts it, and says when that was.
    pub fn ready(&mut self, spent: Spent<'_>) -> Instant {
        let ready = Instant::now();
        let trace = self.trace.as_deref();
        self.calls.answered(&self.arrival, ready, trace, spent);
        self.is_counted = true;
        // Whoever has sent an internal call on counts when its answer leaves.
        if let Some(ticket) = self.ticket.as_mut().filter(|_| !self.arrival.is_internal) {
            ticket.set_ready(ready, self.arrival.method);
        }
        ready
    }

    /// Answers a call whose result was counted as ready.
    pub fn ok(mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        if let Some(ticket) = self.ticket.take() {
            ticket.ok(write);
        }
    }

    /// Counts the call as answered, and answers it.
    pub fn answer(mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        self.ready(Spent::default());
        self.ok(write);
    }

    /// Counts the call as failed, and answers an error.
    pub fn refuse(mut self, status: &Status) {
        self.fail(status);
    }

    fn fail(&mut self, status: &Status) {
        let Some(ticket) = self.ticket.take() else { return };
        if !self.is_counted {
            self.calls.refused(&self.arrival, self.trace.as_deref(), status);
        }
        ticket.error(status);
    }
}

impl<S: Backing> Drop for Detached<S> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.fail(&lost());
        }
    }
}
