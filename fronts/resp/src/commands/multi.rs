//! MULTI, EXEC and DISCARD: what is queued between them is one batch.
//!
//! Its invariant: a transaction that a command could not be queued for takes no effect.

use super::store::{self, Operations, Part, Parts};
use super::{Asked, Here, Row};
use crate::databases::Database;
use millpond_wire_frame::RespWords;

/// The commands of a transaction so far.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    /// Their operations.
    operations: Vec<u8>,
    count: usize,
    parts: Vec<Part>,
    /// One of them was refused.
    is_spoilt: bool,
}

impl Queued {
    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.operations.capacity() + self.parts.capacity() * size_of::<Part>()
    }

    /// A command was refused.
    pub(crate) fn spoil(&mut self) {
        self.is_spoilt = true;
        // They will not be asked for.
        (self.operations, self.parts, self.count) = (Vec::new(), Vec::new(), 0);
    }

    /// Queues a command on what is selected, or says why it cannot be.
    pub(crate) fn push(
        &mut self,
        row: &Row,
        database: Result<&Database, String>,
        words: RespWords<'_>,
        bytes_max: usize,
    ) -> Result<(), String> {
        let pushed = database.and_then(|database| self.compile(row, database, words, bytes_max));
        if pushed.is_err() {
            self.spoil();
        }
        pushed
    }

    fn compile(
        &mut self,
        row: &Row,
        database: &Database,
        words: RespWords<'_>,
        bytes_max: usize,
    ) -> Result<(), String> {
        let served = row.served(database.holds);
        let compile = served.and_then(|served| served.compile).ok_or_else(|| {
            format!(
                "ERR command '{}' cannot be queued: a transaction is one batch of a store's operations",
                row.name
            )
        })?;
        if self.is_spoilt {
            return Ok(());
        }
        let mut out = Operations::behind(&mut self.operations, self.count);
        let place = out.place();
        let part = out.compile(compile, words)?;
        let (count, bytes) = (out.count(), out.bytes());
        let refusal = match part.unmet {
            Some(_) => Some(format!(
                "ERR command '{}' with its condition cannot be queued: a batch takes effect whole or not at all",
                row.name
            )),
            None => (bytes > bytes_max).then(|| {
                format!("ERR the transaction has {bytes} bytes; at most {bytes_max} are queued (server.frame_bytes_max)")
            }),
        };
        if let Some(refusal) = refusal {
            out.go_back(place);
            return Err(refusal);
        }
        self.count = count;
        self.parts.push(part);
        Ok(())
    }

    /// The call that it is, nothing where it is empty.
    pub(crate) fn call(self, store: &str, payload: &mut Vec<u8>) -> Result<Option<Asked>, String> {
        if self.is_spoilt {
            return Err("EXECABORT Transaction discarded because of previous errors.".to_owned());
        }
        if self.parts.is_empty() {
            return Ok(None);
        }
        store::begin(payload, store);
        let begin = payload.len();
        payload.extend_from_slice(&self.operations);
        store::set_count(payload, begin, self.count);
        Ok(Some(store::batch(Parts::Transaction(self.parts.into()))))
    }
}

pub(super) fn multi(here: &mut Here<'_>, _: RespWords<'_>, out: &mut Vec<u8>) {
    if here.state.queued.is_some() {
        return here.reply(out).error("ERR MULTI calls can not be nested");
    }
    here.state.queued = Some(Box::default());
    here.reply(out).status("OK");
}

pub(super) fn discard(here: &mut Here<'_>, _: RespWords<'_>, out: &mut Vec<u8>) {
    match here.state.queued.take() {
        Some(_) => here.reply(out).status("OK"),
        None => here.reply(out).error("ERR DISCARD without MULTI"),
    }
}
