//! Deletions of versions: what keeps one, and what goes with it.
//!
//! It deletes nothing. Its invariant: a version that serves, is held or is in the configuration stays; and so does one that alone has
//! folded upserts, unless the caller says that they may go.

use super::{Refusal, Step, fixed};
use crate::Shared;
use millpond_catalog::Catalog;
use millpond_engines_features as features;
use millpond_wire_schema::Code;

/// What a call for it comes to. Upserts are why a version stays only where nothing else keeps it ([`check_unused`]).
pub(super) fn plan(
    shared: &Shared,
    catalog: &Catalog,
    table: &str,
    version: u64,
    lose_upserts: bool,
) -> Result<Step, Refusal> {
    if fixed(shared, table) == Some(version) {
        let ex =
            format!("version {version} is the one that features.{table}.version of the configuration names");
        return Err(Refusal::new(Code::Conflict, ex));
    }
    let lost = catalog.lost_without(table, version);
    Ok(match lost.filter(|_| !lose_upserts) {
        Some(lost) => Step::Delete {
            kept: Some(Box::new(Refusal::from(&features::Error::LosesUpserts(lost)))),
            lost: None,
        },
        None => Step::Delete {
            kept: None,
            lost: lost.map(|lost| lost.deleted()),
        },
    })
}

/// Whether a version is open nowhere in this process.
pub(super) fn check_unused(catalog: &Catalog, table: &str, version: u64) -> Result<(), Refusal> {
    let ex = match catalog.versions(table).position(|open| open.version() == version) {
        None => return Ok(()),
        Some(0) => {
            format!(
                "version {version} of table {table:?} serves; activate another version, then delete this one"
            )
        }
        Some(_) => format!(
            "version {version} of table {table:?} served before and is kept open (features.{table}.versions_held), so it cannot be \
             deleted yet; later switches let it go"
        ),
    };
    Err(Refusal::new(Code::Conflict, ex))
}
