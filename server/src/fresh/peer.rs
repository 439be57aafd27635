//! What one other replica has that this node missed: asked for over and over, and taken.
//!
//! Its thread waits for the replica and for this node's own log. Its invariant: a replica counts as heard only by an answer to a
//! question that was asked after all that it named before was taken.

use super::complaint::Complaint;
use super::link::{Link, LinkError};
use super::settling::unix_ms;
use super::standing::{Failure, Holder};
use super::written::write;
use super::{Following, PAGE_MAX, QUESTIONS};
use millpond_nodes::Node;
use millpond_wire_schema::{
    FeaturesFresh, FeaturesMissed, Method as _, features_fresh as fresh, features_missed as missed,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The questions to one replica, on its thread, and how far this node has taken what it has.
pub(super) struct Peer {
    following: Arc<Following>,
    node: Node,
    link: Link,
    /// The process that answered last.
    run: Option<u64>,
    /// By table, up to where all that it has is here.
    seen: BTreeMap<String, u64>,
    /// What was said last of why nothing could be taken.
    complaint: Complaint,
}

/// Why a table's rows could not be taken.
pub(super) enum TakeError {
    /// The node does not give them.
    Link(LinkError),
    /// What it gives fits no table of this node.
    Unfit(String),
    /// This node cannot write them now, which says nothing of the other one.
    Here(String),
    /// Some of them are in the node's versions alone, and this node's do not have them.
    Lacks(String),
}

impl std::fmt::Display for TakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TakeError::Link(error) => error.fmt(f),
            TakeError::Unfit(why) | TakeError::Here(why) | TakeError::Lacks(why) => f.write_str(why),
        }
    }
}

impl Peer {
    pub(super) fn new(following: Arc<Following>, node: Node) -> Peer {
        Peer {
            link: following.link(),
            following,
            node,
            run: None,
            seen: BTreeMap::new(),
            complaint: Complaint::default(),
        }
    }

    /// Asks until the node is no replica any more, or the server stops.
    pub(super) fn run(mut self) {
        let pause = self.following.lease / QUESTIONS;
        loop {
            let rest = if self.ask(pause) { Duration::ZERO } else { pause };
            if self.following.halt.within(rest) {
                return;
            }
            if !self.following.change(|standings| standings.has(&self.node.name)) {
                return;
            }
            if let Some(map) = self.following.nodes.map()
                && let Some(node) = map.find(&self.node.name).and_then(|node| map.node(node))
                && *node != self.node
            {
                self.node = node.clone();
                self.link = self.following.link();
            }
        }
    }

    /// Whether this node missed anything.
    fn question(&mut self, most: Duration) -> Result<missed::Answer<'static>, LinkError> {
        let following = Arc::clone(&self.following);
        let seen = self.seen.iter().map(|(table, sequence)| {
            let has = following.in_log(table);
            missed::Seen {
                table: table.as_str().into(),
                sequence: *sequence,
                whole_ms: has.map(|(whole_ms, _)| whole_ms),
                newest_ms: has.map(|(_, newest_ms)| newest_ms),
            }
        });
        let call = missed::Call {
            node: following.name.as_str().into(),
            lease_ms: u64::try_from(following.lease.as_millis()).unwrap_or(u64::MAX),
            run: self.run,
            seen: seen.collect(),
        };
        let method = (FeaturesMissed::NAME, following.token.as_deref());
        self.link
            .call::<missed::Call<'static>, missed::Answer<'static>>(&self.node, method, &call, most)
    }

    /// Asks once, and takes what there is: whether to ask again at once.
    fn ask(&mut self, most: Duration) -> bool {
        let (asked, asked_ms) = (Instant::now(), unix_ms());
        let answer = match self.question(most) {
            Ok(answer) => answer,
            Err(error) => {
                self.failed(asked, &error);
                return false;
            }
        };
        let following = Arc::clone(&self.following);
        let name = self.node.name.as_str();
        if self.run != Some(answer.run) {
            // It has no note any more of what it saw this node miss.
            self.run = Some(answer.run);
            self.seen.clear();
            following.change(|standings| standings.want(name));
        }
        let wants_all = following.change(|standings| {
            match answer.missed.is_empty() {
                true => {
                    standings.heard(name, asked);
                    standings.clean(name, asked_ms);
                }
                false => standings.missed(name, Instant::now()),
            }
            standings.wants_all(name)
        });
        if !wants_all && answer.missed.is_empty() {
            self.complaint.is_over();
            return false;
        }
        let taken = self.take_all(wants_all, &answer.missed);
        self.took(asked, taken, answer.catching_up)
    }

    /// What the node has was taken, or why not; `leaves_them_too` where it answers no lookups itself. Whether to ask again at once.
    fn took(&mut self, asked: Instant, taken: Result<(), TakeError>, leaves_them_too: bool) -> bool {
        match taken {
            Ok(()) => true,
            Err(error @ TakeError::Lacks(_)) => {
                let (following, name) = (&self.following, &self.node.name);
                following.change(|standings| standings.lacks(name));
                self.complain(&error.to_string());
                false
            }
            Err(error @ TakeError::Here(_)) => {
                self.cannot_write(&error, leaves_them_too);
                false
            }
            Err(error) => {
                self.complain(&error.to_string());
                let name = self.node.name.as_str();
                let is_over = self
                    .following
                    .change(|standings| standings.failed(name, asked, Failure::GivesNothing, Instant::now()));
                if is_over {
                    self.goes_on_without("does not give what this node may have missed");
                }
                false
            }
        }
    }

    /// The node has what this one misses, and answers: lookups are left to it for as long as it answers them.
    fn cannot_write(&mut self, error: &TakeError, leaves_them_too: bool) {
        self.complain(&format!(
            "{error}; lookups are left to that node until this one has its rows"
        ));
        if self.is_stuck(leaves_them_too) {
            self.goes_first();
        }
    }

    /// Whether the node is to be given up, as neither answers lookups.
    fn is_stuck(&self, leaves_lookups: bool) -> bool {
        let (following, name) = (&self.following, self.node.name.as_str());
        let fresh = &following.nodes.fresh;
        let mut tables = following.tables.iter();
        let holder = Holder {
            leaves_lookups,
            has_ours: tables.all(|table| fresh.heard_of(table, [name].into_iter()).is_some()),
        };
        following.change(|standings| standings.stuck(name, holder, Instant::now()))
    }

    /// Answers lookups without what the node has, unless it answers them by now: to fail to take its rows may have taken long. Each of
    /// two nodes says so before it asks the other one, so that they do not give each other up.
    fn goes_first(&mut self) {
        let following = Arc::clone(&self.following);
        let fresh = &following.nodes.fresh;
        fresh.is_about_to_answer(true);
        let answer = self.question(following.lease / QUESTIONS);
        let leaves_lookups = answer.is_ok_and(|answer| answer.catching_up);
        if leaves_lookups {
            following.change(|standings| standings.give_up(&self.node.name));
            self.goes_on_without("it has rows that this node cannot write, and answers no lookups itself");
        } else {
            self.is_stuck(false);
        }
        fresh.is_about_to_answer(false);
    }

    /// The node did not answer.
    fn failed(&mut self, asked: Instant, error: &LinkError) {
        let failure = match error {
            LinkError::Gone(_) => Failure::Gone,
            LinkError::Lost(_) | LinkError::Refused(_) => Failure::Silent,
        };
        let name = self.node.name.as_str();
        let (is_over, is_awaited) = self.following.change(|standings| {
            let is_over = standings.failed(name, asked, failure, Instant::now());
            (is_over, standings.awaits(name))
        });
        if is_over {
            self.goes_on_without(&error.to_string());
        } else if is_awaited {
            self.complain(&format!(
                "{error}; lookups wait for that node, for nodes.catch_up_ms_max at most"
            ));
        }
    }

    fn goes_on_without(&self, why: &str) {
        let node = self.node.name.as_str();
        tracing::warn!(
            node,
            why,
            "another replica does not say whether this node missed an upsert; lookups are answered without it"
        );
    }

    fn complain(&mut self, problem: &str) {
        if self.complaint.is_to_be_said(problem, Instant::now()) {
            let node = self.node.name.as_str();
            tracing::warn!(
                node,
                problem,
                "this node cannot catch up with another replica yet"
            );
        }
    }

    /// Takes what the node says that this one missed; of all tables all that it has, where that is wanted. A table that cannot be
    /// taken is the error once the others are.
    fn take_all(&mut self, wants_all: bool, named: &[missed::Missed<'_>]) -> Result<(), TakeError> {
        let following = Arc::clone(&self.following);
        let (began, map) = (Instant::now(), following.map_version());
        let (mut count, mut failed) = (0, None);
        for table in &following.tables {
            let named = named.iter().find(|missed| missed.table == *table);
            let from = match (wants_all, named) {
                (true, _) => 0,
                (false, Some(missed)) => missed.from.saturating_sub(1),
                (false, None) => continue,
            };
            match self.take(table, from) {
                Ok((sequence, rows)) => {
                    count += rows;
                    self.seen.insert(table.clone(), sequence);
                }
                Err(error @ TakeError::Link(_)) => return Err(error),
                Err(error) if following.shared.calls.is_stopping() => return Err(error),
                // A table that is full keeps no row of another one from this node.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        for missed in named
            .iter()
            .filter(|missed| following.tables.iter().all(|table| *table != missed.table))
        {
            // It takes none of them here.
            self.seen.insert(missed.table.to_string(), missed.to);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        following.change(|standings| {
            standings.lacks_nothing(&self.node.name);
            // Pages that were read before another map have nothing of the buckets that this node has by it.
            if wants_all && following.map_version() == map {
                standings.has_all(&self.node.name);
            }
        });
        following.nodes.fresh.caught_up();
        let (node, ms) = (self.node.name.as_str(), began.elapsed().as_millis() as u64);
        tracing::info!(node, rows = count, ms, "caught up with another replica");
        Ok(())
    }

    /// Takes what the node has of a table behind a sequence: up to which sequence of the node's that is, and how many rows were missing
    /// here.
    fn take(&mut self, table: &str, since: u64) -> Result<(u64, u64), TakeError> {
        let following = Arc::clone(&self.following);
        let (mut position, mut first, mut count) = (None, None, 0);
        loop {
            let call = fresh::Call {
                table: table.into(),
                node: following.name.as_str().into(),
                map: following.map_version(),
                since: Some(since),
                position,
            };
            let method = (FeaturesFresh::NAME, following.token.as_deref());
            let page = self
                .link
                .call::<fresh::Call<'static>, fresh::Answer<'static>>(&self.node, method, &call, PAGE_MAX);
            let page = page.map_err(TakeError::Link)?;
            if Some(page.run) != self.run {
                let why = "its process is another one".to_owned();
                return Err(TakeError::Link(LinkError::Lost(why)));
            }
            following.check_whole(table, page.folded_ms.unwrap_or_default())?;
            let sequence = *first.get_or_insert(page.sequence);
            position = page.position;
            count += write(&following, &self.node.name, table, &page)?;
            if position.is_none() {
                return Ok((sequence, count));
            }
            if following.shared.calls.is_stopping() {
                return Err(TakeError::Here("this server stops".to_owned()));
            }
        }
    }
}
