//! `millpond ordered backup` and `restore`.

use anyhow::Context as _;
use clap::Args;
use millpond_engines_ordered::offline::{self, Copied};
use std::path::{Path, PathBuf};
use std::time::Instant;

const BACKUP_EXAMPLES: &str = "\
The server goes on meanwhile. The copy has every write that was acknowledged before the backup began, and perhaps some of those behind. \
It gets its name once it was read again and found sound. A checkpoint becomes a second name of the same file where DEST is on the same \
file system: copy DEST to another disk, or use --copy.

Examples:
  millpond ordered backup store backups/monday
  millpond ordered backup --copy store /mnt/other/monday";

/// Copies a store.
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct Backup {
    /// The store's folder (ordered.NAME.path of the configuration).
    dir: PathBuf,
    /// The folder of the copy: made, and must not be there yet or be empty.
    dest: PathBuf,
    /// Copies the checkpoint too where it could be a second name of the same file.
    #[arg(long)]
    copy: bool,
}

const RESTORE_EXAMPLES: &str = "\
The backup is verified before anything is written, and the copy behind that. A store that is there is never written over: move it away first.

Examples:
  millpond ordered restore backups/monday store";

/// Makes a store of a backup.
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// What `backup` made.
    backup: PathBuf,
    /// The store's folder: made, and must not be there yet or be empty.
    dir: PathBuf,
}

pub(crate) fn run_backup(Backup { dir, dest, copy }: &Backup) -> anyhow::Result<()> {
    super::must_be_there(dir)?;
    let began = Instant::now();
    let copied = offline::backup(dir, dest, !copy, &mut super::progress).context("ordered.backup")?;
    said("backed up", dest, &copied, began);
    Ok(())
}

pub(crate) fn run_restore(Restore { backup, dir }: &Restore) -> anyhow::Result<()> {
    super::must_be_there(backup)?;
    let began = Instant::now();
    let copied = offline::restore(backup, dir, &mut super::progress).context("ordered.restore")?;
    said("restored", dir, &copied, began);
    Ok(())
}

fn said(what: &str, to: &Path, copied: &Copied, began: Instant) {
    let linked = if copied.is_linked {
        " (the checkpoint is the same file as the store's)"
    } else {
        ""
    };
    crate::print(&format!(
        "{what} to {} up to record {}: {} files{linked} in {:.1} s\n{}",
        to.display(),
        copied.verified.last_sequence,
        copied.files,
        began.elapsed().as_secs_f64(),
        copied.verified
    ));
}
