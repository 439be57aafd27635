//! A net thread's connections to nodes: few to each, opened when a call needs one, kept open, and opened again after a backoff.
//!
//! It reads no answer: a connection's session does. Its invariants: a node has at most `connections_max` connections of a
//! thread, and at most `outstanding_max` calls on each; a call that cannot be sent ends at once.

use crate::node::{FRAME_BYTES, NodeSession, State, To, Wire, unreached};
use arc_swap::ArcSwap;
use millpond_calls::{NodeCall, NodeError, Nodes, Outbound, Service};
use millpond_fronts_answer::{Reach, Serving};
use millpond_net::{Outward, OutwardTls, Remote, TlsTo};
use millpond_nodes::{BucketMap, Node, RetryOptions, TLS, host_of};
use millpond_wire_frame::Limits;
use millpond_wire_schema::{Code, Status};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at connections that calls wait for.
const CHECK: Duration = Duration::from_millis(100);
/// Calls on each connection of a node before another is opened.
const SHARED_BY: usize = 64;
/// Bytes of calls that wait for a connection to open; a call beyond them ends at once.
const OPENING_BYTES_MAX: usize = 8 << 20;

/// What the connections of a net thread to a node may use.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Connections.
    pub connections_max: usize,
    /// Calls unanswered on each of them.
    pub outstanding_max: usize,
    /// Bytes of their frames, beyond one call.
    pub outstanding_bytes_max: usize,
    /// How long opening one may take.
    pub connect_timeout: Duration,
    /// How long a node may send nothing while calls await it.
    pub answer_timeout: Duration,
    /// After this long without a call a connection is used for a ping, so that it stays open.
    pub keep_alive: Duration,
    /// Between two attempts to open one.
    pub retry: RetryOptions,
    /// Sizes of frames.
    pub limits: Limits,
    /// What TLS connections begin with; without it none is opened.
    pub tls: Option<Arc<OutwardTls>>,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            connections_max: 2,
            outstanding_max: 1024,
            outstanding_bytes_max: usize::MAX,
            connect_timeout: Duration::from_millis(1000),
            answer_timeout: Duration::from_millis(2000),
            keep_alive: Duration::from_secs(15),
            retry: RetryOptions {
                first: Duration::from_millis(50),
                most: Duration::from_secs(1),
            },
            limits: Limits::default(),
            tls: None,
        }
    }
}

/// What names of the map's addresses, HOST:PORT, are known to mean. Somebody else looks them up: that blocks.
pub type Names = ArcSwap<HashMap<String, Vec<SocketAddr>>>;

/// A net thread's connections to all nodes.
pub struct NodePool {
    nodes: Arc<Nodes>,
    names: Arc<Names>,
    options: Arc<PoolOptions>,
    /// By the nodes as maps have them: calls by two maps, where a node has moved, may come by turns.
    links: HashMap<Arc<Node>, Links>,
    /// Whom its calls are for.
    to: To,
    /// The number of the next connection.
    next: u64,
    /// When connections are looked at next.
    check_at: Option<Instant>,
}

/// The connections to one node.
struct Links {
    node: Arc<Node>,
    links: Vec<Link>,
    /// Connections lost since the last whose first call was answered.
    failures: u32,
    retry_at: Option<Instant>,
    /// Why the last one was lost.
    lost: String,
    /// Which address is next.
    turn: usize,
}

struct Link {
    number: u64,
    wire: Wire,
    opened_at: Instant,
    used_at: Instant,
    /// Its first answer was seen.
    has_answered: bool,
    /// Bytes that wait for it to open.
    waiting_bytes: usize,
    /// What is to be sent at the end of this turn.
    out: Vec<u8>,
}

impl NodePool {
    /// To the process of this server that has its ordered stores, over one connection, so that calls stay in their order; `options` say nothing of
    /// how many there are. Counts of its calls lie in `counts`.
    pub fn to_stores(counts: Arc<Nodes>, options: PoolOptions) -> NodePool {
        let options = PoolOptions {
            connections_max: 1,
            ..options
        };
        NodePool {
            to: To::Stores,
            next: first(To::Stores),
            ..NodePool::new(counts, Arc::default(), options)
        }
    }

    /// Of a server that shares tables with those nodes; no connection is opened before a call needs it.
    pub fn new(nodes: Arc<Nodes>, names: Arc<Names>, options: PoolOptions) -> NodePool {
        NodePool {
            nodes,
            names,
            options: Arc::new(options),
            links: HashMap::new(),
            to: To::Node,
            next: 0,
            check_at: None,
        }
    }

    /// The same for another net thread.
    pub(crate) fn begin(&self) -> NodePool {
        NodePool {
            nodes: Arc::clone(&self.nodes),
            names: Arc::clone(&self.names),
            options: Arc::clone(&self.options),
            links: HashMap::new(),
            to: self.to,
            next: first(self.to),
            check_at: None,
        }
    }

    /// Sends a call, or ends it.
    fn send<S: Service>(
        &mut self,
        call: NodeCall,
        outbound: &Outbound,
        now: Instant,
        asked: &mut Vec<Outward<Serving<S>>>,
    ) {
        let (node, to) = (Arc::clone(&call.node), self.to);
        let failed = match self.link(&node, call.payload.len(), now, asked) {
            Ok(link) => {
                let before = link.out.len();
                link.used_at = now;
                let written = link.wire.write(call, &mut link.out, now);
                if link.wire.state() == State::Opening {
                    link.waiting_bytes += link.out.len() - before;
                }
                let written = written.err();
                written.map(|(why, sink)| (NoLink::Unreachable(why), sink))
            }
            Err(why) => Some((why, call.sink)),
        };
        if let Some((why, sink)) = failed {
            sink.ended(outbound, now, Err(why.error(to, &node.name)));
        }
        let soon = now + CHECK;
        self.check_at = Some(self.check_at.map_or(soon, |at| at.min(soon)));
    }

    /// The connection to a node that the next call takes.
    fn link<S: Service>(
        &mut self,
        node: &Arc<Node>,
        bytes: usize,
        now: Instant,
        asked: &mut Vec<Outward<Serving<S>>>,
    ) -> Result<&mut Link, NoLink> {
        let options = &self.options;
        let links = self
            .links
            .entry(Arc::clone(node))
            .or_insert_with(|| Links::new(node));
        links.forget_ended(now, options.retry);
        let fewest = links.links.iter().map(|link| link.wire.awaited()).min();
        let is_crowded = fewest.is_none_or(|fewest| fewest >= SHARED_BY);
        if is_crowded && links.links.len() < options.connections_max {
            match links.dial(&self.names.load(), options.tls.as_ref(), now) {
                Ok((to, tls)) => {
                    let number = self.next;
                    self.next += 1;
                    let wire = Wire::new(&node.name, self.to, self.nodes.counts(&node.name), now);
                    let session = Box::new(NodeSession {
                        wire: wire.clone(),
                        limits: options.limits,
                    });
                    asked.push(Outward::Open {
                        number,
                        to,
                        tls,
                        session,
                    });
                    links.links.push(Link::new(number, wire, now));
                }
                Err(why) if links.links.is_empty() => return Err(NoLink::Unreachable(why)),
                Err(_) => {}
            }
        }
        let (most, bytes_max) = (options.outstanding_max, options.outstanding_bytes_max);
        // A call waits for a connection that is being opened only while none is open.
        let rank = |link: &&mut Link| (link.wire.state() == State::Opening, link.wire.awaited());
        let fewest = links.links.iter_mut().min_by_key(rank);
        let link = fewest.ok_or_else(|| NoLink::Unreachable("has no connection".to_owned()))?;
        if link.wire.awaited() >= most {
            return Err(NoLink::Full(format!(
                "has {most} calls to answer already on each connection"
            )));
        }
        let awaited_bytes = link.wire.awaited_bytes();
        if awaited_bytes > 0 && awaited_bytes.saturating_add(bytes + FRAME_BYTES) > bytes_max {
            return Err(NoLink::Full(format!(
                "has calls of {awaited_bytes} bytes to answer already on each connection, and {bytes_max} are allowed"
            )));
        }
        if link.waiting_bytes > OPENING_BYTES_MAX && link.wire.state() == State::Opening {
            return Err(NoLink::Full(format!(
                "is being connected to, and {} bytes wait for that",
                link.waiting_bytes
            )));
        }
        Ok(link)
    }

    /// The next call that is its own.
    fn take(&self, outbound: &Outbound) -> Option<NodeCall> {
        match self.to {
            To::Node => outbound.take(),
            To::Stores => outbound.take_sent_on(),
        }
    }

    /// Looks at every connection: ends those that let calls wait, and keeps the others open.
    fn check<S>(&mut self, now: Instant, asked: &mut Vec<Outward<Serving<S>>>) {
        let options = Arc::clone(&self.options);
        let mut is_awaited = false;
        let map = self.nodes.map();
        for (node, links) in &mut self.links {
            links.forget_ended(now, options.retry);
            // Calls that go by a map before this one may still be under way to a node that it has no more, or has elsewhere.
            let is_gone = |map: &Arc<BucketMap>| {
                let found = map.find(&node.name).and_then(|index| map.node(index));
                found != Some(&**node)
            };
            if map.as_ref().is_some_and(is_gone) {
                let idle = links.links.extract_if(.., |link| link.wire.awaited() == 0);
                asked.extend(idle.map(|link| Outward::Close { number: link.number }));
            }
            for link in &mut links.links {
                link.check(now, &options, asked);
                is_awaited |= link.wire.awaited() > 0 || link.wire.state() == State::Opening;
            }
        }
        // One that is gone is known no longer than its connections; of the others it is known when to try again.
        self.links.retain(|node, links| {
            let is_there = |map: &Arc<BucketMap>| map.nodes().contains(node);
            !links.links.is_empty() || map.as_ref().is_none_or(is_there)
        });
        let next = if is_awaited { CHECK } else { options.keep_alive / 4 };
        let open = self.links.values().any(|links| !links.links.is_empty());
        self.check_at = open.then(|| now + next.max(CHECK));
    }
}

/// The number of a pool's first connection: those of a thread differ.
fn first(to: To) -> u64 {
    match to {
        To::Node => 0,
        To::Stores => 1 << 63,
    }
}

/// Why a call is not sent.
enum NoLink {
    /// As much is on its way as may be.
    Full(String),
    /// There is no connection, or the call can be no frame.
    Unreachable(String),
}

impl NoLink {
    fn error(self, to: To, node: &str) -> NodeError {
        match (to, self) {
            (To::Node, NoLink::Full(why) | NoLink::Unreachable(why)) => NodeError::unavailable(node, &why),
            (To::Stores, NoLink::Unreachable(why)) => unreached(&why),
            (To::Stores, NoLink::Full(why)) => {
                let ex = format!(
                    "the process of this server that has its ordered stores {why}; try again later, or raise \
                     server.write_buffer_bytes_max and server.in_flight_max"
                );
                NodeError {
                    status: Status::new(Code::Overloaded, ex),
                    is_answer: false,
                }
            }
        }
    }
}

impl<S: Service> Reach<S> for NodePool {
    fn another(&self) -> Box<dyn Reach<S>> {
        Box::new(self.begin())
    }

    fn wake_at(&self) -> Option<Instant> {
        self.check_at
    }

    fn turn(&mut self, outbound: &Outbound, now: Instant, asked: &mut Vec<Outward<Serving<S>>>) {
        while let Some(call) = self.take(outbound) {
            self.send(call, outbound, now, asked);
        }
        if self.check_at.is_some_and(|at| at <= now) {
            self.check(now, asked);
        }
        for links in self.links.values_mut() {
            for link in &mut links.links {
                if !link.out.is_empty() {
                    asked.push(Outward::Send {
                        number: link.number,
                        bytes: std::mem::take(&mut link.out),
                    });
                }
            }
        }
    }
}

impl Links {
    fn new(node: &Arc<Node>) -> Links {
        Links {
            node: Arc::clone(node),
            links: Vec::new(),
            failures: 0,
            retry_at: None,
            lost: String::new(),
            turn: 0,
        }
    }

    /// Drops connections that are over; after one that was lost the next waits.
    ///
    /// The wait falls back at a connection's first answer and not when it opens, as a server that takes connections and dies opens
    /// them all; nor while an older one is answered, as a server may take no more of them.
    fn forget_ended(&mut self, now: Instant, retry: RetryOptions) {
        for link in self.links.iter_mut().filter(|link| !link.has_answered) {
            if link.wire.has_answered() {
                link.has_answered = true;
                (self.failures, self.retry_at) = (0, None);
            }
        }
        let over = |link: &mut Link| matches!(link.wire.state(), State::Lost | State::Closed);
        let mut lost = false;
        for link in self.links.extract_if(.., over) {
            if let Some(why) = link.wire.take_lost() {
                (lost, self.lost) = (true, why);
                if link.has_answered {
                    // What failed beside it says nothing of a server that has answered until now.
                    self.failures = 0;
                }
            }
        }
        if lost {
            let wait = retry.first.saturating_mul(2_u32.saturating_pow(self.failures));
            self.failures = self.failures.saturating_add(1);
            self.retry_at = now.checked_add(wait.min(retry.most));
        }
    }

    /// Where the next connection leads, and how it is encrypted.
    fn dial(
        &mut self,
        names: &HashMap<String, Vec<SocketAddr>>,
        tls: Option<&Arc<OutwardTls>>,
        now: Instant,
    ) -> Result<(Remote, Option<TlsTo>), String> {
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            let ms = at.saturating_duration_since(now).as_millis();
            return Err(format!(
                "{}; it is connected to again in {ms} ms at the earliest",
                self.lost
            ));
        }
        let remotes: Vec<(Remote, Option<&str>)> = self
            .node
            .usable_addresses(tls.is_some())
            .flat_map(|text| remotes(text, names))
            .collect();
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let next = turn
            .checked_rem(remotes.len())
            .and_then(|at| remotes.into_iter().nth(at));
        let (to, host) = next.ok_or_else(|| {
            "has no address that can be used: servers call each other at IP:PORT, unix:PATH, a name that can be looked up or, with \
             nodes.tls, tls://HOST:PORT"
                .to_owned()
        })?;
        let host = host.zip(tls).map(|(host, tls)| tls.to(host)).transpose();
        Ok((to, host.map_err(|error| format!("cannot be reached: {error}"))?))
    }
}

/// Where an address of the map leads, and the host that a certificate has to name; nowhere, where its name is not known.
fn remotes<'t>(text: &'t str, names: &HashMap<String, Vec<SocketAddr>>) -> Vec<(Remote, Option<&'t str>)> {
    if let Some(path) = text.strip_prefix("unix:") {
        return vec![(Remote::Unix(path.into()), None)];
    }
    let place = text.strip_prefix(TLS);
    let host = place.map(host_of);
    let place = place.unwrap_or(text);
    let found = match (place.parse(), names.get(place)) {
        (Ok(address), _) => vec![address],
        (Err(_), Some(found)) => found.clone(),
        (Err(_), None) => Vec::new(),
    };
    found
        .into_iter()
        .map(|address| (Remote::Inet(address), host))
        .collect()
}

impl Link {
    fn new(number: u64, wire: Wire, now: Instant) -> Link {
        Link {
            number,
            wire,
            opened_at: now,
            used_at: now,
            has_answered: false,
            waiting_bytes: 0,
            out: Vec::new(),
        }
    }

    /// Ends it where it lets calls wait, and uses it where it was idle for long.
    fn check<S>(&mut self, now: Instant, options: &PoolOptions, asked: &mut Vec<Outward<Serving<S>>>) {
        let late = |since: Instant, most: Duration| now.saturating_duration_since(since) >= most;
        let (state, awaited) = (self.wire.state(), self.wire.awaited());
        let why = match state {
            State::Opening if late(self.opened_at, options.connect_timeout) => {
                let ms = options.connect_timeout.as_millis();
                format!("cannot be reached: no connection within {ms} ms")
            }
            State::Open if awaited > 0 && late(self.wire.heard(), options.answer_timeout) => {
                format!("sent nothing for {} ms", options.answer_timeout.as_millis())
            }
            State::Open if awaited == 0 && late(self.used_at, options.keep_alive) => {
                self.used_at = now;
                self.wire.write_keep_alive(&mut self.out, now);
                return;
            }
            _ => return,
        };
        self.wire.give_up(why);
        asked.push(Outward::Close { number: self.number });
    }
}

#[cfg(test)]
mod tests;
