//! A batch: mixed operations that take effect together, and what each of them found or did.
//!
//! Not how they are evaluated (`judge`). Invariant: a batch that passes [`Batch::check`] fits in one record of the log.

use crate::error::{WriteError, at_most, check_ttl};
use crate::index::Versioned;
use crate::put::{KEY_BYTES_MAX, PUT_BYTES_MAX, VALUE_BYTES_MAX};

/// The most operations of one batch.
pub const BATCH_OPERATIONS_MAX: usize = 10_000;
/// The longest text of a number.
pub(crate) const NUMBER_BYTES_MAX: usize = "-9223372036854775808".len();
/// What an operation counts as beside its bytes.
const OPERATION_BYTES: usize = 16;

/// One atomic write: all its operations or none, for readers and across a crash. Each operation sees those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// In the order in which they take effect.
    pub operations: Vec<Operation>,
    /// Bytes of values that its gets may find; where there are more it is refused.
    pub read_bytes_max: usize,
}

/// What is done with a key. Each that changes it gives it the next version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Reads it.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Writes it. The whole batch is refused where `if_version` is not its version (0: absent), or it is there with `if_absent`.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The version that it must have.
        if_version: Option<u64>,
        /// Whether it must be absent.
        if_absent: bool,
        /// How long it lasts, in milliseconds; for good where it is `None`.
        ttl_ms: Option<u64>,
    },
    /// Takes it away, if it is there. The whole batch is refused where `if_version` is not its version.
    Remove {
        /// The key.
        key: Vec<u8>,
        /// The version that it must have.
        if_version: Option<u64>,
    },
    /// Adds to the whole number that its value is as text, 0 where it is absent.
    Increment {
        /// The key.
        key: Vec<u8>,
        /// What is added; it may be below 0.
        by: i64,
        /// How long it lasts from now on, in milliseconds; as long as it did where it is `None`.
        ttl_ms: Option<u64>,
    },
    /// Says how long it lasts, if it is there.
    Expire {
        /// The key.
        key: Vec<u8>,
        /// In milliseconds; for good where it is `None`.
        ttl_ms: Option<u64>,
    },
}

/// What an operation found or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Of a get: what the key had, if anything.
    Found(Option<Versioned>),
    /// Of a put: the version that the key got.
    Put(u64),
    /// Of a removal, and of what says how long a key lasts: whether it was there.
    WasThere(bool),
    /// Of an increment.
    Incremented {
        /// The sum.
        value: i64,
        /// The version that the key got.
        version: u64,
    },
}

impl Operation {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Operation::Get { key }
            | Operation::Put { key, .. }
            | Operation::Remove { key, .. }
            | Operation::Increment { key, .. }
            | Operation::Expire { key, .. } => key,
        }
    }

    /// The key, and the value of a put.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Option<Vec<u8>>) {
        match self {
            Operation::Put { key, value, .. } => (key, Some(value)),
            Operation::Get { key }
            | Operation::Remove { key, .. }
            | Operation::Increment { key, .. }
            | Operation::Expire { key, .. } => (key, None),
        }
    }

    fn ttl_ms(&self) -> Option<u64> {
        match self {
            Operation::Put { ttl_ms, .. }
            | Operation::Increment { ttl_ms, .. }
            | Operation::Expire { ttl_ms, .. } => *ttl_ms,
            Operation::Get { .. } | Operation::Remove { .. } => None,
        }
    }

    /// Bytes of what it writes at most, beside what is there already.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Operation::Put { value, .. } => value.len(),
            Operation::Increment { .. } => NUMBER_BYTES_MAX,
            Operation::Get { .. } | Operation::Remove { .. } | Operation::Expire { .. } => 0,
        }
    }
}

impl Batch {
    /// Of these operations, whatever their gets find.
    pub fn of(operations: Vec<Operation>) -> Batch {
        Batch {
            operations,
            read_bytes_max: usize::MAX,
        }
    }

    /// Bytes that it takes in a record at most.
    pub(crate) fn bytes(&self) -> usize {
        self.operations
            .iter()
            .map(|operation| operation.key().len() + operation.value_bytes() + OPERATION_BYTES)
            .sum()
    }

    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if self.operations.is_empty() {
            return Err(WriteError::Empty);
        }
        at_most(
            "operations of the batch",
            self.operations.len(),
            BATCH_OPERATIONS_MAX,
        )?;
        for operation in &self.operations {
            at_most("bytes of a key", operation.key().len(), KEY_BYTES_MAX)?;
            at_most("bytes of a value", operation.value_bytes(), VALUE_BYTES_MAX)?;
            check_ttl(operation.ttl_ms())?;
        }
        at_most("bytes of the batch", self.bytes(), PUT_BYTES_MAX)
    }
}
