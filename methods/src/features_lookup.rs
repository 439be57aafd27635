//! `features.lookup`, answered on the net thread: a lookup costs less than a hop.
//! Its invariants: an answer is checked against the frame limit before its rows are allocated, and rows that cannot go wrong are
//! copied once, to where the answer leaves from.

mod ahead;
mod alike;
mod varying;

pub(crate) use ahead::ahead;
pub use alike::KNOWN_BYTES_MAX;

use crate::{Served, find, spread};
use millpond_catalog::Catalog;
use millpond_engines_features::{Answered, Error, Pool, Projection, Table};
use millpond_nodes::bucket_of;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_lookup as schema};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use varying::Varying;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    if let Some(served) = alike::serve(catalog, call) {
        return served;
    }
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let deadline = call.deadline(reserved.deadline_ms)?;
    if let Some(nodes) = call.calls.nodes().filter(|_| !call.arrival.is_internal)
        && spread::concerns(catalog, nodes, &decoded)?
    {
        let nodes = Arc::clone(nodes);
        return spread::serve(catalog, call, &nodes, (decoded, &reserved), deadline);
    }
    let (mut bytes, bytes_max) = (0, call.calls.answer_bytes_max);
    let mut begin = |lookup| TableAnswer::begin(catalog, lookup, bytes_max, &mut bytes);
    let parts = match decoded {
        schema::Call::One(lookup) => Parts::One(begin(lookup)?),
        schema::Call::Many(many) => {
            let parts = many.lookups.into_iter().map(begin);
            Parts::Many(parts.collect::<Result<_, _>>()?)
        }
    };
    if let Parts::One(part) = &parts {
        alike::note(catalog, call, &reserved, part);
    }
    call.set_base64(reserved.base64);
    call.answer(reserved.trace, |out| match &parts {
        Parts::One(part) => part.write(out),
        Parts::Many(parts) => schema::write_many(parts, out, TableAnswer::write),
    });
    Ok(())
}

/// An answer, in the form of its call.
#[expect(
    clippy::large_enum_variant,
    reason = "most calls are of one table, and to move it costs less than to allocate"
)]
enum Parts<'c> {
    One(TableAnswer<'c>),
    Many(Vec<TableAnswer<'c>>),
}

/// A mapped file that was cut reads as zeros where it is gone: nothing of the table is answered then.
pub(crate) fn check_whole(catalog: &Catalog, table: &Table, name: &str) -> Result<(), Status> {
    table.check_whole().map_err(|error| {
        catalog.note_cut(name, &error);
        // The client's answer names no file of this machine.
        let ex = format!("a file of table {name:?} was cut while it was served; see the server's log");
        Status::new(Code::StorageFailed, ex)
    })
}

/// A bitmap and rows, and the offsets of rows that vary in length.
pub(crate) type TakenRows = (Vec<u8>, Vec<u8>, Option<Vec<u32>>);

/// One table's part of the answer, of a call that is answered for certain.
pub(crate) struct TableAnswer<'c> {
    table: &'c Table,
    /// The version that serves, where another one answers.
    pub(crate) active: Option<u64>,
    projection: Cow<'c, Projection>,
    pub(crate) row_type: schema::RowType,
    /// Those asked for; with `unique`, each of them once.
    pub(crate) keys: Vec<u64>,
    /// With `unique`: which of them each key of the call is.
    pub(crate) inverse: Option<Vec<u32>>,
    pub(crate) rows: usize,
    /// Read before any row is.
    pub(crate) overlay_sequence: Option<u64>,
    /// The bitmap and the rows where they are read already. Others stay where they are until they are written: nothing can
    /// go wrong with them.
    read: Option<(Vec<u8>, Vec<u8>)>,
    /// Rows that vary in length are found already.
    varying: Option<Varying<'c>>,
}

impl<'c> TableAnswer<'c> {
    /// `bytes` is what parts before it hold; no answer may hold more than `bytes_max`.
    pub(crate) fn begin(
        catalog: &'c Catalog,
        lookup: schema::Lookup<'_>,
        bytes_max: usize,
        bytes: &mut usize,
    ) -> Result<TableAnswer<'c>, Status> {
        let table = table(catalog, &lookup)?;
        check_pool(table, &lookup)?;
        let projection = projection(table, &lookup)?;
        let keys = keys_of(table, lookup.keys, lookup.texts)?;
        if lookup.map.is_some() {
            check_held(table, &keys)?;
        }
        let (keys, inverse) = match lookup.unique {
            false => (keys, None),
            true => {
                let (keys, inverse) = distinct(&keys);
                (keys, Some(inverse))
            }
        };
        let pool = match lookup.pool {
            schema::Pool::None => None,
            schema::Pool::Sum => Some(Pool::Sum),
            schema::Pool::Mean => Some(Pool::Mean),
            schema::Pool::Max => Some(Pool::Max),
        };
        let rows = match pool {
            None => keys.len(),
            Some(_) => lookup.offsets.len().saturating_sub(1),
        };
        // Rows that are pooled have all columns at first.
        let row_bytes = match pool {
            None if lookup.row_type == schema::RowType::None || table.is_varying() => 0,
            None => projection.row_bytes(),
            Some(_) => projection.row_bytes().max(table.dim() * size_of::<f32>()),
        };
        *bytes = bytes
            .saturating_add(rows.saturating_mul(row_bytes))
            .saturating_add(inverse.as_deref().map_or(0, size_of_val));
        check_bytes(*bytes, bytes_max)?;
        let varying = match table.is_varying() && lookup.row_type != schema::RowType::None {
            true => Some(Varying::find(table, &keys, bytes, bytes_max)?),
            false => None,
        };
        let mut part = TableAnswer {
            table,
            active: lookup
                .at_version
                .and_then(|_| active(catalog, &lookup.table, table)),
            projection,
            row_type: lookup.row_type,
            keys,
            inverse,
            rows,
            overlay_sequence: table.overlay_sequence(),
            read: None,
            varying,
        };
        if let Some(varying) = part.varying.as_mut().filter(|_| table.is_mapped()) {
            varying.copy(part.keys.len());
            check_whole(catalog, table, &lookup.table)?;
        } else if pool.is_some() || table.is_mapped() {
            part.read = Some(part.read(pool, &lookup.offsets)?);
            check_whole(catalog, table, &lookup.table)?;
        }
        Ok(part)
    }

    /// Its bitmap and rows, in memory of their own.
    fn read(&self, pool: Option<Pool>, offsets: &[u32]) -> Result<(Vec<u8>, Vec<u8>), Status> {
        let mut found = vec![0; self.keys.len().div_ceil(8)];
        let row_bytes = self.projection.row_bytes();
        let mut values = vec![0; self.rows * self.dim() * self.row_type.bytes()];
        let Some(pool) = pool else {
            self.look_up(&mut values, &mut found);
            return Ok((found, values));
        };
        let dim = self.table.dim();
        let mut pooled = vec![0.0; self.rows * dim];
        let begun = self.table.begin();
        let done = self
            .table
            .lookup_pooled(&self.keys, offsets, pool, &mut pooled, &mut found);
        let hits = done.map_err(bad_argument)?;
        self.table.count(begun, self.keys.len(), hits);
        for (bytes, row) in values.chunks_exact_mut(row_bytes).zip(pooled.chunks_exact(dim)) {
            self.projection.write_numbers(row, bytes);
        }
        Ok((found, values))
    }

    /// Its bitmap and rows, in memory of their own, to be kept by whoever writes them later; and the offsets of rows that vary in
    /// length.
    pub(crate) fn take_rows(&mut self) -> Result<TakenRows, Status> {
        if let Some(varying) = &mut self.varying {
            let (found, values, offsets) = varying.take(self.keys.len());
            return Ok((found, values, Some(offsets)));
        }
        let (found, values) = match self.read.take() {
            Some(read) => read,
            None => self.read(None, &[])?,
        };
        Ok((found, values, None))
    }

    /// The version that answers.
    pub(crate) fn version(&self) -> u64 {
        self.table.version()
    }

    /// Numbers of an answer's row.
    pub(crate) fn dim(&self) -> usize {
        match self.row_type {
            schema::RowType::None => 0,
            _ if self.varying.is_some() => 0,
            _ => self.projection.dim(),
        }
    }

    fn look_up(&self, values: &mut [u8], found: &mut [u8]) {
        look_up(
            self.table,
            &self.projection,
            self.row_type,
            &self.keys,
            (values, found),
        );
    }

    fn header(&self) -> schema::Header<'_> {
        schema::Header {
            version: self.table.version(),
            dim: self.dim(),
            row_type: self.row_type,
            keys: self.keys.len(),
            rows: self.rows,
            inverse: self.inverse.as_deref(),
            overlay_sequence: self.overlay_sequence,
            active: self.active,
            missing: &[],
        }
    }

    fn write(&self, out: &mut Encoder<'_>) {
        let header = self.header();
        if let Some(varying) = &self.varying {
            return varying.write(header, out);
        }
        header.write(out, |found, values| match &self.read {
            Some((bits, rows)) => {
                found.copy_from_slice(bits);
                values.copy_from_slice(rows);
            }
            None => self.look_up(values, found),
        });
    }
}

/// A version that was built for another node, or by another map, does not have all keys that a caller looks for here: it cannot say that
/// one is not there. Callers then ask for another version.
fn check_held(table: &Table, keys: &[u64]) -> Result<(), Status> {
    let (Some(held), Some(share)) = (table.held_buckets(), table.node()) else {
        return Ok(());
    };
    let mut buckets = keys.iter().map(|key| bucket_of(*key, held.buckets()));
    let Some(bucket) = buckets.find(|bucket| !held.has(*bucket)) else {
        return Ok(());
    };
    let ex = format!(
        "version {} of table {:?} has not the keys of bucket {bucket}: it was built for node {:?} by map {}; let all nodes serve versions \
         with the buckets of the next map before it is published (docs/features.md)",
        table.version(),
        table.name(),
        share.name,
        share.map_version,
    );
    Err(Status::new(Code::VersionGone, ex))
}

/// Looks keys up and counts it: what `projection` has of their rows, and the bitmap.
fn look_up(
    table: &Table,
    projection: &Projection,
    row_type: schema::RowType,
    keys: &[u64],
    (values, found): (&mut [u8], &mut [u8]),
) {
    let begun = table.begin();
    let hits = match row_type {
        schema::RowType::None => table.find(keys, found),
        _ => table.lookup_bytes(keys, projection, values, found),
    };
    table.count(begun, keys.len(), hits);
}

/// The keys of a call, of texts their hashes.
pub(crate) fn keys_of(
    table: &Table,
    keys: Option<Vec<u64>>,
    texts: Option<Vec<Cow<'_, [u8]>>>,
) -> Result<Vec<u64>, Status> {
    let Some(texts) = texts else {
        // Those who have the hashes of texts may ask for them.
        return Ok(keys.unwrap_or_default());
    };
    let hashed: Option<Vec<u64>> = texts.iter().map(|text| table.keys().of_text(text)).collect();
    hashed.ok_or_else(|| {
        let ex = format!(
            "table {:?} has keys that are numbers; send `keys` instead of `texts`",
            table.name()
        );
        Status::new(Code::BadArgument, ex)
    })
}

/// Each key once, in the order in which they come first, and which of those each one is.
pub(crate) fn distinct(keys: &[u64]) -> (Vec<u64>, Vec<u32>) {
    let (mut places, mut distinct) = (HashMap::with_capacity(keys.len()), Vec::new());
    let inverse = keys.iter().map(|&key| {
        *places.entry(key).or_insert_with(|| {
            distinct.push(key);
            distinct.len() as u32 - 1
        })
    });
    let inverse = inverse.collect();
    (distinct, inverse)
}

/// What the answer has of the table's rows.
fn projection<'c>(table: &'c Table, lookup: &schema::Lookup<'_>) -> Result<Cow<'c, Projection>, Status> {
    let answered = match lookup.row_type {
        schema::RowType::F32 if lookup.columns.is_empty() && table.schema().bytes_column().is_none() => {
            return Ok(Cow::Borrowed(table.floats()));
        }
        schema::RowType::None if lookup.columns.is_empty() => return Ok(Cow::Borrowed(table.floats())),
        schema::RowType::F32 => Answered::F32,
        schema::RowType::F64 => Answered::F64,
        schema::RowType::F16 => Answered::F16,
        schema::RowType::Bf16 => Answered::Bf16,
        schema::RowType::U8 | schema::RowType::None => Answered::Stored,
    };
    let projection = Projection::new(table.schema(), &lookup.columns, answered);
    projection.map(Cow::Owned).map_err(bad_argument)
}

/// Bytes are not pooled.
fn check_pool(table: &Table, lookup: &schema::Lookup<'_>) -> Result<(), Status> {
    if lookup.pool == schema::Pool::None {
        return Ok(());
    }
    let is_asked =
        |name: &str| lookup.columns.is_empty() || lookup.columns.iter().any(|asked| *asked == name);
    let mut columns = table.schema().columns.iter();
    let bytes = columns.find(|column| column.numbers.is_bytes() && is_asked(&column.name));
    match bytes {
        Some(column) => {
            let ex = format!(
                "key \"pool\": column {:?} of table {:?} holds bytes, which are not pooled; name other columns, or leave the pool out",
                column.name,
                table.name()
            );
            Err(Status::new(Code::BadArgument, ex))
        }
        None => Ok(()),
    }
}

fn bad_argument(error: Error) -> Status {
    Status::new(Code::BadArgument, error.to_string())
}

/// The table that answers: the version that serves, or one that is still held.
fn table<'c>(catalog: &'c Catalog, lookup: &schema::Lookup<'_>) -> Result<&'c Table, Status> {
    let table = find("feature table", &catalog.tables, &lookup.table)?;
    match lookup.at_version {
        Some(version) if version != table.version() => held(catalog, &lookup.table, version),
        _ => Ok(table),
    }
}

/// The version that serves, where `answers` is another one: who fans calls out learns from it what to ask for next.
fn active(catalog: &Catalog, name: &str, answers: &Table) -> Option<u64> {
    let serves = catalog.tables.get(name)?.version();
    (serves != answers.version()).then_some(serves)
}

/// A version that serves no more and is still open.
fn held<'c>(catalog: &'c Catalog, table: &str, version: u64) -> Result<&'c Table, Status> {
    let mut versions = catalog.versions(table);
    let held = versions.find(|table| table.version() == version).map(Arc::as_ref);
    held.ok_or_else(|| {
        let open: Vec<u64> = catalog.versions(table).map(|table| table.version()).collect();
        let (active, held) = open.split_first().unwrap_or((&0, &[]));
        let ex = format!(
            "version {version} of table {table:?} is not open here: version {active} serves, and {held:?} are kept open of those that served \
             before (features.{table}.versions_held says how many)"
        );
        Status::new(Code::VersionGone, ex)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_inverse_gives_the_keys_again(keys in prop::collection::vec(0..9_u64, 0..60)) {
            let (distinct, inverse) = distinct(&keys);
            let again: Vec<u64> = inverse.iter().map(|&at| distinct[at as usize]).collect();
            prop_assert_eq!(&again, &keys);
            // In the order in which they come first.
            let mut first = keys;
            let mut seen = std::collections::HashSet::new();
            first.retain(|key| seen.insert(*key));
            prop_assert_eq!(distinct, first);
        }
    }
}
