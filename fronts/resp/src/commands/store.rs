//! Commands of an ordered store: each is operations of an `ordered.batch`, and a reply that their results make.
//!
//! Commands that follow each other on a connection share a batch, and a transaction is one. Its invariant: a command that is
//! refused here has left no operation behind.

pub(super) mod clear;
pub(super) mod expiry;
pub(super) mod inspect;
pub(super) mod lists;
pub(super) mod numbers;
pub(super) mod reads;
mod reply;
pub(super) mod scan;
pub(super) mod strings;

pub(crate) use reply::Reply;
use reply::{results, results_of, value};

use super::Asked;
use crate::form::lacks_token;
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::Field as _;
use millpond_wire_schema::ordered_batch::{OPERATIONS_MAX, Operation, Options};
use millpond_wire_schema::{Code, Method as _, OrderedBatch, OrderedClear, Reason, Status};
use std::sync::Arc;

/// The head of an array with a 32-bit count, msgpack's array 32.
const ARRAY32: [u8; 5] = [0xdd, 0, 0, 0, 0];

const READ_ONLY: &str =
    "READONLY You can't write: the store cannot write its log, and nothing was written; see the server's log";
const CLEAR_NO_TOKEN: &str = "NOAUTH Authentication required: the command is ordered.clear; AUTH with the token of a group that \
                              has its whole name in access.tokens.GROUP.methods";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Appends the operations of a command; or says what to answer instead.
pub(crate) type Compile = fn(&mut Operations<'_>, RespWords<'_>) -> Result<Part, String>;

/// The operations of a batch, as its call has them.
pub(crate) struct Operations<'p> {
    payload: &'p mut Vec<u8>,
    count: usize,
}

/// A command among those of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Operations that are its.
    pub(crate) operations: usize,
    pub(crate) reply: Reply,
    /// What is answered where its condition does not hold; it is in a batch of its own, which is then refused whole.
    pub(crate) unmet: Option<Unmet>,
}

/// What a condition that does not hold is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmet {
    Nil,
    Zero,
}

impl Part {
    fn of(operations: usize, reply: Reply) -> Part {
        Part {
            operations,
            reply,
            unmet: None,
        }
    }
}

/// The commands that a call answers.
#[derive(Debug, Clone, Default)]
pub(crate) enum Parts {
    /// None of a store's.
    #[default]
    None,
    One(Part),
    /// Several in a row, each with a reply.
    Joined(Arc<[Part]>),
    /// Those of a transaction, whose replies are one array.
    Transaction(Arc<[Part]>),
}

impl Parts {
    fn each(&self) -> &[Part] {
        match self {
            Parts::None => &[],
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Joined(parts) | Parts::Transaction(parts) => parts,
        }
    }
}

/// What a batch was before a command, to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    bytes: usize,
    count: usize,
}

impl<'p> Operations<'p> {
    /// Behind those that are there already.
    pub(crate) fn behind(payload: &'p mut Vec<u8>, count: usize) -> Operations<'p> {
        Operations { payload, count }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            bytes: self.payload.len(),
            count: self.count,
        }
    }

    /// Takes back what was appended since then.
    pub(crate) fn go_back(&mut self, place: Place) {
        self.payload.truncate(place.bytes);
        self.count = place.count;
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Appends the operations of one command, or none.
    pub(crate) fn compile(&mut self, compile: Compile, words: RespWords<'_>) -> Result<Part, String> {
        let place = self.place();
        let part = compile(self, words).and_then(|part| match self.count {
            count if count > OPERATIONS_MAX => Err(format!(
                "ERR a batch has at most {OPERATIONS_MAX} operations, and this one {count}; send fewer keys at once"
            )),
            _ => Ok(part),
        });
        if part.is_err() {
            self.go_back(place);
        }
        part
    }

    /// Appends an operation.
    #[inline]
    fn push(&mut self, operation: &Operation<'_>) {
        let mut out = Encoder::new(self.payload, Encoding::Msgpack, false);
        Operation::write(operation, &mut out);
        self.count += 1;
    }

    #[inline]
    fn get(&mut self, key: &[u8]) {
        self.push(&Operation::Get(key.into()));
    }

    #[inline]
    fn put<'w>(&mut self, key: &'w [u8], value: &'w [u8], options: Options<'w>) {
        self.push(&Operation::Put(key.into(), value.into(), options));
    }

    fn remove(&mut self, key: &[u8]) {
        self.push(&Operation::Remove(key.into(), Options::default()));
    }

    #[inline]
    fn increment(&mut self, key: &[u8], by: i64) {
        self.push(&Operation::Increment(key.into(), by, Options::default()));
    }

    fn inspect(&mut self, key: &[u8]) {
        self.push(&Operation::Inspect(key.into()));
    }

    /// Says how long a key lasts; for good where that is nothing.
    fn expire(&mut self, key: &[u8], ttl_ms: Option<u64>) {
        let options = Options {
            ttl_ms,
            persist: ttl_ms.is_none(),
            ..Options::default()
        };
        self.push(&Operation::Expire(key.into(), options));
    }
}

/// Begins the map of a batch on that store; its operations follow.
pub(crate) fn begin(payload: &mut Vec<u8>, store: &str) {
    begin_keyed(payload, store, "operations");
}

/// Begins a map with the store and an array, whose items follow.
fn begin_keyed(payload: &mut Vec<u8>, store: &str, key: &str) {
    begin_map(payload, store, 2);
    let mut out = Encoder::new(payload, Encoding::Msgpack, false);
    out.key(key);
    out.raw(&ARRAY32);
}

/// Begins a map of so many keys with the store.
fn begin_map(payload: &mut Vec<u8>, store: &str, keys: usize) {
    let mut out = Encoder::new(payload, Encoding::Msgpack, false);
    out.begin_map(keys);
    out.key("table");
    out.text(store);
}

/// Says how many items follow an array's head that ends at `at`.
pub(crate) fn set_count(payload: &mut [u8], at: usize, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(place) = payload.get_mut(at - count.len()..at) {
        place.copy_from_slice(&count);
    }
}

/// A batch that is ready to be called.
pub(crate) fn batch(parts: Parts) -> Asked {
    let answers = match &parts {
        Parts::Joined(parts) => u32::try_from(parts.len()).unwrap_or(u32::MAX),
        _ => 1,
    };
    Asked {
        answers,
        parts,
        ..Asked::of(OrderedBatch::NAME, |answer, form, reply| {
            results_of(answer, b"results", form, reply)
        })
    }
}

/// What a refused call is answered in words of Redis, where it has some.
pub(crate) fn refused(parts: &Parts, status: &Status, reply: &mut RespReply<'_>) -> bool {
    let unmet = match parts {
        Parts::One(part) if status.code == Code::Conflict => part.unmet,
        _ => None,
    };
    match unmet {
        Some(Unmet::Nil) => reply.nil(),
        Some(Unmet::Zero) => reply.integer(0),
        None => return false,
    }
    true
}

/// Whether a batch of several commands that was refused so has changed nothing, and each may go by itself.
pub(crate) fn goes_again(status: &Status) -> bool {
    matches!(
        status.code,
        Code::BadArgument
            | Code::Conflict
            | Code::Full
            | Code::TooLarge
            // Reads go on where the log has failed.
            | Code::StorageFailed
            // They go on where another server takes the writes, or no follower has the last ones.
            | Code::NotLeader
            | Code::NodeUnavailable
            // A token may open what reads among them and no batch.
            | Code::Unauthenticated
            | Code::Forbidden
    )
}

/// The text of an error of a store in words of Redis, where it has some.
pub(crate) fn error_text(status: &Status, method: &str) -> Option<&'static str> {
    match (status.reason, status.code) {
        (Some(Reason::WrongKind), _) => Some(WRONG_TYPE),
        (Some(Reason::NotANumber), _) => Some(numbers::NO_INTEGER),
        (Some(Reason::Overflow), _) => Some(numbers::OVERFLOW),
        (Some(Reason::NotADecimal), _) => Some(numbers::NO_FLOAT),
        (Some(Reason::DecimalOverflow), _) => Some(numbers::INFINITE),
        (None, _) if method == OrderedClear::NAME && lacks_token(status) => Some(CLEAR_NO_TOKEN),
        // Of a store that is cleared some keys may be gone.
        (None, Code::StorageFailed) if method != OrderedClear::NAME => Some(READ_ONLY),
        (None, Code::NodeUnavailable) => Some("NOREPLICAS Not enough good replicas to write."),
        (None, Code::Full) => Some("OOM command not allowed when used memory > 'maxmemory'."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_log_says_so_but_where_keys_may_be_gone() {
        let check = |code: Code, method: &str, expected: Option<&str>| {
            assert_eq!(
                error_text(&Status::new(code, "why"), method),
                expected,
                "{code:?}"
            );
        };
        check(Code::BadArgument, OrderedBatch::NAME, None);
        check(Code::StorageFailed, OrderedBatch::NAME, Some(READ_ONLY));
        check(Code::StorageFailed, OrderedClear::NAME, None);
        let no_replicas = "NOREPLICAS Not enough good replicas to write.";
        check(Code::NodeUnavailable, OrderedBatch::NAME, Some(no_replicas));
    }
}
