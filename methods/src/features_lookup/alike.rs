//! Calls that differ from an earlier one in their keys alone, answered without being read again.
//!
//! Who asks for rows sends the same call again and again with other keys. What the call means is kept by its bytes before and behind
//! the keys, with an answer of which the rows alone are missing. No row is kept, and no table held open. A key occurs once in a payload
//! that was read, so the bytes found here are those that were read as its keys. Its invariants: an answer from here has the bytes that it
//! would have had otherwise; and nothing that is done while an answer is written calls this thread's methods.

use super::ahead::asked;
use super::{TableAnswer, look_up};
use crate::Served;
use millpond_catalog::Catalog;
use millpond_engines_features::{Projection, Table};
use millpond_wire_payload::{Encoding, Reserved};
use millpond_wire_schema::Status;
use millpond_wire_schema::features_lookup::{RowType, Template};
use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Weak};

/// Calls that a thread knows.
const KNOWN_MAX: usize = 16;
/// Bytes of a payload, and of an answer's rows, beyond which reading the call is little beside its rows.
const PAYLOAD_BYTES_MAX: usize = 4 << 10;
const ANSWER_BYTES_MAX: usize = 32 << 10;
/// Columns that are asked for by name: each takes some memory beside its name.
const COLUMNS_MAX: usize = 64;
/// What a known call takes at most beside its payload and its answer's rows: the bitmap and the other entries, its columns, the record.
const BESIDE_BYTES: usize = 4 << 10;
/// What the calls that a net thread knows take at most, with the keys of the one that is served.
pub const KNOWN_BYTES_MAX: usize =
    KNOWN_MAX * (PAYLOAD_BYTES_MAX + ANSWER_BYTES_MAX + BESIDE_BYTES) + PAYLOAD_BYTES_MAX;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// The calls that a net thread knows.
#[derive(Default)]
struct Known {
    /// With the lengths of their payloads.
    calls: Vec<(usize, Box<Alike>)>,
    /// Which of them gives way next.
    oldest: usize,
    /// Hashes of calls that were read not long ago: what comes once is not worth keeping.
    read: [u64; KNOWN_MAX],
    /// The keys of the call that is served.
    keys: Vec<u64>,
}

/// What calls mean whose payloads have these bytes before and behind their keys.
struct Alike {
    before: Vec<u8>,
    behind: Vec<u8>,
    name: String,
    /// The version that answered: another one has other columns, and says another version.
    table: Weak<Table>,
    /// Where it is not that of all floats.
    projection: Option<Projection>,
    row_type: RowType,
    deadline_ms: Option<u64>,
    answer: Template,
}

/// Serves a call that is known; nothing where it is to be read.
pub(super) fn serve(catalog: &Catalog, call: &mut Served<'_>) -> Option<Result<(), Status>> {
    if !is_of_one_server(call) {
        return None;
    }
    KNOWN.with_borrow_mut(|Known { calls, keys, .. }| {
        let (at, block) = find(calls, call.asked.payload)?;
        let (_, alike) = calls.get(at)?;
        let table = catalog.tables.get(&alike.name)?;
        if !std::ptr::eq(Arc::as_ptr(table), alike.table.as_ptr()) {
            return None;
        }
        keys.clear();
        keys.extend(block.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key)));
        Some(alike.serve(table, keys, call))
    })
}

/// In the form that is looked for, and of rows that this server has itself.
#[inline]
fn is_of_one_server(call: &Served<'_>) -> bool {
    call.asked.encoding == Encoding::Msgpack && !call.arrival.is_internal && call.calls.nodes().is_none()
}

/// Which of the calls has a payload like that, and the payload's block of keys.
#[inline]
fn find<'p>(calls: &[(usize, Box<Alike>)], payload: &'p [u8]) -> Option<(usize, &'p [u8])> {
    let mut calls = calls.iter().enumerate();
    calls.find_map(|(at, (payload_bytes, alike))| {
        let keys = (*payload_bytes == payload.len()).then(|| alike.keys_of(payload))?;
        Some((at, keys?))
    })
}

/// Notes a call that was read and is answered by that part: where another one like it was read not long ago, the next is known. One
/// with a trace is like no other.
pub(super) fn note(catalog: &Catalog, call: &Served<'_>, reserved: &Reserved<'_>, part: &TableAnswer<'_>) {
    let payload = call.asked.payload;
    // Rows that are read already, or vary in length, are written in another way; and no large answer is begun to be thrown away.
    if !is_of_one_server(call)
        || reserved.trace.is_some()
        || payload.len() > PAYLOAD_BYTES_MAX
        || part.rows * part.dim() * part.row_type.bytes() > ANSWER_BYTES_MAX
        || part.read.is_some()
        || part.varying.is_some()
        || part.inverse.is_some()
        || matches!(&part.projection, Cow::Owned(projection) if projection.columns() > COLUMNS_MAX)
    {
        return;
    }
    let Some(around) = Around::of(payload) else { return };
    KNOWN.with_borrow_mut(|known| {
        let hash = around.hash();
        let read = &mut known.read[hash as usize % KNOWN_MAX];
        if std::mem::replace(read, hash) == hash
            && let Some(alike) = Alike::new(catalog, &around, reserved.deadline_ms, part)
        {
            known.keep(payload, Box::new(alike));
        }
    });
}

impl Known {
    /// In the place of what was known of calls like that, or of the oldest.
    fn keep(&mut self, payload: &[u8], alike: Box<Alike>) {
        let kept = (payload.len(), alike);
        match find(&self.calls, payload) {
            Some((at, _)) => self.calls[at] = kept,
            None if self.calls.len() < KNOWN_MAX => self.calls.push(kept),
            None => {
                self.calls[self.oldest] = kept;
                self.oldest = (self.oldest + 1) % KNOWN_MAX;
            }
        }
    }
}

/// A payload, cut at its keys.
struct Around<'p> {
    table: &'p [u8],
    before: &'p [u8],
    keys: &'p [u8],
    behind: &'p [u8],
}

impl<'p> Around<'p> {
    /// Nothing where the keys are not there as clients send them.
    fn of(payload: &'p [u8]) -> Option<Around<'p>> {
        let (table, keys) = asked(payload)?;
        let begin = keys.as_ptr().addr() - payload.as_ptr().addr();
        let (before, rest) = payload.split_at_checked(begin)?;
        let (keys, behind) = rest.split_at_checked(keys.len())?;
        Some(Around {
            table,
            before,
            keys,
            behind,
        })
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.before, self.behind).hash(&mut hasher);
        hasher.finish()
    }
}

impl Alike {
    /// Nothing where the call's answer has more than a bitmap and rows.
    fn new(
        catalog: &Catalog,
        around: &Around<'_>,
        deadline_ms: Option<u64>,
        part: &TableAnswer<'_>,
    ) -> Option<Alike> {
        let name = str::from_utf8(around.table).ok()?;
        let table = catalog.tables.get(name)?;
        let is_asked =
            std::ptr::eq(Arc::as_ptr(table), part.table) && around.keys.len() == size_of_val(&*part.keys);
        let answer = Template::new(part.header())?;
        is_asked.then(|| Alike {
            before: around.before.to_vec(),
            behind: around.behind.to_vec(),
            name: name.to_owned(),
            table: Arc::downgrade(table),
            projection: match &part.projection {
                Cow::Borrowed(_) => None,
                Cow::Owned(projection) => Some(projection.clone()),
            },
            row_type: part.row_type,
            deadline_ms,
            answer,
        })
    }

    /// The block of keys in the payload of a call alike, which has the length of this one's.
    #[inline]
    fn keys_of<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        let rest = payload.strip_prefix(self.before.as_slice())?;
        rest.strip_suffix(self.behind.as_slice())
    }

    fn serve(&self, table: &Table, keys: &[u64], call: &mut Served<'_>) -> Result<(), Status> {
        call.deadline(self.deadline_ms)?;
        // Read before any row is.
        let overlay_sequence = table.overlay_sequence();
        let projection = self.projection.as_ref().unwrap_or(table.floats());
        call.answer(None, |out| {
            self.answer.write(overlay_sequence, out, |found, values| {
                look_up(table, projection, self.row_type, keys, (values, found));
            });
        });
        Ok(())
    }
}
