//! The folder in which a version is written, until it has its name.
//!
//! Knows nothing of what is in it. Invariant: a folder that was neither published nor kept goes when its writer does.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::table::Table;
use crate::versions::{folder, number};

/// A folder that is removed unless it is published or kept.
pub(super) struct Unfinished {
    pub(super) path: PathBuf,
    /// The table folder, when this writer made it.
    new_table_dir: Option<PathBuf>,
    published: bool,
    /// It is for a later writer.
    is_kept: bool,
}

impl Unfinished {
    pub(super) fn create(table_dir: &Path, version: u64, is_new: bool) -> Result<Unfinished, Error> {
        // Two writers of one version, in one process or in two, must not meet in one folder.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".{}.{}-{count}.unfinished", folder(version), process::id());
            let path = table_dir.join(name);
            match fs::create_dir(&path) {
                // In a container a process may have the number of one that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => break made.map_err(Error::io("make folder", &path)).map(|()| path)?,
            }
        };
        Ok(Unfinished {
            path,
            new_table_dir: is_new.then(|| table_dir.to_path_buf()),
            published: false,
            is_kept: false,
        })
    }

    /// Goes on in the folder that another writer left.
    pub(super) fn take_over(&mut self, left: PathBuf) -> Result<(), Error> {
        fs::remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))?;
        self.path = left;
        Ok(())
    }

    /// Stays when its writer goes.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn publish(&mut self, table_dir: &Path, version: u64) -> Result<PathBuf, Error> {
        let path = table_dir.join(folder(version));
        fs::rename(&self.path, &path).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => exists(table_dir, version),
            _ => Error::io("rename to", &path)(error),
        })?;
        self.published = true;
        Ok(path)
    }
}

impl Unfinished {
    /// A delta that was published stays where its base stands even now: whoever deletes a version looks for deltas once it has
    /// no name. Otherwise it loses its name, and goes.
    pub(super) fn stays_on(&mut self, base: &Table, table_dir: &Path, published: &Path) -> Result<(), Error> {
        let stands = base.check_stands_in(table_dir);
        if stands.is_err() {
            fs::rename(published, &self.path).map_err(Error::io("remove", published))?;
            self.published = false;
        }
        stands
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.published && !self.is_kept {
            // Nobody is left to tell; readers ignore the folder in any case.
            let _ = fs::remove_dir_all(&self.path);
            if let Some(table_dir) = &self.new_table_dir {
                // Goes only while it is empty.
                let _ = fs::remove_dir(table_dir);
            }
        }
    }
}

/// The folders of a version that writers left, or that writers are at work in, in the order of their names.
pub(super) fn left(table_dir: &Path, version: u64) -> Result<Vec<PathBuf>, Error> {
    let all = all_left(table_dir)?.into_iter();
    Ok(all
        .filter(|(of, _)| *of == version)
        .map(|(_, path)| path)
        .collect())
}

/// Those of all versions, each with its version.
pub(super) fn all_left(table_dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(table_dir).map_err(Error::io("list", table_dir))? {
        let entry = entry.map_err(Error::io("list", table_dir))?;
        if let Some(version) = entry.file_name().to_str().and_then(version_of) {
            found.push((version, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The version that a writer's folder of this name is for.
fn version_of(name: &str) -> Option<u64> {
    let (version, rest) = name
        .strip_prefix('.')?
        .strip_suffix(".unfinished")?
        .split_once('.')?;
    // A version that is fetched has another name between the two.
    let is_writers = rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    number(version).filter(|_| is_writers)
}

/// Makes a folder and those above it; whether it was not there. The folders in which they were made are synced, so that a power cut cannot
/// lose what is written in them.
pub(super) fn make_dir(path: &Path) -> Result<bool, Error> {
    let parents = parents_of_missing(path);
    fs::create_dir_all(path).map_err(Error::io("make folder", path))?;
    parents.iter().try_for_each(|parent| sync_dir(parent))?;
    Ok(!parents.is_empty())
}

/// The folder that each missing one of a path will be made in, the lowest first.
fn parents_of_missing(path: &Path) -> Vec<PathBuf> {
    let named = path.ancestors().filter(|path| !path.as_os_str().is_empty());
    let missing = named.take_while(|path| !path.exists());
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    missing.map(parent).collect()
}

pub(super) fn exists(table_dir: &Path, version: u64) -> Error {
    Error::VersionExists {
        path: table_dir.to_path_buf(),
        version,
    }
}

pub(super) fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(Error::io("sync", path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::write::Writer;
    use crate::{Schema, delete_version, versions};

    #[test]
    fn the_folders_that_new_ones_stand_in_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let check = |path: &Path, expected: &[&Path]| assert_eq!(parents_of_missing(path), expected);
        let path = |name: &str| dir.path().join(name);
        check(&path("a/b/c"), &[&path("a/b"), &path("a"), dir.path()]);
        check(
            Path::new("not-there/films"),
            &[Path::new("not-there"), Path::new(".")],
        );
        check(Path::new("not-there"), &[Path::new(".")]);
        assert!(make_dir(&path("a/b")).unwrap());
        assert!(!make_dir(&path("a/b")).unwrap());
        check(&path("a/b/c"), &[&path("a/b")]);
        check(&path("a/b"), &[]);
        check(dir.path(), &[]);
        fs::write(path("file"), "").unwrap();
        let error = make_dir(&path("file/films")).unwrap_err().to_string();
        assert!(error.contains("cannot make folder"), "{error}");
    }

    #[test]
    fn folders_of_writers_are_known_by_their_names() {
        let check = |name, expected| assert_eq!(version_of(name), expected, "{name}");
        check(".00000003.4711-0.unfinished", Some(3));
        check(".123456789.1-12.unfinished", Some(123_456_789));
        check(".00000003.fetched.unfinished", None);
        check(".ACTIVE.4711.unfinished", None);
        check("00000003.4711-0.unfinished", None);
        check(".3.4711-0.unfinished", None);
        check(".00000003.4711.deleted", None);
    }

    #[test]
    fn a_delta_whose_base_went_while_it_got_its_name_goes_too() {
        let dir = tempfile::tempdir().unwrap();
        for version in [1, 2] {
            let writer = Writer::create(dir.path(), "films", version, Schema::floats(2), 1).unwrap();
            writer.finish().unwrap();
        }
        let base = Table::open_version(dir.path(), Some(1)).unwrap();
        let mut unfinished = Unfinished::create(dir.path(), 3, false).unwrap();
        let path = unfinished.publish(dir.path(), 3).unwrap();
        unfinished.stays_on(&base, dir.path(), &path).unwrap();
        // A folder without a manifest would keep the base from being deleted.
        fs::remove_dir(&path).unwrap();
        delete_version(dir.path(), 1).unwrap();
        let mut unfinished = Unfinished::create(dir.path(), 3, false).unwrap();
        let path = unfinished.publish(dir.path(), 3).unwrap();
        let gone = unfinished.stays_on(&base, dir.path(), &path).unwrap_err();
        assert!(matches!(gone, Error::Base { version: 1, .. }), "{gone}");
        drop(unfinished);
        assert_eq!(versions(dir.path()).unwrap(), [2]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
    }
}
