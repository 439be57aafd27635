//! `features.lookup`, answered on the net thread: a lookup costs less than a hop.
//! Its invariant: an answer is checked against the frame limit before its rows are allocated.

use crate::{Served, at_once, find};
use millpond_catalog::Catalog;
use millpond_engines_features::{Pool, Table};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_lookup as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded| {
        let mut bytes = 0;
        let answer = match &decoded {
            schema::Call::One(lookup) => schema::Answer::One(look_up(catalog, call, lookup, &mut bytes)?),
            schema::Call::Many(many) => {
                let lookups = many.lookups.iter();
                let lookups = lookups.map(|lookup| look_up(catalog, call, lookup, &mut bytes));
                schema::Answer::Many(schema::ManyRows {
                    lookups: lookups.collect::<Result<_, Status>>()?,
                })
            }
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
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

fn look_up(
    catalog: &Catalog,
    call: &Served<'_>,
    lookup: &schema::Lookup<'_>,
    bytes: &mut usize,
) -> Result<schema::Rows<'static>, Status> {
    let table = find("feature table", &catalog.tables, &lookup.table)?;
    if let Some(version) = lookup.at_version.filter(|version| *version != table.version()) {
        let ex = format!(
            "table {:?} serves version {}, not {version}",
            lookup.table,
            table.version()
        );
        return Err(Status::new(Code::VersionGone, ex));
    }
    let dim = table.dim();
    let rows = match lookup.pool {
        schema::Pool::None => lookup.keys.len(),
        _ => lookup.offsets.len().saturating_sub(1),
    };
    *bytes = rows.saturating_mul(dim).saturating_mul(4).saturating_add(*bytes);
    let limit = call.calls.answer_bytes_max;
    if *bytes > limit {
        let ex = format!(
            "the answer would hold {bytes} bytes of rows; the limit is {limit} (ask for fewer keys a call)"
        );
        return Err(Status::new(Code::TooLarge, ex));
    }
    let mut values = vec![0.0; rows * dim];
    let mut found = vec![0; lookup.keys.len().div_ceil(8)];
    let mut pooled = |pool| {
        let (keys, offsets) = (&lookup.keys, &lookup.offsets);
        let pooled = table.lookup_pooled(keys, offsets, pool, &mut values, &mut found);
        pooled
            .map(drop)
            .map_err(|error| Status::new(Code::BadArgument, error.to_string()))
    };
    match lookup.pool {
        schema::Pool::Sum => pooled(Pool::Sum)?,
        schema::Pool::Mean => pooled(Pool::Mean)?,
        schema::Pool::Max => pooled(Pool::Max)?,
        schema::Pool::None => {
            table.lookup(&lookup.keys, &mut values, &mut found);
        }
    }
    check_whole(catalog, table, &lookup.table)?;
    Ok(schema::Rows {
        version: table.version(),
        dim,
        found: found.into(),
        values,
    })
}
