//! `features.scan`, answered on the net thread; its limit bounds how long that takes.
//! Its invariant: a cursor of another version than the one that is served is refused.

use crate::features_lookup::check_whole;
use crate::{Served, at_once, find};
use millpond_catalog::Catalog;
use millpond_engines_features::Table;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_scan as schema};
use schema::Cursor;
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, _| {
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
        let version = table.version();
        let cursor = next.map(|position| Cursor { version, position }.to_bytes());
        let answer = schema::Answer {
            version,
            rows: table.rows(),
            keys,
            cursor: cursor.map(Cow::Owned),
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}

fn position(table: &Table, name: &str, bytes: &[u8]) -> Result<u64, Status> {
    let version = table.version();
    let cursor = match bytes.try_into().map(u64::from_le_bytes) {
        Ok(number) => Cursor::of_number(number, version),
        Err(_) => Some(Cursor::of_bytes(bytes).ok_or_else(|| no_cursor(bytes))?),
    };
    match cursor {
        Some(cursor) if cursor.version == version => Ok(cursor.position),
        _ => {
            // A client of RESP has a number, and begins with one too.
            let ex = format!(
                "the cursor does not come from version {version} of table {name:?}, which serves now; begin the scan again without a \
                 cursor, or with 0 by SCAN"
            );
            Err(Status::new(Code::VersionGone, ex))
        }
    }
}

fn no_cursor(bytes: &[u8]) -> Status {
    let ex = format!(
        "key \"cursor\" has {} bytes which are no cursor; send the cursor of the answer before as it came",
        bytes.len()
    );
    Status::new(Code::BadArgument, ex)
}
