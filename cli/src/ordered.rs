//! `millpond ordered`: what can be done with a store's folder beside serving it, and which server leads it.
//!
//! The work is the engine's. Its invariant: no file of a store is changed but by `load`, and that only where no server has it; the store's own
//! lock sees to that. `promote` asks a server.

mod copies;
mod dump;
mod load;
mod promote;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use millpond_engines_ordered::{Progress, offline};
use std::path::{Path, PathBuf};

/// What to do with an ordered store's folder.
#[derive(Subcommand)]
pub(crate) enum Ordered {
    /// Write all entries to standard output, one JSON object a line; `load` reads them.
    Dump(dump::Dump),
    /// Load entries from JSON lines, as `dump` writes them or as text, into a store that no server has open.
    Load(load::Load),
    /// Read all of a store that no server has open, or of a backup, and say what is there or what is damaged.
    Verify(Verify),
    /// Copy a store while a server writes it, and verify the copy.
    Backup(copies::Backup),
    /// Make a store of a backup.
    Restore(copies::Restore),
    /// Have a running server's store, which follows another server's, take writes.
    Promote(promote::Promote),
}

const VERIFY_EXAMPLES: &str = "\
Checks each file whole: checksums, that records follow from each other, that their entries are within the limits, and \
that the log reaches what the checkpoint needs. It makes none of the log's changes, which takes the memory of the whole \
store: that a list was there to append to shows at a start, or in `millpond ordered dump DIR > /dev/null`, alone. \
Changes nothing. Ends with 1 where a file is damaged, or one is missing that a start of the server reads.

Examples:
  millpond ordered verify store
  millpond ordered verify backups/monday";

/// Reads all of a store.
#[derive(Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(crate) struct Verify {
    /// The store's folder (ordered.NAME.path of the configuration), or a backup.
    dir: PathBuf,
}

pub(crate) fn run(ordered: &Ordered) -> anyhow::Result<()> {
    match ordered {
        Ordered::Dump(dump) => dump::run(dump),
        Ordered::Load(load) => load::run(load),
        Ordered::Verify(verify) => run_verify(verify),
        Ordered::Backup(backup) => copies::run_backup(backup),
        Ordered::Restore(restore) => copies::run_restore(restore),
        Ordered::Promote(promote) => promote::run(promote),
    }
}

fn run_verify(Verify { dir }: &Verify) -> anyhow::Result<()> {
    must_be_there(dir)?;
    let verified = offline::verify(dir, &mut progress).context("ordered.verify")?;
    crate::print(&verified.to_string());
    if !verified.damaged.is_empty() {
        bail!(
            "ordered.verify: {}: damaged, though a start does without what is",
            dir.display()
        );
    }
    Ok(())
}

/// Says how far a long reading is.
fn progress(progress: &Progress) {
    eprintln!("{progress}");
}

fn must_be_there(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() {
        bail!(
            "{}: no such folder; name a store's folder (ordered.NAME.path)",
            dir.display()
        );
    }
    Ok(())
}
