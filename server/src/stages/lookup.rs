//! Keys to rows of a table, pooled where a row has several. Keys that are not in the table give zeros.
//! Its invariant: as many rows come out as went in.

use super::Output;
use super::hash::unfit;
use millpond_engines_features::{Pool as TablePool, Table};
use millpond_engines_infer::pipeline::Pool;
use millpond_wire_schema::{Code, Status};

pub(super) fn run(table: &Table, keys: &Output, pool: Pool, stage: &str) -> Result<Output, Status> {
    let Output::Keys { keys, offsets } = keys else {
        return Err(unfit("keys"));
    };
    let dim = table.dim();
    let mut found = vec![0; keys.len().div_ceil(8)];
    let pool = match (pool, offsets) {
        (_, None) | (Pool::None, Some(_)) => None,
        (Pool::Sum, Some(offsets)) => Some((offsets, TablePool::Sum)),
        (Pool::Mean, Some(offsets)) => Some((offsets, TablePool::Mean)),
    };
    let Some((offsets, pool)) = pool else {
        if offsets.is_some() && keys.len() != 1 {
            let ex = format!(
                "stage {stage:?} got {} keys for its one row; give one value, or set pool = \"mean\"",
                keys.len()
            );
            return Err(Status::new(Code::BadArgument, ex));
        }
        let mut values = vec![0.0; keys.len() * dim];
        table.lookup(keys, &mut values, &mut found);
        return Ok(Output::Floats {
            rows: keys.len(),
            dim,
            values,
        });
    };
    let rows = offsets.len().saturating_sub(1);
    let mut values = vec![0.0; rows * dim];
    let pooled = table.lookup_pooled(keys, offsets, pool, &mut values, &mut found);
    pooled.map_err(|error| Status::new(Code::Internal, error.to_string()))?;
    Ok(Output::Floats { rows, dim, values })
}
