//! `millpond features fold`: writes what was upserted to a table as its next version.
//! Its invariant: neither the log nor a server changes; switching to the version is what gives the log's space back.

use super::held::Share;
use clap::Args;
use millpond_engines_features_build::{Fold as Wanted, FoldVersion, fold};
use std::path::{Path, PathBuf};

/// Writes what the log of a table's overlay holds as the next version, a delta on the active one. A server may run meanwhile: its last
/// upserts, which may still fail, are left to the next fold then. Activate the version to have the overlay give up what is in it. Where the
/// log has nothing new, or an earlier fold's version has it already, none is written. The last line says of how many keys the log has more.
///
/// Upserts over nodes are folded by their time: fold on all nodes with the same --before-ms, then activate on all.
#[derive(Args)]
pub(crate) struct Fold {
    /// The table's folder.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// The folder of the overlay's log, as features.NAME.overlay.path names it; the log of another table is refused.
    #[arg(long, value_name = "DIR")]
    log: PathBuf,
    /// Fold up to this sequence; all that was acknowledged for certain when left out.
    #[arg(long)]
    sequence: Option<u64>,
    /// Over nodes: fold what was upserted before this time, in milliseconds of Unix time. Give all nodes of a table the same. As far as
    /// all replicas have it when left out.
    #[arg(long, value_name = "MS", conflicts_with = "sequence")]
    before_ms: Option<u64>,
    /// The version folded onto was built from other nodes' versions that are folded up to --before-ms: say so, and fold nothing of the
    /// log.
    #[arg(long, requires = "before_ms")]
    rebuilt: bool,
    /// Leave out rows that are older, as features.NAME.overlay.ttl_ms says; what is folded does not grow old any more.
    #[arg(long, value_name = "MS")]
    ttl_ms: Option<u64>,
    /// The version to fold onto; the active one when left out.
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
    #[command(flatten)]
    share: Share,
    /// Files to spread the rows over.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: u32,
}

/// What was written, for people.
pub(crate) fn folded(arguments: Fold) -> anyhow::Result<String> {
    super::clear_abandoned(&arguments.table);
    let held = arguments.share.held()?;
    let wanted = Wanted {
        log: &arguments.log,
        sequence: arguments.sequence,
        before_ms: arguments.before_ms,
        is_rebuilt: arguments.rebuilt,
        ttl_ms: arguments.ttl_ms,
        shards: arguments.shards,
    };
    let done = fold(&arguments.table, arguments.base, &wanted, held.as_ref())?;
    Ok(match done {
        FoldVersion::Written {
            summary,
            folded,
            keys_left,
        } => {
            let so_far = match folded.before_ms {
                0 => format!("folded up to sequence {}", folded.sequence),
                before_ms => format!("folded what was upserted before {before_ms} ms of Unix time"),
            };
            format!("{summary}\n{so_far}; {}", left(keys_left))
        }
        FoldVersion::Had(version) => had(&arguments.table, version),
        FoldVersion::NothingNew {
            base,
            keys_left,
            is_past_limit: true,
        } => format!(
            "nothing to fold, and no version was written: version {base} has the log further than that already\n{}",
            left(keys_left)
        ),
        FoldVersion::NothingNew { base, keys_left, .. } => {
            let old = arguments.ttl_ms.map_or("", |_| " and is not older than --ttl-ms");
            let last = match keys_left {
                0 => "",
                _ => " (the last upsert stays in the log until another follows it or the server stops)",
            };
            format!(
                "nothing to fold, and no version was written: version {base} has all that can be folded{old}{last}\n{}",
                left(keys_left)
            )
        }
    })
}

fn left(keys: u64) -> String {
    match keys {
        0 => "nothing more is in the log".to_owned(),
        1 => "upserts of 1 key stay in the log for the next fold".to_owned(),
        keys => format!("upserts of {keys} keys stay in the log for the next fold"),
    }
}

fn had(table: &Path, version: u64) -> String {
    format!(
        "version {version} has all of it already that can be folded, and no version was written\nif it does not serve yet, activate it: millpond features activate {} {version} (on a running server: its name of the table, and \
         --server)",
        table.display()
    )
}
