//! Whether a start could open a version, without opening it: headers are read and rows are not.
//!
//! Invariant: one file is open at a time, and none when a check has ended, so that a server which is near its limits serves on.

use std::collections::BTreeSet;
use std::path::Path;

use crate::active::not_found;
use crate::error::Error;
use crate::layer::Layer;
use crate::table::open::{LayerManifest, chain};
use crate::versions::{version_dir, versions};

/// Whether a start could open a version: its manifest, and of each file the length and the header; also of the versions that it stands
/// on. No row is read, but for files of format 1, which are read whole, as a start reads them.
///
/// # Errors
/// As [`crate::Table::open_version`]; [`Error::is_out_of_resources`] says whether it could not be looked at.
pub fn check_opens(table_dir: &Path, version: u64) -> Result<(), Error> {
    CheckedLayers::default().check_each(table_dir, version, true)
}

/// The layers that a listing has found whole: versions that stand on the same ones have them looked at once.
#[derive(Debug, Default)]
pub struct CheckedLayers {
    /// By version and checksum of the manifest.
    whole: BTreeSet<(u64, String)>,
}

impl CheckedLayers {
    /// Looks at a version as [`check_opens`] does, but of files of format 1 at the length alone: for listings, which are not to read
    /// tables whole.
    ///
    /// # Errors
    /// As [`check_opens`].
    pub fn check(&mut self, table_dir: &Path, version: u64) -> Result<(), Error> {
        self.check_each(table_dir, version, false)
    }

    fn check_each(&mut self, table_dir: &Path, version: u64, reads_format1: bool) -> Result<(), Error> {
        let available = versions(table_dir)?;
        if !available.contains(&version) {
            return Err(not_found(table_dir, version, available));
        }
        let (top, bases) = chain(&version_dir(table_dir, version))?;
        top.manifest.schema().default_bytes()?;
        for layer in [top].into_iter().chain(bases) {
            let LayerManifest {
                path,
                manifest,
                checksum,
            } = layer;
            let key = (manifest.version, checksum);
            if !self.whole.contains(&key) {
                Layer::check(&path, &manifest, reads_format1)?;
                self.whole.insert(key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Schema, Table, write::Writer};
    use std::fs::{self, OpenOptions};
    use std::io;
    use std::sync::Arc;

    #[test]
    fn what_does_not_open_is_found_in_every_layer() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(dir.path(), "films", 1, Schema::floats(2), 3).unwrap();
        writer.finish().unwrap();
        for version in [2, 3] {
            let base = Arc::new(Table::open_version(dir.path(), Some(version - 1)).unwrap());
            let delta = Writer::create_delta(dir.path(), version, base, 1).unwrap();
            delta.finish().unwrap();
        }
        let mut layers = CheckedLayers::default();
        for version in [3, 2, 1] {
            check_opens(dir.path(), version).unwrap();
            layers.check(dir.path(), version).unwrap();
        }
        assert_eq!(layers.whole.len(), 3);
        assert!(matches!(
            check_opens(dir.path(), 4),
            Err(Error::VersionNotFound { version: 4, .. })
        ));
        let check = |of: u64, file: &str, change: &dyn Fn(&Path)| {
            let path = version_dir(dir.path(), of).join(file);
            let whole = fs::read(&path).unwrap();
            change(&path);
            for version in 1..=3 {
                let checked = check_opens(dir.path(), version).map_err(|error| error.to_string());
                let opened = Table::open_version(dir.path(), Some(version)).map(drop);
                let opened = opened.map_err(|error| error.to_string());
                assert_eq!(
                    (&checked, checked.is_err()),
                    (&opened, version >= of),
                    "{version}"
                );
                let listed = CheckedLayers::default().check(dir.path(), version);
                assert_eq!(listed.is_err(), version >= of);
            }
            fs::write(path, whole).unwrap();
        };
        let cut = |path: &Path| {
            OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(90)
                .unwrap()
        };
        let flip = |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[20] ^= 1;
            fs::write(path, bytes).unwrap();
        };
        check(1, "shard-00002.mpf", &cut);
        check(1, "shard-00001.mpf", &flip);
        check(2, "shard-00000.mpf", &|path| fs::remove_file(path).unwrap());
        check(3, "manifest.json", &flip);
        check(1, "manifest.json", &|path| fs::remove_file(path).unwrap());
    }

    #[test]
    fn want_of_files_or_memory_is_no_damage() {
        let of = |code| Error::io("open", Path::new("shard-00000.mpf"))(io::Error::from_raw_os_error(code));
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            assert!(of(code).is_out_of_resources(), "{code}");
        }
        for code in [libc::ENOENT, libc::EIO, libc::EACCES] {
            assert!(!of(code).is_out_of_resources(), "{code}");
        }
        let damaged = Error::damaged(Path::new("m"), "rows", 1, 2);
        assert!(!damaged.is_out_of_resources());
    }
}
