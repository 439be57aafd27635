//! Copies of a folder: of one that a server writes, and back.
//!
//! Checkpoints never change once they have their names, segments only grow. Invariant: the copy has all checkpoints and segments there
//! were, and is verified before it gets its name.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use millpond_wal::{TornTail, segment_path, segments};

use super::{Kept, Verified, folder_error, verify_kept};
use crate::Error;
use crate::checkpoint::{Files, path};
use crate::record::FORMAT;
use crate::recover::Report;
use crate::replication::Note;

/// How often a copy is begun anew because a checkpoint has removed files meanwhile.
const TRIES: usize = 10;

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// What it has.
    pub verified: Verified,
    /// Its files.
    pub files: usize,
    /// Whether its checkpoint is the same file as the store's, by another name.
    pub is_linked: bool,
}

/// Copies a folder that a server may write meanwhile to `to`, which must not be there yet or be empty. With `link` a checkpoint becomes another name of the
/// same file where the file system can.
///
/// # Errors
/// The folder cannot be read or written, or is damaged. What was copied is removed.
pub fn backup(dir: &Path, to: &Path, link: bool, report: Report<'_>) -> Result<Copied, Error> {
    let unfinished = begin(to)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let copied = copy_files(dir, &unfinished, link).and_then(|(files, is_linked)| {
            cut_torn_tail(&unfinished, report)?;
            Ok((files, is_linked))
        });
        let is_again = match &copied {
            Err(error) => tries < TRIES && (is_gone(error) || has_moved(dir, &unfinished)),
            Ok(_) => false,
        };
        if is_again {
            fs::remove_dir_all(&unfinished)
                .and_then(|()| fs::create_dir(&unfinished))
                .map_err(|source| folder_error(&unfinished, "clear the folder", source))?;
            continue;
        }
        // The copy has the store's bytes, and is gone.
        return finish(copied, (&unfinished, to), report).map_err(|error| moved(error, &unfinished, dir));
    }
}

/// Copies a backup to `to`, a store's folder that must not be there yet or be empty.
///
/// # Errors
/// The backup is damaged or cannot be read, or the folder cannot be written. What was copied is removed.
pub fn restore(backup: &Path, to: &Path, report: Report<'_>) -> Result<Copied, Error> {
    let _kept = Kept::of(backup)?;
    let source = verify_kept(backup, report)?;
    let unfinished = begin(to)?;
    let copied = copy_files(backup, &unfinished, false);
    let restored = finish(copied, (&unfinished, to), report)?;
    debug_assert_eq!(restored.verified.last_sequence, source.last_sequence);
    Ok(restored)
}

/// Makes the folder that the copy is made in.
fn begin(to: &Path) -> Result<PathBuf, Error> {
    let failed = |source| folder_error(to, "make the folder of the copy", source);
    match fs::read_dir(to).map(Iterator::count) {
        Ok(1..) => {
            let full = io::Error::new(io::ErrorKind::DirectoryNotEmpty, "it is there and not empty");
            return Err(failed(full));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    let unfinished = to.with_file_name(name);
    fs::create_dir(&unfinished).map_err(|source| {
        let source = match source.kind() {
            io::ErrorKind::AlreadyExists => io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                "a copy that was broken off has left it",
            ),
            _ => source,
        };
        folder_error(&unfinished, "make the folder", source)
    })?;
    Ok(unfinished)
}

/// Verifies the copy, brings it to the disk, and gives it its name; or removes it.
fn finish(
    copied: Result<(usize, bool), Error>,
    (unfinished, to): (&Path, &Path),
    report: Report<'_>,
) -> Result<Copied, Error> {
    let finished = copied.and_then(|(files, is_linked)| {
        let verified = verify_kept(unfinished, report)?;
        // What it is copied from may go on, and so may others that follow that.
        let noted = Note::Copied.write(unfinished, "");
        noted.map_err(|source| folder_error(unfinished, "note in it that it is a copy", source))?;
        sync(unfinished).map_err(|source| folder_error(unfinished, "sync the copy", source))?;
        // An empty folder is in the way of some systems' rename.
        match fs::remove_dir(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(unfinished, to),
        }
        .and_then(|()| sync_parent(to))
        .map_err(|source| folder_error(to, "give the copy its name", source))?;
        let renamed = |file: &mut PathBuf| {
            if let Some(name) = file.file_name() {
                *file = to.join(name);
            }
        };
        let mut verified = verified;
        if let Some(found) = &mut verified.checkpoint {
            renamed(&mut found.file);
        }
        if let Some(torn) = &mut verified.torn_tail {
            renamed(&mut torn.file);
        }
        verified.superfluous.iter_mut().for_each(renamed);
        let (made, named) = (unfinished.display().to_string(), to.display().to_string());
        for damaged in &mut verified.damaged {
            *damaged = damaged.replacen(&made, &named, 1);
        }
        Ok(Copied {
            verified,
            files,
            is_linked,
        })
    });
    if finished.is_err() {
        let _ = fs::remove_dir_all(unfinished);
    }
    finished
}

/// What is wrong with a file of one folder, said of the file of the same name in another.
fn moved(mut error: Error, from: &Path, to: &Path) -> Error {
    if let Error::Header { file, .. }
    | Error::Damaged { file, .. }
    | Error::Gap { file, .. }
    | Error::History { file, .. }
    | Error::Checkpoint { file, .. }
    | Error::Unsupported { file, .. } = &mut error
        && let Ok(name) = file.strip_prefix(from)
    {
        *file = to.join(name);
    }
    error
}

fn sync(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(dir)?.sync_all()
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    let real = dir.canonicalize()?;
    real.parent()
        .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Copies what a start reads: how many files, and whether the checkpoint is the same file.
fn copy_files(from: &Path, to: &Path, link: bool) -> Result<(usize, bool), Error> {
    // Checkpoints first: the segments that are there behind this reach what the newest needs, or the first of them is gone. Most often it
    // is alone; what is before it is what a start falls back to where it is damaged.
    let finished = Files::list(from)?.finished;
    let all = segments(&FORMAT, from)?;
    let mut is_linked = link && !finished.is_empty();
    for sequence in &finished {
        let (source, target) = (path(from, *sequence), path(to, *sequence));
        let is_same = link && fs::hard_link(&source, &target).is_ok();
        if !is_same {
            copy_file(&source, &target)?;
        }
        is_linked &= is_same;
    }
    for first in &all {
        copy_file(&segment_path(from, *first), &segment_path(to, *first))?;
    }
    if let Some(last) = all.last() {
        copy_again(&segment_path(from, *last), &segment_path(to, *last))?;
    }
    Ok((finished.len() + all.len(), is_linked))
}

/// Copies what was written of a segment when it was copied first once more, and that alone. A group is written when the one before is
/// whole, so only the last one can be in parts now; before, the copy may have missed a group and met the next.
fn copy_again(from: &Path, to: &Path) -> Result<(), Error> {
    let copied = || {
        let (length, written) = (fs::metadata(to)?.len(), written_bytes(to)?);
        let mut target = File::options().write(true).truncate(true).open(to)?;
        let source = File::open(from)?;
        io::copy(&mut source.take(written), &mut target)?;
        // The zeros behind that may be the last record's own; a start takes others for room that was reserved.
        target.set_len(length)
    };
    copied().map_err(|source| copy_error(from, to, &source))
}

/// Bytes of a file without the zeros at its end.
fn written_bytes(file: &Path) -> io::Result<u64> {
    const CHUNK: u64 = 1 << 20;
    let mut opened = File::open(file)?;
    let (mut end, mut chunk) = (opened.metadata()?.len(), Vec::new());
    while end > 0 {
        let begin = end.saturating_sub(CHUNK);
        chunk.clear();
        opened.seek(SeekFrom::Start(begin))?;
        (&mut opened).take(end - begin).read_to_end(&mut chunk)?;
        if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    let copied = fs::copy(from, to).map(drop);
    copied.map_err(|source| copy_error(from, to, &source))
}

/// Names both files: the system does not say which of them failed.
fn copy_error(from: &Path, to: &Path, source: &io::Error) -> Error {
    Error::Read {
        file: from.to_owned(),
        action: "copy the file",
        source: io::Error::new(source.kind(), format!("to {}: {source}", to.display())),
    }
}

/// Cuts the copy of the segment that was being written behind its last whole record.
fn cut_torn_tail(copy: &Path, report: Report<'_>) -> Result<(), Error> {
    let Some(TornTail { file, offset, .. }) = verify_kept(copy, report)?.torn_tail else {
        return Ok(());
    };
    let cut = match offset {
        // Its header had not come.
        0 => fs::remove_file(&file),
        _ => File::options()
            .write(true)
            .open(&file)
            .and_then(|opened| opened.set_len(offset)),
    };
    cut.map_err(|source| folder_error(copy, "cut the copy behind its last record", source))
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Whether the store has a checkpoint that the copy was begun without, so that files of the copy may be missing.
fn has_moved(dir: &Path, copy: &Path) -> bool {
    let newest = |dir| {
        Files::list(dir)
            .ok()
            .and_then(|files| files.finished.first().copied())
    };
    newest(dir) != newest(copy)
}
