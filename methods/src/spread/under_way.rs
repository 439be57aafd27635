//! A call whose nodes have not all answered: it sends the copies, takes what comes, and answers once.
//!
//! It stays on one net thread; the sinks of its copies and its timers share it. Its invariants: it is answered once, at its
//! deadline at the latest; a copy that ends later is still reported, so that a node that has stopped does not look idle.

use super::beside::Beside;
use super::part::{self, Nodes, SpreadLookup};
use super::route::Route;
use super::whole::Whole;
use crate::Engines;
use millpond_calls::{Calls, Detached, NodeAnswer, NodeCall, NodeError, NodeSink, Outbound, OutboundTimer};
use millpond_nodes::{CopyId, NodeIndex, ToSend};
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::features_lookup::{self as schema, write_many};
use millpond_wire_schema::{FeaturesLookup, Method as _, Status};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// What does not change of a call.
pub(super) struct CallContext {
    pub(super) route: Arc<Route>,
    pub(super) is_many: bool,
    pub(super) base64: bool,
    pub(super) beside: Beside,
    pub(super) bytes_max: usize,
}

/// A lookup over nodes that is still unanswered: its copies, its rows so far, and its timer.
pub(super) struct UnderWay {
    begun: CallContext,
    parts: Vec<SpreadLookup>,
    calls: Arc<Calls<Engines>>,
    /// Taken by the answer.
    detached: Option<Detached<Engines>>,
    /// For the deadline.
    timer: Option<OutboundTimer>,
    /// Its first copies were sent.
    has_begun: bool,
}

/// A call for its sinks and timers.
type Shared = Arc<Mutex<UnderWay>>;

fn locked(shared: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UnderWay {
    /// Sends a call's copies.
    pub(super) fn begin(
        begun: CallContext,
        parts: Vec<SpreadLookup>,
        detached: Detached<Engines>,
        outbound: &Outbound,
        now: Instant,
    ) {
        let deadline = begun.beside.deadline;
        let shared = Arc::new(Mutex::new(UnderWay {
            begun,
            parts,
            calls: Arc::clone(&detached.calls),
            detached: Some(detached),
            timer: None,
            has_begun: false,
        }));
        let mut call = locked(&shared);
        for at in 0..call.parts.len() {
            let UnderWay { begun, parts, .. } = &mut *call;
            let Some(SpreadLookup::Nodes(nodes)) = parts.get_mut(at) else {
                continue;
            };
            if let Err(status) = nodes.split(&begun.route, now) {
                return call.fail(&status, outbound);
            }
            call.send(&shared, at, outbound, now);
            if call.detached.is_none() {
                // It was wrong, so no node is asked for its other parts.
                return;
            }
        }
        call.has_begun = true;
        if call.detached.is_some() {
            let weak = Arc::downgrade(&shared);
            call.timer = Some(outbound.at(deadline, Box::new(move |outbound, _| expire(&weak, outbound))));
        }
        call.answer(outbound);
    }

    /// Sends what a part has to send, reads what is this server's own, and sets its timer.
    fn send(&mut self, shared: &Shared, at: usize, outbound: &Outbound, now: Instant) {
        while let Some(next) = self.next_send(at) {
            let this = self.begun.route.this;
            if Some(next.node) == this {
                let answer = self.read_here(at, &next);
                self.take(at, &next, answer, outbound, now);
            } else {
                self.send_copy(shared, at, &next, outbound, now);
            }
        }
        self.set_timer(shared, at, outbound);
    }

    fn nodes(&mut self, at: usize) -> Option<&mut Nodes> {
        match self.parts.get_mut(at) {
            Some(SpreadLookup::Nodes(nodes)) => Some(nodes),
            Some(SpreadLookup::Done(_)) | None => None,
        }
    }

    fn next_send(&mut self, at: usize) -> Option<ToSend> {
        self.nodes(at)?.fan.as_mut()?.next_send()
    }

    /// The rows of a copy that are on this server.
    fn read_here(&mut self, at: usize, next: &ToSend) -> Result<schema::Part<'static>, NodeError> {
        let refused = |status| NodeError {
            status,
            is_answer: true,
        };
        let (map, bytes_max) = (self.begun.route.map.version(), self.begun.bytes_max);
        let calls = Arc::clone(&self.calls);
        let catalog = calls.state().map(|catalog| Arc::clone(&catalog));
        let lookup = self.nodes(at).and_then(|nodes| {
            let fan = nodes.fan.as_ref()?;
            Some(nodes.ask.lookup(fan.keys(next.copy), next.at_version, map))
        });
        let (Some(catalog), Some(lookup)) = (catalog, lookup) else {
            return Err(NodeError::unavailable("", "serves nothing yet"));
        };
        let nodes = calls.nodes().map(|nodes| &**nodes);
        let whole = super::share(&catalog, nodes, lookup, bytes_max).map_err(refused)?;
        Ok(whole.into_part())
    }

    fn send_copy(&mut self, shared: &Shared, at: usize, next: &ToSend, outbound: &Outbound, now: Instant) {
        let begun = &self.begun;
        let Some((node, counts)) = begun.route.node(next.node) else {
            return;
        };
        if self.has_begun {
            let count = if next.is_hedge {
                &counts.hedges
            } else {
                &counts.repeats
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        let Some(SpreadLookup::Nodes(nodes)) = self.parts.get(at) else {
            return;
        };
        let Some(fan) = &nodes.fan else { return };
        outbound.send(NodeCall {
            node: Arc::clone(node),
            encoding: Encoding::Msgpack,
            method: FeaturesLookup::NAME,
            payload: begun.beside.payload(now, |out| {
                let map = begun.route.map.version();
                nodes.ask.write(fan.keys(next.copy), next.at_version, map, out);
            }),
            sink: Box::new(Copy {
                call: Arc::clone(shared),
                part: at,
                copy: next.copy,
                node: next.node,
                at_version: next.at_version,
            }),
        });
    }

    /// Has the part's next hedge decided when it is due.
    fn set_timer(&mut self, shared: &Shared, at: usize, outbound: &Outbound) {
        let weak = Arc::downgrade(shared);
        let Some(nodes) = self.nodes(at) else { return };
        let due = nodes.fan.as_ref().and_then(|fan| fan.timer_at());
        if nodes.timer.as_ref().map(|(set, _)| *set) == due {
            return;
        }
        if let Some((_, timer)) = nodes.timer.take() {
            outbound.cancel(&timer);
        }
        if let Some(due) = due {
            let on_time = Box::new(move |outbound: &Outbound, now| hedge(&weak, at, outbound, now));
            nodes.timer = Some((due, outbound.at(due, on_time)));
        }
    }

    /// Takes what a copy came to.
    fn take(
        &mut self,
        at: usize,
        next: &ToSend,
        answer: Result<schema::Part<'_>, NodeError>,
        outbound: &Outbound,
        now: Instant,
    ) {
        let UnderWay { begun, parts, .. } = self;
        let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
        let beside = others.map(|(_, part)| part.bytes()).sum();
        let Some(SpreadLookup::Nodes(nodes)) = parts.get_mut(at) else {
            return;
        };
        let copy = (next.copy, next.node);
        let taken = nodes.take(&begun.route, copy, (next.at_version, beside), answer, now);
        if let Err(status) = taken {
            self.fail(&status, outbound);
        }
    }

    /// Answers, where nothing more is waited for.
    fn answer(&mut self, outbound: &Outbound) {
        let is_complete = |part: &SpreadLookup| match part {
            SpreadLookup::Done(_) => true,
            SpreadLookup::Nodes(nodes) => nodes.is_complete(),
        };
        if self.detached.is_none() || !self.parts.iter().all(is_complete) {
            return;
        }
        let calls = Arc::clone(&self.calls);
        let UnderWay { begun, parts, .. } = self;
        let whole = |part: &mut SpreadLookup| match part {
            SpreadLookup::Done(whole) => Ok(whole.take()),
            SpreadLookup::Nodes(nodes) => nodes.finish(&begun.route, |table, version| {
                let catalog = calls.state()?;
                catalog.version(table, version).cloned()
            }),
        };
        let whole: Result<Vec<Whole>, Status> = parts.iter_mut().map(whole).collect();
        match whole {
            Ok(whole) => {
                let Some(mut detached) = self.end(outbound) else {
                    return;
                };
                detached.set_base64(self.begun.base64);
                let is_many = self.begun.is_many;
                detached.answer(|out| write(&whole, is_many, out));
            }
            Err(status) => self.fail(&status, outbound),
        }
    }

    fn fail(&mut self, status: &Status, outbound: &Outbound) {
        self.expire();
        if let Some(detached) = self.end(outbound) {
            detached.refuse(status);
        }
    }

    /// Nothing more is sent, and what has not come is missing.
    fn expire(&mut self) {
        let UnderWay { begun, parts, .. } = self;
        for part in parts {
            if let SpreadLookup::Nodes(nodes) = part {
                nodes.expire(&begun.route);
            }
        }
    }

    /// It is answered now: nothing more is to come of its timers.
    fn end(&mut self, outbound: &Outbound) -> Option<Detached<Engines>> {
        if let Some(timer) = self.timer.take() {
            outbound.cancel(&timer);
        }
        for part in &mut self.parts {
            if let SpreadLookup::Nodes(nodes) = part
                && let Some((_, timer)) = nodes.timer.take()
            {
                outbound.cancel(&timer);
            }
        }
        self.detached.take()
    }
}

fn write(whole: &[Whole], is_many: bool, out: &mut Encoder<'_>) {
    match whole {
        [one] if !is_many => one.write(out),
        many => write_many(many, out, Whole::write),
    }
}

/// A copy's sink.
struct Copy {
    call: Shared,
    part: usize,
    copy: CopyId,
    node: NodeIndex,
    at_version: Option<u64>,
}

impl NodeSink for Copy {
    fn ended(self: Box<Self>, outbound: &Outbound, now: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        let mut call = locked(&self.call);
        let next = ToSend {
            copy: self.copy,
            node: self.node,
            at_version: self.at_version,
            is_hedge: false,
        };
        let route = Arc::clone(&call.begun.route);
        let name = route.name(self.node);
        match answer.and_then(|answer| part::payload(name, answer)) {
            Ok(payload) => call.take(self.part, &next, part::read(name, &payload), outbound, now),
            Err(error) => call.take(self.part, &next, Err(error), outbound, now),
        }
        if call.detached.is_some() {
            call.send(&self.call, self.part, outbound, now);
            call.answer(outbound);
        }
    }
}

fn hedge(call: &Weak<Mutex<UnderWay>>, at: usize, outbound: &Outbound, now: Instant) {
    let Some(shared) = call.upgrade() else { return };
    let mut call = locked(&shared);
    if call.detached.is_none() {
        return;
    }
    let route = Arc::clone(&call.begun.route);
    if let Some(nodes) = call.nodes(at) {
        nodes.timer = None;
        if let Some(fan) = &mut nodes.fan {
            fan.on_timer(&mut route.routing(), now);
        }
    }
    call.send(&shared, at, outbound, now);
    call.answer(outbound);
}

fn expire(call: &Weak<Mutex<UnderWay>>, outbound: &Outbound) {
    let Some(shared) = call.upgrade() else { return };
    let mut call = locked(&shared);
    call.timer = None;
    call.expire();
    call.answer(outbound);
}
