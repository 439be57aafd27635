//! The version folders of a table: their names, which are there, and how one goes.
//!
//! Opens no shard. Invariant: a folder counts as a version only under the one name its number has, so unfinished
//! folders and strangers are passed over.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::active::not_found;
use crate::error::Error;
use crate::manifest::Manifest;

/// The folder name of a version.
pub fn folder(version: u64) -> String {
    format!("{version:08}")
}

/// The folder of a version, whether it is there or not.
pub fn version_dir(table_dir: &Path, version: u64) -> PathBuf {
    table_dir.join(folder(version))
}

/// The version that a folder name stands for, where it is the name of one.
pub fn number(name: &str) -> Option<u64> {
    let version = name.parse().ok()?;
    (folder(version) == name).then_some(version)
}

/// The versions in a table folder, ascending, never empty.
///
/// # Errors
/// [`Error::NoVersions`] when the folder is absent or has none, [`Error::Io`] when it cannot be read.
pub fn versions(table_dir: &Path) -> Result<Vec<u64>, Error> {
    let none = || Error::NoVersions {
        path: table_dir.to_path_buf(),
    };
    let entries = match fs::read_dir(table_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
        Err(error) => return Err(Error::io("list", table_dir)(error)),
    };
    let mut versions = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("list", table_dir))?;
        let version = entry.file_name().to_str().and_then(number);
        if let Some(version) = version.filter(|_| entry.path().is_dir()) {
            versions.push(version);
        }
    }
    if versions.is_empty() {
        return Err(none());
    }
    versions.sort_unstable();
    Ok(versions)
}

/// A version as its manifest describes it; nothing else of it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionInfo {
    /// Its number.
    pub version: u64,
    /// Of a delta: the version it stands on.
    pub base: Option<u64>,
    /// Rows of the version, its base's among them.
    pub rows: u64,
    /// Length of its own shard files.
    pub bytes: u64,
    /// When it was written, in seconds of Unix time; 0 where it does not say.
    pub created_unix_s: u64,
    /// What it was built from; empty where it does not say.
    pub source: String,
}

/// A version's number, and what is known of it.
pub type Described = (u64, Result<VersionInfo, Error>);

/// Describes the versions in a table folder, ascending.
///
/// # Errors
/// As [`versions`]; a manifest that cannot be read.
pub fn version_infos(table_dir: &Path) -> Result<Vec<VersionInfo>, Error> {
    let described = describe_versions(table_dir)?.into_iter();
    described.map(|(_, info)| info).collect()
}

/// The same where a version whose manifest cannot be read is to hide no other: each number with what is known of it.
///
/// # Errors
/// As [`versions`].
pub fn describe_versions(table_dir: &Path) -> Result<Vec<Described>, Error> {
    let all = versions(table_dir)?.into_iter();
    let described = all.map(|version| (version, describe_version(table_dir, version)));
    Ok(described.collect())
}

/// Describes one version.
///
/// # Errors
/// A manifest that is not there or cannot be read.
pub fn describe_version(table_dir: &Path, version: u64) -> Result<VersionInfo, Error> {
    let (manifest, _) = Manifest::read(&version_dir(table_dir, version))?;
    Ok(VersionInfo {
        version,
        base: manifest.base.map(|base| base.version),
        rows: manifest.rows,
        bytes: manifest.shards.iter().map(|shard| shard.bytes).sum(),
        created_unix_s: manifest.created_unix_s,
        source: manifest.source,
    })
}

/// Deletes a version. Whoever has it open keeps it whole.
///
/// # Errors
/// [`Error::VersionNotFound`]; [`Error::IsBase`] while a delta stands on it; [`Error::Io`], after which the version is there
/// whole or not at all.
pub fn delete_version(table_dir: &Path, version: u64) -> Result<(), Error> {
    let available = versions(table_dir)?;
    if !available.contains(&version) {
        return Err(not_found(table_dir, version, available));
    }
    check_no_base(table_dir, version, &available)?;
    let nameless = take_name(table_dir, version)?;
    let synced = File::open(table_dir).and_then(|dir| dir.sync_all());
    synced.map_err(Error::io("sync", table_dir))?;
    fs::remove_dir_all(&nameless).map_err(Error::io("delete", &nameless))
}

fn check_no_base(table_dir: &Path, version: u64, available: &[u64]) -> Result<(), Error> {
    for other in available.iter().copied().filter(|other| *other > version) {
        let (manifest, _) = Manifest::read(&table_dir.join(folder(other)))?;
        if manifest.base.is_some_and(|base| base.version == version) {
            return Err(Error::IsBase {
                path: table_dir.to_path_buf(),
                version,
                delta: other,
            });
        }
    }
    Ok(())
}

/// Takes a version's name away, at once: half a version never has one. A delta that got its name meanwhile gives it back.
fn take_name(table_dir: &Path, version: u64) -> Result<PathBuf, Error> {
    let path = table_dir.join(folder(version));
    let nameless = table_dir.join(format!(".{}.{}.deleted", folder(version), process::id()));
    fs::rename(&path, &nameless).map_err(Error::io("delete", &path))?;
    // A build names its delta and then looks whether its base stands; this looks for deltas once the base has gone. So one of
    // the two sees the other.
    let left = match versions(table_dir) {
        Err(Error::NoVersions { .. }) => Ok(Vec::new()),
        left => left,
    };
    match left.and_then(|left| check_no_base(table_dir, version, &left)) {
        Ok(()) => Ok(nameless),
        Err(error) => {
            fs::rename(&nameless, &path).map_err(Error::io("give back its name to", &nameless))?;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Schema, Table, write::Writer};
    use std::sync::Arc;

    #[test]
    fn only_the_one_name_of_a_number_counts() {
        let check = |name, expected| assert_eq!(number(name), expected, "{name}");
        check("00000001", Some(1));
        check("123456789", Some(123_456_789));
        check("18446744073709551615", Some(u64::MAX));
        check("1", None);
        check("000000001", None);
        check("+0000001", None);
        check(".00000002.1-0.unfinished", None);
        check("18446744073709551616", None);
    }

    #[test]
    fn folders_are_listed_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "00000010",
            "00000002",
            "123456789",
            ".00000003.7-0.unfinished",
            "notes",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("00000011"), "a file").unwrap();
        assert_eq!(versions(dir.path()).unwrap(), [2, 10, 123_456_789]);
    }

    /// The delta got its name after it was looked for.
    #[test]
    fn a_base_whose_name_was_taken_gets_it_back_where_a_delta_stands_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(dir.path(), "films", 1, Schema::floats(2), 1).unwrap();
        let base = Arc::new(Table::open(&writer.finish().unwrap().path).unwrap());
        let delta = Writer::create_delta(dir.path(), 2, base, 1).unwrap();
        delta.finish().unwrap();
        let refused = take_name(dir.path(), 1).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::IsBase {
                    version: 1,
                    delta: 2,
                    ..
                }
            ),
            "{refused}"
        );
        assert_eq!(Table::open_version(dir.path(), None).unwrap().chain(), [2, 1]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        take_name(dir.path(), 2).unwrap();
        take_name(dir.path(), 1).unwrap();
        assert!(matches!(versions(dir.path()), Err(Error::NoVersions { .. })));
    }

    #[test]
    fn none_is_an_error_that_says_how_to_build() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_path_buf(), dir.path().join("absent")] {
            let message = versions(&path).unwrap_err().to_string();
            assert!(message.contains("millpond features build") && message.contains(path.to_str().unwrap()));
        }
    }
}
