//! Writes a version folder: rows in, an immutable version out.
//!
//! Not an updater: a version that has its name is never touched again. Invariant: the version's name appears only when
//! everything under it is synced; whatever fails before leaves no version and no folder.

mod shard;

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::hash::{hash, shard_of};
use crate::header::{DIM_MAX, FORMAT, SHARDS_MAX};
use crate::manifest::{self, Manifest};
use crate::versions::folder;
use shard::ShardWriter;

const NAME_BYTES_MAX: usize = 128;

/// Writes one version of a table.
///
/// Rows go to disk as they come; the index stays in memory until [`Writer::finish`] (32 to 64 bytes a row). A writer
/// that is dropped before removes what it wrote.
pub struct Writer {
    table_dir: PathBuf,
    name: String,
    version: u64,
    dim: usize,
    /// Where the files are until they are whole.
    unfinished: Unfinished,
    /// By number.
    shards: Vec<ShardWriter>,
    /// After a failed write the shards and their indexes may disagree.
    failed: bool,
}

/// A finished version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The version's folder.
    pub path: PathBuf,
    /// The table's name.
    pub name: String,
    /// The version's number.
    pub version: u64,
    /// Floats in a row.
    pub dim: usize,
    /// Rows in all shards.
    pub rows: u64,
    /// Shard files.
    pub shards: u32,
    /// Length of all shard files together.
    pub bytes: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {} version {}: {} rows of {} floats in {} shard(s), {} bytes, in {}",
            self.name,
            self.version,
            self.rows,
            self.dim,
            self.shards,
            self.bytes,
            self.path.display()
        )
    }
}

impl Writer {
    /// Begins version `version` in `table_dir`, which is made if it is absent. `rows_hint` is a guess that saves time.
    ///
    /// # Errors
    /// [`Error::Argument`] for a name, dimension (1 to 65,536) or number of shards (1 to 1,024) outside the limits,
    /// [`Error::VersionExists`], [`Error::Io`].
    pub fn create(
        table_dir: &Path,
        name: &str,
        version: u64,
        dim: usize,
        shards: u32,
        rows_hint: u64,
    ) -> Result<Writer, Error> {
        check_name(name)?;
        if dim == 0 || dim > DIM_MAX {
            return Err(Error::argument("dim", format!("1 to {DIM_MAX}"), dim));
        }
        if shards == 0 || shards > SHARDS_MAX {
            return Err(Error::argument("shards", format!("1 to {SHARDS_MAX}"), shards));
        }
        let is_new = !table_dir.exists();
        fs::create_dir_all(table_dir).map_err(Error::io("make folder", table_dir))?;
        if table_dir.join(folder(version)).exists() {
            return Err(exists(table_dir, version));
        }
        let unfinished = Unfinished::create(table_dir, version, is_new)?;
        let shard_rows_hint = rows_hint / u64::from(shards);
        let shards = (0..shards)
            .map(|number| ShardWriter::create(&unfinished.path, number, shard_rows_hint))
            .collect::<Result<_, _>>()?;
        Ok(Writer {
            table_dir: table_dir.to_path_buf(),
            name: name.to_owned(),
            version,
            dim,
            unfinished,
            shards,
            failed: false,
        })
    }

    /// Adds a row of `dim` floats.
    ///
    /// # Errors
    /// [`Error::Dim`], [`Error::NotFinite`] and [`Error::DuplicateKey`] leave the writer as it was, so the caller may
    /// go on; after [`Error::Io`] it cannot be finished.
    pub fn push(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        if row.len() != self.dim {
            return Err(Error::Dim {
                key,
                expected: self.dim,
                found: row.len(),
            });
        }
        if let Some(position) = row.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite {
                key,
                position,
                value: row[position],
            });
        }
        let hash = hash(key);
        let number = shard_of(hash, self.shards.len() as u32);
        let pushed = self.shards[number as usize].push(key, hash, row);
        self.failed |= matches!(pushed, Err(Error::Io { .. }));
        pushed
    }

    /// Writes the indexes and the manifest, syncs everything and gives the version its name.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::VersionExists`] when another writer was faster.
    pub fn finish(mut self) -> Result<Summary, Error> {
        if self.failed {
            let cause = std::io::Error::other("an earlier write failed");
            return Err(Error::io("finish", &self.unfinished.path)(cause));
        }
        let count = self.shards.len() as u32;
        let mut entries = Vec::with_capacity(self.shards.len());
        for shard in std::mem::take(&mut self.shards) {
            entries.push(shard.finish(self.version, count, self.dim as u32)?);
        }
        let manifest = Manifest {
            format: FORMAT,
            name: self.name,
            version: self.version,
            dim: self.dim as u32,
            rows: entries.iter().map(|entry| entry.rows).sum(),
            shards: entries,
        };
        let path = self.unfinished.path.join(manifest::FILE);
        let bytes = manifest.encode()?;
        File::create_new(&path)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .map_err(Error::io("write", &path))?;
        sync_dir(&self.unfinished.path)?;
        let path = self.unfinished.publish(&self.table_dir, self.version)?;
        sync_dir(&self.table_dir)?;
        Ok(Summary {
            path,
            name: manifest.name,
            version: self.version,
            dim: self.dim,
            rows: manifest.rows,
            shards: count,
            bytes: manifest.shards.iter().map(|entry| entry.bytes).sum(),
        })
    }
}

/// A folder that is removed unless it is published.
struct Unfinished {
    path: PathBuf,
    /// The table folder, when this writer made it.
    new_table_dir: Option<PathBuf>,
    published: bool,
}

impl Unfinished {
    fn create(table_dir: &Path, version: u64, is_new: bool) -> Result<Unfinished, Error> {
        // Two writers of one version, in one process or in two, must not meet in one folder.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}-{count}.unfinished", folder(version), process::id());
        let path = table_dir.join(name);
        fs::create_dir(&path).map_err(Error::io("make folder", &path))?;
        Ok(Unfinished {
            path,
            new_table_dir: is_new.then(|| table_dir.to_path_buf()),
            published: false,
        })
    }

    fn publish(&mut self, table_dir: &Path, version: u64) -> Result<PathBuf, Error> {
        let path = table_dir.join(folder(version));
        fs::rename(&self.path, &path).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => exists(table_dir, version),
            _ => Error::io("rename to", &path)(error),
        })?;
        self.published = true;
        Ok(path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.published {
            // Nobody is left to tell; readers ignore the folder in any case.
            let _ = fs::remove_dir_all(&self.path);
            if let Some(table_dir) = &self.new_table_dir {
                // Goes only while it is empty.
                let _ = fs::remove_dir(table_dir);
            }
        }
    }
}

fn exists(table_dir: &Path, version: u64) -> Error {
    Error::VersionExists {
        path: table_dir.to_path_buf(),
        version,
    }
}

fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(Error::io("sync", path))
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    let expected = "1 to 128 letters, digits, '_', '-' or '.', not beginning with '.'";
    Err(Error::argument("name", expected, format!("{name:?}")))
}
