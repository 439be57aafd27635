//! `features.lookup`, answered on the net thread: a lookup costs less than a hop.
//! Its invariant: an answer is checked against the frame limit before its rows are allocated.

use super::find;
use crate::router::Call;
use millpond_engines_features::Pool as TablePool;
use millpond_wire_schema::frame::Map;
use millpond_wire_schema::{Code, Status, features_lookup as schema};
use millpond_wire_transport::Reply;

pub(crate) fn answer(call: &Call<'_>, map: Map<'_>, mut reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(map) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let rows = call.deadline(reserved.deadline_ms).and_then(|_| {
        let mut bytes = 0;
        decoded
            .lookups
            .iter()
            .map(|lookup| look_up(call, lookup, &mut bytes))
            .collect::<Result<Vec<_>, Status>>()
    });
    match rows {
        Ok(rows) => {
            reply.set_base64(decoded.base64);
            call.answer(reply, reserved.trace.as_deref(), |out| {
                schema::encode_answer(out, &rows, decoded.many);
            });
        }
        Err(status) => call.refuse(reply, &status),
    }
}

fn look_up(call: &Call<'_>, lookup: &schema::Lookup<'_>, bytes: &mut usize) -> Result<schema::Rows, Status> {
    let table = find("feature table", &call.engines.tables, &lookup.table)?.pin();
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
        found,
        values,
    })
}
