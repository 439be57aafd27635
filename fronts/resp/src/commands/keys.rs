//! GET, MGET, EXISTS, STRLEN and TYPE: each one lookup.
//!
//! A row is a string: its bytes as the table stores them. Its invariant: an answer has as many rows as its call had keys, or
//! it is no answer.

use super::{Asked, Asking, Write};
use crate::databases::{Database, Keys};
use crate::form::Form;
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::{Encoder, Payload, PayloadError, Read, Token};
use millpond_wire_schema::features_lookup::RowType;
use millpond_wire_schema::{FeaturesLookup, Method as _};

/// The head of a block of bytes with a 32-bit length, msgpack's bin 32.
const BIN32: [u8; 5] = [0xc6, 0, 0, 0, 0];
/// That of an array with as long a count, msgpack's array 32.
const ARRAY32: [u8; 5] = [0xdd, 0, 0, 0, 0];

pub(super) fn get(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    look_up(asking, words, RowType::U8, write_rows)
}

pub(super) fn mget(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    look_up(asking, words, RowType::U8, write_array)
}

pub(super) fn exists(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    look_up(asking, words, RowType::None, |answer, form, reply| {
        let found = found(answer, form.asked.count)?;
        reply.integer(found.filter(|found| *found).count() as i64);
        Ok(())
    })
}

pub(super) fn strlen(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    look_up(asking, words, RowType::U8, |answer, form, reply| {
        let rows = Rows::read(answer, form.asked.count)?;
        let bytes = rows.each().map(|row| row.map_or(0, <[u8]>::len));
        bytes.for_each(|bytes| reply.integer(bytes as i64));
        Ok(())
    })
}

pub(super) fn kind(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    look_up(asking, words, RowType::None, |answer, form, reply| {
        for found in found(answer, form.asked.count)? {
            reply.status(if found { "string" } else { "none" });
        }
        Ok(())
    })
}

/// Adds the key of a further GET.
pub(super) fn join(asking: &mut Asking<'_>, words: RespWords<'_>) -> bool {
    let Some((database, keys)) = table(asking) else {
        return false;
    };
    let before = (asking.payload.len(), asking.keys);
    let pushed = push(asking, &database.name, keys, words).is_ok();
    if !pushed {
        asking.payload.truncate(before.0);
        asking.keys = before.1;
    }
    set_length(asking, keys);
    pushed
}

/// The table that is selected, and how its keys are written.
#[inline]
fn table(asking: &Asking<'_>) -> Option<(&'static Database, Keys)> {
    let database = asking.database?;
    Some((database, database.table_keys()?))
}

/// A lookup of the keys that the words are, whose rows come as `row_type` says.
fn look_up(
    asking: &mut Asking<'_>,
    words: RespWords<'_>,
    row_type: RowType,
    write: Write,
) -> Result<Asked, String> {
    let Some((database, keys)) = table(asking) else {
        return Err("ERR no table is selected".to_owned());
    };
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.begin_map(3);
    out.key("table");
    out.text(&database.name);
    out.key("type");
    out.text(row_type.as_str());
    match keys {
        Keys::Decimal | Keys::Raw => {
            out.key("keys");
            out.raw(&BIN32);
        }
        Keys::Text => {
            out.key("texts");
            out.raw(&ARRAY32);
        }
    }
    (asking.block, asking.keys) = (asking.payload.len(), 0);
    push(asking, &database.name, keys, words)?;
    set_length(asking, keys);
    Ok(Asked {
        count: asking.keys,
        ..Asked::of(FeaturesLookup::NAME, write)
    })
}

fn push(asking: &mut Asking<'_>, table: &str, keys: Keys, words: RespWords<'_>) -> Result<(), String> {
    for word in words {
        if keys == Keys::Text {
            Encoder::new(asking.payload, Encoding::Msgpack, false).bytes(word);
        } else {
            let key = keys.read(table, word)?;
            asking.payload.extend_from_slice(&key.to_le_bytes());
        }
        asking.keys += 1;
    }
    Ok(())
}

/// Says how long the block of keys is that ends the map: the bytes of numbers, or how many texts there are.
fn set_length(asking: &mut Asking<'_>, keys: Keys) {
    let length = match keys {
        Keys::Decimal | Keys::Raw => asking.payload.len() - asking.block,
        Keys::Text => asking.keys,
    };
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(place) = asking.payload.get_mut(asking.block - length.len()..asking.block) {
        place.copy_from_slice(&length);
    }
}

/// A GET's row; several where they were joined.
fn write_rows(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let rows = Rows::read(answer, form.asked.answers as usize)?;
    rows.write(reply);
    Ok(())
}

fn write_array(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let rows = Rows::read(answer, form.asked.count)?;
    reply.array(rows.count);
    rows.write(reply);
    Ok(())
}

/// The rows of an answer, where they lie in it.
struct Rows<'a> {
    count: usize,
    row_bytes: usize,
    found: &'a [u8],
    stored: &'a [u8],
    /// Where rows begin, and the last one ends, where they vary in length.
    offsets: Option<&'a [[u8; 4]]>,
}

impl<'a> Rows<'a> {
    fn read(answer: &'a Payload<'_>, count: usize) -> Read<Rows<'a>> {
        let Blocks {
            found,
            stored,
            offsets,
        } = blocks(answer)?;
        let row_bytes = stored.len() / count.max(1);
        let is_whole = match offsets {
            Some(offsets) => offsets.len() == count + 1,
            None => row_bytes * count == stored.len() && (count == 0 || row_bytes > 0),
        };
        if !is_whole || found.len() != count.div_ceil(8) {
            let given = format!("{} bytes of rows", stored.len());
            return Err(PayloadError::invalid(
                given,
                format!("a row for each of {count} keys"),
            ));
        }
        Ok(Rows {
            count,
            row_bytes,
            found,
            stored,
            offsets,
        })
    }

    /// Each key's row, where it was found.
    fn each(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let found = bits(self.found, self.count).enumerate();
        found.map(|(at, found)| found.then(|| self.row(at)))
    }

    #[inline]
    fn row(&self, at: usize) -> &'a [u8] {
        let (begin, end) = match self.offsets {
            Some(offsets) => {
                let place = |at: usize| offsets.get(at).map_or(0, |end| u32::from_le_bytes(*end) as usize);
                (place(at), place(at + 1))
            }
            None => (at * self.row_bytes, (at + 1) * self.row_bytes),
        };
        self.stored.get(begin..end).unwrap_or_default()
    }

    #[inline]
    fn write(&self, reply: &mut RespReply<'_>) {
        for row in self.each() {
            match row {
                Some(row) => reply.bulk(row),
                None => reply.nil(),
            }
        }
    }
}

/// The bitmap of an answer, its rows, and where each of them begins if they vary in length.
struct Blocks<'a> {
    found: &'a [u8],
    stored: &'a [u8],
    offsets: Option<&'a [[u8; 4]]>,
}

fn blocks<'a>(answer: &'a Payload<'_>) -> Read<Blocks<'a>> {
    let (mut found, mut stored): (&[u8], &[u8]) = (&[], &[]);
    let mut offsets = None;
    answer.read(|reader| {
        reader.map("a map", |reader, key| {
            match key {
                b"found" => found = bytes(reader.token()?)?,
                b"values" => stored = bytes(reader.token()?)?,
                b"offsets" => offsets = Some(bytes(reader.token()?)?.as_chunks().0),
                _ => reader.skip()?,
            }
            Ok(())
        })
    })?;
    Ok(Blocks {
        found,
        stored,
        offsets,
    })
}

/// Which of so many keys an answer without rows has found.
fn found<'a>(answer: &'a Payload<'_>, count: usize) -> Read<impl Iterator<Item = bool> + 'a> {
    let Blocks { found, .. } = blocks(answer)?;
    if found.len() != count.div_ceil(8) {
        let given = format!("{} bytes of bits", found.len());
        return Err(PayloadError::invalid(
            given,
            format!("a bit for each of {count} keys"),
        ));
    }
    Ok(bits(found, count))
}

fn bits(found: &[u8], count: usize) -> impl Iterator<Item = bool> + '_ {
    let bits = found
        .iter()
        .flat_map(|bits| (0..8).map(move |bit| bits >> bit & 1 == 1));
    bits.take(count)
}

fn bytes(token: Token<'_>) -> Read<&[u8]> {
    match token {
        Token::Bytes(bytes) => Ok(bytes),
        other => Err(other.is_not("bytes")),
    }
}
