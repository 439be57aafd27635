//! A batch: mixed operations that take effect together, and what each of them found or did.
//!
//! Not how they are evaluated (`evaluate`). Invariant: a batch that passes [`Batch::check`] fits in one record of the log.

use crate::decimal::{DECIMAL_BYTES_MAX, Decimal};
use crate::error::{WriteError, at_most, check_ttl};
use crate::index::Versioned;
use crate::inspect::Inspected;
use crate::list::items_bytes;
use crate::put::{KEY_BYTES_MAX, PUT_BYTES_MAX, VALUE_BYTES_MAX};

/// The most operations of one batch.
pub const BATCH_OPERATIONS_MAX: usize = 10_000;
/// What a new list takes beside its items.
const LIST_BYTES: usize = size_of::<u32>();
/// The longest text of a number.
pub(crate) const NUMBER_BYTES_MAX: usize = "-9223372036854775808".len();
/// What an operation counts as beside its bytes: no record has more of it.
const OPERATION_BYTES: usize = 32;
/// The most items of lists that one batch reads: an answer with more has more values than readers take.
pub const BATCH_ITEMS_MAX: usize = 512 << 10;
/// The most items of one append.
pub const ITEMS_MAX: usize = 64 << 10;

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
    /// Writes it, whatever kind of value it held. The whole batch is refused where `if_version` is not its version (0: absent), it is
    /// there with `if_absent`, or it is not with `if_present`.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The version that it must have.
        if_version: Option<u64>,
        /// Whether it must be absent.
        if_absent: bool,
        /// Whether it must be there.
        if_present: bool,
        /// How long it lasts, in milliseconds; for good where it is `None`.
        ttl_ms: Option<u64>,
        /// Where `ttl_ms` is `None`: it lasts as long as it did.
        keep_ttl: bool,
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
    /// Adds items to the list that it holds, an empty one where it is absent.
    Append {
        /// The key.
        key: Vec<u8>,
        /// At least one; the last is the newest.
        items: Vec<Vec<u8>>,
        /// How many of the newest are left, at least 1; all where it is `None`.
        keep: Option<u32>,
        /// How long it lasts from now on, in milliseconds; as long as it did where it is `None`.
        ttl_ms: Option<u64>,
    },
    /// Reads items of the list that it holds, from one index to another that is meant too: 0 is the newest, -1 the oldest.
    Items {
        /// The key.
        key: Vec<u8>,
        /// The first index.
        start: i64,
        /// The last one.
        stop: i64,
    },
    /// Leaves the items of its list from one index to another, as [`Operation::Items`] counts them; where none is left the key goes.
    Trim {
        /// The key.
        key: Vec<u8>,
        /// The first index.
        start: i64,
        /// The last one.
        stop: i64,
    },
    /// Adds bytes behind those that it holds, none where it is absent. It lasts as long as it did.
    Concatenate {
        /// The key.
        key: Vec<u8>,
        /// What is added.
        value: Vec<u8>,
    },
    /// Adds to the decimal number that it holds as text, 0 where it is absent. It lasts as long as it did.
    IncrementDecimal {
        /// The key.
        key: Vec<u8>,
        /// What is added, as text.
        by: Vec<u8>,
    },
    /// Says what it is, without reading its value.
    Inspect {
        /// The key.
        key: Vec<u8>,
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
    /// Of an append and of a trim.
    Listed {
        /// Items that the list has then.
        count: usize,
        /// The version that the key got, or has where nothing changed; 0 where it is not there.
        version: u64,
    },
    /// Of a read of a list, the newest first.
    Items(Vec<Vec<u8>>),
    /// Of a concatenation.
    Concatenated {
        /// Bytes that the value has then.
        bytes: usize,
        /// The version that the key got.
        version: u64,
    },
    /// Of an increment of a decimal number.
    IncrementedDecimal {
        /// The sum, as text.
        value: Vec<u8>,
        /// The version that the key got.
        version: u64,
    },
    /// Of an inspection.
    Inspected(Inspected),
}

impl Effect {
    /// The same with the versions from one on so much later.
    pub(crate) fn later(mut self, first: u64, by: u64) -> Effect {
        let version = match &mut self {
            Effect::Found(Some(found)) => &mut found.version,
            Effect::Inspected(inspected) => &mut inspected.version,
            Effect::Put(version)
            | Effect::Incremented { version, .. }
            | Effect::IncrementedDecimal { version, .. }
            | Effect::Listed { version, .. }
            | Effect::Concatenated { version, .. } => version,
            Effect::Found(None) | Effect::WasThere(_) | Effect::Items(_) => return self,
        };
        if *version >= first {
            *version += by;
        }
        self
    }
}

impl Operation {
    /// Whether it may change its key.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Operation::Put { .. }
            | Operation::Remove { .. }
            | Operation::Increment { .. }
            | Operation::Expire { .. }
            | Operation::Append { .. }
            | Operation::Trim { .. }
            | Operation::Concatenate { .. }
            | Operation::IncrementDecimal { .. } => true,
            Operation::Get { .. } | Operation::Items { .. } | Operation::Inspect { .. } => false,
        }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Operation::Get { key }
            | Operation::Put { key, .. }
            | Operation::Remove { key, .. }
            | Operation::Increment { key, .. }
            | Operation::Expire { key, .. }
            | Operation::Append { key, .. }
            | Operation::Items { key, .. }
            | Operation::Trim { key, .. }
            | Operation::Concatenate { key, .. }
            | Operation::IncrementDecimal { key, .. }
            | Operation::Inspect { key } => key,
        }
    }

    /// The key, and the value of a put.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Option<Vec<u8>>) {
        match self {
            Operation::Put { key, value, .. } => (key, Some(value)),
            Operation::Get { key }
            | Operation::Remove { key, .. }
            | Operation::Increment { key, .. }
            | Operation::Expire { key, .. }
            | Operation::Append { key, .. }
            | Operation::Items { key, .. }
            | Operation::Trim { key, .. }
            | Operation::Concatenate { key, .. }
            | Operation::IncrementDecimal { key, .. }
            | Operation::Inspect { key } => (key, None),
        }
    }

    /// Whether it does the same whatever the key holds.
    pub(crate) fn is_blind(&self) -> bool {
        match self {
            Operation::Put {
                if_version,
                if_absent,
                if_present,
                keep_ttl,
                ..
            } => if_version.is_none() && !(*if_absent || *if_present || *keep_ttl),
            Operation::Get { .. }
            | Operation::Remove { .. }
            | Operation::Increment { .. }
            | Operation::Expire { .. }
            | Operation::Append { .. }
            | Operation::Items { .. }
            | Operation::Trim { .. }
            | Operation::Concatenate { .. }
            | Operation::IncrementDecimal { .. }
            | Operation::Inspect { .. } => false,
        }
    }

    fn ttl_ms(&self) -> Option<u64> {
        match self {
            Operation::Put { ttl_ms, .. }
            | Operation::Increment { ttl_ms, .. }
            | Operation::Expire { ttl_ms, .. }
            | Operation::Append { ttl_ms, .. } => *ttl_ms,
            Operation::Get { .. }
            | Operation::Remove { .. }
            | Operation::Items { .. }
            | Operation::Trim { .. }
            | Operation::Concatenate { .. }
            | Operation::IncrementDecimal { .. }
            | Operation::Inspect { .. } => None,
        }
    }

    /// Bytes of what it writes at most, beside what is there already.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Operation::Put { value, .. } => value.len(),
            Operation::Increment { .. } => NUMBER_BYTES_MAX,
            Operation::IncrementDecimal { .. } => DECIMAL_BYTES_MAX,
            Operation::Append { items, .. } => items_bytes(items) + LIST_BYTES,
            Operation::Concatenate { value, .. } => value.len(),
            Operation::Get { .. }
            | Operation::Remove { .. }
            | Operation::Expire { .. }
            | Operation::Items { .. }
            | Operation::Trim { .. }
            | Operation::Inspect { .. } => 0,
        }
    }

    fn check(&self) -> Result<(), WriteError> {
        at_most("bytes of a key", self.key().len(), KEY_BYTES_MAX)?;
        at_most("bytes of a value", self.value_bytes(), VALUE_BYTES_MAX)?;
        if let Operation::Append { items, keep, .. } = self {
            if items.is_empty() || *keep == Some(0) {
                return Err(WriteError::NoItems);
            }
            at_most("items of an append", items.len(), ITEMS_MAX)?;
        }
        if let Operation::IncrementDecimal { key, by } = self
            && Decimal::parse(by).is_none()
        {
            return Err(WriteError::NotADecimal { key: key.clone() });
        }
        check_ttl(self.ttl_ms())
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
            operation.check()?;
        }
        at_most("bytes of the batch", self.bytes(), PUT_BYTES_MAX)
    }
}
