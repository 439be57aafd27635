//! The client's session: one connection to a node, the calls that it carries, and what comes back.
//!
//! It opens nothing and chooses no node. Its invariant: each call that is given to it ends once, with the node's answer or with
//! why there is none; a sink is called without any lock held.

use millpond_calls::{NodeAnswer, NodeCall, NodeCounts, NodeError, NodeSink, Service, forwarded};
use millpond_fronts_answer::Serving;
use millpond_net::{Received, Session, Turn, limited};
use millpond_wire_frame::{Awaited, Encoding, FrameKind, Limits, Parsed};
use millpond_wire_schema::{Code, Status};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A line of the log.
const NOT_ANSWER: &str = "bytes of nodes that are no answer";
/// What a connection without calls is kept open with.
const KEEP_ALIVE: (&str, &[u8]) = ("*ping", &[0x80]);

/// What a frame has beside its payload: a head, and the name of a method.
pub(crate) const FRAME_BYTES: usize = 64;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being opened.
    Opening,
    /// It is open.
    Open,
    /// It is over: no call on it was ever answered, it was lost with calls on it, or the node broke the protocol.
    Lost,
    /// It is over, and no call was left on it.
    Closed,
}

/// A connection, for its session and for the pool that it is of.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Mutex<Inner>>);

/// Whom a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// A node.
    Node,
    /// The process of this server that has its ordered stores.
    Stores,
}

/// What is kept of a call until its answer.
struct Sent {
    sink: Box<dyn NodeSink>,
    bytes: usize,
}

struct Inner {
    node: String,
    to: To,
    counts: Arc<NodeCounts>,
    state: State,
    /// The node has answered a call: it is up, and no server that takes connections and dies.
    has_answered: bool,
    /// A call without a sink keeps the connection open.
    awaited: Awaited<Option<Sent>>,
    /// Bytes of their frames.
    awaited_bytes: usize,
    /// When a byte last came, or the first of the calls that are awaited was sent.
    heard: Instant,
    /// Why it is to end.
    why: Option<String>,
    /// Why it was lost.
    lost: Option<String>,
}

impl Wire {
    /// To the node of that name.
    pub(crate) fn new(node: &str, to: To, counts: Arc<NodeCounts>, now: Instant) -> Wire {
        Wire(Arc::new(Mutex::new(Inner {
            node: node.to_owned(),
            to,
            counts,
            state: State::Opening,
            has_answered: false,
            awaited: Awaited::default(),
            awaited_bytes: 0,
            heard: now,
            why: None,
            lost: None,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.inner().state
    }

    /// Whether the node has answered a call on it.
    pub(crate) fn has_answered(&self) -> bool {
        self.inner().has_answered
    }

    /// Calls that are not answered.
    pub(crate) fn awaited(&self) -> usize {
        self.inner().awaited.len()
    }

    /// Bytes of their frames.
    pub(crate) fn awaited_bytes(&self) -> usize {
        self.inner().awaited_bytes
    }

    /// When it was last heard of.
    pub(crate) fn heard(&self) -> Instant {
        self.inner().heard
    }

    /// Why it was lost, where it was.
    pub(crate) fn take_lost(&self) -> Option<String> {
        self.inner().lost.take()
    }

    /// It is to be ended, for that reason.
    pub(crate) fn give_up(&self, why: String) {
        self.inner().why = Some(why);
    }

    /// Appends a call's frame to `out`.
    ///
    /// # Errors
    /// The sink, where it can be no frame.
    pub(crate) fn write(
        &self,
        call: NodeCall,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Result<(), (String, Box<dyn NodeSink>)> {
        let mut inner = self.inner();
        if inner.awaited.is_empty() {
            inner.heard = now;
        }
        let (method, payload) = (call.method, &call.payload);
        let bytes = payload.len() + FRAME_BYTES;
        let sent = Some(Sent {
            sink: call.sink,
            bytes,
        });
        let written = inner.awaited.write(out, call.encoding, method, payload, sent);
        match written {
            Ok(_) => {
                inner.awaited_bytes += bytes;
                inner.counts.sent();
                Ok(())
            }
            Err((error, Some(sent))) => Err((error.to_string(), sent.sink)),
            Err((_, None)) => Ok(()),
        }
    }

    /// As after the node's first answer.
    #[cfg(test)]
    pub(crate) fn set_answered(&self) {
        self.inner().has_answered = true;
    }

    /// Appends a call that keeps the connection open.
    pub(crate) fn write_keep_alive(&self, out: &mut Vec<u8>, now: Instant) {
        let mut inner = self.inner();
        let (method, payload) = KEEP_ALIVE;
        inner.heard = now;
        let of_process = match inner.to {
            To::Node => None,
            To::Stores => Some(forwarded(u64::from(u32::MAX), payload)),
        };
        let payload = of_process.as_deref().unwrap_or(payload);
        // Its name and payload can be a frame.
        let _ = inner.awaited.write(out, Encoding::Msgpack, method, payload, None);
    }
}

/// The process that has the stores has not got the call: nothing of it was done.
pub(crate) fn unreached(why: &str) -> NodeError {
    let ex =
        format!("the process of this server that has its ordered stores {why}; nothing was done, try again");
    NodeError {
        status: Status::new(Code::NotReady, ex),
        is_answer: false,
    }
}

/// It may have got the call, and done it.
fn unknown(why: &str) -> NodeError {
    let ex = format!(
        "the process of this server that has its ordered stores was lost before it answered: it {why}; whether this was written is \
         unknown: repeat it only with if_version or if_absent, or where twice does no harm"
    );
    NodeError {
        status: Status::new(Code::OutcomeUnknown, ex),
        is_answer: false,
    }
}

/// The session of that connection.
pub(crate) struct NodeSession {
    pub(crate) wire: Wire,
    pub(crate) limits: Limits,
}

impl<S: Service> Session<Serving<S>> for NodeSession {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        let mut inner = self.wire.inner();
        let malformed = |inner: &mut Inner, what: String| {
            limited!(
                warn,
                turn.counters().quiet,
                NOT_ANSWER,
                [node = inner.node, what],
                "connection to another server or process closed"
            );
            inner.why = Some(format!("sent what is no answer: {what}"));
            Received::Malformed
        };
        let (returned, len) = match inner.awaited.read(input, self.limits) {
            Ok(Parsed::Whole { message, len }) => (message, len),
            Ok(Parsed::Partial { needed }) => return Received::More(needed),
            Err(error) => return malformed(&mut inner, error.to_string()),
        };
        let FrameKind::Answer { status, seq } = returned.frame.kind else {
            // A server may call its caller; none of its calls is for another server.
            return Received::Served(len);
        };
        let Some(call) = returned.call else {
            return malformed(&mut inner, format!("an answer to {seq}, which was not asked"));
        };
        inner.has_answered = true;
        let Some(Sent { sink, bytes }) = call else {
            return Received::Served(len);
        };
        inner.awaited_bytes = inner.awaited_bytes.saturating_sub(bytes);
        let answer = NodeAnswer {
            encoding: returned.frame.encoding,
            payload: returned.frame.payload,
        };
        inner.counts.ended(false);
        let answer = match status {
            0 => Ok(answer),
            _ => Err(match inner.to {
                To::Node => NodeError::answered(&inner.node, answer),
                To::Stores => NodeError::of_process(answer),
            }),
        };
        drop(inner);
        if let Some(outbound) = local.service.outbound() {
            sink.ended(outbound, local.began(), answer);
        }
        Received::Served(len)
    }

    fn is_full(&self, _: usize) -> bool {
        false
    }

    /// What this side has opened is never refused.
    fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}

    fn awaits_peer(&self) -> bool {
        self.wire.awaited() > 0
    }

    fn opened(&mut self, local: &Serving<S>) {
        let mut inner = self.wire.inner();
        inner.state = State::Open;
        inner.heard = local.began();
        inner.counts.connects.fetch_add(1, Ordering::Relaxed);
    }

    fn heard(&mut self, local: &Serving<S>) {
        // The rest of a large answer may take longer than a node may be silent.
        self.wire.inner().heard = local.began();
    }

    fn ended(&mut self, local: &Serving<S>, error: Option<io::Error>) {
        let mut inner = self.wire.inner();
        let calls = inner.awaited.drain();
        let was_open = inner.state == State::Open;
        inner.awaited_bytes = 0;
        let is_lost = !inner.has_answered || inner.why.is_some() || !calls.is_empty();
        inner.state = if is_lost { State::Lost } else { State::Closed };
        let why = match (inner.why.take(), error) {
            (Some(why), _) => why,
            (None, Some(error)) => format!("cannot be reached: {error}"),
            (None, None) => "closed the connection before its answer".to_owned(),
        };
        let error = match (inner.to, was_open) {
            (To::Node, _) => NodeError::unavailable(&inner.node, &why),
            (To::Stores, true) => unknown(&why),
            (To::Stores, false) => unreached(&why),
        };
        inner.lost = is_lost.then(|| why.clone());
        if is_lost {
            tracing::debug!(
                node = inner.node,
                why,
                calls = calls.len(),
                "connection to another server or process lost"
            );
        }
        let counts = Arc::clone(&inner.counts);
        drop(inner);
        let sinks: Vec<Box<dyn NodeSink>> = calls.into_iter().flatten().map(|sent| sent.sink).collect();
        sinks.iter().for_each(|_| counts.ended(true));
        let Some(outbound) = local.service.outbound() else {
            return;
        };
        for sink in sinks {
            sink.ended(outbound, local.began(), Err(error.clone()));
        }
    }
}
