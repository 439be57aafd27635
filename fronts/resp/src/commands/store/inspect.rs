//! EXISTS, TYPE, TTL and its kind, LLEN, PERSIST and DBSIZE: what a store says of keys without their values.
//! Its invariant: alone it is an `ordered.inspect`, behind writes operations of their batch, and the reply is the same.

use super::{Operations, Part, Parts, Reply, begin_keyed, begin_map, results_of, set_count};
use crate::commands::{Asked, Asking};
use millpond_wire_frame::{Encoding, RespWords};
use millpond_wire_payload::{Encoder, PayloadError, Read, Reader, Token};
use millpond_wire_schema::{Method as _, OrderedInspect};

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: Kind,
    pub(super) ttl_ms: Option<u64>,
    /// Items of a list.
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Bytes,
    List,
}

impl Kind {
    /// As TYPE says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::None => "none",
            Kind::Bytes => "string",
            Kind::List => "list",
        }
    }
}

impl Known {
    pub(super) fn read(reader: &mut Reader<'_>) -> Read<Known> {
        let mut known = Known {
            kind: Kind::None,
            ttl_ms: None,
            count: 0,
        };
        reader.map("a map", |reader, key| {
            match key {
                b"kind" => {
                    known.kind = match reader.text()? {
                        "none" => Kind::None,
                        "bytes" => Kind::Bytes,
                        "list" => Kind::List,
                        other => return Err(PayloadError::invalid(format!("{other:?}"), "a kind of value")),
                    }
                }
                b"ttl_ms" => known.ttl_ms = optional(reader)?,
                b"count" => known.count = optional(reader)?.unwrap_or_default(),
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(known)
    }
}

fn optional(reader: &mut Reader<'_>) -> Read<Option<u64>> {
    match reader.token()? {
        Token::UInt(number) => Ok(Some(number)),
        Token::Nil => Ok(None),
        other => Err(other.is_not("a number or null")),
    }
}

/// The functions of a command that inspects its keys: its operations, and its call.
macro_rules! inspects {
    ($compile:ident, $ask:ident, $reply:expr) => {
        pub(in crate::commands) fn $compile(
            out: &mut Operations<'_>,
            words: RespWords<'_>,
        ) -> Result<Part, String> {
            let before = out.count();
            words.for_each(|key| out.inspect(key));
            Ok(Part::of(out.count() - before, $reply))
        }

        pub(in crate::commands) fn $ask(
            asking: &mut Asking<'_>,
            words: RespWords<'_>,
        ) -> Result<Asked, String> {
            Ok(ask(asking, words, $reply))
        }
    };
}

inspects!(exists, ask_exists, Reply::Exists);
inspects!(kind, ask_kind, Reply::Kind);
inspects!(ttl, ask_ttl, Reply::SecondsLeft);
inspects!(pttl, ask_pttl, Reply::MillisecondsLeft);
inspects!(expire_time, ask_expire_time, Reply::UnixSeconds);
inspects!(pexpire_time, ask_pexpire_time, Reply::UnixMilliseconds);
inspects!(llen, ask_llen, Reply::ListLength);

pub(in crate::commands) fn persist(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    out.inspect(key);
    out.expire(key, None);
    Ok(Part::of(2, Reply::Expired))
}

fn ask(asking: &mut Asking<'_>, words: RespWords<'_>, reply: Reply) -> Asked {
    let name = asking.database.map_or("", |database| &database.name);
    begin_keyed(asking.payload, name, "keys");
    let (begin, mut count) = (asking.payload.len(), 0);
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    for key in words {
        out.bytes(key);
        count += 1;
    }
    set_count(asking.payload, begin, count);
    Asked {
        parts: Parts::One(Part::of(count, reply)),
        ..Asked::of(OrderedInspect::NAME, |answer, form, reply| {
            results_of(answer, b"keys", form, reply)
        })
    }
}

/// DBSIZE: keys that have expired and are not removed yet are among them, as in Redis.
pub(in crate::commands) fn size(asking: &mut Asking<'_>, _: RespWords<'_>) -> Result<Asked, String> {
    let name = asking.database.map_or("", |database| &database.name);
    begin_map(asking.payload, name, 1);
    Ok(Asked::of(OrderedInspect::NAME, |answer, _, reply| {
        let mut entries = 0;
        answer.read(|reader| {
            reader.map("a map", |reader, key| match key {
                b"store" => reader.map("a map", |reader, key| {
                    match key {
                        b"entries" => entries = reader.uint()?,
                        _ => reader.skip()?,
                    }
                    Ok(())
                }),
                _ => reader.skip(),
            })
        })?;
        reply.integer(i64::try_from(entries).unwrap_or(i64::MAX));
        Ok(())
    }))
}
