//! What a batch has made of its keys so far.
//!
//! Invariant: a key's value is where the last operation left it.

use crate::batch::{Batch, Operation};
use crate::inspect::Looked;
use crate::list::{Kind, List};

/// A key that the batch has changed, or has copied to read it.
pub(super) struct Own {
    /// The step of its last change, if there is one.
    pub step: Option<usize>,
    pub version: u64,
    pub expires_ms: u64,
    pub value: Value,
}

pub(super) enum Value {
    Nothing,
    /// That of the put at a place of the batch.
    OfPut(usize),
    Bytes(Vec<u8>),
    List(List),
}

impl Own {
    pub fn looked(&self, batch: &Batch) -> Looked {
        let (kind, value_bytes, count) = match &self.value {
            Value::Nothing => return Looked::default(),
            Value::OfPut(at) => (Kind::Bytes, value_of_put(batch, *at).len(), 0),
            Value::Bytes(value) => (Kind::Bytes, value.len(), 0),
            Value::List(list) => (Kind::List, list.value_bytes(), list.len()),
        };
        Looked {
            kind: Some(kind),
            version: self.version,
            expires_ms: self.expires_ms,
            value_bytes,
            count,
        }
    }

    /// From here on the value is no longer that of the put.
    pub fn take_from_put(&mut self, batch: &Batch) {
        if let Value::OfPut(at) = self.value {
            self.value = Value::Bytes(value_of_put(batch, at).to_vec());
        }
    }
}

pub(super) fn value_of_put(batch: &Batch, at: usize) -> &[u8] {
    match batch.operations.get(at) {
        Some(Operation::Put { value, .. }) => value,
        _ => &[],
    }
}
