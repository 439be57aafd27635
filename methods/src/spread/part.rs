//! One lookup of a spread table under way: what its nodes were asked, and what has come.
//! It sends nothing. Its invariant: its answer is complete, or it is an error, once [`millpond_nodes::FanOut`] says so.

use super::ask::Ask;
use super::pooling::{Pooled, Rows};
use super::route::Route;
use super::whole::Whole;
use crate::features_lookup::distinct;
use millpond_calls::{NodeAnswer, NodeError, OutboundTimer};
use millpond_nodes::{CopyId, FanOut, NodeIndex, Outcome};
use millpond_wire_payload::Payload;
use millpond_wire_schema::features_lookup::{self as schema, Merge, Missing};
use millpond_wire_schema::{Code, Status};
use std::time::Instant;

/// A lookup of a call.
pub(super) enum Part {
    /// Its rows are here.
    Done(Whole),
    /// Nodes are asked for them.
    Nodes(Box<Nodes>),
}

impl Part {
    /// Bytes of its rows so far.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Part::Done(whole) => whole.values.len(),
            Part::Nodes(nodes) => nodes.merge.values().len(),
        }
    }
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
    bytes_max: usize,
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
            bytes_max,
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

    /// Why a part of so many keys, right as it is, is none of an answer: nodes cannot help that. `beside` is what the call's
    /// other parts hold.
    fn unfit(&self, part: &schema::Part<'_>, keys: usize, beside: usize) -> Option<Status> {
        if part.dim == 0 && part.row_type == schema::RowType::U8 && !part.values.is_empty() {
            return Some(varies(&self.ask.table));
        }
        let row_bytes = part.dim.saturating_mul(part.row_type.bytes());
        let is_whole = keys.checked_mul(row_bytes) == Some(part.values.len());
        let bytes = self.keys.len().saturating_mul(row_bytes).saturating_add(beside);
        (is_whole && bytes > self.bytes_max).then(|| too_large(bytes, self.bytes_max))
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
        let mut is_wrong = match (&self.fan, &answer) {
            (Some(fan), Ok(part)) => self.unfit(part, fan.positions(copy).len(), beside),
            _ => None,
        };
        let Some(fan) = self.fan.as_mut() else {
            return Ok(());
        };
        let mut routing = route.routing();
        let part = match answer {
            Ok(part) => match self.merge.check(&part, fan.positions(copy).len(), at_version) {
                _ if is_wrong.is_some() => Err(Outcome::Rows {
                    version: part.version,
                    active: part.active,
                }),
                Ok(()) => Ok(part),
                Err(error) => {
                    let name = route.name(node);
                    Err(Outcome::Lost(lies(name, &error.to_string())))
                }
            },
            Err(error) => {
                if error.is_answer && is_callers_fault(error.status.code) {
                    is_wrong = Some(error.status.clone());
                }
                Err(outcome(error))
            }
        };
        let part = match part {
            Ok(part) => part,
            Err(outcome) => {
                let verdict = fan.on(copy, outcome, &mut routing, now);
                if verdict.reset {
                    self.merge.reset();
                }
                return is_wrong.map_or(Ok(()), Err);
            }
        };
        let outcome = Outcome::Rows {
            version: part.version,
            active: part.active,
        };
        let verdict = fan.on(copy, outcome, &mut routing, now);
        if verdict.reset {
            self.merge.reset();
        }
        if verdict.take {
            let placed = self.merge.place(&part, fan.positions(copy));
            placed.map_err(|error| lies(route.name(node), &error.to_string()))?;
        }
        Ok(())
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

    /// Its answer, once it is complete; `default_row` is that of the table's version, for bags without a row.
    ///
    /// # Errors
    /// No node answered, or none has the version that was asked for.
    pub(super) fn finish(
        &mut self,
        route: &Route,
        default_row: impl FnOnce(&Ask, u64) -> Option<Vec<f32>>,
    ) -> Result<Whole, Status> {
        let missing = self.missing(route)?;
        let merge = std::mem::replace(&mut self.merge, Merge::new(0, self.ask.row_type, 0));
        let (version, dim) = (merge.version().unwrap_or_default(), merge.dim());
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
            missing,
        };
        if let Some(pooled) = &self.pooled {
            let rows = Rows {
                dim,
                found: if self.is_empty { &[] } else { merge.found() },
                values: merge.values(),
                default_row: default_row(&self.ask, version).or_else(|| self.absent_row(&merge)),
            };
            whole.values = pooled.pool(&rows);
            (whole.rows, whole.row_type) = (pooled.bags(), pooled.row_type());
        }
        if !self.is_empty {
            whole.found = merge.found().to_vec();
            if self.pooled.is_none() {
                whole.values = merge.into_values();
            }
        }
        Ok(whole)
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

    /// The row that a node answered for a key that is not there.
    fn absent_row(&self, merge: &Merge) -> Option<Vec<f32>> {
        // A node that is down may leave most of a large call without an answer: each key is looked at once.
        let mut has_row = vec![true; self.keys.len()];
        let missing = self.fan.as_ref().map_or(&[][..], FanOut::missing);
        for at in missing.iter().flat_map(|left| &left.positions) {
            if let Some(has_row) = has_row.get_mut(*at as usize) {
                *has_row = false;
            }
        }
        let is_found = |at: usize| {
            merge
                .found()
                .get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
        };
        let mut keys = has_row.iter().enumerate();
        let (at, _) = keys.find(|(at, has_row)| !is_found(*at) && **has_row)?;
        let row_bytes = merge.dim() * size_of::<f32>();
        let row = merge.values().get(at * row_bytes..(at + 1) * row_bytes)?;
        Some(
            row.as_chunks()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect(),
        )
    }
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

fn varies(table: &str) -> Status {
    let ex = format!(
        "table {table:?} has rows that vary in length, which are not put together from several servers; ask each with `map`"
    );
    Status::new(Code::BadArgument, ex)
}

fn too_large(bytes: usize, limit: usize) -> Status {
    let ex = format!(
        "the answer would hold {bytes} bytes of rows; the limit is {limit} (ask for fewer keys a call)"
    );
    Status::new(Code::TooLarge, ex)
}

fn outcome(error: NodeError) -> Outcome<Status> {
    match (error.is_answer, error.status.code) {
        (false, _) => Outcome::Lost(error.status),
        (true, Code::VersionGone) => Outcome::VersionGone(error.status),
        (true, _) => Outcome::Refused(error.status),
    }
}

/// Whether every other node would say the same.
fn is_callers_fault(code: Code) -> bool {
    matches!(
        code,
        Code::BadArgument
            | Code::KeyNotFound
            | Code::Decoding
            | Code::TooLarge
            | Code::Unauthenticated
            | Code::Forbidden
            | Code::UnknownMethod
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_wire_schema::features_lookup::RowType;

    #[test]
    fn a_right_part_that_is_none_of_an_answer_is_not_its_nodes_fault() {
        let check = |row_type, dim, values: usize, beside, expected: Option<Code>| {
            let ask = Ask {
                table: "films".to_owned(),
                columns: Vec::new(),
                row_type,
                at_version: None,
            };
            let nodes = Nodes::new(ask, None, vec![1, 2, 3, 4], false, 100);
            let part = schema::Part {
                version: 1,
                active: 1,
                dim,
                row_type,
                found: vec![0].into(),
                values: vec![0; values].into(),
            };
            let found = nodes.unfit(&part, 2, beside).map(|status| status.code);
            assert_eq!(found, expected, "{part:?} beside {beside}");
        };
        check(RowType::F32, 6, 48, 4, None);
        // With the call's other tables.
        check(RowType::F32, 6, 48, 5, Some(Code::TooLarge));
        check(RowType::F32, 7, 56, 0, Some(Code::TooLarge));
        // What does not hold what it says is a lie, however large.
        check(RowType::F32, usize::MAX, 48, 0, None);
        check(RowType::F32, 0, 48, 0, None);
        check(RowType::U8, 0, 0, 0, None);
        check(RowType::U8, 0, 11, 0, Some(Code::BadArgument));
    }
}
