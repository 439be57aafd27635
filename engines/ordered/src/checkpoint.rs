//! Checkpoints: what the log's beginning has left, in a file that stands in its place.
//!
//! `bytes` is the format, `write` makes a file while writers go on, `read` brings one back, and `keeper` says when. Invariant: a file of a
//! checkpoint's name is whole and durable before anything that it stands for is given up.

pub(crate) mod bytes;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod read;
mod write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::record::FORMAT;
pub(crate) use write::remove_before;

/// A checkpoint that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its file.
    pub file: PathBuf,
    /// Records of the log from this one on are still needed.
    pub sequence: u64,
    /// The last record that may show in it.
    pub last_sequence: u64,
    /// Entries in it.
    pub entries: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// The checkpoint that begins with this sequence.
pub(crate) fn path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("checkpoint-{sequence:020}.mpc"))
}

/// Bytes that stay free for the log beside a checkpoint.
const ROOM_BYTES: u64 = 64 << 20;

/// Whether so many bytes, and room for the log beside them, are free; where the system does not say, they are.
///
/// # Errors
/// They are not: a file that fills the disk would have the store's writes fail meanwhile.
pub(crate) fn look_for_room(dir: &Path, needed: u64) -> io::Result<()> {
    let Ok(found) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let needed = needed.saturating_add(ROOM_BYTES);
    if free >= needed {
        return Ok(());
    }
    let found = format!("about {needed} bytes are needed, with room for the log, and {free} are free");
    Err(io::Error::new(io::ErrorKind::StorageFull, found))
}

/// Syncs one that was found: the process that made it may not have, as where a folder was copied, and what it stands for is removed.
pub(crate) fn sync(file: &Path) -> Result<(), Error> {
    let synced = File::open(file).and_then(|file| file.sync_all());
    synced.map_err(|source| Error::Read {
        file: file.to_owned(),
        action: "sync the checkpoint",
        source,
    })
}

/// The same while it is written.
fn unfinished_path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("checkpoint-{sequence:020}.mpc.unfinished"))
}

/// What a folder has of checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The sequences of those that were finished, descending.
    pub finished: Vec<u64>,
    /// The files of those that were not.
    pub unfinished: Vec<PathBuf>,
}

impl Files {
    pub fn list(dir: &Path) -> Result<Files, Error> {
        let failed = |source: io::Error| Error::Folder {
            keeper: FORMAT.keeper,
            dir: dir.to_owned(),
            action: "list the folder",
            source,
        };
        let mut files = Files::default();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            match name.strip_suffix(".unfinished") {
                None => files.finished.extend(sequence_of(name)),
                Some(of) if sequence_of(of).is_some() => files.unfinished.push(dir.join(name)),
                Some(_) => {}
            }
        }
        files.finished.sort_unstable_by(|one, other| other.cmp(one));
        Ok(files)
    }
}

fn sequence_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("checkpoint-")?.strip_suffix(".mpc")?;
    let all_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}
