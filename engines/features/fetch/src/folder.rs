//! The table's folder while versions come into it: what is unfinished, what is left over, and the one name at the end.
//!
//! It asks no store. Its invariant: a version has its name when all of its files are there, right and synced, or it has none.

use crate::error::Error;
use millpond_engines_features::{self as features, version_dir, version_name, version_number};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The end of the name of a folder that a fetch fills; readers pass such names over.
const UNFINISHED: &str = ".fetched.unfinished";

/// The one fetch that may go on in a folder, of all processes; it ends with this.
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not read")] File);

/// Makes the folder and takes its lock; none where another process fetches.
pub(crate) fn lock(table_dir: &Path) -> Result<Option<Lock>, Error> {
    fs::create_dir_all(table_dir).map_err(Error::io("create", table_dir))?;
    let path = table_dir.join(".fetch.lock");
    let opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = opened.map_err(Error::io("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
    }
}

/// The versions that are there.
pub(crate) fn versions(table_dir: &Path) -> Result<Vec<u64>, Error> {
    match features::versions(table_dir) {
        Ok(versions) => Ok(versions),
        Err(features::Error::NoVersions { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a version's folder has what is copied last.
pub(crate) fn has_manifest(table_dir: &Path, version: u64) -> bool {
    version_dir(table_dir, version).join("manifest.json").is_file()
}

/// Removes what fetches have left of versions that nobody wants any more.
pub(crate) fn tidy(table_dir: &Path, is_wanted: impl Fn(u64) -> bool) -> Result<(), Error> {
    for entry in fs::read_dir(table_dir).map_err(Error::io("list", table_dir))? {
        let path = entry.map_err(Error::io("list", table_dir))?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let number = name
            .strip_prefix('.')
            .and_then(|name| name.strip_suffix(UNFINISHED));
        if number
            .and_then(version_number)
            .is_some_and(|version| !is_wanted(version))
        {
            fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

/// A folder that is filled.
pub(crate) struct Unfinished {
    pub(crate) version: u64,
    pub(crate) path: PathBuf,
    table_dir: PathBuf,
    /// Whether something of it was there.
    pub(crate) is_resumed: bool,
}

impl Unfinished {
    /// Begins with a manifest, or goes on where the same one is there.
    pub(crate) fn begin(table_dir: &Path, version: u64, manifest: &[u8]) -> Result<Unfinished, Error> {
        let path = table_dir.join(format!(".{}{UNFINISHED}", version_name(version)));
        let file = path.join("manifest.json");
        let is_resumed = fs::read(&file).is_ok_and(|found| found == manifest);
        let unfinished = Unfinished {
            version,
            path,
            table_dir: table_dir.to_path_buf(),
            is_resumed,
        };
        if !is_resumed {
            unfinished.remove()?;
            let path = &unfinished.path;
            fs::create_dir(path).map_err(Error::io("create", path))?;
            let written = File::create(&file).and_then(|mut to| {
                to.write_all(manifest)?;
                to.sync_all()
            });
            written.map_err(Error::io("write", &file))?;
        }
        Ok(unfinished)
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &self.path)(error)),
            _ => Ok(()),
        }
    }

    /// A file of it, with the bytes that are there; more than it is to have are none.
    pub(crate) fn open(&self, name: &str, bytes: u64) -> Result<(File, u64), Error> {
        let path = self.path.join(name);
        let failed = |error| Error::io("open", &path)(error);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(failed)?;
        let failed = |error| Error::io("read", &path)(error);
        let mut there = file.metadata().map_err(failed)?.len();
        if there > bytes {
            file.set_len(0).map_err(Error::io("cut", &path))?;
            there = 0;
        }
        Ok((file, there))
    }

    /// Gives it its name, once it was verified.
    pub(crate) fn name(self) -> Result<(), Error> {
        let sync = |dir: &Path| {
            let synced = File::open(dir).and_then(|dir| dir.sync_all());
            synced.map_err(Error::io("sync", dir))
        };
        sync(&self.path)?;
        let path = version_dir(&self.table_dir, self.version);
        fs::rename(&self.path, &path).map_err(Error::io("name", &path))?;
        sync(&self.table_dir)
    }
}
