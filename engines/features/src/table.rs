//! One opened version of a table.
//!
//! Not a cache: nothing is copied out of the mapping until it is asked for. Invariant: all shards belong to the one
//! manifest, and key k is only ever looked for in the shard that its hash names.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::header::Header;
use crate::manifest::{FILE, Manifest, ShardEntry};
use crate::shard::Shard;
use crate::versions::{folder, number, versions};
use millpond_metrics::Metric;

/// One immutable, opened version of a table: all its shards, memory-mapped.
///
/// It can be shared between threads. Its files must not be changed or cut while it is open.
pub struct Table {
    /// The version's folder, for people.
    path: PathBuf,
    name: String,
    version: u64,
    dim: usize,
    rows: u64,
    /// For people; the same numbers stand in the shards' headers.
    entries: Vec<ShardEntry>,
    /// By number, never empty.
    shards: Vec<Shard>,
}

/// What is known of a shard without reading its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Name of the file in the version's folder.
    pub file: String,
    /// Length of the file.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// Slots of its index.
    pub slots: u64,
    /// The most slots a search looks at.
    pub probes_max: u64,
}

impl Table {
    /// What a page and `*infos` have of it. Several processes map the same table.
    pub const METRICS: &'static [Metric<Table>] = &[
        Metric::gauge(
            "millpond_table_version",
            "The version served.",
            |table: &Table| table.version as f64,
        )
        .max(),
        Metric::gauge("millpond_table_rows", "Rows of it.", |table: &Table| {
            table.rows as f64
        })
        .max()
        .info("rows"),
    ];

    /// Opens a version in a table's folder; `None` is the highest one present.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::VersionNotFound`], or as [`Table::open`].
    pub fn open_version(table_dir: &Path, version: Option<u64>) -> Result<Table, Error> {
        let available = versions(table_dir)?;
        let version = version.or(available.last().copied()).unwrap_or_default();
        if !available.contains(&version) {
            return Err(Error::VersionNotFound {
                path: table_dir.to_path_buf(),
                version,
                available,
            });
        }
        Table::open(&table_dir.join(folder(version)))
    }

    /// Opens the version in a folder such as `tables/embeddings/00000001`.
    ///
    /// The manifest and the shards' headers are checked, each against itself and against the other; the data is not
    /// read (see [`Table::verify`]).
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`] or [`Error::Format`], each with the file's name.
    pub fn open(version_dir: &Path) -> Result<Table, Error> {
        let manifest = Manifest::read(version_dir)?;
        check_folder(version_dir, manifest.version)?;
        let mut shards = Vec::with_capacity(manifest.shards.len());
        for (shard, entry) in (0..).zip(&manifest.shards) {
            let path = version_dir.join(&entry.file);
            let opened = Shard::open(&path)?;
            check_shard(&opened, shard, &manifest, entry, &path)?;
            shards.push(opened);
        }
        Ok(Table {
            path: version_dir.to_path_buf(),
            name: manifest.name,
            version: manifest.version,
            dim: manifest.dim as usize,
            rows: manifest.rows,
            entries: manifest.shards,
            shards,
        })
    }

    /// Reads all data and compares it with its checksums; of each file its length first.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming the first shard file that differs.
    pub fn verify(&self) -> Result<(), Error> {
        self.shards.iter().try_for_each(Shard::verify)
    }

    /// Brings every page into memory, so that no first lookup waits for a disk; verifies on the way, as it reads all
    /// bytes anyway.
    ///
    /// # Errors
    /// As [`Table::verify`].
    pub fn make_resident(&self) -> Result<(), Error> {
        // The checksums are computed through the mapping that lookups use: each page is read and mapped by it.
        self.verify()
    }

    /// Whether every file is still as long as it was when it was opened; the last thing before a version is served.
    /// What is cut later is not seen, and ends the process when a lookup needs it: see docs/operations.md.
    ///
    /// # Errors
    /// [`Error::Damaged`], naming the first shard file of another length; [`Error::Io`].
    pub fn check_lengths(&self) -> Result<(), Error> {
        self.shards.iter().try_for_each(Shard::check_length)
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of this version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Floats in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Rows in all shards.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The version's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its shards, by number.
    pub fn shards(&self) -> impl Iterator<Item = ShardInfo> + '_ {
        self.entries
            .iter()
            .zip(&self.shards)
            .map(|(entry, shard)| ShardInfo {
                file: entry.file.clone(),
                bytes: entry.bytes,
                rows: entry.rows,
                slots: shard.header.slots,
                probes_max: shard.header.probes_max,
            })
    }

    /// The shards themselves, by number.
    pub(crate) fn opened(&self) -> &[Shard] {
        &self.shards
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table {
            path,
            dim,
            rows,
            version,
            ..
        } = self;
        write!(
            f,
            "Table({}, version {version}, {rows} rows of {dim})",
            path.display()
        )
    }
}

/// A folder that was renamed to another version's number would be served as that version.
fn check_folder(version_dir: &Path, version: u64) -> Result<(), Error> {
    let name = version_dir.file_name().and_then(|name| name.to_str());
    match name.and_then(number) {
        Some(found) if found != version => {
            let path = version_dir.join(FILE);
            Err(Error::damaged(
                &path,
                "version against the folder's name",
                found,
                version,
            ))
        }
        _ => Ok(()),
    }
}

fn check_shard(
    opened: &Shard,
    shard: u32,
    manifest: &Manifest,
    entry: &ShardEntry,
    path: &Path,
) -> Result<(), Error> {
    let Header {
        shard: found_shard,
        shards: found_shards,
        dim,
        version,
        rows,
        ..
    } = opened.header;
    let checks = [
        (
            "version against the manifest's",
            manifest.version.to_string(),
            version.to_string(),
        ),
        (
            "dim against the manifest's",
            manifest.dim.to_string(),
            dim.to_string(),
        ),
        (
            "shard number",
            format!("{shard} of {}", manifest.shards.len()),
            format!("{found_shard} of {found_shards}"),
        ),
        (
            "rows against the manifest's",
            entry.rows.to_string(),
            rows.to_string(),
        ),
        (
            "checksum against the manifest's",
            entry.checksum.clone(),
            format!("{:016x}", opened.header_checksum),
        ),
    ];
    match checks.into_iter().find(|(_, expected, found)| expected != found) {
        Some((what, expected, found)) => Err(Error::damaged(path, what, expected, found)),
        None => Ok(()),
    }
}
