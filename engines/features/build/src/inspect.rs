//! What a table on disk is, for people and for scripts.
//!
//! Changes nothing. Invariant: what is shown was checked as far as `checksums_verified` says, else an error is given.

use std::fmt;
use std::path::{Path, PathBuf};

use millpond_engines_features::{NodeShare, NotFinite, Numbers, Schema, ShardInfo, Table, versions};

use crate::error::Error;

/// Numbers of the default row that are shown.
const SHOWN_MAX: usize = 8;
/// Characters of a node's buckets that are shown.
const BUCKETS_SHOWN_MAX: usize = 100;

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
            "version   {} (there are {}) in {}",
            self.version,
            listed(&self.versions),
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
            writeln!(f, "node      {}", shown_share(node))?;
        }
        if !self.source.is_empty() {
            writeln!(f, "source    {}", self.source)?;
        }
        if self.created_unix_s > 0 {
            let (date, seconds) = (utc(self.created_unix_s), self.created_unix_s);
            writeln!(f, "created   {date} ({seconds} seconds of Unix time)")?;
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

/// Numbers with commas between.
fn listed(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    numbers.join(", ")
}

/// A node's share, without most of its buckets where there are many ranges of them.
fn shown_share(share: &NodeShare) -> String {
    let end = share
        .held
        .match_indices(',')
        .map(|(at, _)| at)
        .take_while(|at| *at <= BUCKETS_SHOWN_MAX)
        .last();
    match end {
        Some(end) if share.held.len() > BUCKETS_SHOWN_MAX => NodeShare {
            held: format!("{},…", share.held.get(..end).unwrap_or_default()),
            ..share.clone()
        }
        .to_string(),
        _ => share.to_string(),
    }
}

/// A time of day in UTC, as 2026-11-28 21:30:00 UTC.
fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Years begin in March, so that the day that a leap year adds is their last. Eras of 400 years have as many days each.
    let days = days.saturating_add(719_468);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, is_next) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = year + era * 400 + is_next;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        let check = |unix_s, expected: &str| assert_eq!(utc(unix_s), expected);
        check(0, "1970-01-01 00:00:00 UTC");
        check(951_782_399, "2000-02-28 23:59:59 UTC");
        check(951_782_400, "2000-02-29 00:00:00 UTC");
        check(951_868_800, "2000-03-01 00:00:00 UTC");
        check(1_795_901_223, "2026-11-28 21:27:03 UTC");
        check(4_107_542_399, "2100-02-28 23:59:59 UTC");
        check(4_107_542_400, "2100-03-01 00:00:00 UTC");
        assert!(utc(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn many_buckets_are_cut_between_two_ranges() {
        let share = |held: String| NodeShare {
            name: "a".to_owned(),
            map_version: 3,
            buckets: 1024,
            held,
        };
        let check = |held: String, expected: &str| assert_eq!(shown_share(&share(held)), expected);
        check("0-5,7".to_owned(), "a of map 3, buckets 0-5,7 of 1024");
        let held = ["100-101"; 40].join(",");
        let kept = ["100-101"; 12].join(",");
        check(held, &format!("a of map 3, buckets {kept},… of 1024"));
    }
}
