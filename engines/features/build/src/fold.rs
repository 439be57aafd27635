//! A version of what was upserted to a table.
//!
//! It reads the overlay's log and writes a delta; what serves is not asked. Invariant: the version folded onto is the one that a
//! start serves, unless another is named.

use std::path::Path;
use std::sync::Arc;

use millpond_engines_features::{self as engine, Fold, FoldVersion, Table, version_at_start};

use crate::error::Error;
use crate::held::{self, Held};
use crate::next_version;

/// Writes what an overlay's log holds as the next version of a table, a delta on `base` (on the active version where it is left
/// out); nothing where that has all of it, or an earlier fold's that is the highest. `held` is the node whose keys the table has, where it has those of one alone.
///
/// # Errors
/// [`Error::Table`] as the engine says it, [`Error::Base`] where the version is for another node.
pub fn fold(
    table_dir: &Path,
    base: Option<u64>,
    wanted: &Fold<'_>,
    held: Option<&Held>,
) -> Result<FoldVersion, Error> {
    let base = match base {
        Some(base) => base,
        None => version_at_start(table_dir)?,
    };
    let table = Table::open_version(table_dir, Some(base))?;
    if let (None, Some(share)) = (held, table.node()) {
        return Err(Error::Base {
            path: table.path().to_path_buf(),
            problem: format!("it is for node {share}; say so with --map and --node"),
        });
    }
    held::check_base(held, &table)?;
    let version = next_version(table_dir)?;
    let holds = |key| held.is_none_or(|held| held.holds(key));
    Ok(engine::fold(Arc::new(table), table_dir, version, wanted, &holds)?)
}
