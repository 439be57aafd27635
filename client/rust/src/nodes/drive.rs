//! One lookup over nodes, from its keys to its rows: sends what `FanOut` says, and tells it what came.
//!
//! It decides nothing about nodes. Its invariant: every copy that was sent is reported once, however late, and also where the
//! caller has gone.

use super::any::ask_any;
use super::cluster::Cluster;
use super::{Counted, NodesOptions};
use crate::{CallError, Code, Status, Token};
use millpond_nodes::{CopyId, FanOut, NodeIndex, Outcome, ToSend};
use millpond_wire_schema::features_lookup::{
    self as schema, Lookup, Merge, Missing, Part, Pool, Pooled, RowType, Rows, Unfit,
};
use millpond_wire_schema::infer::Data;
use millpond_wire_schema::payload::{Encoder, Encoding, Gained, Payload};
use millpond_wire_schema::{FeaturesLookup, Field as _, Method as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// What is asked, for the time after the caller has gone.
pub(super) struct Asked {
    /// As it was asked, with each of its keys once where it asks for that.
    lookup: Lookup<'static>,
    keys: Vec<u64>,
    pooled: Option<Pooled>,
    token: Option<Token>,
    deadline: Option<Duration>,
    started: Instant,
}

impl Asked {
    /// Of the time that began at `started`.
    pub(super) fn new(
        lookup: &Lookup<'_>,
        keys: Vec<u64>,
        token: Option<&Token>,
        (deadline, started): (Option<Duration>, Instant),
    ) -> Asked {
        let pooled = Pooled::of(lookup.pool, lookup.offsets.clone(), lookup.row_type);
        let lookup = Lookup {
            keys: None,
            texts: None,
            unique: false,
            ..lookup.clone()
        };
        Asked {
            lookup: Lookup::own(lookup),
            keys,
            pooled,
            token: token.cloned(),
            deadline,
            started,
        }
    }

    fn expires_at(&self) -> Option<Instant> {
        self.started.checked_add(self.deadline?)
    }

    /// What is left of the call's time.
    fn left(&self) -> Option<Duration> {
        Some(self.expires_at()?.saturating_duration_since(Instant::now()))
    }

    /// As what nodes are asked for rows.
    fn row_type(&self) -> RowType {
        self.pooled
            .as_ref()
            .map_or(self.lookup.row_type, |_| Pooled::ASKED)
    }

    /// What a node is asked for: rows of some keys.
    fn payload(&self, keys: &[u64], at_version: Option<u64>, map: u64) -> Result<Vec<u8>, CallError> {
        self.written(&Lookup {
            keys: Some(keys.to_vec()),
            at_version,
            pool: Pool::None,
            offsets: Vec::new(),
            row_type: self.row_type(),
            map: Some(map),
            ..self.lookup.clone()
        })
    }

    fn written(&self, lookup: &Lookup<'_>) -> Result<Vec<u8>, CallError> {
        let mut payload = Vec::new();
        Lookup::write(lookup, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        let Some(Token(token)) = &self.token else {
            return Ok(payload);
        };
        let gained = Gained::token(token).insert(Encoding::Msgpack, &payload);
        gained.map_err(|error| CallError::Unsendable {
            method: FeaturesLookup::NAME.to_owned(),
            detail: error.to_string(),
        })
    }

    fn late(&self, cluster: &Cluster, node: NodeIndex) -> CallError {
        CallError::Timeout {
            method: FeaturesLookup::NAME.to_owned(),
            addr: cluster.name(node).to_owned(),
            deadline: self.deadline.unwrap_or_default(),
        }
    }
}

/// Looks keys up. The call goes on in a task of its own, which reports its copies also where the caller leaves.
pub(super) async fn look_up(
    cluster: Arc<Cluster>,
    asked: Asked,
    options: &NodesOptions,
    counted: &Arc<Counted>,
) -> Result<Rows<'static>, CallError> {
    if asked.keys.is_empty() {
        return of_no_keys(&cluster, &asked, asked.lookup.clone(), options).await;
    }
    let merge = Merge::new(asked.keys.len(), asked.row_type(), options.answer_bytes_max);
    let begun = {
        let (mut routing, now) = (cluster.routing(), Instant::now().into_std());
        FanOut::new(
            &asked.lookup.table,
            &asked.keys,
            asked.lookup.at_version,
            &mut routing,
            now,
        )
    };
    let fan_out = begun.map_err(|error| CallError::Unsendable {
        method: FeaturesLookup::NAME.to_owned(),
        detail: error.to_string(),
    })?;
    let call = Drive {
        cluster,
        asked,
        options: options.clone(),
        counted: counted.clone(),
        fan_out,
        merge,
        copies: JoinSet::new(),
    };
    let (answer, answered) = oneshot::channel();
    tokio::spawn(call.run(answer));
    answered.await.unwrap_or_else(|_| {
        Err(CallError::Unsendable {
            method: FeaturesLookup::NAME.to_owned(),
            detail: "the runtime of the call has ended".to_owned(),
        })
    })
}

/// A call without keys is answered by any node: the version, how wide rows are, and the rows of bags without a key.
async fn of_no_keys(
    cluster: &Cluster,
    asked: &Asked,
    lookup: Lookup<'static>,
    options: &NodesOptions,
) -> Result<Rows<'static>, CallError> {
    let payload = asked.written(&Lookup {
        keys: Some(Vec::new()),
        map: Some(cluster.map().version()),
        ..lookup
    })?;
    let read = |answer: &[u8], node: &str| read_whole(answer, node);
    ask_any(
        cluster,
        FeaturesLookup::NAME,
        &payload,
        || asked.left(),
        options,
        read,
    )
    .await
}

fn read_whole(answer: &[u8], node: &str) -> Result<Rows<'static>, CallError> {
    Payload::new(Encoding::Msgpack, answer)
        .and_then(|answer| Ok(Rows::own(Rows::decode(&answer)?.0)))
        .map_err(|error| lies(node, FeaturesLookup::NAME, &error))
}

/// A call under way.
struct Drive {
    cluster: Arc<Cluster>,
    asked: Asked,
    options: NodesOptions,
    counted: Arc<Counted>,
    fan_out: FanOut<CallError>,
    merge: Merge,
    copies: JoinSet<(ToSend, Result<Vec<u8>, CallError>)>,
}

impl Drive {
    async fn run(mut self, answer: oneshot::Sender<Result<Rows<'static>, CallError>>) {
        let mut ended = self.until_complete().await;
        if let Err(error) = &ended {
            // What still comes is reported, and its rows are not looked at.
            self.fan_out
                .expire(&mut self.cluster.routing(), |_| error.clone());
        }
        let missing = self.missing();
        let mut default_row = None;
        if ended.is_ok() && missing.is_empty() {
            match self.default_row().await {
                Ok(row) => default_row = row,
                Err(error) => ended = Err(error),
            }
        }
        let pooled = self.asked.pooled.as_ref().map(|pooled| {
            let positions = self.fan_out.missing().iter();
            let missing = positions.flat_map(|left| left.positions.iter().copied());
            (
                pooled.row_type(),
                pooled.of_merged(&self.merge, default_row, missing),
            )
        });
        let merge = std::mem::replace(&mut self.merge, Merge::new(0, RowType::None, 0));
        let rows = match (ended, merge.version()) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(_)) => Ok(match pooled {
                None => merge.into_rows(missing),
                Some((row_type, values)) => merge.into_pooled_rows(row_type, &values, missing),
            }),
            (Ok(()), None) => Err(self.first_error()),
        };
        // The caller may have left.
        let _ = answer.send(rows);
        while let Some(Ok((sent, ended))) = self.copies.join_next().await {
            // Reported, and of no other use: the call has ended.
            let _ = self.on(sent, ended);
        }
        let now = Instant::now().into_std();
        self.fan_out.abandon(&mut self.cluster.routing(), now);
    }

    /// What a bag without a key is answered, where none of the call's keys says it: any node does.
    async fn default_row(&self) -> Result<Option<Vec<f32>>, CallError> {
        let pooled = self.asked.pooled.as_ref();
        if !pooled.is_some_and(|pooled| pooled.lacks_default_row(&self.merge)) {
            return Ok(None);
        }
        let rows = of_no_keys(
            &self.cluster,
            &self.asked,
            Lookup {
                at_version: self.merge.version(),
                pool: Pool::Sum,
                offsets: vec![0, 0],
                row_type: Pooled::ASKED,
                ..self.asked.lookup.clone()
            },
            &self.options,
        );
        match rows.await?.values {
            Data::F32(row) => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    /// Sends and hears, until every key is answered or missing.
    async fn until_complete(&mut self) -> Result<(), CallError> {
        let expires_at = self.asked.expires_at();
        loop {
            self.send_all();
            if self.fan_out.is_complete() || self.copies.is_empty() {
                break;
            }
            let timer_at = self.fan_out.timer_at().map(Instant::from_std);
            tokio::select! {
                biased;
                Some(joined) = self.copies.join_next() => if let Ok((sent, ended)) = joined {
                    self.on(sent, ended)?;
                },
                () = until(expires_at) => {
                    let (asked, cluster) = (&self.asked, &self.cluster);
                    self.fan_out.expire(&mut cluster.routing(), |node| asked.late(cluster, node));
                }
                () = until(timer_at) => {
                    self.fan_out.on_timer(&mut self.cluster.routing(), Instant::now().into_std());
                }
            }
        }
        Ok(())
    }

    fn send_all(&mut self) {
        while let Some(sent) = self.fan_out.next_send() {
            self.counted.sent(sent.is_hedge);
            let keys = self.fan_out.keys(sent.copy);
            let payload = self
                .asked
                .payload(keys, sent.at_version, self.cluster.map().version());
            let left = self.asked.left();
            let (cluster, timeout) = (self.cluster.clone(), self.options.node_timeout);
            self.copies.spawn(async move {
                let Some(client) = cluster.client(sent.node) else {
                    let error = CallError::Map("a node is not in its map".to_owned());
                    return (sent, Err(error));
                };
                let ended = match payload {
                    Ok(payload) => {
                        client
                            .call_within(FeaturesLookup::NAME, &payload, left, timeout)
                            .await
                    }
                    Err(error) => Err(error),
                };
                (sent, ended)
            });
        }
    }

    /// A copy has ended. An error is the call's: no other node would answer it otherwise.
    fn on(&mut self, sent: ToSend, ended: Result<Vec<u8>, CallError>) -> Result<(), CallError> {
        let answer = match ended {
            Ok(answer) => answer,
            Err(error) => return self.failed(sent, error),
        };
        let payload = match Payload::new(Encoding::Msgpack, &answer) {
            Ok(payload) => payload,
            Err(error) => return self.failed(sent, self.lies(sent.node, &error)),
        };
        let part = match Part::decode(&payload) {
            Ok(part) => part,
            Err(error) => return self.failed(sent, self.lies(sent.node, &error)),
        };
        // After the call's end its merge has gone, and its rows are not taken.
        let checked = match self.fan_out.is_complete() {
            true => Ok(()),
            false => self.merge.check(
                &part,
                &schema::Asked {
                    table: &self.asked.lookup.table,
                    positions: self.fan_out.positions(sent.copy),
                    at_version: sent.at_version,
                    pooled: self.asked.pooled.as_ref(),
                    beside: 0,
                },
            ),
        };
        let is_wrong = match checked {
            Ok(()) => None,
            Err(Unfit::Call(status)) => Some(CallError::Status(status)),
            Err(Unfit::Node(error)) => {
                return self.failed(sent, self.lies(sent.node, &error));
            }
        };
        let outcome = Outcome::Rows {
            version: part.version,
            active: part.active,
        };
        let takes = self.report(sent.copy, outcome);
        match is_wrong {
            Some(error) => Err(error),
            None if takes => {
                let placed = self.merge.place(&part, self.fan_out.positions(sent.copy));
                placed.map_err(|error| self.lies(sent.node, &error))
            }
            None => Ok(()),
        }
    }

    fn lies(&self, node: NodeIndex, error: &dyn std::error::Error) -> CallError {
        lies(self.cluster.name(node), FeaturesLookup::NAME, error)
    }

    fn failed(&mut self, sent: ToSend, error: CallError) -> Result<(), CallError> {
        self.counted.failed();
        let outcome = match &error {
            CallError::Status(status) if status.code == Code::VersionGone => {
                Outcome::VersionGone(error.clone())
            }
            CallError::Status(_) | CallError::TooManyInFlight { .. } | CallError::Unsendable { .. } => {
                Outcome::Refused(error.clone())
            }
            _ => Outcome::Lost(error.clone()),
        };
        self.report(sent.copy, outcome);
        match is_of_the_call(&error) {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// Tells what became of a copy, and says whether its rows are taken.
    fn report(&mut self, copy: CopyId, outcome: Outcome<CallError>) -> bool {
        let now = Instant::now().into_std();
        let verdict = self.fan_out.on(copy, outcome, &mut self.cluster.routing(), now);
        if verdict.reset {
            self.merge.reset();
        }
        verdict.take
    }

    /// The keys without an answer, as they are answered; their rows become zeros.
    fn missing(&mut self) -> Vec<Missing<'static>> {
        let mut all = Vec::new();
        for missing in self.fan_out.missing() {
            self.merge.miss(&missing.positions);
            self.counted.missing(missing.positions.len());
            let (code, ex) = match &missing.error {
                Some(CallError::Status(status)) => (status.code, status.ex.clone()),
                Some(error) => (Code::NodeUnavailable, error.to_string()),
                None => (
                    Code::NodeUnavailable,
                    "the nodes serve different versions".to_owned(),
                ),
            };
            let keys = missing.positions.iter();
            all.push(Missing {
                node: self.cluster.name(missing.node).to_owned().into(),
                keys: keys
                    .filter_map(|at| self.asked.keys.get(*at as usize).copied())
                    .collect(),
                code: u64::from(code.number()),
                ex: ex.into(),
            });
        }
        all
    }

    /// Why no key has an answer.
    fn first_error(&self) -> CallError {
        let mut errors = self
            .fan_out
            .missing()
            .iter()
            .filter_map(|missing| missing.error.clone());
        errors.next().unwrap_or_else(|| {
            let ex = "the nodes serve different versions of the table, and none of them all";
            CallError::Status(Status::new(Code::NodeUnavailable, ex))
        })
    }
}

/// Whether every node would answer so: the call is wrong.
pub(super) fn is_of_the_call(error: &CallError) -> bool {
    match error {
        CallError::Unsendable { .. } => true,
        CallError::Status(status) => status.code.is_of_the_call(),
        _ => false,
    }
}

pub(super) fn lies(node: &str, method: &str, error: &dyn std::error::Error) -> CallError {
    CallError::Protocol {
        addr: node.to_owned(),
        detail: format!("the answer to {method}: {error}"),
    }
}

/// Waits for a time that may never come.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
