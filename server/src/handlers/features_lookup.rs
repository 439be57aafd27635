//! `features.lookup`, answered on the net thread: a lookup costs less than a hop.
//! Its invariant: an answer is checked against the frame limit before its rows are allocated.

use super::find;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_catalog::Catalog;
use millpond_engines_features::Pool as TablePool;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Status, features_lookup as schema};

pub(crate) fn answer(engines: &Catalog, call: &Call<'_>, payload: &Payload<'_>, mut reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(payload) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let answer = call.deadline(reserved.deadline_ms).and_then(|_| {
        let mut bytes = 0;
        Ok(match &decoded {
            schema::Call::One(lookup) => schema::Answer::One(look_up(engines, call, lookup, &mut bytes)?),
            schema::Call::Many(many) => {
                let lookups = many.lookups.iter();
                let lookups = lookups.map(|lookup| look_up(engines, call, lookup, &mut bytes));
                schema::Answer::Many(schema::ManyRows {
                    lookups: lookups.collect::<Result<_, Status>>()?,
                })
            }
        })
    });
    match answer {
        Ok(answer) => {
            reply.set_base64(reserved.base64);
            call.answer(reply, reserved.trace, |out| schema::Answer::write(&answer, out));
        }
        Err(status) => call.refuse(reply, &status),
    }
}

fn look_up(
    engines: &Catalog,
    call: &Call<'_>,
    lookup: &schema::Lookup<'_>,
    bytes: &mut usize,
) -> Result<schema::Rows<'static>, Status> {
    let table = find("feature table", &engines.tables, &lookup.table)?;
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
    let limit = call.shared.config.server.frame_bytes_max;
    if *bytes > limit {
        let ex = format!(
            "the answer would hold {bytes} bytes of rows; the limit is {limit} (ask for fewer keys a call)"
        );
        return Err(Status::new(Code::TooLarge, ex));
    }
    let mut values = vec![0.0; rows * dim];
    let mut found = vec![0; lookup.keys.len().div_ceil(8)];
    let pool = match lookup.pool {
        schema::Pool::None => None,
        schema::Pool::Sum => Some(TablePool::Sum),
        schema::Pool::Mean => Some(TablePool::Mean),
    };
    match pool {
        None => {
            table.lookup(&lookup.keys, &mut values, &mut found);
        }
        Some(pool) => {
            let pooled = table.lookup_pooled(&lookup.keys, &lookup.offsets, pool, &mut values, &mut found);
            pooled.map_err(|error| Status::new(Code::BadArgument, error.to_string()))?;
        }
    }
    Ok(schema::Rows {
        version: table.version(),
        dim,
        found: found.into(),
        values,
    })
}
