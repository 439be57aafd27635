//! GET, MGET and STRLEN of a store that stand behind no write: each is an `ordered.get`, and GETs in a row are one.
//! Its invariant: an answer has as many values as its call had keys, or it is no answer.

use super::reply::bytes;
use super::{begin_keyed, set_count, value};
use crate::commands::{Asked, Asking, Write};
use millpond_wire_frame::{Encoding, RespWords};
use millpond_wire_payload::{Encoder, Payload, PayloadError, Read, Reader, Token};
use millpond_wire_schema::{Method as _, OrderedGet};

pub(in crate::commands) fn get(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    ask(asking, words, |answer, form, reply| {
        each(answer, form.asked.answers as usize, |reader| {
            value(reader.token()?, reply)
        })
    })
}

pub(in crate::commands) fn mget(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    ask(asking, words, |answer, form, reply| {
        reply.array(form.asked.count);
        each(answer, form.asked.count, |reader| value(reader.token()?, reply))
    })
}

pub(in crate::commands) fn strlen(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    ask(asking, words, |answer, form, reply| {
        each(answer, form.asked.count, |reader| {
            reply.integer(bytes(reader.token()?)?.map_or(0, <[u8]>::len) as i64);
            Ok(())
        })
    })
}

/// Adds the key of a further GET.
pub(in crate::commands) fn join(asking: &mut Asking<'_>, words: RespWords<'_>) -> bool {
    push(asking, words);
    true
}

fn ask(asking: &mut Asking<'_>, words: RespWords<'_>, write: Write) -> Result<Asked, String> {
    let name = asking.database.map_or("", |database| &database.name);
    begin_keyed(asking.payload, name, "keys");
    (asking.block, asking.keys) = (asking.payload.len(), 0);
    push(asking, words);
    Ok(Asked {
        count: asking.keys,
        ..Asked::of(OrderedGet::NAME, write)
    })
}

#[inline]
fn push(asking: &mut Asking<'_>, words: RespWords<'_>) {
    for word in words {
        Encoder::new(asking.payload, Encoding::Msgpack, false).bytes(word);
        asking.keys += 1;
    }
    set_count(asking.payload, asking.block, asking.keys);
}

/// Reads the values of an answer.
#[inline]
fn each(answer: &Payload<'_>, count: usize, mut write: impl FnMut(&mut Reader<'_>) -> Read<()>) -> Read<()> {
    answer.read(|reader| {
        reader.map("a map", |reader, key| {
            if key != b"values" {
                return reader.skip();
            }
            match reader.token()? {
                Token::Array(len) if len == count => {}
                Token::Array(len) => {
                    return Err(PayloadError::invalid(format!("{len} values"), format!("{count}")));
                }
                other => return Err(other.is_not("an array")),
            }
            (0..count).try_for_each(|_| write(reader))?;
            reader.leave();
            Ok(())
        })
    })
}
