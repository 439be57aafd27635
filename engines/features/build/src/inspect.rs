//! What a table on disk is, for people and for scripts.
//!
//! Changes nothing. Invariant: what is shown was checked as far as `checksums_verified` says, else an error is given.

use std::fmt;
use std::path::{Path, PathBuf};

use millpond_engines_features::{NodeShare, NotFinite, Numbers, Schema, ShardInfo, Table, versions};

use crate::error::Error;

/// Numbers of the default row that are shown.
const SHOWN_MAX: usize = 8;

/// One version of a table, described.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The version's folder.
    pub path: PathBuf,
    /// The table's name.
    pub name: String,
    /// This version.
    pub version: u64,
    /// The versions in the table folder, ascending; only this one if a version folder was given.
    pub versions: Vec<u64>,
    /// The versions whose files it needs: this one first, its base last.
    pub chain: Vec<u64>,
    /// The columns of a row.
    pub schema: Schema,
    /// The format of the files.
    pub format: u32,
    /// When the version was written, in seconds of Unix time; 0 where it does not say.
    pub created_unix_s: u64,
    /// What it was built from; empty where it does not say.
    pub source: String,
    /// The node that it was built for, where it has the keys of one alone.
    pub node: Option<NodeShare>,
    /// Rows in all shards.
    pub rows: u64,
    /// The shards, by number.
    pub shards: Vec<ShardInfo>,
    /// Whether every byte was read and compared with its checksum.
    pub checksums_verified: bool,
}

/// Describes a version folder, or the highest version in a table folder, without reading its data.
///
/// # Errors
/// [`Error::Table`]: there is no table, or its manifest or a header is damaged.
pub fn inspect(version_or_table_dir: &Path) -> Result<Inspection, Error> {
    let (table, versions) = open(version_or_table_dir)?;
    Ok(describe(&table, versions, false))
}

/// Describes as [`inspect`] does, after reading all data and comparing it with its checksums.
///
/// # Errors
/// As [`inspect`], and for any flipped bit.
pub fn verify(version_or_table_dir: &Path) -> Result<Inspection, Error> {
    let (table, versions) = open(version_or_table_dir)?;
    table.verify()?;
    Ok(describe(&table, versions, true))
}

fn open(dir: &Path) -> Result<(Table, Vec<u64>), Error> {
    if dir.join("manifest.json").exists() {
        let table = Table::open(dir)?;
        let version = table.version();
        return Ok((table, vec![version]));
    }
    Ok((Table::open_version(dir, None)?, versions(dir)?))
}

fn describe(table: &Table, versions: Vec<u64>, checksums_verified: bool) -> Inspection {
    Inspection {
        path: table.path().to_path_buf(),
        name: table.name().to_owned(),
        version: table.version(),
        versions,
        schema: table.schema().clone(),
        format: table.format(),
        created_unix_s: table.created_unix_s(),
        source: table.source().to_owned(),
        node: table.node().cloned(),
        rows: table.rows(),
        shards: table.own_shards().collect(),
        chain: table.chain(),
        checksums_verified,
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self
            .shards
            .iter()
            .fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
        writeln!(f, "table     {}", self.name)?;
        writeln!(
            f,
            "version   {} of {:?} in {}",
            self.version,
            self.versions,
            self.path.display()
        )?;
        if let [_, below @ ..] = self.chain.as_slice()
            && !below.is_empty()
        {
            writeln!(f, "delta on  {below:?}")?;
        }
        writeln!(f, "rows      {}", self.rows)?;
        writeln!(f, "keys      {}", self.schema.keys)?;
        for column in &self.schema.columns {
            let (name, numbers) = (&column.name, column.numbers.as_str());
            match column.numbers {
                Numbers::VaryingBytes => writeln!(f, "column    {name}: bytes of any length")?,
                Numbers::Bytes => writeln!(f, "column    {name}: {} {numbers}", column.dim)?,
                _ => writeln!(f, "column    {name}: {} of {numbers}", column.dim)?,
            }
        }
        if self.schema.not_finite == NotFinite::Kept {
            writeln!(f, "numbers   may be NaN and infinite")?;
        }
        if let Some(row) = &self.schema.default_row {
            let shown: Vec<String> = row.iter().take(SHOWN_MAX).map(f32::to_string).collect();
            let more = if row.len() > SHOWN_MAX { ", …" } else { "" };
            writeln!(f, "default   {}{more}", shown.join(", "))?;
        }
        if let Some(node) = &self.node {
            writeln!(f, "node      {node}")?;
        }
        if !self.source.is_empty() {
            writeln!(f, "source    {}", self.source)?;
        }
        if self.created_unix_s > 0 {
            writeln!(f, "created   {} (seconds of Unix time)", self.created_unix_s)?;
        }
        writeln!(
            f,
            "size      {bytes} bytes in {} shard(s) of format {}",
            self.shards.len(),
            self.format
        )?;
        for shard in &self.shards {
            writeln!(f, "  {}  {} rows, {} bytes", shard.file, shard.rows, shard.bytes)?;
        }
        let checksums = match self.checksums_verified {
            true => "every byte verified",
            false => "headers and manifest verified, data not read",
        };
        write!(f, "checksums {checksums}")
    }
}
