//! Builds feature tables from files of keys and numbers, or of random rows.
//!
//! Input is Parquet, Arrow IPC, CSV, JSON lines or NPY (`input` lists the formats). Not a converter of anything else: a row that a table
//! cannot hold is an error with its place. The one invariant: a version appears whole, or not at all.
//!
//! ```
//! use millpond_engines_features_build::{BuildOptions, build, verify};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let input = dir.path().join("films.csv");
//! std::fs::write(&input, "key,x,y\n7,1.0,2.0\n8,3.0,4.0\n")?;
//!
//! let mut options = BuildOptions::new(dir.path().join("tables"), "films");
//! options.inputs = vec![input.display().to_string()];
//! let summary = build(&options, &mut |progress| eprintln!("{progress}"))?;
//! assert_eq!((summary.version, summary.rows, summary.dim), (1, 2, 2));
//! println!("{}", verify(&summary.path)?);
//! # Ok(())
//! # }
//! ```

mod build;
mod diff;
mod error;
mod export;
mod fold;
mod held;
mod input;
mod inspect;
pub mod notation;
mod random;

use std::path::Path;

use millpond_engines_features as features;
use millpond_engines_features::Table;

pub use build::{Base, BuildOptions, ColumnOptions, Progress, build};
pub use diff::{Changes, Difference, diff};
pub use error::{Error, Place, Problem};
pub use export::{Exported, export};
pub use fold::fold;
pub use held::Held;
pub use input::{Format, Given, Source, Stream};
pub use inspect::{Inspection, inspect, verify};
pub use millpond_engines_features::write::{Abandoned, Duplicates, MEMORY_BYTES, Summary, remove_abandoned};
pub use millpond_engines_features::{
    Active, CheckedLayers, Described, Fold, FoldVersion, Folded, Hidden, Keys, Lost, NodeShare, NotFinite,
    Numbers, ShardInfo, check_opens, describe_versions, version_at_start,
};
pub use random::{RandomOptions, random};

/// Writes a version that has all rows of another, the highest unless `of` says which, and is no delta.
///
/// # Errors
/// [`Error::Table`] as the engine says it.
pub fn compact(
    table_dir: &Path,
    of: Option<u64>,
    version: Option<u64>,
    shards: u32,
    memory_bytes: usize,
) -> Result<Summary, Error> {
    let table = Table::open_version(table_dir, of)?;
    let version = version.map_or_else(|| next_version(table_dir), Ok)?;
    let folded = features::write::compact(&table, table_dir, version, shards, memory_bytes);
    Ok(folded?)
}

/// Says that a start is to serve another version, the highest when left out, once its files were looked at as a start opens them.
///
/// # Errors
/// [`Error::Table`] as the engine says it; nothing has changed then.
pub fn activate_at_start(table_dir: &Path, version: Option<u64>) -> Result<Active, Error> {
    let highest = || features::versions(table_dir).map(|there| there.last().copied());
    if let Some(version) = version.map_or_else(highest, |version| Ok(Some(version)))? {
        check_before_switch(table_dir, version)?;
    }
    Ok(features::activate_at_start(table_dir, version)?)
}

/// Says that a start is to serve what was served before the last switch, once its files were looked at as a start opens them.
///
/// # Errors
/// [`Error::Table`] as the engine says it; nothing has changed then.
pub fn roll_back_at_start(table_dir: &Path) -> Result<Active, Error> {
    if let Some(before) = Active::read(table_dir)?.and_then(|active| active.before) {
        check_before_switch(table_dir, before)?;
    }
    Ok(features::roll_back_at_start(table_dir)?)
}

/// Deletes a version that neither a delta nor a start needs. Returns the folded upserts that went with it, if any did: whether a log
/// still has them is not looked at, as of [`hidden_at_start`].
///
/// # Errors
/// [`Error::Table`] as the engine says it, and [`features::Error::LosesUpserts`] unless `lose_upserts`; nothing is deleted then.
pub fn delete_at_start(table_dir: &Path, version: u64, lose_upserts: bool) -> Result<Option<Lost>, Error> {
    let highest = features::versions(table_dir)?.last().copied().unwrap_or_default();
    let (starts, served_max) =
        Active::read(table_dir)?.map_or((highest, highest), |active| (active.version, active.highest));
    // That a start needs it is what is said first.
    let lost = features::lost_without(table_dir, version, None, served_max).filter(|_| version != starts);
    if let Some(lost) = lost.filter(|_| !lose_upserts) {
        return Err(features::Error::LosesUpserts(lost).into());
    }
    features::delete_at_start(table_dir, version)?;
    Ok(lost)
}

/// Where it cannot be looked at for want of files or memory, that is no reason against the version.
fn check_before_switch(table_dir: &Path, version: u64) -> Result<(), Error> {
    match check_opens(table_dir, version) {
        Err(error) if !error.is_out_of_resources() => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a start would not show of the upserts that were folded into other versions, if anything. Whether a log still has them is not
/// looked at: a server that served the version since may have taken them out.
///
/// # Errors
/// [`Error::Table`] as the engine says it.
pub fn hidden_at_start(table_dir: &Path) -> Result<Option<Hidden>, Error> {
    let version = version_at_start(table_dir)?;
    let served_max = Active::read(table_dir)?.map_or(version, |active| active.highest);
    Ok(features::hidden_by_version(table_dir, version, served_max)?)
}

fn next_version(table_dir: &Path) -> Result<u64, Error> {
    match features::versions(table_dir) {
        Ok(versions) => versions
            .last()
            .and_then(|version| version.checked_add(1))
            .ok_or_else(|| Error::NoNextVersion {
                path: table_dir.to_path_buf(),
            }),
        Err(features::Error::NoVersions { .. }) => Ok(1),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    /// Its length and its header are as they were: a start reads files of format 1 whole, and finds it.
    #[test]
    fn a_damaged_version_of_format_1_is_not_made_active() {
        let dir = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format1/films/00000001");
        let version = features::version_dir(dir.path(), 1);
        fs::create_dir(&version).unwrap();
        for name in ["manifest.json", "shard-00000.mpf", "shard-00001.mpf"] {
            fs::copy(source.join(name), version.join(name)).unwrap();
        }
        let schema = features::Schema::floats(3);
        let next = features::write::Writer::create(dir.path(), "films", 2, schema, 1).unwrap();
        next.finish().unwrap();
        for version in [1, 2] {
            assert_eq!(
                activate_at_start(dir.path(), Some(version)).unwrap().version,
                version
            );
        }
        let shard = version.join("shard-00001.mpf");
        let mut bytes = fs::read(&shard).unwrap();
        bytes[500] ^= 1;
        fs::write(&shard, bytes).unwrap();
        let refused = |outcome: Result<Active, Error>| {
            let error = outcome.unwrap_err().to_string();
            assert!(
                error.contains("shard-00001.mpf is damaged: checksum of "),
                "{error}"
            );
            assert_eq!(Active::read(dir.path()).unwrap().unwrap().version, 2);
        };
        refused(activate_at_start(dir.path(), Some(1)));
        refused(roll_back_at_start(dir.path()));
        // A listing reads no table whole.
        CheckedLayers::default().check(dir.path(), 1).unwrap();
    }
}
