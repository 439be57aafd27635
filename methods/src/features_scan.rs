//! `features.scan`, answered on the net thread; its limit bounds how long that takes.
//! Its invariant: a cursor of another version than the one that is served is refused.

use crate::features_lookup::check_whole;
use crate::{Served, at_once, find};
use millpond_catalog::Catalog;
use millpond_engines_features::Table;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_scan as schema};
use std::borrow::Cow;

/// A cursor is one number: in its lower bits where its table goes on, above them the lowest of the version's.
const POSITION_BITS: u32 = 48;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded| {
        let table = find("feature table", &catalog.tables, &decoded.table)?;
        let position = match &decoded.cursor {
            Some(cursor) => position(table, &decoded.table, cursor)?,
            None => 0,
        };
        // A key takes nine bytes in JSON's base64, and up to 21 in an array of numbers.
        let keys_max = decoded.limit.min(call.calls.answer_bytes_max / 32).max(1);
        let mut keys = Vec::with_capacity(keys_max);
        let next = table.scan(position, keys_max, &mut keys);
        check_whole(catalog, table, &decoded.table)?;
        let cursor = next.map(|position| (tag(table) | position).to_le_bytes());
        let answer = schema::Answer {
            version: table.version(),
            rows: table.rows(),
            keys,
            cursor: cursor.map(|cursor| Cow::Owned(cursor.to_vec())),
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}

/// The upper bits of a cursor in the table's version.
fn tag(table: &Table) -> u64 {
    table.version() << POSITION_BITS
}

fn position(table: &Table, name: &str, cursor: &[u8]) -> Result<u64, Status> {
    let Ok(cursor) = cursor.try_into().map(u64::from_le_bytes) else {
        let ex = format!(
            "key \"cursor\" has {} bytes; send the cursor of the answer before as it came",
            cursor.len()
        );
        return Err(Status::new(Code::BadArgument, ex));
    };
    let position = cursor & ((1 << POSITION_BITS) - 1);
    if cursor - position == tag(table) {
        return Ok(position);
    }
    let ex = format!(
        "the cursor is of another version of table {name:?} than {}, which serves now; begin again without one",
        table.version()
    );
    Err(Status::new(Code::VersionGone, ex))
}
