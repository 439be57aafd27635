//! What an upsert is, and what is to be said of what became of its copies.
//! It sends nothing. Its invariant: an error names the nodes that did not take it.

use super::content::Content;
use super::shares::{Copied, Share, replicas, short};
use crate::spread::beside::Beside;
use crate::spread::route::Route;
use millpond_calls::Nodes;
use millpond_engines_features::{Durability, Stamp};
use millpond_wire_schema::{Code, Status, features_upsert as schema};
use std::borrow::Cow;
use std::sync::Arc;

/// What does not change of an upsert, but for what became of its shares.
pub(super) struct UpsertContext {
    pub(super) content: Content,
    pub(super) shares: Vec<Share>,
    pub(super) route: Arc<Route>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) beside: Beside,
}

impl UpsertContext {
    /// What a node is sent.
    pub(super) fn copy(&self, share: &Share, stamp: Stamp) -> schema::Call<'_> {
        schema::Call {
            copy: Some(schema::Copy {
                map: self.route.map.version(),
                time: stamp.time,
                origin: stamp.origin,
            }),
            node_token: self.node_token(),
            ..self.content.call(share)
        }
    }

    /// What a node is sent that has it, and is to note who has not.
    pub(super) fn note<'a>(&'a self, missed: schema::Missed<'a>) -> schema::Call<'a> {
        schema::Call {
            missed: Some(missed),
            node_token: self.node_token(),
            ..schema::Call::new(Cow::Borrowed(&self.content.table))
        }
    }

    fn node_token(&self) -> Option<Cow<'_, str>> {
        self.nodes.options.token.shown().map(Cow::Borrowed)
    }

    /// What a node said that every other one would say too. A token is not among it: the one between servers may be another on one
    /// node, and of a caller's that opens nothing all nodes say so.
    pub(super) fn callers_fault(&self) -> Option<Status> {
        self.shares.iter().find_map(|share| match &share.copied {
            Copied::Failed {
                status,
                is_answer: true,
            } if status.code.is_of_the_call() && status.code != Code::Unauthenticated => Some(status.clone()),
            _ => None,
        })
    }

    /// Whether it would fail, and a node says that a little later it may not: that goes by another map.
    pub(super) fn may_go_by_another_map(&self) -> bool {
        let may = |share: &Share| matches!(&share.copied, Copied::Failed { status, is_answer: true } if status.code == Code::NodeUnavailable);
        self.shares.iter().any(may) && self.callers_fault().is_none() && self.shortage().is_some()
    }

    /// The error where a node refused it because of a clock: it would not take it when it catches up, so that lookups there would
    /// not see what was acknowledged.
    pub(super) fn ahead(&self) -> Option<Status> {
        self.shares.iter().find_map(|share| {
            let status = share.refused_for_a_clock()?;
            let said = self.said(self.route.name(share.node), &status.ex);
            let ex = format!(
                "table {:?}: {said}; some replicas may have the upsert, so repeat it",
                self.content.table
            );
            Some(Status::new(Code::NodeUnavailable, ex))
        })
    }

    /// The error where keys are on too few nodes.
    pub(super) fn shortage(&self) -> Option<Status> {
        let counts = replicas(&self.content, &self.shares);
        let acks = self.nodes.options.upsert_acks;
        let keys = short(&self.route, &self.content, acks, &counts);
        if keys == 0 {
            return None;
        }
        let failed = self.shares.iter().filter_map(|share| match &share.copied {
            Copied::Failed { status, is_answer } => Some((share.node, status, *is_answer)),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        // What a node itself says tells the caller more than that another one cannot be reached.
        let worst = failed
            .iter()
            .find(|(_, _, is_answer)| *is_answer)
            .or(failed.first());
        let code = worst.map_or(Code::NodeUnavailable, |(_, status, _)| status.code);
        let said: Vec<String> = failed
            .iter()
            .map(|(node, status, _)| self.said(self.route.name(*node), &status.ex))
            .collect();
        Some(Status::new(
            code,
            format!(
                "table {:?}: {keys} of {} keys reached fewer than {} of their replicas: {}; some replicas may have the upsert, so repeat it",
                self.content.table,
                counts.len(),
                acks.map_or("all".to_owned(), |acks| acks.to_string()),
                said.join("; ")
            ),
        ))
    }

    /// The error where a row of its keys has a stamp that no clock has reached.
    pub(super) fn behind_ahead(&self, ms: u64) -> Status {
        let ex = format!(
            "table {:?}: a replica has a row of its keys with a time that is more than {} s ahead of this server's clock ({ms} ms of Unix \
             time), and keeps it until then; other keys can be upserted",
            self.content.table,
            Stamp::AHEAD_MAX.as_secs()
        );
        Status::new(Code::NodeUnavailable, ex)
    }

    /// The error where this server's own clock was set back.
    pub(super) fn set_back(&self, stamp: Stamp) -> Status {
        let ex = format!(
            "table {:?}: this server's clock was set back: its last upsert has a time that is more than {} s ahead of it now ({} ms of \
             Unix time); restart it",
            self.content.table,
            Stamp::AHEAD_MAX.as_secs(),
            stamp.ms()
        );
        Status::new(Code::NodeUnavailable, ex)
    }

    /// An error with its node's name, which most have already.
    fn said(&self, name: &str, ex: &str) -> String {
        let quoted = format!("node {name:?}");
        match ex.contains(&quoted) {
            true => ex.to_owned(),
            false => format!("{quoted}: {ex}"),
        }
    }

    /// The error at its deadline.
    pub(super) fn late(&self) -> Status {
        let waiting = self.shares.iter().filter(|share| !share.has_taken());
        let names: Vec<&str> = waiting.map(|share| self.route.name(share.node)).collect();
        let why = match names.is_empty() {
            true => "other nodes may still answer without it".to_owned(),
            false => format!("nodes {names:?} have not taken it"),
        };
        let ex = format!(
            "table {:?}: the deadline passed, and {why}; some replicas may have the upsert, so repeat it",
            self.content.table
        );
        Status::new(Code::DeadlinePassed, ex)
    }

    /// The answer, where all is well.
    pub(super) fn answer(&self, stamp: Stamp) -> schema::Answer<'static> {
        let mut durability = Durability::Synced;
        for share in &self.shares {
            if let Copied::Taken {
                durability: found, ..
            } = &share.copied
            {
                durability = durability.min(*found);
            }
        }
        let counts = replicas(&self.content, &self.shares);
        schema::Answer {
            sequence: stamp.time,
            durability: durability.as_str().into(),
            replicas: counts.into_iter().min().map(|count| count as u64),
            newer: None,
            wait_ms: None,
        }
    }
}
