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
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::ordered_batch::OPERATIONS_MAX;
use millpond_wire_schema::{Code, Method as _, OrderedBatch, OrderedClear, Status};
use std::sync::Arc;

/// The head of an array with a 32-bit count, msgpack's array 32.
const ARRAY32: [u8; 5] = [0xdd, 0, 0, 0, 0];

const READ_ONLY: &str =
    "READONLY You can't write: the store cannot write its log, and nothing was written; see the server's log";
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

    #[inline]
    fn one(&mut self, name: &str, key: &[u8], rest: impl FnOnce(&mut Encoder<'_>)) {
        let mut out = Encoder::new(self.payload, Encoding::Msgpack, false);
        out.array(|out| {
            out.text(name);
            out.bytes(key);
            rest(out);
        });
        self.count += 1;
    }

    #[inline]
    fn get(&mut self, key: &[u8]) {
        self.one("get", key, |_| {});
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], put: &Put) {
        self.one("put", key, |out| {
            out.bytes(value);
            put.write(out);
        });
    }

    fn remove(&mut self, key: &[u8]) {
        self.one("remove", key, |_| {});
    }

    #[inline]
    fn increment(&mut self, key: &[u8], by: i64) {
        self.one("increment", key, |out| out.int(by));
    }

    fn concatenate(&mut self, key: &[u8], value: &[u8]) {
        self.one("concatenate", key, |out| out.bytes(value));
    }

    fn inspect(&mut self, key: &[u8]) {
        self.one("inspect", key, |_| {});
    }

    fn append<'w>(&mut self, key: &[u8], items: impl Iterator<Item = &'w [u8]>) {
        self.one("append", key, |out| {
            out.array(|out| items.for_each(|item| out.bytes(item)));
        });
    }

    /// Reads or leaves the items of a list between two places.
    fn span(&mut self, name: &str, key: &[u8], start: i64, stop: i64) {
        self.one(name, key, |out| {
            out.int(start);
            out.int(stop);
        });
    }

    /// Says how long a key lasts; for good where that is nothing.
    fn expire(&mut self, key: &[u8], ttl_ms: Option<u64>) {
        self.one("expire", key, |out| {
            out.map(|out| match ttl_ms {
                Some(ttl_ms) => {
                    out.key("ttl_ms");
                    out.uint(ttl_ms);
                }
                None => {
                    out.key("persist");
                    out.bool(true);
                }
            });
        });
    }
}

/// How a value is put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Put {
    ttl_ms: Option<u64>,
    keep_ttl: bool,
    if_absent: bool,
    if_present: bool,
}

impl Put {
    fn write(&self, out: &mut Encoder<'_>) {
        if *self == Put::default() {
            return;
        }
        out.map(|out| {
            if let Some(ttl_ms) = self.ttl_ms {
                out.key("ttl_ms");
                out.uint(ttl_ms);
            }
            let flags = [
                ("keep_ttl", self.keep_ttl),
                ("if_absent", self.if_absent),
                ("if_present", self.if_present),
            ];
            for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
                out.key(name);
                out.bool(true);
            }
        });
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
            // A token may open what reads among them and no batch.
            | Code::Unauthenticated
            | Code::Forbidden
    )
}

/// The text of an error of a store in words of Redis, where it has some. An error quotes keys: what it says stands before or behind them.
pub(crate) fn error_text(status: &Status, method: &str) -> Option<&'static str> {
    match status.code {
        Code::BadArgument if status.ex.starts_with("wrong kind of value: ") => Some(WRONG_TYPE),
        Code::BadArgument
            if status
                .ex
                .ends_with("so it cannot be incremented; put a number first") =>
        {
            Some(numbers::NO_INTEGER)
        }
        Code::BadArgument if status.ex.ends_with("more does not fit 64 bits") => Some(numbers::OVERFLOW),
        // Of a store that is cleared some keys may be gone.
        Code::StorageFailed if method != OrderedClear::NAME => Some(READ_ONLY),
        Code::Full => Some("OOM command not allowed when used memory > 'maxmemory'."),
        _ => None,
    }
}

/// What Redis says of a command with too few or too many words, where its arity does not tell.
fn wrong_number(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_by_what_stands_around_its_keys() {
        let check = |code: Code, method: &str, text: &str, expected: Option<&str>| {
            let status = Status::new(code, text);
            assert_eq!(error_text(&status, method), expected, "{text}");
        };
        let batch = OrderedBatch::NAME;
        let number = "key \"wrong kind of value: more does not fit 64 bits\" does not hold a whole number of 64 bits, \
                      so it cannot be incremented; put a number first";
        check(Code::BadArgument, batch, number, Some(numbers::NO_INTEGER));
        let overflow = "key \"does not hold a whole number\" holds 9, and 1 more does not fit 64 bits";
        check(Code::BadArgument, batch, overflow, Some(numbers::OVERFLOW));
        let kind = "wrong kind of value: key \"more does not fit 64 bits\" holds a list, and this is done with bytes alone";
        check(Code::BadArgument, batch, kind, Some(WRONG_TYPE));
        let other = "a time to live of 0 ms; expected at least 1, or remove the key";
        check(Code::BadArgument, batch, other, None);
        let failed = "some keys may be removed already, and the next were not";
        check(Code::StorageFailed, OrderedClear::NAME, failed, None);
        check(Code::StorageFailed, batch, failed, Some(READ_ONLY));
    }
}
