//! SCAN and DBSIZE: each one `features.scan`.
//!
//! A cursor of SCAN is the number that stands for the method's cursor; 0 is the beginning and the end. A connection that goes on
//! with the cursor that it got sends the method the whole one. Its invariant: MATCH and TYPE leave keys out of a page and
//! change no cursor.

use super::store::numbers::{NO_INTEGER, integer};
use super::{Asked, Asking, SYNTAX};
use crate::databases::{Database, Holds, Keys};
use crate::form::Form;
use crate::glob::matches;
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::{Encoder, Payload, PayloadError, Read};
use millpond_wire_schema::features_scan::{Answer, Cursor, LIMIT_MAX};
use millpond_wire_schema::{FeaturesScan, Field as _, Method as _};
use std::sync::Arc;

/// COUNT where it is left out.
const COUNT: i64 = 10;
/// Bytes of a pattern at most, and keys of a page that is held against one: together they bound what a page takes.
const PATTERN_BYTES_MAX: usize = 256;
const MATCHED_MAX: usize = 1000;
/// What a row is.
const TYPE: &[u8] = b"string";

pub(super) fn scan(asking: &mut Asking<'_>, mut words: RespWords<'_>) -> Result<Asked, String> {
    if let Some(Database {
        name,
        holds: Holds::Table(Keys::Text),
        ..
    }) = asking.database
    {
        return Err(format!(
            "ERR table '{name}' has the hashes of its keys and not their texts, so SCAN cannot list them"
        ));
    }
    let cursor = words
        .next()
        .and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
    let cursor: u64 = cursor.ok_or("ERR invalid cursor")?;
    let options = Options::read(words)?;
    let is_string = options.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(TYPE));
    let scanned = Arc::clone(asking.scanned.get_or_init(Arc::default));
    let number = asking.database.map_or(0, |database| database.number);
    let cursor = (cursor > 0).then(|| match scanned.of(number, cursor) {
        Some(whole) => whole.to_bytes(),
        None => cursor.to_le_bytes().to_vec(),
    });
    // Of another type there is no key.
    ask(asking, cursor, if is_string { options.limit() } else { 1 });
    Ok(Asked {
        scanned: Some(scanned),
        count: usize::from(is_string),
        text: options.pattern.map(Arc::from),
        ..Asked::of(FeaturesScan::NAME, write_page)
    })
}

/// What stands behind a cursor.
pub(super) struct Options<'w> {
    count: i64,
    /// Where it is not "*".
    pub(super) pattern: Option<&'w [u8]>,
    /// TYPE.
    pub(super) kind: Option<&'w [u8]>,
}

impl<'w> Options<'w> {
    pub(super) fn read(mut words: RespWords<'w>) -> Result<Options<'w>, String> {
        let mut read = Options {
            count: COUNT,
            pattern: None,
            kind: None,
        };
        while let Some(option) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            match option {
                option if option.eq_ignore_ascii_case(b"count") => {
                    read.count = integer(value).ok_or(NO_INTEGER)?;
                    if read.count < 1 {
                        return Err(SYNTAX.to_owned());
                    }
                }
                option if option.eq_ignore_ascii_case(b"match") && value.len() > PATTERN_BYTES_MAX => {
                    return Err(format!(
                        "ERR the pattern has {} bytes; at most {PATTERN_BYTES_MAX} are matched",
                        value.len()
                    ));
                }
                option if option.eq_ignore_ascii_case(b"match") => {
                    read.pattern = Some(value).filter(|pattern| *pattern != b"*");
                }
                option if option.eq_ignore_ascii_case(b"type") => {
                    read.kind = Some(value);
                }
                _ => return Err(SYNTAX.to_owned()),
            }
        }
        Ok(read)
    }

    /// Keys of a page at most.
    pub(super) fn limit(&self) -> usize {
        let limit_max = match self.pattern {
            Some(_) => MATCHED_MAX,
            None => LIMIT_MAX,
        };
        usize::try_from(self.count).unwrap_or(limit_max).min(limit_max)
    }
}

/// The next cursor, and the keys of a page that are wanted.
fn write_page(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let page = Answer::decode(answer)?.0;
    let Some(Database {
        number,
        holds: Holds::Table(keys),
        ..
    }) = form.database
    else {
        return Ok(());
    };
    let pattern = form.asked.text.as_deref();
    let is_wanted = |word: &[u8]| pattern.is_none_or(|pattern| matches(pattern, word));
    let mut word = Vec::with_capacity(20);
    let mut wanted = |key: &u64| {
        Keys::write(*keys, *key, &mut word);
        form.asked.count > 0 && is_wanted(&word)
    };
    let found: Vec<u64> = page.keys.into_iter().filter(|key| wanted(key)).collect();
    let next = match form.asked.count {
        0 => None,
        _ => read(page.cursor.as_deref())?,
    };
    if let Some(scanned) = &form.asked.scanned {
        scanned.keep(*number, next);
    }
    reply.array(2);
    reply.bulk(next.map_or(0, Cursor::to_number).to_string().as_bytes());
    reply.array(found.len());
    for key in found {
        Keys::write(*keys, key, &mut word);
        reply.bulk(&word);
    }
    Ok(())
}

pub(super) fn size(asking: &mut Asking<'_>, _: RespWords<'_>) -> Result<Asked, String> {
    ask(asking, None, 1);
    Ok(Asked::of(FeaturesScan::NAME, |answer, _, reply| {
        let rows = Answer::decode(answer)?.0.rows;
        reply.integer(i64::try_from(rows).unwrap_or(i64::MAX));
        Ok(())
    }))
}

fn ask(asking: &mut Asking<'_>, cursor: Option<Vec<u8>>, limit: usize) {
    let name = asking.database.map_or("", |database| &database.name);
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("table");
        out.text(name);
        if let Some(cursor) = cursor {
            out.key("cursor");
            out.bytes(&cursor);
        }
        out.key("limit");
        out.uint(limit as u64);
    });
}

/// The cursor to go on with.
fn read(bytes: Option<&[u8]>) -> Read<Option<Cursor>> {
    let Some(bytes) = bytes else { return Ok(None) };
    let cursor = Cursor::of_bytes(bytes);
    let wrong = || PayloadError::invalid(format!("{} bytes", bytes.len()), "a cursor of 16 bytes");
    cursor.map(Some).ok_or_else(wrong)
}
