//! Calls to other servers: what a net thread's methods send, until its front takes it, and their timers.
//!
//! It opens no connection and reads no clock. Each net thread has one; answers come to sinks on that thread. Its invariants:
//! a sink hears once of its call, and never while [`Outbound::send`] runs; a timer is called once, not before its time.

use millpond_nodes::Node;
use millpond_wire_payload::{Encoding, Map, Payload, PayloadError};
use millpond_wire_schema::{Code, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A call to a node.
pub struct NodeCall {
    /// Whom it is for.
    pub node: Arc<Node>,
    /// The method's name.
    pub method: &'static str,
    /// How the payload is written.
    pub encoding: Encoding,
    /// One map; of a call that is sent on, the time that it has left, and what its caller sent ([`forwarded`]).
    pub payload: Vec<u8>,
    /// Where the answer goes.
    pub sink: Box<dyn NodeSink>,
}

/// The payload of a call that is sent on to another process of this server: what time it has left in milliseconds, as eight bytes with
/// the highest first, and what its caller sent.
pub fn forwarded(left_ms: u64, payload: &[u8]) -> Vec<u8> {
    [&left_ms.to_be_bytes(), payload].concat()
}

/// The parts of such a payload.
pub fn split_forwarded(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (left_ms, payload) = payload.split_first_chunk()?;
    Some((u64::from_be_bytes(*left_ms), payload))
}

/// Takes what became of a call to a node.
pub trait NodeSink: Send {
    /// The call has ended: with an answer, or with why there is none. That is [`Code::NodeUnavailable`] where the node could
    /// not be reached or was lost; an error that the node answered is an error too.
    fn ended(self: Box<Self>, outbound: &Outbound, now: Instant, answer: Result<NodeAnswer<'_>, NodeError>);
}

/// The map that a node answered, not yet decoded.
#[derive(Debug, Clone, Copy)]
pub struct NodeAnswer<'a> {
    /// How it is written.
    pub encoding: Encoding,
    /// Its bytes, nobody has looked at them yet.
    pub payload: &'a [u8],
}

/// Why a call to a node has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// What to say of it.
    pub status: Status,
    /// The node answered so: it is up.
    pub is_answer: bool,
}

impl NodeError {
    /// The node could not be reached, or was lost: why.
    pub fn unavailable(node: &str, why: &str) -> NodeError {
        let ex = format!("node {node:?} {why}");
        NodeError {
            status: Status::new(Code::NodeUnavailable, ex),
            is_answer: false,
        }
    }

    /// The error that another process of this server answered, as it is.
    pub fn of_process(answer: NodeAnswer<'_>) -> NodeError {
        let unread = |error: PayloadError| {
            let ex = format!("another process of this server answered an error that cannot be read: {error}");
            Status::new(Code::Internal, ex)
        };
        NodeError {
            status: read_error(answer).unwrap_or_else(unread),
            is_answer: true,
        }
    }

    /// The error that a node answered.
    pub fn answered(node: &str, answer: NodeAnswer<'_>) -> NodeError {
        let said = match read_error(answer) {
            Ok(status) => Status::new(status.code, format!("node {node:?}: {}", status.ex)),
            Err(error) => Status::new(
                Code::Internal,
                format!("node {node:?} answered an error that cannot be read: {error}"),
            ),
        };
        NodeError {
            status: said,
            is_answer: true,
        }
    }
}

fn read_error(answer: NodeAnswer<'_>) -> Result<Status, PayloadError> {
    let payload = Payload::new(answer.encoding, answer.payload)?;
    payload.read(|reader| Map::read(reader, "an error map").map(|map| Status::decode(&map)))
}

/// What a timer does.
pub type OnTime = Box<dyn FnOnce(&Outbound, Instant) + Send>;

/// A timer that was set; of two the first in time comes first, then the first that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboundTimer {
    at: Instant,
    order: u64,
}

/// What one net thread has on its way to other servers.
#[derive(Default)]
pub struct Outbound {
    calls: RefCell<VecDeque<NodeCall>>,
    /// Those for another process of this server.
    sent_on: RefCell<VecDeque<NodeCall>>,
    timers: RefCell<BTreeMap<OutboundTimer, OnTime>>,
    next: Cell<u64>,
}

impl Outbound {
    /// Sends a call at the end of this turn.
    pub fn send(&self, call: NodeCall) {
        self.calls.borrow_mut().push_back(call);
    }

    /// Sends a call on to another process of this server, at the end of this turn; they leave in their order.
    pub fn send_on(&self, call: NodeCall) {
        self.sent_on.borrow_mut().push_back(call);
    }

    /// The next call of [`Outbound::send_on`].
    pub fn take_sent_on(&self) -> Option<NodeCall> {
        self.sent_on.borrow_mut().pop_front()
    }

    /// Calls `on_time` on this thread, at the end of the first turn after `at`.
    pub fn at(&self, at: Instant, on_time: OnTime) -> OutboundTimer {
        let order = self.next.get();
        self.next.set(order + 1);
        let timer = OutboundTimer { at, order };
        self.timers.borrow_mut().insert(timer, on_time);
        timer
    }

    /// A timer is not called any more.
    pub fn cancel(&self, timer: &OutboundTimer) {
        // What it holds is dropped behind the borrow.
        let _on_time = self.timers.borrow_mut().remove(timer);
    }

    /// The next call, for the front that sends it.
    pub fn take(&self) -> Option<NodeCall> {
        self.calls.borrow_mut().pop_front()
    }

    /// When the first timer is due.
    pub fn wake_at(&self) -> Option<Instant> {
        self.timers.borrow().first_key_value().map(|(timer, _)| timer.at)
    }

    /// Calls the timers that are due.
    pub fn turn(&self, now: Instant) {
        while let Some(on_time) = self.due(now) {
            on_time(self, now);
        }
    }

    fn due(&self, now: Instant) -> Option<OnTime> {
        let mut timers = self.timers.borrow_mut();
        let first = timers.first_entry().filter(|first| first.key().at <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    #[test]
    fn timers_come_in_their_order_and_not_before_their_time() {
        let (outbound, now) = (Outbound::default(), Instant::now());
        let heard = Arc::<Mutex<Vec<u64>>>::default();
        for ms in [3, 1, 2, 1] {
            let heard = Arc::clone(&heard);
            let on_time = move |_: &Outbound, _: Instant| heard.lock().unwrap().push(ms);
            outbound.at(now + Duration::from_millis(ms), Box::new(on_time));
        }
        let cancelled = outbound.at(now, Box::new(|_, _| panic!("it was cancelled")));
        outbound.cancel(&cancelled);
        let check = |ms, expected: &[u64], next: Option<u64>| {
            outbound.turn(now + Duration::from_millis(ms));
            assert_eq!(*heard.lock().unwrap(), expected);
            let next = next.map(|ms| now + Duration::from_millis(ms));
            assert_eq!(outbound.wake_at(), next);
        };
        check(0, &[], Some(1));
        check(1, &[1, 1], Some(2));
        check(9, &[1, 1, 2, 3], None);
    }

    #[test]
    fn a_timer_may_set_another() {
        let (outbound, now) = (Outbound::default(), Instant::now());
        let again = |outbound: &Outbound, now: Instant| {
            outbound.at(now + Duration::from_secs(1), Box::new(|_, _| ()));
        };
        outbound.at(now, Box::new(again));
        outbound.turn(now);
        assert_eq!(outbound.wake_at(), Some(now + Duration::from_secs(1)));
    }

    #[test]
    fn a_forwarded_payload_has_its_time_before_it() {
        let whole = forwarded(258, b"{}");
        assert_eq!(split_forwarded(&whole), Some((258, &b"{}"[..])));
        assert_eq!(split_forwarded(&whole[..8]), Some((258, &b""[..])));
        assert_eq!(split_forwarded(&whole[..7]), None);
    }

    #[test]
    fn an_error_of_a_node_names_it() {
        let mut payload = Vec::new();
        let mut out = millpond_wire_payload::Encoder::new(&mut payload, Encoding::Msgpack, false);
        Status::new(Code::VersionGone, "gone").encode(&mut out);
        let check = |payload: &[u8], code, words: &str| {
            let answer = NodeAnswer {
                encoding: Encoding::Msgpack,
                payload,
            };
            let error = NodeError::answered("b", answer);
            assert!(error.is_answer && error.status.code == code, "{error:?}");
            assert!(error.status.ex.contains(words), "{error:?}");
        };
        check(&payload, Code::VersionGone, "node \"b\": gone");
        check(&[0xc1], Code::Internal, "cannot be read");
    }
}
