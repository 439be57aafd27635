//! The version folders of a table: their names, and which are there.
//!
//! Opens none of them. Invariant: a folder counts as a version only under the one name its number has, so unfinished
//! folders and strangers are passed over.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;

/// The folder name of a version.
pub(crate) fn folder(version: u64) -> String {
    format!("{version:08}")
}

/// The version a folder name stands for.
pub(crate) fn number(name: &str) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

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

    #[test]
    fn none_is_an_error_that_says_how_to_build() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_path_buf(), dir.path().join("absent")] {
            let message = versions(&path).unwrap_err().to_string();
            assert!(message.contains("millpond features build") && message.contains(path.to_str().unwrap()));
        }
    }
}
