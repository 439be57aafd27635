//! `features.lookup`, answered on the net thread: a lookup costs less than a hop.
//! Its invariants: an answer is checked against the frame limit before its rows are allocated, and rows that cannot go wrong are
//! copied once, to where the answer leaves from.

use crate::{Served, at_once, find};
use millpond_catalog::Catalog;
use millpond_engines_features::{Pool, Table};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_lookup as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded| {
        let mut bytes = 0;
        let mut begin = |lookup| Part::begin(catalog, call, lookup, &mut bytes);
        let parts = match decoded {
            schema::Call::One(lookup) => Parts::One(begin(lookup)?),
            schema::Call::Many(many) => {
                let parts = many.lookups.into_iter().map(begin);
                Parts::Many(parts.collect::<Result<_, _>>()?)
            }
        };
        Ok(move |out: &mut Encoder<'_>| match parts {
            Parts::One(part) => part.write(out),
            Parts::Many(parts) => schema::write_many(&parts, out, Part::write),
        })
    })
}

/// An answer, in the form of its call.
enum Parts<'c> {
    One(Part<'c>),
    Many(Vec<Part<'c>>),
}

/// A mapped file that was cut reads as zeros where it is gone: nothing of the table is answered then.
fn check_whole(catalog: &Catalog, table: &Table, name: &str) -> Result<(), Status> {
    table.check_whole().map_err(|error| {
        catalog.note_cut(name, &error);
        // The client's answer names no file of this machine.
        let ex = format!("a file of table {name:?} was cut while it was served; see the server's log");
        Status::new(Code::StorageFailed, ex)
    })
}

/// One table's part of the answer, of a call that is answered for certain.
enum Part<'c> {
    /// The rows stay where they are until they are written: nothing can go wrong with them.
    Resident { table: &'c Table, keys: Vec<u64> },
    /// They were read, or pooled.
    Read(schema::Rows<'static>),
}

impl<'c> Part<'c> {
    fn begin(
        catalog: &'c Catalog,
        call: &Served<'_>,
        lookup: schema::Lookup<'_>,
        bytes: &mut usize,
    ) -> Result<Part<'c>, Status> {
        let table = find("feature table", &catalog.tables, &lookup.table)?;
        check_version(table, &lookup)?;
        let rows = match lookup.pool {
            schema::Pool::None => lookup.keys.len(),
            _ => lookup.offsets.len().saturating_sub(1),
        };
        let values = rows.saturating_mul(table.dim());
        *bytes = values.saturating_mul(4).saturating_add(*bytes);
        check_bytes(*bytes, call.calls.answer_bytes_max)?;
        let pool = match lookup.pool {
            schema::Pool::None if !table.is_mapped() => {
                let keys = lookup.keys;
                return Ok(Part::Resident { table, keys });
            }
            schema::Pool::None => None,
            schema::Pool::Sum => Some(Pool::Sum),
            schema::Pool::Mean => Some(Pool::Mean),
            schema::Pool::Max => Some(Pool::Max),
        };
        let rows = read(table, &lookup, pool, values)?;
        check_whole(catalog, table, &lookup.table)?;
        Ok(Part::Read(rows))
    }

    fn write(&self, out: &mut Encoder<'_>) {
        match self {
            Part::Read(rows) => schema::Rows::write(rows, out),
            Part::Resident { table, keys } => {
                let header = schema::Header {
                    version: table.version(),
                    dim: table.dim(),
                    keys: keys.len(),
                };
                header.write(out, |found, values| {
                    table.lookup_bytes(keys, values, found);
                });
            }
        }
    }
}

fn check_version(table: &Table, lookup: &schema::Lookup<'_>) -> Result<(), Status> {
    match lookup.at_version {
        Some(version) if version != table.version() => {
            let (name, serves) = (&lookup.table, table.version());
            let ex = format!("table {name:?} serves version {serves}, not {version}");
            Err(Status::new(Code::VersionGone, ex))
        }
        _ => Ok(()),
    }
}

fn check_bytes(bytes: usize, limit: usize) -> Result<(), Status> {
    if bytes > limit {
        let ex = format!(
            "the answer would hold {bytes} bytes of rows; the limit is {limit} (ask for fewer keys a call)"
        );
        return Err(Status::new(Code::TooLarge, ex));
    }
    Ok(())
}

fn read(
    table: &Table,
    lookup: &schema::Lookup<'_>,
    pool: Option<Pool>,
    values: usize,
) -> Result<schema::Rows<'static>, Status> {
    let mut values = vec![0.0; values];
    let (keys, mut found) = (&lookup.keys, vec![0; lookup.keys.len().div_ceil(8)]);
    let read = match pool {
        Some(pool) => table.lookup_pooled(keys, &lookup.offsets, pool, &mut values, &mut found),
        None => Ok(table.lookup(keys, &mut values, &mut found)),
    };
    read.map_err(|error| Status::new(Code::BadArgument, error.to_string()))?;
    Ok(schema::Rows {
        version: table.version(),
        dim: table.dim(),
        found: found.into(),
        values,
    })
}
