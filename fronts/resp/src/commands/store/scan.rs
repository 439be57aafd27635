//! SCAN and ORDERED.SCAN: each one `ordered.scan`.
//!
//! A cursor of SCAN is a number that stands for the next key; 0 is the beginning and the end. Its invariant: MATCH and TYPE leave
//! keys out of a page and change no cursor, but that a pattern's literal beginning bounds what is walked; and holding the keys of a
//! page against a pattern takes a bounded time, at whose end the page ends.

use super::begin_map;
use super::numbers::{NO_INTEGER, integer};
use crate::commands::scan::Options;
use crate::commands::{Asked, Asking, SYNTAX};
use crate::form::Form;
use crate::glob::{literal, matches};
use millpond_wire_frame::{Encoding, RespReply, RespWords};
use millpond_wire_payload::{Encoder, Payload, Read};
use millpond_wire_schema::ordered_scan::{Answer, LIMIT_MAX};
use millpond_wire_schema::{Field as _, Method as _, OrderedScan};
use std::sync::Arc;

/// LIMIT where it is left out.
const LIMIT: usize = 100;
/// What a page of SCAN may have, in `Asked::count`.
const ANY: usize = 0;
const STRINGS: usize = 1;
const LISTS: usize = 2;
const NOTHING: usize = 3;
/// Bytes of keys, times those of the pattern that they are held against, of a page. One key is held against it whatever its length.
const MATCHED_MAX: usize = 5_000_000;

pub(in crate::commands) fn scan(asking: &mut Asking<'_>, mut words: RespWords<'_>) -> Result<Asked, String> {
    let cursor = words.next().unwrap_or_default();
    let cursor: Option<u64> = std::str::from_utf8(cursor)
        .ok()
        .and_then(|word| word.parse().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let options = Options::read(words)?;
    let database = asking.database.ok_or("ERR no store is selected")?;
    let start = match cursor {
        0 => None,
        number => Some(asking.databases.cursors().key(database.number, number).ok_or(
            "ERR invalid cursor: it is of another database, the server was started again, or thousands of scans went on since; begin with 0",
        )?),
    };
    let prefix = options.pattern.map(literal).filter(|prefix| !prefix.is_empty());
    let limit = options.limit();
    let keys = 3 + usize::from(start.is_some()) + usize::from(prefix.is_some());
    begin_map(asking.payload, &database.name, keys);
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.key("limit");
    out.uint(limit as u64);
    out.key("keys_only");
    out.bool(true);
    if let Some(start) = start {
        out.key("cursor");
        out.bytes(&start);
    }
    if let Some(prefix) = prefix {
        out.key("prefix");
        out.bytes(&prefix);
    }
    Ok(Asked {
        count: match options.kind {
            None => ANY,
            Some(kind) if kind.eq_ignore_ascii_case(b"string") => STRINGS,
            Some(kind) if kind.eq_ignore_ascii_case(b"list") => LISTS,
            Some(_) => NOTHING,
        },
        text: options.pattern.map(Arc::from),
        ..Asked::of(OrderedScan::NAME, write_page)
    })
}

/// The next cursor, and the keys of a page that are wanted.
fn write_page(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let page = Answer::decode(answer)?.0;
    let pattern = form.asked.text.as_deref();
    let mut lists = page.lists.iter().copied().peekable();
    let mut wanted = Vec::with_capacity(page.entries.len());
    let (mut next, mut matched) = (page.cursor.as_deref(), 0);
    for (at, (key, _)) in (0..).zip(&page.entries) {
        let is_list = lists.next_if_eq(&at).is_some();
        let is_of_kind = match form.asked.count {
            ANY => true,
            STRINGS => !is_list,
            LISTS => is_list,
            _ => false,
        };
        if !is_of_kind {
            continue;
        }
        if let Some(pattern) = pattern {
            let cost = pattern.len() * key.len();
            if matched > 0 && matched + cost > MATCHED_MAX {
                // The next page begins with it.
                next = Some(key);
                break;
            }
            matched += cost;
            if !matches(pattern, key) {
                continue;
            }
        }
        wanted.push(key);
    }
    let number = form.database.map_or(0, |database| database.number);
    let next = next.map_or(0, |key| form.databases.cursors().keep(number, key));
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(wanted.len());
    wanted.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// ORDERED.SCAN start end [LIMIT n] [REV] [KEYS] [PREFIX prefix] [CURSOR cursor].
pub(in crate::commands) fn range(asking: &mut Asking<'_>, mut words: RespWords<'_>) -> Result<Asked, String> {
    let database = asking.database.ok_or("ERR no store is selected")?;
    let bounds = [words.next().unwrap_or_default(), words.next().unwrap_or_default()];
    let range = Range::read(words)?;
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("table");
        out.text(&database.name);
        out.key("limit");
        out.uint(range.limit as u64);
        out.key("reverse");
        out.bool(range.reverse);
        out.key("keys_only");
        out.bool(range.keys_only);
        for (name, bound) in ["start", "end"].into_iter().zip(bounds) {
            if !bound.is_empty() {
                out.key(name);
                out.bytes(bound);
            }
        }
        for (name, given) in [("prefix", range.prefix), ("cursor", range.cursor)] {
            if let Some(given) = given {
                out.key(name);
                out.bytes(given);
            }
        }
    });
    Ok(Asked {
        count: usize::from(range.keys_only),
        ..Asked::of(OrderedScan::NAME, write_range)
    })
}

/// What stands behind the bounds.
struct Range<'w> {
    limit: usize,
    reverse: bool,
    keys_only: bool,
    prefix: Option<&'w [u8]>,
    cursor: Option<&'w [u8]>,
}

impl<'w> Range<'w> {
    fn read(mut words: RespWords<'w>) -> Result<Range<'w>, String> {
        let mut range = Range {
            limit: LIMIT,
            reverse: false,
            keys_only: false,
            prefix: None,
            cursor: None,
        };
        while let Some(option) = words.next() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            if is("rev") {
                range.reverse = true;
            } else if is("keys") {
                range.keys_only = true;
            } else if is("limit") {
                let limit = integer(words.next().ok_or(SYNTAX)?).ok_or(NO_INTEGER)?;
                let limit = usize::try_from(limit).ok();
                range.limit = limit
                    .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                    .ok_or_else(|| format!("ERR LIMIT is out of range; expected 1 to {LIMIT_MAX}"))?;
            } else if is("prefix") {
                range.prefix = Some(words.next().ok_or(SYNTAX)?);
            } else if is("cursor") {
                range.cursor = Some(words.next().ok_or(SYNTAX)?);
            } else {
                return Err(SYNTAX.to_owned());
            }
        }
        Ok(range)
    }
}

/// The key to go on with, or nil; and keys and values, or keys alone.
fn write_range(answer: &Payload<'_>, form: &Form, reply: &mut RespReply<'_>) -> Read<()> {
    let page = Answer::decode(answer)?.0;
    let keys_only = form.asked.count > 0;
    let mut lists = page.lists.iter().copied().peekable();
    reply.array(2);
    match page.cursor {
        Some(cursor) => reply.bulk(&cursor),
        None => reply.nil(),
    }
    reply.array(page.entries.len() * if keys_only { 1 } else { 2 });
    for (at, (key, value)) in (0..).zip(&page.entries) {
        let is_list = lists.next_if_eq(&at).is_some();
        reply.bulk(key);
        match (keys_only, is_list) {
            (true, _) => {}
            (false, true) => reply.nil(),
            (false, false) => reply.bulk(value),
        }
    }
    Ok(())
}
