//! The pushes of a connection: sent, answered in any order, and timed out.
//!
//! While answers of the peer are awaited, its calls beyond the in-flight bound do not stop the reading: the answers may stand
//! behind them, and a call in flight may wait for just those. Such calls are held back, a few, and refused beyond that.
//! Its invariants: a number is not used again while an answer to it is awaited; calls that are held are served in their order,
//! before any that came after them.

use super::requests::serve_call;
use super::{Connection, READ_AHEAD_BYTES};
use crate::Counters;
use crate::answer::Form;
use crate::net_thread::{Net, Room};
use crate::push::{Line, Push, PushAnswer, PushLimits, Waiting};
use crate::quiet::{Cause, LeftOut};
use crate::service::Service;
use crate::totals::Totals;
use millpond_wire_frame::websocket::{begin_message, finish_message};
use millpond_wire_frame::{Encoding, Frame, FrameKind, write_frame};
use millpond_wire_schema::{Code, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a held call weighs beside its bytes.
const HELD_CALL_BYTES: usize = 128;

/// What a connection knows of its pushes; made with its first pusher.
pub(crate) struct Pushes {
    line: Arc<Line>,
    /// The last number used; 0 is none.
    last: u32,
    /// The numbers have begun again: any of them was used once.
    wrapped: bool,
    waiting: BTreeMap<u32, Waiting>,
    /// When the thread's clock will look at them, if it will.
    armed: Option<Instant>,
    held: VecDeque<Held>,
    held_bytes: usize,
}

/// A call that waits for others of its connection.
struct Held {
    method: String,
    seq: Option<u32>,
    encoding: Encoding,
    payload: Vec<u8>,
    in_message: bool,
    received: Instant,
}

impl Held {
    fn bytes(&self) -> usize {
        HELD_CALL_BYTES + self.method.len() + self.payload.len()
    }
}

impl Pushes {
    pub(crate) fn new(limits: PushLimits, frame_bytes_max: usize, totals: Arc<Totals>) -> Pushes {
        Pushes {
            line: Arc::new(Line::new(limits, frame_bytes_max, totals)),
            last: 0,
            wrapped: false,
            waiting: BTreeMap::new(),
            armed: None,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    pub(crate) fn line(&self) -> Arc<Line> {
        Arc::clone(&self.line)
    }

    /// The next number, from 1 as FPNN's servers count; fewer are awaited than there are.
    fn number(&mut self) -> u32 {
        loop {
            self.last = self.last.checked_add(1).unwrap_or_else(|| {
                self.wrapped = true;
                1
            });
            if !self.waiting.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn was_used(&self, number: u32) -> bool {
        number != 0 && (self.wrapped || number <= self.last)
    }

    /// Bytes of memory that hold calls that were put off.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// They are served no more.
    pub(super) fn forget_held(&mut self) {
        (self.held, self.held_bytes) = (VecDeque::new(), 0);
    }

    pub(super) fn set_unsent(&self, bytes: usize) {
        self.line.set_unsent(bytes);
    }
}

impl Connection {
    /// Whether an answer of the peer is awaited.
    pub(super) fn awaits_answers(&self) -> bool {
        self.pushes
            .as_ref()
            .is_some_and(|pushes| !pushes.waiting.is_empty())
    }

    /// Whether calls are held back.
    pub(super) fn holds_calls(&self) -> bool {
        self.pushes.as_ref().is_some_and(|pushes| !pushes.held.is_empty())
    }

    /// No answer will come any more: whoever waits for one is told.
    pub(super) fn give_up_pushes(&mut self) {
        if let Some(pushes) = &mut self.pushes {
            pushes.line.close();
            drop(std::mem::take(&mut pushes.waiting));
        }
    }

    /// Sends a push, unless the connection ends; when to look at the clock for its answer, where nothing else does sooner.
    pub(crate) fn push<S>(&mut self, mut push: Push, net: &Net<S>, room: &mut Room) -> Option<Instant> {
        let flags = &self.flags;
        let ends = flags.closing || flags.ended || flags.broken || flags.lingers;
        let pushes = self.pushes.as_mut().filter(|_| !ends)?;
        let (method, payload) = (push.method.as_str(), &push.payload);
        let kind = match &push.waiting {
            None => FrameKind::Oneway { method },
            Some(_) => FrameKind::Twoway {
                method,
                seq: pushes.number(),
            },
        };
        let seq = match kind {
            FrameKind::Twoway { seq, .. } => Some(seq),
            _ => None,
        };
        self.borrow_out(room);
        let start = self.out.len();
        let message = self
            .websocket
            .is_some()
            .then(|| begin_message(&mut self.out, None));
        // It was checked when it was made.
        if write_frame(&mut self.out, push.encoding, kind, payload).is_err() {
            self.out.truncate(start);
            return None;
        }
        if let Some(message) = message {
            finish_message(&mut self.out, message);
        }
        self.seal(start);
        let bytes = self.out.len() - start;
        net.mailbox.totals().change(push.take_counted(), bytes);
        self.kept.mailed += bytes;
        net.counters.pushes.fetch_add(1, Ordering::Relaxed);
        let (owed, pushes) = (self.unsent(), self.pushes.as_mut()?);
        pushes.set_unsent(owed);
        let waiting = push.waiting?;
        let until = waiting.until;
        pushes.waiting.insert(seq?, waiting);
        let sooner = pushes.armed.is_none_or(|armed| until < armed);
        sooner.then(|| *pushes.armed.insert(until))
    }

    /// When the thread's clock looks at its pushes next, if it does.
    pub(crate) fn awaits_until(&self) -> Option<Instant> {
        self.pushes.as_ref()?.armed
    }

    /// Asks for a turn; false if it is queued for one.
    pub(crate) fn ask_for_turn(&mut self) -> bool {
        !std::mem::replace(&mut self.flags.due, true)
    }

    /// Takes the peer's answer; false if nothing was ever asked under that number.
    pub(super) fn take_answer(
        &mut self,
        counters: &Counters,
        frame: &Frame<'_>,
        status: u8,
        seq: u32,
    ) -> bool {
        let known = self.pushes.as_mut().filter(|pushes| pushes.was_used(seq));
        let Some(pushes) = known else {
            if let Some(LeftOut(left_out)) = counters.quiet.admits(Cause::NotAsked) {
                tracing::info!(peer = %self.peer, seq, left_out, "connection closed: an answer to what was never asked");
            }
            return false;
        };
        match pushes.waiting.remove(&seq) {
            Some(waiting) => {
                counters.push_answers.fetch_add(1, Ordering::Relaxed);
                waiting.answered(PushAnswer {
                    status,
                    encoding: frame.encoding,
                    payload: frame.payload,
                });
            }
            None => {
                counters.push_answers_late.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }

    /// Tells whoever has waited long enough; when to look again.
    pub(crate) fn time_out_pushes(&mut self, now: Instant, counters: &Counters) -> Option<Instant> {
        let pushes = self.pushes.as_mut()?;
        let over = |waiting: &Waiting| waiting.until <= now;
        let late: Vec<u32> = (pushes.waiting.iter())
            .filter_map(|(seq, waiting)| over(waiting).then_some(*seq))
            .collect();
        for seq in late {
            if let Some(waiting) = pushes.waiting.remove(&seq) {
                counters.push_timeouts.fetch_add(1, Ordering::Relaxed);
                waiting.timed_out();
            }
        }
        pushes.armed = pushes.waiting.values().map(|waiting| waiting.until).min();
        pushes.armed
    }

    /// Whether a call must wait for others, although the connection is read.
    pub(super) fn must_hold(&self, in_flight_max: usize) -> bool {
        self.pushes
            .as_ref()
            .is_some_and(|pushes| self.in_flight >= in_flight_max || !pushes.held.is_empty())
    }

    /// Keeps a call for later, or refuses it where too many are kept; returns what it was refused with.
    pub(super) fn hold(
        &mut self,
        counters: &Counters,
        frame: &Frame<'_>,
        method: &str,
        form: Form,
        received: Instant,
    ) -> Option<Status> {
        let (seq, in_message) = match form {
            Form::Frame { seq, in_message, .. } => (Some(seq), in_message),
            _ => (None, false),
        };
        let held = Held {
            method: method.to_owned(),
            seq,
            encoding: frame.encoding,
            payload: frame.payload.to_vec(),
            in_message,
            received,
        };
        let in_flight = self.in_flight;
        let pushes = self.pushes.as_mut()?;
        let bytes = pushes.held_bytes + held.bytes();
        if bytes <= READ_AHEAD_BYTES {
            pushes.held_bytes = bytes;
            pushes.held.push_back(held);
            return None;
        }
        counters.calls_refused.fetch_add(1, Ordering::Relaxed);
        let ex = format!(
            "{in_flight} calls of this connection are in flight and more wait, while the server waits for its peer's answers; \
             call again when some are answered, or raise server.in_flight_per_connection_max"
        );
        let status = Status::new(Code::Overloaded, ex);
        form.error(&mut self.out, &status);
        Some(status)
    }

    /// Whether a held call can be served now.
    pub(super) fn can_release(&self, in_flight_max: usize) -> bool {
        self.holds_calls() && self.in_flight < in_flight_max && !self.blocked(in_flight_max)
    }

    /// Serves what was held, as far as the bounds allow.
    pub(super) fn serve_held<S: Service>(&mut self, net: &Net<S>, budget: &mut usize) {
        while *budget > 0 && self.can_release(net.options.in_flight_max) {
            let Some(pushes) = &mut self.pushes else { return };
            let Some(held) = pushes.held.pop_front() else {
                return;
            };
            pushes.held_bytes -= held.bytes();
            let form = match held.seq {
                None => Form::Oneway,
                Some(seq) => Form::Frame {
                    encoding: held.encoding,
                    seq,
                    in_message: held.in_message,
                },
            };
            let start = self.out.len();
            let asked = (held.method.as_str(), held.encoding, held.payload.as_slice());
            serve_call(net, self, asked, form, held.received);
            self.sealed(start);
            *budget -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_one_and_are_not_used_twice_at_a_time() {
        let mut pushes = Pushes::new(PushLimits::default(), 1 << 20, crate::connection::rig::totals());
        assert!(!pushes.was_used(0) && !pushes.was_used(1));
        assert_eq!((pushes.number(), pushes.number()), (1, 2));
        assert!(pushes.was_used(2) && !pushes.was_used(3) && !pushes.was_used(0));
        pushes.last = u32::MAX - 1;
        assert_eq!((pushes.number(), pushes.number()), (u32::MAX, 1));
        assert!(pushes.was_used(u32::MAX) && pushes.was_used(77) && !pushes.was_used(0));
    }
}
