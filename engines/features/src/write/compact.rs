//! Folds a version and all it was built on into a version of its own.
//!
//! Not a converter: columns and keys stay as they are. Invariant: the version has the rows that the folded one answers with, bit by bit.

use std::path::Path;

use super::{Summary, Writer};
use crate::error::Error;
use crate::table::Table;

/// Writes a version that has all rows of `table`, merged with its deltas, and is no delta itself.
///
/// # Errors
/// As [`Writer::create`] and [`Writer::finish`]; [`Error::Damaged`], because `table` is read whole.
pub fn compact(
    table: &Table,
    table_dir: &Path,
    version: u64,
    shards: u32,
    memory_bytes: usize,
) -> Result<Summary, Error> {
    table.verify()?;
    let writer = Writer::create(table_dir, table.name(), version, table.schema().clone(), shards)?;
    let mut writer = writer
        .source(format!("versions {:?}", table.chain()))
        .node(table.node().cloned())
        .oldest_base(table.oldest_base())
        .memory_bytes(memory_bytes);
    // What its deltas have of an overlay, it has.
    if let Some(folded) = table.folded() {
        writer = writer.folded(folded);
    }
    let mut rows = 0_u64;
    table.each_row(&mut |key, row| {
        rows += 1;
        writer.push_stored(key, row)
    })?;
    table.check_whole()?;
    if rows != table.rows() {
        return Err(table.miscounted(rows));
    }
    writer.finish()
}
