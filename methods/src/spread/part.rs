//! One lookup of a spread table under way: what its nodes were asked, and what has come.
//! It sends nothing. Its invariant: its answer is complete, or it is an error, once [`millpond_nodes::FanOut`] says so.

use super::ask::Ask;
use super::route::Route;
use super::whole::Whole;
use crate::features_lookup::distinct;
use millpond_calls::{NodeAnswer, NodeError, OutboundTimer};
use millpond_engines_features::{Answered, Pool, Projection, Table};
use millpond_nodes::{CopyId, FanOut, NodeIndex, Outcome};
use millpond_wire_payload::Payload;
use millpond_wire_schema::features_lookup::{self as schema, Asked, Merge, Missing, Pooled, Unfit};
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::time::Instant;

/// A lookup of a call.
pub(super) enum SpreadLookup {
    /// Its rows are here.
    Done(Whole),
    /// Nodes are asked for them.
    Nodes(Box<Nodes>),
}

impl SpreadLookup {
    /// Bytes of its rows so far, before they are pooled or after, whichever are more, and of which row each key has.
    pub(super) fn bytes(&self) -> usize {
        match self {
            SpreadLookup::Done(whole) => {
                let offsets = whole.offsets.as_deref().map_or(0, size_of_val);
                whole.values.len() + offsets + inverse_bytes(whole.inverse.as_deref())
            }
            SpreadLookup::Nodes(nodes) => {
                let pooled = nodes.pooled.as_ref();
                let pooled = pooled.map_or(0, |pooled| pooled.answer_bytes(nodes.merge.dim()));
                nodes.merge.rows_bytes().max(pooled) + inverse_bytes(nodes.inverse.as_deref())
            }
        }
    }
}

/// What the answer of a call with `unique` takes beside its rows.
fn inverse_bytes(inverse: Option<&[u32]>) -> usize {
    inverse.map_or(0, size_of_val)
}

/// A lookup that nodes are asked for.
pub(super) struct Nodes {
    pub(super) ask: Ask,
    pooled: Option<Pooled>,
    /// Those asked for; with `unique`, each of them once.
    keys: Vec<u64>,
    inverse: Option<Vec<u32>>,
    /// The call has no key: one is asked for all the same, for what the answer says of the table.
    is_empty: bool,
    pub(super) fan: Option<FanOut<Status>>,
    merge: Merge,
    /// As whose texts the call's were hashed to keys, where it has texts.
    pub(super) texts_of: Option<Arc<Table>>,
    /// Set for the next hedge.
    pub(super) timer: Option<(Instant, OutboundTimer)>,
}

impl Nodes {
    pub(super) fn new(
        ask: Ask,
        pooled: Option<Pooled>,
        keys: Vec<u64>,
        is_unique: bool,
        bytes_max: usize,
    ) -> Nodes {
        let (keys, inverse) = match is_unique {
            false => (keys, None),
            true => {
                let (keys, inverse) = distinct(&keys);
                (keys, Some(inverse))
            }
        };
        let is_empty = keys.is_empty();
        let keys = if is_empty { vec![0] } else { keys };
        Nodes {
            merge: Merge::new(keys.len(), ask.row_type, bytes_max),
            ask,
            pooled,
            keys,
            inverse,
            is_empty,
            fan: None,
            texts_of: None,
            timer: None,
        }
    }

    /// Splits it over the nodes.
    pub(super) fn split(&mut self, route: &Route, now: Instant) -> Result<(), Status> {
        let fan = FanOut::new(
            &self.ask.table,
            &self.keys,
            self.ask.at_version,
            &mut route.routing(),
            now,
        );
        let fan = fan.map_err(|error| Status::new(Code::BadArgument, error.to_string()))?;
        self.fan = Some(fan);
        Ok(())
    }

    /// Whether nothing more is waited for.
    pub(super) fn is_complete(&self) -> bool {
        self.fan.as_ref().is_none_or(FanOut::is_complete)
    }

    /// What a node answered to a copy; `beside` is what the call's other parts hold.
    ///
    /// # Errors
    /// The whole call cannot be answered: it is wrong, or its answer too large.
    pub(super) fn take(
        &mut self,
        route: &Route,
        (copy, node): (CopyId, NodeIndex),
        (at_version, beside): (Option<u64>, usize),
        answer: Result<schema::Part<'_>, NodeError>,
        now: Instant,
    ) -> Result<(), Status> {
        let Some(fan) = self.fan.as_mut() else {
            return Ok(());
        };
        let name = route.name(node);
        let asked = Asked {
            table: &self.ask.table,
            positions: fan.positions(copy),
            at_version,
            pooled: self.pooled.as_ref(),
            beside: beside + inverse_bytes(self.inverse.as_deref()),
        };
        let rows = |part: &schema::Part<'_>| Outcome::Rows {
            version: part.version,
            active: part.active,
        };
        let checked = answer.map(|part| (self.merge.check(&part, &asked), part));
        let (outcome, part, is_wrong) = match checked {
            Ok((Ok(()), part)) => (rows(&part), Some(part), None),
            Ok((Err(Unfit::Call(status)), part)) => (rows(&part), None, Some(status)),
            Ok((Err(Unfit::Node(error)), _)) => (Outcome::Lost(lies(name, &error.to_string())), None, None),
            Err(error) => {
                let is_wrong = error.is_answer && error.status.code.is_of_the_call();
                let status = is_wrong.then(|| error.status.clone());
                (outcome(error), None, status)
            }
        };
        let verdict = fan.on(copy, outcome, &mut route.routing(), now);
        if verdict.reset {
            self.merge.reset();
        }
        if let Some(part) = part.filter(|_| verdict.take) {
            let placed = self.merge.place(&part, fan.positions(copy));
            placed.map_err(|error| lies(name, &error.to_string()))?;
        }
        is_wrong.map_or(Ok(()), Err)
    }

    /// Nobody waits longer.
    pub(super) fn expire(&mut self, route: &Route) {
        if let Some(fan) = &mut self.fan {
            fan.expire(&mut route.routing(), |node| {
                let ex = format!("node {:?} did not answer before the deadline", route.name(node));
                Status::new(Code::DeadlinePassed, ex)
            });
        }
    }

    /// Its answer, once it is complete; `here` is a version of a table, where this server has it.
    ///
    /// # Errors
    /// No node answered, none has the version that was asked for, or the one that answered may hash texts otherwise.
    pub(super) fn finish(
        &mut self,
        route: &Route,
        here: impl FnOnce(&str, u64) -> Option<Arc<Table>>,
    ) -> Result<Whole, Status> {
        let missing = self.missing(route)?;
        let merge = std::mem::replace(&mut self.merge, Merge::new(0, self.ask.row_type, 0));
        let (version, dim) = (merge.version().unwrap_or_default(), merge.dim());
        let table = here(&self.ask.table, version);
        self.check_texts(version, table.as_deref())?;
        let keys = if self.is_empty { 0 } else { self.keys.len() };
        let mut whole = Whole {
            version,
            active: None,
            dim,
            row_type: self.ask.row_type,
            keys,
            rows: keys,
            inverse: self.inverse.take(),
            found: Vec::new(),
            values: Vec::new(),
            offsets: None,
            missing,
        };
        if let Some(pooled) = &self.pooled {
            let default_row = table.and_then(|table| default_row(&table, &self.ask.columns));
            let missing = self.fan.as_ref().map_or(&[][..], FanOut::missing);
            let missing = missing.iter().flat_map(|left| left.positions.iter().copied());
            whole.values = pooled.of_merged(&merge, default_row, missing);
            (whole.rows, whole.row_type) = (pooled.bags(), pooled.row_type());
        }
        if !self.is_empty {
            whole.found = merge.found().to_vec();
        }
        if self.pooled.is_none() {
            (whole.values, whole.offsets) = merge.into_values();
        }
        if self.is_empty && self.pooled.is_none() {
            whole.values.clear();
            whole.offsets.iter_mut().for_each(|offsets| offsets.truncate(1));
        }
        Ok(whole)
    }

    /// Refuses rows of a version that may hash texts otherwise than the call's were: they would be those of other texts, or none.
    fn check_texts(&self, version: u64, table: Option<&Table>) -> Result<(), Status> {
        let Some(hashed) = self.texts_of.as_deref().filter(|_| !self.is_empty) else {
            return Ok(());
        };
        if version == hashed.version() || table.is_some_and(|table| table.keys() == hashed.keys()) {
            return Ok(());
        }
        let why = match table {
            Some(_) => "which hashes texts in another slot",
            None => "which is not here, so that its slot is not known",
        };
        let ex = format!(
            "the texts were hashed as version {} of table {:?} does, and the nodes answered from version {version}, {why}; try again, \
             or send `keys`",
            hashed.version(),
            self.ask.table
        );
        Err(Status::new(Code::NodeUnavailable, ex))
    }

    /// The keys without an answer, which count as not found from here on.
    fn missing(&mut self, route: &Route) -> Result<Vec<Missing<'static>>, Status> {
        let Some(fan) = &self.fan else {
            return Ok(Vec::new());
        };
        let mut count = 0;
        let mut missing = Vec::new();
        for left in fan.missing() {
            let node = route.name(left.node);
            let error = left
                .error
                .clone()
                .unwrap_or_else(|| lies(node, "it answered from another version than it was asked for"));
            // Who asks for a version wants that one or none.
            let is_gone = self.ask.at_version.is_some() && error.code == Code::VersionGone;
            count += left.positions.len();
            if is_gone || count == self.keys.len() {
                return Err(error);
            }
            self.merge.miss(&left.positions);
            let keys = left.positions.iter();
            let keys = keys.filter_map(|at| self.keys.get(*at as usize).copied());
            missing.push(Missing {
                node: node.to_owned().into(),
                keys: keys.collect(),
                code: u64::from(error.code.number()),
                ex: error.ex.into(),
            });
        }
        Ok(missing)
    }
}

/// What a bag without a row is answered: what a table says of one without a key.
fn default_row(table: &Table, columns: &[String]) -> Option<Vec<f32>> {
    let mut row = vec![0.0; table.dim()];
    table
        .lookup_pooled(&[], &[0, 0], Pool::Sum, &mut row, &mut [])
        .ok()?;
    let projection = Projection::new(table.schema(), columns, Answered::F32).ok()?;
    let mut bytes = vec![0; projection.row_bytes()];
    projection.write_numbers(&row, &mut bytes);
    Some(
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect(),
    )
}

/// Reads the answer of a node.
pub(super) fn read<'a>(name: &str, payload: &'a Payload<'_>) -> Result<schema::Part<'a>, NodeError> {
    schema::Part::decode(payload).map_err(|error| unread(name, &error.to_string()))
}

/// The payload of a node's answer.
pub(super) fn payload<'a>(name: &str, answer: NodeAnswer<'a>) -> Result<Payload<'a>, NodeError> {
    let payload = Payload::new(answer.encoding, answer.payload);
    payload.map_err(|error| unread(name, &error.to_string()))
}

fn unread(name: &str, why: &str) -> NodeError {
    NodeError {
        status: lies(name, why),
        is_answer: false,
    }
}

fn lies(name: &str, why: &str) -> Status {
    Status::new(
        Code::NodeUnavailable,
        format!("node {name:?} answered what cannot be used: {why}"),
    )
}

fn outcome(error: NodeError) -> Outcome<Status> {
    match (error.is_answer, error.status.code) {
        (false, _) => Outcome::Lost(error.status),
        (true, Code::VersionGone) => Outcome::VersionGone(error.status),
        (true, _) => Outcome::Refused(error.status),
    }
}
