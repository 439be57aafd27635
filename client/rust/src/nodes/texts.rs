//! Keys of texts: in which slot a table hashes them, as one of its nodes says.
//!
//! It hashes as servers do (docs/decisions/0015). Its invariant: rows are answered for keys of the slot that their table's nodes
//! say.

use super::any::ask_any;
use super::{NodesClient, drive};
use crate::{CallError, Status, Token};
use millpond_nodes::text_key;
use millpond_wire_schema::features_inspect as inspect;
use millpond_wire_schema::features_lookup::{Lookup, Rows};
use millpond_wire_schema::payload::{Encoder, Encoding, Gained, Payload};
use millpond_wire_schema::{Code, FeaturesInspect, Field as _, Method as _};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How often a call is made while the nodes switch to a version with another slot.
const ATTEMPTS_MAX: usize = 3;

/// What is known of tables.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<String, Slot>>);

/// How a version of a table hashes texts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    version: u64,
    /// `None` where keys are numbers.
    name: Option<String>,
}

impl Slots {
    fn get(&self, table: &str) -> Option<Slot> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(table).cloned()
    }

    fn set(&self, table: &str, slot: Slot) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.insert(table.to_owned(), slot);
    }
}

impl NodesClient {
    /// Looks the keys of a call's texts up. A version may hash in another slot than the one before it: one that answers and is not known
    /// is asked for.
    pub(super) async fn look_up_texts(
        &self,
        lookup: &Lookup<'_>,
        deadline: Option<Duration>,
        started: Instant,
    ) -> Result<Rows<'static>, CallError> {
        let left = || {
            Some(
                started
                    .checked_add(deadline?)?
                    .saturating_duration_since(Instant::now()),
            )
        };
        let mut slot = match self.shared.slots.get(&lookup.table) {
            Some(slot) => slot,
            None => self.inspect(&lookup.table, None, left).await?,
        };
        for _ in 0..ATTEMPTS_MAX {
            let keys = keys_of(lookup, slot.name.as_deref())?;
            let rows = self.look_up_keys(lookup, keys, deadline, started).await?;
            if rows.version == slot.version {
                return Ok(rows);
            }
            let now = self.inspect(&lookup.table, Some(rows.version), left).await?;
            // A node that serves another version says nothing of how this one hashes.
            if now.version == rows.version && now.name == slot.name {
                return Ok(rows);
            }
            slot = now;
        }
        let ex = format!(
            "no node says in which slot the version that answers hashes the texts of table {:?}; try again once all nodes have switched \
             to one version, and name none that no node serves (at_version)",
            lookup.table
        );
        Err(CallError::Status(Status::new(Code::NodeUnavailable, ex)))
    }

    /// What a node says that serves the version, where one is wanted and a node serves it; else what any node says.
    async fn inspect(
        &self,
        table: &str,
        wanted: Option<u64>,
        left: impl Fn() -> Option<Duration>,
    ) -> Result<Slot, CallError> {
        let call = inspect::Call {
            table: Some(table.to_owned().into()),
        };
        let mut payload = Vec::new();
        inspect::Call::write(&call, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        let cluster = self.cluster();
        let options = &self.shared.options;
        let method = FeaturesInspect::NAME;
        if let Some(Token(token)) = &options.token {
            let gained = Gained::token(token).insert(Encoding::Msgpack, &payload);
            payload = gained.map_err(|error| CallError::Unsendable {
                method: method.to_owned(),
                detail: error.to_string(),
            })?;
        }
        let other = Mutex::new(None);
        let read = |answer: &[u8], node: &str| {
            let slot = read(table, answer, node)?;
            if wanted.is_none_or(|wanted| slot.version == wanted) {
                return Ok(slot);
            }
            let ex = format!("node {node:?} serves version {} of table {table:?}", slot.version);
            *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
            Err(CallError::Status(Status::new(Code::NodeUnavailable, ex)))
        };
        let asked = ask_any(&cluster, method, &payload, left, options, read).await;
        let other = other.into_inner().unwrap_or_else(PoisonError::into_inner);
        let slot = match (asked, other) {
            (Ok(slot), _) | (Err(_), Some(slot)) => slot,
            (Err(error), None) => return Err(error),
        };
        self.shared.slots.set(table, slot.clone());
        Ok(slot)
    }
}

fn read(table: &str, answer: &[u8], node: &str) -> Result<Slot, CallError> {
    let payload = Payload::new(Encoding::Msgpack, answer);
    let answer = payload.and_then(|payload| Ok(inspect::Answer::own(inspect::Answer::decode(&payload)?.0)));
    let answer = answer.map_err(|error| drive::lies(node, FeaturesInspect::NAME, &error))?;
    let found = answer.tables.into_iter().find(|found| found.table == table);
    let found = found.ok_or_else(|| {
        let ex = format!("node {node:?} has no table {table:?}");
        CallError::Status(Status::new(Code::NotFound, ex))
    })?;
    Ok(Slot {
        version: found.version,
        name: found.slot.map(Into::into),
    })
}

fn keys_of(lookup: &Lookup<'_>, slot: Option<&str>) -> Result<Vec<u64>, CallError> {
    let Some(slot) = slot else {
        let ex = format!(
            "table {:?} has keys that are numbers; send `keys` instead of `texts`",
            lookup.table
        );
        return Err(CallError::Status(Status::new(Code::BadArgument, ex)));
    };
    let texts = lookup.texts.iter().flatten();
    Ok(texts.map(|text| text_key(slot, text)).collect())
}
