//! Files of a copy beside a store's own, and their way into its place.
//!
//! A file that is copied has its later name and `.copy` behind it. Once all of them are on the disk, the file `installing` says so; from
//! then on they take the place of what is there, by this process or the next. Invariant: until `installing` is there the store is what it
//! was, and from then on it is the copy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millpond_wal::{Disk, LogFile, write_all};

use crate::Error;
use crate::checkpoint::remove_before;
use crate::error::folder_error;

const SUFFIX: &str = ".copy";
const NOTE: &str = "installing";

/// A file's name while it is copied.
pub(super) fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// Writes files under the names that they have while they are copied.
pub(super) struct Aside(pub Arc<dyn Disk>);

impl Disk for Aside {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.0.create(&aside(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.0.open(&aside(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(&aside(from), &aside(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(&aside(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
}

/// The files of a copy, ascending: those of the checkpoint first.
fn copied(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = |source| folder_error(dir, "list the folder", source);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(listed)? {
        let path = entry.map_err(listed)?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_ours = name.starts_with("checkpoint-") || name.starts_with("log-");
        if is_ours && name.ends_with(SUFFIX) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn remove(disk: &dyn Disk, file: &Path) -> io::Result<()> {
    match disk.remove(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what is left of a copy that was broken off.
///
/// # Errors
/// The folder cannot be written, or holds a copy that is to take the store's place at its next start.
pub(super) fn clear(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let failed = |source| folder_error(dir, "remove what is left of a copy in it", source);
    if is_installing(dir).map_err(failed)? {
        let source = io::Error::other("a copy of the leader's is being installed; start the store again");
        return Err(failed(source));
    }
    let unfinished = dir.join(NOTE).with_extension("unfinished");
    let unfinished = unfinished.try_exists().map_err(failed)?.then_some(unfinished);
    for file in copied(dir)?.into_iter().chain(unfinished) {
        remove(disk, &file).map_err(failed)?;
    }
    Ok(())
}

/// Whether a copy is to take the store's place, or has in part.
pub(crate) fn is_installing(dir: &Path) -> io::Result<bool> {
    dir.join(NOTE).try_exists()
}

/// Lets the copy with the checkpoint of that sequence, all of it on the disk, be what the store is from here on. Nothing has taken the store's place
/// yet.
///
/// # Errors
/// What failed; whether it is so may be unknown then.
pub(super) fn commit(disk: &dyn Disk, dir: &Path, sequence: u64) -> Result<(), Error> {
    let (note, failed) = (dir.join(NOTE), |source| {
        folder_error(dir, "note in it that a copy takes its place", source)
    });
    let unfinished = note.with_extension("unfinished");
    remove(disk, &unfinished).map_err(failed)?;
    let file = disk.create(&unfinished).map_err(failed)?;
    let written = write_all(&*file, format!("{sequence}\n").as_bytes(), 0);
    written.and_then(|()| file.sync()).map_err(failed)?;
    disk.rename(&unfinished, &note).map_err(failed)?;
    disk.sync_dir(dir).map_err(failed)
}

/// Takes that back: whether the store is what it was, for good.
pub(super) fn take_back(disk: &dyn Disk, dir: &Path) -> bool {
    let removed = remove(disk, &dir.join(NOTE));
    removed.and_then(|()| disk.sync_dir(dir)).is_ok()
}

/// Puts a copy in the store's place if that was begun, and removes what is left of one otherwise: for whoever opens the folder.
///
/// # Errors
/// The folder cannot be read or written; the next start goes on.
pub(crate) fn settle(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let looked = is_installing(dir);
    match looked.map_err(|source| folder_error(dir, "look for its file \"installing\"", source))? {
        true => install(disk, dir),
        false => {
            if let Err(error) = clear(disk, dir) {
                tracing::warn!(%error, "what is left of a broken-off copy stays until the next start");
            }
            Ok(())
        }
    }
}

/// Gives the files of the copy their names, and removes those that they stand for.
///
/// # Errors
/// As [`settle`].
pub(super) fn install(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let failed = |source| folder_error(dir, "put a copy in its place", source);
    let note = dir.join(NOTE);
    let text = std::fs::read_to_string(&note).map_err(failed)?;
    let sequence = text.trim().parse().map_err(|_| {
        let found = format!(
            "its file \"installing\" holds {:?}",
            text.chars().take(32).collect::<String>()
        );
        failed(io::Error::new(io::ErrorKind::InvalidData, found))
    })?;
    for file in copied(dir)? {
        disk.rename(&file, &file.with_extension("")).map_err(failed)?;
    }
    disk.sync_dir(dir).map_err(failed)?;
    remove_before(disk, dir, sequence)?;
    remove(disk, &note).map_err(failed)?;
    disk.sync_dir(dir).map_err(failed)
}
