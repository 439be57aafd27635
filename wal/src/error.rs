//! What can go wrong with a log and its folder.
//!
//! Not why a single write is refused: the queue says that in [`crate::QueueError`], and its keeper in errors of its own. Invariant: every
//! message says what failed, where, and what to do about it.

use std::io;
use std::path::PathBuf;

/// A failure of the store itself: at opening, at writing its log, or at closing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's folder cannot be created, read or locked.
    #[error(
        "{keeper} {}: cannot {action}: {source}; {}",
        dir.display(),
        folder_hint(source)
    )]
    Folder {
        /// What keeps the log, as in [`crate::Format`].
        keeper: &'static str,
        /// The store's folder.
        dir: PathBuf,
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// Another process, or another `Store` of this one, has the folder open.
    #[error(
        "{keeper} {}: already open elsewhere (its file \"lock\" is held); {fix}",
        dir.display()
    )]
    Locked {
        /// What keeps the log, as in [`crate::Format`].
        keeper: &'static str,
        /// The store's folder.
        dir: PathBuf,
        /// What to do.
        fix: &'static str,
    },

    /// A folder was named for durability "memory", which keeps no log.
    #[error(
        "{keeper} {}: durability \"memory\" keeps no folder; choose \"logged\" or \"synced\", or open it in memory",
        dir.display()
    )]
    NoLogWanted {
        /// What keeps the log, as in [`crate::Format`].
        keeper: &'static str,
        /// The store's folder.
        dir: PathBuf,
    },

    /// A segment cannot be opened or read.
    #[error(
        "{}: cannot {action}: {source}; nothing was changed; check the disk and the file's permissions",
        file.display()
    )]
    Read {
        /// The segment.
        file: PathBuf,
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// A segment's header is damaged.
    #[error(
        "{}: bad segment header at offset 0: {found}; nothing was changed; restore the file from a copy",
        file.display()
    )]
    Header {
        /// The segment.
        file: PathBuf,
        /// What was found instead of a header.
        found: String,
    },

    /// A record is damaged, and it is not a torn tail.
    #[error(
        "{}: damaged record at offset {offset}: {found}; nothing was changed; restore the file from a copy, or, to give up this record and everything after it, copy the folder, remove the segments with higher numbers and run: truncate -s {offset} {}",
        file.display(), file.display()
    )]
    Damaged {
        /// The segment.
        file: PathBuf,
        /// Where the record begins, in bytes from the file's start.
        offset: u64,
        /// What was found there.
        found: String,
    },

    /// Part of the log is missing.
    #[error(
        "{}: log has a gap at offset {offset}: expected {what} {expected}, found {found}; nothing was changed; restore the missing segment from a copy",
        file.display()
    )]
    Gap {
        /// The segment that does not follow from what was read before.
        file: PathBuf,
        /// Where in the segment, in bytes.
        offset: u64,
        /// What is counted: "sequence" or "version".
        what: &'static str,
        /// The number that had to come.
        expected: u64,
        /// The number that came.
        found: u64,
    },

    /// A segment of another log than the one before it.
    #[error(
        "{}: its header says {found}, the files before it say {expected}; nothing was changed; it belongs to another copy of the log: put back the segment that follows",
        file.display()
    )]
    History {
        /// The segment.
        file: PathBuf,
        /// What went before.
        expected: String,
        /// What its header says.
        found: String,
    },

    /// What stands in place of the log's beginning cannot be used, and nothing else can.
    #[error("{}: {found}; nothing was changed; {fix}", file.display())]
    Checkpoint {
        /// The checkpoint.
        file: PathBuf,
        /// What is wrong.
        found: String,
        /// What to do.
        fix: &'static str,
    },

    /// A checkpoint cannot be written; the log goes on without.
    #[error("{}: cannot {action}: {source}; the log is kept whole; free space or repair the disk", file.display())]
    NoCheckpoint {
        /// The checkpoint.
        file: PathBuf,
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The log ended before a checkpoint was finished.
    #[error("the checkpoint was given up: {0}")]
    GivenUp(&'static str),

    /// A sound segment or record that this build cannot read.
    #[error(
        "{}: {what} {found} at offset {offset} is unknown to this build; nothing was changed; open the store with the newer Millpond that wrote it",
        file.display()
    )]
    Unsupported {
        /// The segment.
        file: PathBuf,
        /// Where in the segment, in bytes.
        offset: u64,
        /// "format" or "record kind".
        what: &'static str,
        /// The number found.
        found: u64,
    },

    /// Writing failed and was undone; the store goes on.
    #[error(
        "{}: cannot {action}: {source}; the write was undone; free space or repair the disk and try again",
        file.display()
    )]
    Write {
        /// The segment.
        file: PathBuf,
        /// What was attempted, as a verb phrase.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// Writing failed in a way that leaves the disk's content unknown; the store refuses all further writes.
    #[error(
        "{}: {reason}; the store is read-only from here on; repair the disk, then restart to recover from the log",
        file.display()
    )]
    ReadOnly {
        /// The segment.
        file: PathBuf,
        /// What failed, and what the system said.
        reason: String,
    },

    /// The sync at the close failed: the system may have kept in memory what it took.
    #[error(
        "{}: cannot sync the segment at the close: {source}; writes that were acknowledged since the last sync may be lost if the machine loses power; repair the disk before the next start",
        file.display()
    )]
    LastSync {
        /// The segment.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A segment that was found sound read differently when it was to be written to the disk once more.
    #[error(
        "{}: read twice, and not the same both times: the disk does not hold what memory held of it; open the store again, and check the disk",
        file.display()
    )]
    Unsteady {
        /// The segment.
        file: PathBuf,
    },

    /// The log thread cannot be started.
    #[error("cannot start the log thread: {0}; raise the limit of threads")]
    Thread(io::Error),

    /// The log thread ended by a panic; its message is on standard error.
    #[error("the log thread died; restart to recover from the log")]
    LogThreadDied,

    /// A close by a deadline gave up: the log thread still writes or syncs.
    #[error(
        "the log thread has not ended in time, in a write or a sync that hangs; what waited for it was not acknowledged; look at the disk"
    )]
    NotEnded,
}

fn folder_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "create the parent folder first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make the folder writable for this user or choose another"
        }
        io::ErrorKind::DirectoryNotEmpty => "move away what is there, or choose another folder",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way; choose another folder"
        }
        io::ErrorKind::InvalidInput => "name the folder of a store, as in ordered.NAME.path, or of a backup",
        _ => "check the disk and the folder's permissions",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(kind: io::ErrorKind, expected: &str) {
        let text = Error::Folder {
            keeper: "ordered store",
            dir: "/d".into(),
            action: "lock the folder",
            source: kind.into(),
        }
        .to_string();
        assert!(
            text.starts_with("ordered store /d: cannot lock the folder: "),
            "{text}"
        );
        assert!(text.ends_with(expected), "{text}");
    }

    // Those who run as root cannot be denied a folder, so the real thing is not tried.
    #[test]
    fn a_folder_that_fails_comes_with_a_hint() {
        check(io::ErrorKind::NotFound, "create the parent folder first");
        check(
            io::ErrorKind::PermissionDenied,
            "make the folder writable for this user or choose another",
        );
        check(
            io::ErrorKind::ReadOnlyFilesystem,
            "make the folder writable for this user or choose another",
        );
        check(
            io::ErrorKind::NotADirectory,
            "a file is in the way; choose another folder",
        );
        check(
            io::ErrorKind::Other,
            "check the disk and the folder's permissions",
        );
    }
}
