//! An upsert whose nodes have not all answered: it sends the copies, takes what comes of them, and answers once.
//!
//! It stays on one net thread, but for what this server's own log says: the log's thread notes that, and answers where nothing else
//! is to be done. Its invariants: it is answered "ok" once every key is on as many replicas as configured, and every other replica
//! of it is noted to miss it by one that has it, and answers no lookup before it has caught up; and it is answered at its
//! deadline at the latest.

mod anew;
mod ends;

use super::context::UpsertContext;
use super::shares::{Copied, Share};
use crate::Engines;
use crate::features_upsert::{check_map, note_missed, overlay, status_of, upsert_of};
use crate::spread::route::Kept;
use ends::{Here, NodeEnd, Sent};
use millpond_calls::{Calls, Detached, NodeCall, NodeError, Outbound, OutboundTimer};
use millpond_engines_features::{Stamp, UpsertError, Upserted};
use millpond_nodes::{Choice, NodeIndex};
use millpond_wire_payload::Encoding;
use millpond_wire_schema::{
    Code, FeaturesUpsert, Field as _, Method as _, Status, features_upsert as schema,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often an upsert is made anew because rows of its keys are newer: another server's clock was ahead, or it was called at the same
/// time.
const ABOVE_MAX: u32 = 2;
/// How often this server's own log is asked whether it has ended, where more is to be done then.
const LOOK: Duration = Duration::from_millis(5);

/// An upsert over nodes that is still unanswered: which replicas have it, and which are noted to miss it.
pub(super) struct Sending {
    begun: UpsertContext,
    /// Has the route of the map in use.
    kept: Arc<Mutex<Kept>>,
    calls: Arc<Calls<Engines>>,
    stamp: Stamp,
    /// Counts what was sent to all.
    attempt: u32,
    /// How often it was made anew above a newer row.
    above: u32,
    /// How often it waited for another map.
    pauses: usize,
    /// It waits for another map now.
    is_paused: bool,
    /// This server's own copy, while its log has it.
    here: Option<(usize, Here)>,
    /// Notes under way that other nodes missed it.
    notes: usize,
    /// Until when a node that missed it may answer lookups without knowing.
    safe_at: Option<Instant>,
    /// Taken by the answer.
    detached: Option<Detached<Engines>>,
    timers: Vec<OutboundTimer>,
    /// For the copies that it may do without.
    give_up_timer: Option<OutboundTimer>,
}

/// An upsert for its sinks and timers.
type Shared = Arc<Mutex<Sending>>;

fn locked(shared: &Mutex<Sending>) -> MutexGuard<'_, Sending> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds of Unix time.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

impl Sending {
    /// Sends its copies.
    pub(super) fn begin(
        begun: UpsertContext,
        kept: Arc<Mutex<Kept>>,
        detached: Detached<Engines>,
        outbound: &Outbound,
        now: Instant,
    ) {
        let deadline = begun.beside.deadline;
        let shared = Arc::new(Mutex::new(Sending {
            begun,
            kept,
            calls: Arc::clone(&detached.calls),
            stamp: Stamp::default(),
            attempt: 0,
            above: 0,
            pauses: 0,
            is_paused: false,
            here: None,
            notes: 0,
            safe_at: None,
            detached: Some(detached),
            timers: Vec::new(),
            give_up_timer: None,
        }));
        let mut call = locked(&shared);
        let expired = Arc::clone(&shared);
        call.timers.push(outbound.at(
            deadline,
            Box::new(move |outbound, _| locked(&expired).expire(outbound)),
        ));
        call.give_up_later(&shared, outbound, now);
        call.send_all(&shared, outbound, now);
    }

    /// Sets until when copies are waited for that it may do without.
    fn give_up_later(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        let options = &self.begun.nodes.options;
        if options.upsert_acks.is_none() {
            return;
        }
        let left = self.begun.beside.deadline.saturating_duration_since(now);
        let late = Arc::clone(shared);
        self.give_up_timer = Some(outbound.at(
            now + options.give_up.min(left / 2),
            Box::new(move |outbound, now| locked(&late).give_up(&late, outbound, now)),
        ));
    }

    /// Sends all copies under a new stamp.
    fn send_all(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        let stamps = &self.begun.nodes.stamps;
        self.stamp = Stamp {
            time: stamps.next(now_ms()),
            origin: stamps.origin(),
        };
        if self.stamp.is_ahead(SystemTime::now()) {
            let status = self.begun.set_back(self.stamp);
            return self.fail(&status, outbound);
        }
        for at in 0..self.begun.shares.len() {
            if let Some(share) = self.begun.shares.get_mut(at) {
                share.copied = Copied::Waiting;
            }
            match self.begun.shares.get(at).map(|share| share.node) {
                Some(node) if Some(node) == self.begun.route.this => {
                    self.write_here(shared, at, outbound, now)
                }
                Some(node) => self.send(shared, (at, node), outbound, now),
                None => {}
            }
        }
        self.settle(shared, outbound, now);
    }

    /// Sends a copy, unless its node failed lately and the upsert may do without it.
    fn send(&mut self, shared: &Shared, (at, index): (usize, NodeIndex), outbound: &Outbound, now: Instant) {
        let route = Arc::clone(&self.begun.route);
        let Some((node, _)) = route.node(index) else {
            return;
        };
        let mut routing = route.routing();
        let is_resting = matches!(routing.replicas.choose(&[index], now), Choice::Resting { .. });
        if is_resting && self.begun.nodes.options.upsert_acks.is_some() {
            drop(routing);
            let why = "failed lately, and is tried again a little later";
            return self.ended(at, Err(NodeError::unavailable(&node.name, why)));
        }
        routing.replicas.sent(index, now);
        drop(routing);
        let Some(share) = self.begun.shares.get(at) else {
            return;
        };
        let copy = self.begun.copy(share, self.stamp);
        let payload = self.begun.beside.payload(now, |out| copy.write_entries(out));
        outbound.send(NodeCall {
            node: Arc::clone(node),
            encoding: Encoding::Msgpack,
            method: FeaturesUpsert::NAME,
            payload,
            sink: Box::new(NodeEnd {
                call: Arc::clone(shared),
                sent: Sent::Copy(self.attempt),
                share: at,
                route: Arc::clone(&route),
                node: index,
            }),
        });
    }

    /// Hands this server's own copy to its log.
    fn write_here(&mut self, shared: &Shared, at: usize, outbound: &Outbound, now: Instant) {
        let Some(catalog) = self.calls.state().map(|catalog| Arc::clone(&catalog)) else {
            return self.ended(at, Err(NodeError::unavailable("", "serves nothing yet")));
        };
        let (content, map) = (&self.begun.content, self.begun.route.map.version());
        let under_way = self.begun.nodes.copies.enter(map);
        let made = overlay(&catalog, &content.table).and_then(|(table, overlay)| {
            // As a copy that another node sent: by a newer map its keys may be other nodes', who have been given all rows already.
            check_map(&self.begun.nodes, map)?;
            let share = self
                .begun
                .shares
                .get(at)
                .ok_or_else(|| Status::new(Code::Internal, "no share"))?;
            Ok((overlay, upsert_of(table, content.call(share))?))
        });
        match made {
            Ok((overlay, upsert)) => {
                let here = Here::default();
                self.here = Some((at, here.clone()));
                let call = Arc::clone(shared);
                overlay.upsert(upsert.stamped(self.stamp), move |result| {
                    drop(under_way);
                    here.ended(result, &call);
                });
                self.look_later(shared, outbound, now);
            }
            Err(status) => self.ended(
                at,
                Err(NodeError {
                    status,
                    is_answer: true,
                }),
            ),
        }
    }

    /// Has the log's end seen on this thread, should more be to do than to answer.
    fn look_later(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        let call = Arc::clone(shared);
        let look = move |outbound: &Outbound, now| {
            let mut sending = locked(&call);
            sending.settle(&call, outbound, now);
            match (&sending.detached, &sending.here) {
                // The log's thread may have answered.
                (None, _) => sending.cancel(outbound),
                (Some(_), Some(_)) => sending.look_later(&call, outbound, now),
                (Some(_), None) => {}
            }
        };
        outbound.at(now + LOOK, Box::new(look));
    }

    /// Takes what the log has said, if it has.
    fn take_here(&mut self) {
        let Some((at, here)) = &self.here else { return };
        let Some(result) = here.take() else { return };
        let at = *at;
        self.here = None;
        self.ended(at, result.map_err(|error| self.not_here(&error)));
    }

    fn not_here(&self, error: &UpsertError) -> NodeError {
        let table = &self.begun.content.table;
        if let Some(catalog) = self.calls.state() {
            catalog.store_failures.note_upsert(table, error);
        }
        NodeError {
            status: status_of(table, error),
            is_answer: true,
        }
    }

    /// A copy has ended.
    fn ended(&mut self, at: usize, answer: Result<Upserted, NodeError>) {
        if let Some(share) = self.begun.shares.get_mut(at).filter(|share| share.is_waiting()) {
            share.copied = match answer {
                Ok(upserted) => Copied::Taken {
                    sequence: upserted.sequence,
                    durability: upserted.durability,
                    newer: upserted.newer.time,
                },
                Err(NodeError { status, is_answer }) => Copied::Failed { status, is_answer },
            };
        }
    }

    /// Whether every node has it, and nothing of it is older than what was there: the answer, on any thread.
    fn answer_if_whole(&mut self) -> bool {
        let is_whole =
            |share: &Share| matches!(share.copied, Copied::Taken { newer, .. } if newer <= self.stamp.time);
        if self.detached.is_none() || !self.begun.shares.iter().all(is_whole) {
            return false;
        }
        self.answer();
        true
    }

    /// Goes on where no copy is under way any more.
    fn settle(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        self.take_here();
        let is_under_way = self.notes > 0 || self.begun.shares.iter().any(Share::is_waiting);
        if self.detached.is_none() || self.is_paused || is_under_way {
            return;
        }
        if self.answer_if_whole() {
            return self.cancel(outbound);
        }
        let newer = self.begun.shares.iter().map(|share| match share.copied {
            Copied::Taken { newer, .. } => newer,
            _ => 0,
        });
        let newer = newer.max().unwrap_or_default();
        if newer > self.stamp.time && self.above < ABOVE_MAX {
            let most = Stamp::ms_max(SystemTime::now());
            if newer >> 16 > most {
                let status = self.begun.behind_ahead(newer >> 16);
                return self.fail(&status, outbound);
            }
            self.begun.nodes.stamps.observe(newer, most);
            self.above += 1;
            self.attempt += 1;
            return self.send_all(shared, outbound, now);
        }
        if self.pause(shared, outbound, now) {
            return;
        }
        self.note_all(shared, outbound, now);
        let begun = &self.begun;
        let failed = begun.ahead().or_else(|| begun.callers_fault());
        if let Some(status) = failed.or_else(|| begun.shortage()) {
            return self.fail(&status, outbound);
        }
        if self.notes == 0 {
            self.answer_when_safe(shared, outbound, now);
        }
    }

    /// Tells nodes that have it of those that have not, where both hold a key of it. Of one that refused it because of a clock nobody is
    /// told: it will not take it.
    fn note_all(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        for at in 0..self.begun.shares.len() {
            let shares = &self.begun.shares;
            let Some(share) = shares.get(at) else { continue };
            let Copied::Taken { sequence, .. } = share.copied else {
                continue;
            };
            let is_new = |other: &&Share| {
                other.may_take_it_later() && !share.told.contains(&other.node) && share.shares_with(other)
            };
            let new: Vec<NodeIndex> = shares.iter().filter(is_new).map(|other| other.node).collect();
            if !new.is_empty() {
                let node = share.node;
                self.note(shared, (at, node), (&new, sequence), outbound, now);
                if let Some(share) = self.begun.shares.get_mut(at) {
                    share.told.extend(new);
                }
            }
        }
    }

    fn note(
        &mut self,
        shared: &Shared,
        (at, index): (usize, NodeIndex),
        (new, sequence): (&[NodeIndex], u64),
        outbound: &Outbound,
        now: Instant,
    ) {
        let (route, nodes) = (Arc::clone(&self.begun.route), Arc::clone(&self.begun.nodes));
        let (lease, table) = (nodes.options.read_lease, &self.begun.content.table);
        let names = new.iter().map(|node| route.name(*node));
        if Some(index) == route.this {
            if self
                .stamp
                .is_older_than(nodes.options.upsert_age_max(), SystemTime::now())
            {
                // As another node would answer: a fold may have been told that nobody missed it.
                let why = "did not note in time who missed it";
                return self.not_noted(at, NodeError::unavailable(route.name(index), why));
            }
            let catalog = self.calls.state().map(|catalog| Arc::clone(&catalog));
            if let Some((_, own)) = catalog.as_ref().and_then(|catalog| overlay(catalog, table).ok()) {
                let now = Instant::now();
                let wait = note_missed(&nodes, (table, own), names, sequence, (lease, now));
                self.wait_until(now + wait);
            }
            return;
        }
        let Some((node, _)) = route.node(index) else {
            return;
        };
        let note = schema::Missed {
            nodes: names.map(Into::into).collect(),
            sequence,
            time: self.stamp.time,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        route.routing().replicas.sent(index, now);
        let note = self.begun.note(note);
        let payload = self.begun.beside.payload(now, |out| note.write_entries(out));
        outbound.send(NodeCall {
            node: Arc::clone(node),
            encoding: Encoding::Msgpack,
            method: FeaturesUpsert::NAME,
            payload,
            sink: Box::new(NodeEnd {
                call: Arc::clone(shared),
                sent: Sent::Note,
                share: at,
                route: Arc::clone(&route),
                node: index,
            }),
        });
        self.notes += 1;
    }

    /// A node was told, or not: then it counts as one without the upsert, as it may be gone before it says so to others.
    fn noted(&mut self, at: usize, wait: Result<Instant, NodeError>) {
        self.notes = self.notes.saturating_sub(1);
        match wait {
            Ok(until) => self.wait_until(until),
            Err(error) => self.not_noted(at, error),
        }
    }

    fn not_noted(&mut self, at: usize, NodeError { status, is_answer }: NodeError) {
        if let Some(share) = self.begun.shares.get_mut(at) {
            share.copied = Copied::Failed { status, is_answer };
        }
    }

    fn wait_until(&mut self, until: Instant) {
        self.safe_at = Some(self.safe_at.map_or(until, |at| at.max(until)));
    }

    /// Answers once no replica without it answers lookups any more.
    fn answer_when_safe(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        match self.safe_at.filter(|at| *at > now) {
            None => {
                self.begun.nodes.fresh.acknowledged_without();
                self.answer();
                self.cancel(outbound);
            }
            Some(at) => {
                let call = Arc::clone(shared);
                let answer = move |outbound: &Outbound, now| {
                    let mut sending = locked(&call);
                    if sending.detached.is_some() {
                        sending.answer_when_safe(&call, outbound, now);
                    }
                };
                self.timers.push(outbound.at(at, Box::new(answer)));
            }
        }
    }

    /// The copies that have not ended are waited for no longer: the upsert may do without them.
    fn give_up(&mut self, shared: &Shared, outbound: &Outbound, now: Instant) {
        self.take_here();
        if self.detached.is_none() {
            return;
        }
        let route = Arc::clone(&self.begun.route);
        for share in self.begun.shares.iter_mut().filter(|share| share.is_waiting()) {
            if Some(share.node) != route.this {
                route.routing().replicas.lost(share.node, now);
            }
            let why = "has not answered in time";
            let NodeError { status, is_answer } = NodeError::unavailable(route.name(share.node), why);
            share.copied = Copied::Failed { status, is_answer };
        }
        self.here = None;
        self.settle(shared, outbound, now);
    }

    /// Its time is over.
    fn expire(&mut self, outbound: &Outbound) {
        if self.detached.is_some() {
            let status = self.begun.late();
            self.fail(&status, outbound);
        }
    }

    fn answer(&mut self) {
        if let Some(detached) = self.detached.take() {
            let answer = self.begun.answer(self.stamp);
            self.begun.content.forget_rows();
            detached.answer(|out| schema::Answer::write(&answer, out));
        }
    }

    fn fail(&mut self, status: &Status, outbound: &Outbound) {
        self.cancel(outbound);
        if let Some(detached) = self.detached.take() {
            detached.refuse(status);
        }
    }

    /// Nothing more is to come of its timers.
    fn cancel(&mut self, outbound: &Outbound) {
        for timer in self.timers.drain(..).chain(self.give_up_timer.take()) {
            outbound.cancel(&timer);
        }
    }
}
