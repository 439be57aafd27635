//! LPUSH, LTRIM, LRANGE, LINDEX and LLEN: a list is capped events, of which 0 is the newest.
//! Its invariant: a key that holds no list is WRONGTYPE.

use super::numbers::next_integer;
use super::{Operations, Part, Parts, Reply, begin_map, results};
use crate::commands::{Asked, Asking};
use millpond_wire_frame::{Encoding, RespWords};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::ordered_append::ITEMS_MAX;
use millpond_wire_schema::ordered_batch::{Operation, Options};
use millpond_wire_schema::{Method as _, OrderedItems};

pub(in crate::commands) fn push(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let items: Vec<_> = words.map(Into::into).collect();
    if items.len() > ITEMS_MAX {
        return Err(format!(
            "ERR 'lpush' has {} items, and at most {ITEMS_MAX} are pushed at once; send fewer",
            items.len()
        ));
    }
    out.push(&Operation::Append(key.into(), items, Options::default()));
    Ok(Part::of(1, Reply::Number))
}

pub(in crate::commands) fn trim(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let (start, stop) = (next_integer(&mut words)?, next_integer(&mut words)?);
    out.push(&Operation::Trim(key.into(), start, stop));
    Ok(Part::of(1, Reply::Ok))
}

pub(in crate::commands) fn range(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    let (key, start, stop) = span(words)?;
    out.push(&Operation::Items(key.into(), start, stop));
    Ok(Part::of(1, Reply::Items))
}

pub(in crate::commands) fn index(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    let (key, at) = place(words)?;
    out.push(&Operation::Items(key.into(), at, at));
    Ok(Part::of(1, Reply::Item))
}

pub(in crate::commands) fn ask_range(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    let (key, start, stop) = span(words)?;
    Ok(ask(asking, key, (start, stop), Reply::Items))
}

pub(in crate::commands) fn ask_index(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    let (key, at) = place(words)?;
    Ok(ask(asking, key, (at, at), Reply::Item))
}

fn span(mut words: RespWords<'_>) -> Result<(&[u8], i64, i64), String> {
    let key = words.next().unwrap_or_default();
    Ok((key, next_integer(&mut words)?, next_integer(&mut words)?))
}

fn place(mut words: RespWords<'_>) -> Result<(&[u8], i64), String> {
    let key = words.next().unwrap_or_default();
    Ok((key, next_integer(&mut words)?))
}

/// A call of its own: its answer is what the operation's result is.
fn ask(asking: &mut Asking<'_>, key: &[u8], (start, stop): (i64, i64), reply: Reply) -> Asked {
    let name = asking.database.map_or("", |database| &database.name);
    begin_map(asking.payload, name, 4);
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.key("key");
    out.bytes(key);
    out.key("start");
    out.int(start);
    out.key("stop");
    out.int(stop);
    Asked {
        parts: Parts::One(Part::of(1, reply)),
        ..Asked::of(OrderedItems::NAME, |answer, form, reply| {
            answer.read(|reader| results(reader, form, reply))
        })
    }
}
