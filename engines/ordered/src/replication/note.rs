//! Files beside the log that say what it does not: why a store may not lead as it is, and where epochs ended. They outlive it, so that its next start
//! knows too.
//!
//! | file | what it says | until |
//! |---|---|---|
//! | `fenced` | another store leads, in the epoch that is written there | the log's epoch is no lower, or it is promoted |
//! | `follows` | its records are another store's | it is promoted |
//! | `open` | in which run of the system it was opened, with durability "logged" | it is closed in order |
//! | `epochs` | with which record the latest epochs before the log's ended (`ends`) | the folder goes |
//! | `copied` | it is a copy: what it was copied from, and that one's followers, may have gone on | it has begun an epoch of its own |
//!
//! Invariant: each is whole or not there.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::folder_error;

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    Fenced,
    Follows,
    Copied,
    Open,
    Epochs,
}

impl Note {
    fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Note::Fenced => "fenced",
            Note::Follows => "follows",
            Note::Copied => "copied",
            Note::Open => "open",
            Note::Epochs => "epochs",
        })
    }

    pub fn is_in(self, dir: &Path) -> io::Result<bool> {
        self.path(dir).try_exists()
    }

    /// What it says, where it is there.
    pub fn read(self, dir: &Path) -> io::Result<Option<String>> {
        match fs::read(self.path(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // A byte that is no text makes none of the rest void.
            read => read.map(|bytes| Some(String::from_utf8_lossy(&bytes).into_owned())),
        }
    }

    /// Writes it, durably.
    pub fn write(self, dir: &Path, text: &str) -> io::Result<()> {
        let path = self.path(dir);
        let unfinished = path.with_extension("unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        File::open(dir)?.sync_all()
    }

    /// Removes it, durably, where it is there.
    pub fn remove(self, dir: &Path) -> io::Result<()> {
        match fs::remove_file(self.path(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| File::open(dir)?.sync_all()),
        }
    }
}

/// What the system calls its run since it was booted; nothing where it does not say.
pub fn run_of_system() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Whether a log that is not synced group by group may have lost its last records since it was opened before: it was not closed in order, and
/// the system has not run on.
pub fn may_have_lost(dir: &Path) -> io::Result<bool> {
    let run = run_of_system();
    let before = Note::Open.read(dir)?;
    Ok(before.is_some_and(|before| run.is_empty() || before != run))
}

/// The epoch of the store that leads, where it was noted.
pub fn fenced(dir: &Path) -> Result<Option<u64>, Error> {
    let read = Note::Fenced.read(dir);
    let Some(text) = read.map_err(|source| folder_error(dir, "read its file \"fenced\"", source))? else {
        return Ok(None);
    };
    let epoch = text.trim().parse().map_err(|_| {
        let found = format!("found {:?}", text.chars().take(32).collect::<String>());
        let source = io::Error::new(io::ErrorKind::InvalidData, found);
        let action =
            "read an epoch in its file \"fenced\"; remove the file if no other server leads the store:";
        folder_error(dir, action, source)
    })?;
    Ok(Some(epoch))
}
