//! `ordered.batch`: mixed operations that take effect together.
//! Its invariants: all of them take effect or none, and each sees those before it.

use crate::declare::schema;
use crate::field::{Bool, Bytes, Field, Int, List, Optional, OrDefault, Text, UInt};
use crate::ordered_inspect::Inspected;
use crate::payload::{Encoder, PayloadError, Read, Reader, Token};
use crate::{ordered_append, ordered_items};
use std::borrow::Cow;

type Items = List<Bytes, { ordered_append::ITEMS_MAX }>;

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
        /// The key must be there.
        if_present: OrDefault<Bool>,
        /// How long the key lasts from now on.
        ttl_ms: Optional<UInt>,
        /// The key lasts as long as it did.
        keep_ttl: OrDefault<Bool>,
        /// The key lasts for good.
        persist: OrDefault<Bool>,
        /// How many of the newest items are left.
        keep: Optional<UInt>,
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
    /// Adds bytes behind those that it holds.
    Concatenate(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// Adds items to the list that it holds.
    Append(Cow<'a, [u8]>, Vec<Cow<'a, [u8]>>, Options<'a>),
    /// Reads items of its list from one index to another.
    Items(Cow<'a, [u8]>, i64, i64),
    /// Leaves items of its list from one index to another.
    Trim(Cow<'a, [u8]>, i64, i64),
    /// Adds to the decimal number that it holds as text.
    IncrementDecimal(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// Says what it is.
    Inspect(Cow<'a, [u8]>),
}

const FORMS: &str = "[\"get\", key], [\"put\", key, value, {if_version?, if_absent?, if_present?, ttl_ms or keep_ttl?}?], \
                     [\"remove\", key, {if_version?}?], [\"increment\", key, by, {ttl_ms?}?], [\"expire\", key, {ttl_ms or persist}], \
                     [\"concatenate\", key, value], [\"append\", key, [item], {keep?, ttl_ms?}?], [\"items\", key, start, stop], \
                     [\"trim\", key, start, stop], [\"increment_decimal\", key, by] or [\"inspect\", key]";

const UNFIT: &str = "an operation with options that do not go with it";

impl Operation<'_> {
    /// What goes with it and does not fit it, or what it lacks.
    fn problem(&self) -> Option<&'static str> {
        // What an operation may have is taken out; nothing is to be left.
        let left = match self {
            Operation::Put(.., options) if !(options.ttl_ms.is_some() && options.keep_ttl) => Options {
                if_version: None,
                if_absent: false,
                if_present: false,
                ttl_ms: None,
                keep_ttl: false,
                ..options.clone()
            },
            Operation::Remove(.., options) => Options {
                if_version: None,
                ..options.clone()
            },
            Operation::Increment(.., options) => Options {
                ttl_ms: None,
                ..options.clone()
            },
            Operation::Expire(.., options) if options.ttl_ms.is_some() != options.persist => Options {
                ttl_ms: None,
                persist: false,
                ..options.clone()
            },
            Operation::Append(.., options) => Options {
                keep: None,
                ttl_ms: None,
                ..options.clone()
            },
            Operation::Put(..) | Operation::Expire(..) => return Some(UNFIT),
            Operation::Get(..)
            | Operation::Concatenate(..)
            | Operation::Items(..)
            | Operation::Trim(..)
            | Operation::IncrementDecimal(..)
            | Operation::Inspect(..) => return None,
        };
        let fits = left == Options::default();
        (!fits).then_some(UNFIT)
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
            ("concatenate", 3) => Operation::Concatenate(reader.bytes()?, reader.bytes()?),
            ("append", 3 | 4) => {
                let (key, items) = (reader.bytes()?, Items::read(reader)?);
                Operation::Append(key, items, options(reader, len == 4)?)
            }
            ("items", 4) => Operation::Items(reader.bytes()?, Int::read(reader)?, Int::read(reader)?),
            ("trim", 4) => Operation::Trim(reader.bytes()?, Int::read(reader)?, Int::read(reader)?),
            ("increment_decimal", 3) => Operation::IncrementDecimal(reader.bytes()?, reader.bytes()?),
            ("inspect", 2) => Operation::Inspect(reader.bytes()?),
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
            Operation::Concatenate(key, value) => {
                out.text("concatenate");
                out.bytes(key);
                out.bytes(value);
            }
            Operation::IncrementDecimal(key, by) => {
                out.text("increment_decimal");
                out.bytes(key);
                out.bytes(by);
            }
            Operation::Append(key, items, options) => {
                out.text("append");
                out.bytes(key);
                Items::write(items, out);
                write_options(options, out);
            }
            Operation::Items(key, start, stop) => write_span("items", key, (*start, *stop), out),
            Operation::Trim(key, start, stop) => write_span("trim", key, (*start, *stop), out),
            Operation::Inspect(key) => {
                out.text("inspect");
                out.bytes(key);
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
            Operation::Concatenate(key, value) => Operation::Concatenate(Bytes::own(key), Bytes::own(value)),
            Operation::IncrementDecimal(key, by) => {
                Operation::IncrementDecimal(Bytes::own(key), Bytes::own(by))
            }
            Operation::Append(key, items, options) => {
                Operation::Append(Bytes::own(key), Items::own(items), Options::own(options))
            }
            Operation::Items(key, start, stop) => Operation::Items(Bytes::own(key), start, stop),
            Operation::Trim(key, start, stop) => Operation::Trim(Bytes::own(key), start, stop),
            Operation::Inspect(key) => Operation::Inspect(Bytes::own(key)),
        }
    }
}

fn options<'a>(reader: &mut Reader<'a>, is_there: bool) -> Read<Options<'a>> {
    match is_there {
        true => Options::read(reader),
        false => Ok(Options::default()),
    }
}

fn write_span(name: &str, key: &[u8], (start, stop): (i64, i64), out: &mut Encoder<'_>) {
    out.text(name);
    out.bytes(key);
    out.int(start);
    out.int(stop);
}

fn write_options(options: &Options<'_>, out: &mut Encoder<'_>) {
    if *options != Options::default() {
        Options::write(options, out);
    }
}

/// What an operation found or did.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<'a> {
    /// Of a get the value, if there is one; of an increment of a decimal number the sum, as text.
    Value(Option<Cow<'a, [u8]>>),
    /// Of a put the version that the key got, of an increment the sum, of a concatenation the bytes that the value has then, of an
    /// append and of a trim the items that the list has then.
    Number(i64),
    /// Of a removal, and of what says how long a key lasts: whether it was there.
    WasThere(bool),
    /// Of a read of a list: the items, the newest first.
    Items(ordered_items::Items<'a>),
    /// Of an inspection.
    Inspected(Inspected<'a>),
}

impl Field for Effect<'static> {
    type Of<'a> = Effect<'a>;

    fn notation() -> String {
        "bytes or nil, int, bool, {items} or {kind, version, ttl_ms?, bytes, count?}".to_owned()
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Read<Effect<'a>> {
        let mut ahead = reader.clone();
        match ahead.token()? {
            Token::UInt(_) | Token::Int(_) => Int::read(reader).map(Effect::Number),
            Token::Bool(_) => reader.bool().map(Effect::WasThere),
            Token::Map(_) => match reader.has("items")? {
                true => <ordered_items::Items<'_>>::read(reader).map(Effect::Items),
                false => Inspected::read(reader).map(Effect::Inspected),
            },
            _ => <Optional<Bytes>>::read(reader).map(Effect::Value),
        }
    }

    fn write(value: &Effect<'_>, out: &mut Encoder<'_>) {
        match value {
            Effect::Value(value) => <Optional<Bytes>>::write(value, out),
            Effect::Number(number) => out.int(*number),
            Effect::WasThere(was_there) => out.bool(*was_there),
            Effect::Items(items) => ordered_items::Items::write(items, out),
            Effect::Inspected(inspected) => Inspected::write(inspected, out),
        }
    }

    fn own(value: Effect<'_>) -> Effect<'static> {
        match value {
            Effect::Value(value) => Effect::Value(<Optional<Bytes>>::own(value)),
            Effect::Number(number) => Effect::Number(number),
            Effect::WasThere(was_there) => Effect::WasThere(was_there),
            Effect::Items(items) => Effect::Items(ordered_items::Items::own(items)),
            Effect::Inspected(inspected) => Effect::Inspected(Inspected::own(inspected)),
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
    #[derive(Default)]
    answer Answer {
        /// What each operation found or did: of "get" the value or nil, of "put" the version that the key got, of "remove" and
        /// "expire" whether the key was there, of "increment" the sum, of "increment_decimal" the sum as text, of "concatenate" the bytes
        /// that the value has then, of "append" and "trim" the items that the list has then, of "items" and "inspect" a map.
        results: List<Effect<'static>>,
        /// What the batch survives: "memory", "logged" or "synced".
        durability: Text,
        /// At a follower: records that its leader had when it answered last, and this server has not.
        lag_records: Optional<UInt>,
        /// At a follower: for how long it has not had all that its leader had; absent until it had once.
        lag_ms: Optional<UInt>,
    }
}
