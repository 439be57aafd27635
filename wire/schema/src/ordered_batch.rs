//! `ordered.batch`: mixed operations that take effect together.
//! Its invariants: all of them take effect or none, and each sees those before it.

use crate::declare::schema;
use crate::field::{Bool, Bytes, Field, Int, List, Optional, OrDefault, Text, UInt};
use crate::payload::{Encoder, PayloadError, Read, Reader, Token};
use std::borrow::Cow;

/// Operations that one call may hold.
pub const OPERATIONS_MAX: usize = 10_000;

schema! {
    /// What goes with an operation, as far as it fits that one.
    #[derive(Default)]
    call Options {
        /// The key must be at this version (0: absent).
        if_version: Optional<UInt>,
        /// The key must be absent.
        if_absent: OrDefault<Bool>,
        /// How long the key lasts from now on.
        ttl_ms: Optional<UInt>,
        /// The key lasts for good.
        persist: OrDefault<Bool>,
    }
}

/// An operation and its key.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation<'a> {
    /// Reads it.
    Get(Cow<'a, [u8]>),
    /// Writes it.
    Put(Cow<'a, [u8]>, Cow<'a, [u8]>, Options<'a>),
    /// Takes it away, if it is there.
    Remove(Cow<'a, [u8]>, Options<'a>),
    /// Adds to the whole number that it holds as text.
    Increment(Cow<'a, [u8]>, i64, Options<'a>),
    /// Says how long it lasts, if it is there.
    Expire(Cow<'a, [u8]>, Options<'a>),
}

const FORMS: &str = "[\"get\", key], [\"put\", key, value, {if_version?, if_absent?, ttl_ms?}?], [\"remove\", key, {if_version?}?], \
                     [\"increment\", key, by, {ttl_ms?}?] or [\"expire\", key, {ttl_ms or persist}]";

impl Operation<'_> {
    /// What goes with it and does not fit it, or what it lacks.
    fn problem(&self) -> Option<&'static str> {
        let Options {
            if_version,
            if_absent,
            ttl_ms,
            persist,
        } = match self {
            Operation::Get(_) => return None,
            Operation::Put(.., options)
            | Operation::Remove(.., options)
            | Operation::Increment(.., options)
            | Operation::Expire(.., options) => options,
        };
        let (lasts, is_conditional) = (ttl_ms.is_some(), *if_absent || if_version.is_some());
        let fits = match self {
            Operation::Get(_) => true,
            Operation::Put(..) => !persist,
            Operation::Remove(..) => !if_absent && !lasts && !persist,
            Operation::Increment(..) => !is_conditional && !persist,
            Operation::Expire(..) => !is_conditional && lasts != *persist,
        };
        (!fits).then_some("an operation with options that do not go with it")
    }
}

impl Field for Operation<'static> {
    type Of<'a> = Operation<'a>;

    fn notation() -> String {
        FORMS.to_owned()
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Read<Operation<'a>> {
        let len = match reader.token()? {
            Token::Array(len @ 1..) => len,
            Token::Array(_) => return Err(PayloadError::invalid("an empty array", FORMS)),
            other => return Err(other.is_not(FORMS)),
        };
        let name = reader.text()?;
        let operation = match (name, len) {
            ("get", 2) => Operation::Get(reader.bytes()?),
            ("put", 3 | 4) => Operation::Put(reader.bytes()?, reader.bytes()?, options(reader, len == 4)?),
            ("remove", 2 | 3) => Operation::Remove(reader.bytes()?, options(reader, len == 3)?),
            ("increment", 3 | 4) => {
                Operation::Increment(reader.bytes()?, Int::read(reader)?, options(reader, len == 4)?)
            }
            ("expire", 3) => Operation::Expire(reader.bytes()?, options(reader, true)?),
            _ => return Err(PayloadError::invalid(format!("{name:?} with {len} items"), FORMS)),
        };
        reader.leave();
        match operation.problem() {
            Some(problem) => Err(PayloadError::invalid(problem, FORMS)),
            None => Ok(operation),
        }
    }

    fn write(value: &Operation<'_>, out: &mut Encoder<'_>) {
        out.array(|out| match value {
            Operation::Get(key) => {
                out.text("get");
                out.bytes(key);
            }
            Operation::Put(key, value, options) => {
                out.text("put");
                out.bytes(key);
                out.bytes(value);
                write_options(options, out);
            }
            Operation::Remove(key, options) => {
                out.text("remove");
                out.bytes(key);
                write_options(options, out);
            }
            Operation::Increment(key, by, options) => {
                out.text("increment");
                out.bytes(key);
                out.int(*by);
                write_options(options, out);
            }
            Operation::Expire(key, options) => {
                out.text("expire");
                out.bytes(key);
                write_options(options, out);
            }
        });
    }

    fn own(value: Operation<'_>) -> Operation<'static> {
        match value {
            Operation::Get(key) => Operation::Get(Bytes::own(key)),
            Operation::Put(key, value, options) => {
                Operation::Put(Bytes::own(key), Bytes::own(value), Options::own(options))
            }
            Operation::Remove(key, options) => Operation::Remove(Bytes::own(key), Options::own(options)),
            Operation::Increment(key, by, options) => {
                Operation::Increment(Bytes::own(key), by, Options::own(options))
            }
            Operation::Expire(key, options) => Operation::Expire(Bytes::own(key), Options::own(options)),
        }
    }
}

fn options<'a>(reader: &mut Reader<'a>, is_there: bool) -> Read<Options<'a>> {
    match is_there {
        true => Options::read(reader),
        false => Ok(Options::default()),
    }
}

fn write_options(options: &Options<'_>, out: &mut Encoder<'_>) {
    if *options != Options::default() {
        Options::write(options, out);
    }
}

/// What an operation found or did.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<'a> {
    /// Of a get: the value, if there is one.
    Value(Option<Cow<'a, [u8]>>),
    /// Of a put the version that the key got, of an increment the sum.
    Number(i64),
    /// Of a removal, and of what says how long a key lasts: whether it was there.
    WasThere(bool),
}

impl Field for Effect<'static> {
    type Of<'a> = Effect<'a>;

    fn notation() -> String {
        "bytes or nil, int or bool".to_owned()
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Read<Effect<'a>> {
        let mut ahead = reader.clone();
        match ahead.token()? {
            Token::UInt(_) | Token::Int(_) => Int::read(reader).map(Effect::Number),
            Token::Bool(_) => reader.bool().map(Effect::WasThere),
            _ => <Optional<Bytes>>::read(reader).map(Effect::Value),
        }
    }

    fn write(value: &Effect<'_>, out: &mut Encoder<'_>) {
        match value {
            Effect::Value(value) => <Optional<Bytes>>::write(value, out),
            Effect::Number(number) => out.int(*number),
            Effect::WasThere(was_there) => out.bool(*was_there),
        }
    }

    fn own(value: Effect<'_>) -> Effect<'static> {
        match value {
            Effect::Value(value) => Effect::Value(<Optional<Bytes>>::own(value)),
            Effect::Number(number) => Effect::Number(number),
            Effect::WasThere(was_there) => Effect::WasThere(was_there),
        }
    }
}

schema! {
    /// A call.
    call Call {
        /// The store; the default one when absent.
        table: Optional<Text>,
        /// What is done, in order. A condition that does not hold refuses the whole call.
        operations: List<Operation<'static>, OPERATIONS_MAX>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// What each operation found or did: of "get" the value or nil, of "put" the version that the key got, of "remove" and
        /// "expire" whether the key was there, of "increment" the sum.
        results: List<Effect<'static>>,
        /// What the batch survives: "memory", "logged" or "synced".
        durability: Text,
    }
}
