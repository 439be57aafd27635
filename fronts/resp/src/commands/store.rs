//! Commands of an ordered store: each is operations of an `ordered.batch`, and a reply that their results make.
//!
//! Commands that follow each other on a connection share a batch, and a transaction is one. Its invariant: a command that is
//! refused here has left no operation behind.

pub(super) mod expiry;
pub(super) mod numbers;
pub(super) mod reads;
pub(super) mod strings;

use super::Asked;
use crate::form::Form;
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::{Encoder, Payload, PayloadError, Read, Reader, Token};
use millpond_wire_schema::ordered_batch::OPERATIONS_MAX;
use millpond_wire_schema::{Code, Method as _, OrderedBatch, Status};
use std::sync::Arc;

/// The head of an array with a 32-bit count, msgpack's array 32.
const ARRAY32: [u8; 5] = [0xdd, 0, 0, 0, 0];

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

/// What the results of a command's operations make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `+OK`, whatever they are.
    Ok,
    /// The value that the first one found.
    First,
    /// An array of the values that they found.
    Values,
    /// The bytes of the value that the first one found.
    Length,
    /// The number that the first one made.
    Number,
    /// How many of them met their key.
    Count,
    /// `:1`, whatever they are.
    One,
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
    if_absent: bool,
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
            if self.if_absent {
                out.key("if_absent");
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
    let mut out = Encoder::new(payload, Encoding::Msgpack, false);
    out.begin_map(2);
    out.key("table");
    out.text(store);
    out.key(key);
    out.raw(&ARRAY32);
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
        ..Asked::of(OrderedBatch::NAME, write_results)
    }
}

/// The replies of a batch's results.
fn write_results(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let parts = form.asked.parts.each();
    if matches!(form.asked.parts, Parts::Transaction(_)) {
        reply.array(parts.len());
    }
    let wanted: usize = parts.iter().map(|part| part.operations).sum();
    answer.read(|reader| {
        reader.map("a map", |reader, key| {
            if key != b"results" {
                return reader.skip();
            }
            match reader.token()? {
                Token::Array(len) if len == wanted => {}
                Token::Array(len) => {
                    return Err(PayloadError::invalid(
                        format!("{len} results"),
                        format!("{wanted}"),
                    ));
                }
                other => return Err(other.is_not("an array")),
            }
            for part in parts {
                part.write(reader, reply)?;
            }
            reader.leave();
            Ok(())
        })
    })
}

impl Part {
    fn write(&self, results: &mut Reader<'_>, reply: &mut RespReply<'_>) -> Read<()> {
        match self.reply {
            Reply::Ok => reply.status("OK"),
            Reply::One => reply.integer(1),
            Reply::First => value(results.token()?, reply)?,
            Reply::Length => match results.token()? {
                Token::Bytes(bytes) => reply.integer(bytes.len() as i64),
                Token::Nil => reply.integer(0),
                other => return Err(other.is_not("bytes or null")),
            },
            Reply::Number => reply.integer(number(results.token()?)?),
            Reply::Values => {
                reply.array(self.operations);
                for _ in 0..self.operations {
                    value(results.token()?, reply)?;
                }
            }
            Reply::Count => {
                let mut count = 0;
                for _ in 0..self.operations {
                    count += i64::from(results.bool()?);
                }
                reply.integer(count);
            }
        }
        let read = match self.reply {
            Reply::Ok | Reply::One => 0,
            Reply::First | Reply::Length | Reply::Number => 1,
            Reply::Values | Reply::Count => self.operations,
        };
        (read..self.operations).try_for_each(|_| results.skip())
    }
}

fn value(token: Token<'_>, reply: &mut RespReply<'_>) -> Read<()> {
    match token {
        Token::Bytes(bytes) => reply.bulk(bytes),
        Token::Nil => reply.nil(),
        other => return Err(other.is_not("bytes or null")),
    }
    Ok(())
}

fn number(token: Token<'_>) -> Read<i64> {
    match token {
        Token::UInt(number) => Ok(i64::try_from(number).unwrap_or(i64::MAX)),
        Token::Int(number) => Ok(number),
        other => Err(other.is_not("an integer")),
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
        Code::BadArgument | Code::Conflict | Code::Full | Code::TooLarge
    )
}

/// The text of an error of a store in words of Redis, where it has some.
pub(crate) fn error_text(status: &Status) -> Option<&'static str> {
    let says = |words: &str| status.ex.contains(words);
    match status.code {
        Code::BadArgument if says("does not hold a whole number") => Some(numbers::NO_INTEGER),
        Code::BadArgument if says("does not fit 64 bits") => Some(numbers::OVERFLOW),
        Code::Full => Some("OOM command not allowed when used memory > 'maxmemory'."),
        _ => None,
    }
}

/// What Redis says of a command with too few or too many words, where its arity does not tell.
fn wrong_number(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}
