//! Calls that differ from an earlier one in their keys alone, answered without being read again.
//!
//! Who asks for rows sends the same call again and again with other keys. What the call means is kept by its bytes before and behind
//! the keys, with an answer of which the rows alone are missing. No row is kept, and no table held open. Its invariant: an answer from
//! here has the bytes that it would have had otherwise.

use super::ahead::asked;
use super::{Part, look_up};
use crate::Served;
use millpond_catalog::Catalog;
use millpond_engines_features::{Projection, Table};
use millpond_wire_payload::Encoding;
use millpond_wire_schema::Status;
use millpond_wire_schema::features_lookup::{RowType, Template};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Calls that a thread knows: places by the lengths of their payloads.
const PLACES: usize = 16;
/// Bytes of a payload, and of an answer, beyond which reading the call is little beside its rows.
const PAYLOAD_BYTES_MAX: usize = 4 << 10;
const ANSWER_BYTES_MAX: usize = 32 << 10;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// The calls that a net thread knows.
#[derive(Default)]
struct Known {
    places: [Place; PLACES],
    /// The keys of the call that is served.
    keys: Vec<u64>,
}

/// At most one call.
#[derive(Default)]
struct Place {
    /// The length of the last payload that was none of the known call: what comes once is not worth keeping.
    seen: usize,
    known: Option<Box<Alike>>,
}

/// What calls mean whose payloads have these bytes before and behind their keys.
struct Alike {
    before: Vec<u8>,
    behind: Vec<u8>,
    payload_bytes: usize,
    name: String,
    /// The version that answered: another one has other columns, and says another version.
    table: Weak<Table>,
    /// Where it is not that of all floats.
    projection: Option<Projection>,
    row_type: RowType,
    answer: Template,
}

/// Where a payload of that length has its place.
fn place_of(payload_bytes: usize) -> usize {
    // Each key has eight bytes.
    (payload_bytes ^ (payload_bytes >> 3)) % PLACES
}

/// Serves a call that is known; nothing where it is to be read.
pub(super) fn serve(catalog: &Catalog, call: &mut Served<'_>) -> Option<Result<(), Status>> {
    if call.asked.encoding != Encoding::Msgpack || call.arrival.is_rehearsal {
        return None;
    }
    let payload = call.asked.payload;
    KNOWN.with_borrow_mut(|Known { places, keys }| {
        let alike = places[place_of(payload.len())].known.as_deref()?;
        let block = alike.keys_of(payload)?;
        let table = catalog.tables.get(&alike.name)?;
        if !std::ptr::eq(Arc::as_ptr(table), alike.table.as_ptr()) {
            return None;
        }
        keys.clear();
        keys.extend(block.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key)));
        Some(alike.serve(table, keys, call))
    })
}

/// Notes a call that was read and is answered by that part: the next one alike is known, if this is the second.
pub(super) fn note(catalog: &Catalog, call: &Served<'_>, part: &Part<'_>) {
    let payload = call.asked.payload;
    if call.asked.encoding != Encoding::Msgpack
        || call.arrival.is_rehearsal
        || call.calls.nodes().is_some()
        || payload.len() > PAYLOAD_BYTES_MAX
    {
        return;
    }
    KNOWN.with_borrow_mut(|known| {
        let place = &mut known.places[place_of(payload.len())];
        if std::mem::replace(&mut place.seen, payload.len()) == payload.len() {
            place.known = Alike::new(catalog, payload, part).map(Box::new);
        }
    });
}

impl Alike {
    /// Nothing where the call's answer has more than a bitmap and rows of one length, or its rows are read before they are written.
    fn new(catalog: &Catalog, payload: &[u8], part: &Part<'_>) -> Option<Alike> {
        if part.read.is_some() || part.varying.is_some() {
            return None;
        }
        let (name, keys) = asked(payload)?;
        let name = str::from_utf8(name).ok()?;
        let table = catalog.tables.get(name)?;
        let begin = keys.as_ptr().addr() - payload.as_ptr().addr();
        let is_asked = std::ptr::eq(Arc::as_ptr(table), part.table) && keys.len() == size_of_val(&*part.keys);
        let answer = Template::new(part.header())?;
        (is_asked && answer.bytes() <= ANSWER_BYTES_MAX).then(|| Alike {
            before: payload[..begin].to_vec(),
            behind: payload[begin + keys.len()..].to_vec(),
            payload_bytes: payload.len(),
            name: name.to_owned(),
            table: Arc::downgrade(table),
            projection: match &part.projection {
                Cow::Borrowed(_) => None,
                Cow::Owned(projection) => Some(projection.clone()),
            },
            row_type: part.row_type,
            answer,
        })
    }

    /// The block of keys in the payload of a call alike.
    #[inline]
    fn keys_of<'p>(&self, payload: &'p [u8]) -> Option<&'p [u8]> {
        if payload.len() != self.payload_bytes {
            return None;
        }
        let rest = payload.strip_prefix(self.before.as_slice())?;
        rest.strip_suffix(self.behind.as_slice())
    }

    fn serve(&self, table: &Table, keys: &[u64], call: &mut Served<'_>) -> Result<(), Status> {
        call.deadline(None)?;
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
