//! What the files of a version are like, without a byte of them read: enough to see that they change.
//!
//! It does not say whether they are right. Its invariant: a file that was written, replaced, renamed or given other rights
//! makes another value, whatever times a copy gave it.

use millpond_engines_features::{describe_version, version_dir};
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Deltas that stand on each other at most, far above what the engine opens.
const CHAIN_MAX: usize = 64;

/// The files of a version, and of those that it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Files {
    count: u64,
    /// The length of all together.
    pub(super) bytes: u64,
    /// Of all names, lengths, times and numbers, in whatever order the system lists them.
    sum: u64,
}

impl Files {
    /// The files of a version in that table's folder, with those of its bases: a delta is refused for those too. None while the
    /// version has no manifest.
    ///
    /// # Errors
    /// What the system says of the version's own folder; it may be gone again.
    pub(super) fn of_chain(table_dir: &Path, version: u64) -> io::Result<Option<Files>> {
        let mut files = Files::default();
        if !files.add_folder(&version_dir(table_dir, version))? {
            return Ok(None);
        }
        let mut at = version;
        for _ in 0..CHAIN_MAX {
            // What cannot be read is for those who open the version.
            let described = describe_version(table_dir, at).ok();
            let base = described.and_then(|described| described.base);
            let Some(base) = base.filter(|base| *base < at) else {
                break;
            };
            let _ = files.add_folder(&version_dir(table_dir, base));
            at = base;
        }
        Ok(Some(files))
    }

    #[cfg(test)]
    pub(super) fn marked(sum: u64) -> Files {
        Files {
            sum,
            ..Files::default()
        }
    }

    /// Adds what is in a folder; whether a manifest is.
    fn add_folder(&mut self, folder: &Path) -> io::Result<bool> {
        let mut has_manifest = false;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                // A copy renames its files, and a link may lead nowhere yet.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            has_manifest |= entry.file_name() == "manifest.json";
            self.add(&path, &metadata);
        }
        Ok(has_manifest)
    }

    fn add(&mut self, path: &Path, metadata: &Metadata) {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let place = (metadata.dev(), metadata.ino());
        (metadata.len(), modified, changed, place).hash(&mut hasher);
        self.count += 1;
        self.bytes = self.bytes.saturating_add(metadata.len());
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_engines_features::{Schema, Table, write::Writer};
    use std::fs::File;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    fn write(table: &Path, version: u64) {
        let mut writer = Writer::create(table, "films", version, Schema::floats(2), 1).unwrap();
        writer.push(version, &[1.0, 2.0]).unwrap();
        writer.finish().unwrap();
    }

    fn files(table: &Path, version: u64) -> Option<Files> {
        Files::of_chain(table, version).unwrap()
    }

    #[test]
    fn whatever_changes_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 7);
        let folder = version_dir(dir.path(), 7);
        let shard = folder.join("shard-00000.mpf");
        let mut seen = vec![files(dir.path(), 7)];
        assert_eq!(files(dir.path(), 7), seen[0], "nothing has changed");
        assert!(seen[0].unwrap().bytes > 100);
        let mut check = |what: &str| {
            let now = files(dir.path(), 7);
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        let bytes = fs::read(&shard).unwrap();
        fs::write(&shard, &bytes[1..]).unwrap();
        check("a shorter file");
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options()
            .write(true)
            .open(&shard)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        check("another time");
        let beside = folder.join("beside");
        fs::write(&beside, &bytes[1..]).unwrap();
        File::options()
            .write(true)
            .open(&beside)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        check("one file more");
        fs::rename(&beside, &shard).unwrap();
        check("another file of the same length and time");
        fs::remove_file(&shard).unwrap();
        check("a file less");
    }

    #[test]
    fn a_version_without_a_manifest_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 7);
        fs::remove_file(version_dir(dir.path(), 7).join("manifest.json")).unwrap();
        assert_eq!(files(dir.path(), 7), None);
        assert!(Files::of_chain(dir.path(), 8).is_err());
    }

    #[test]
    fn the_files_of_a_base_are_those_of_its_delta_too() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 1);
        let base = Arc::new(Table::open_version(dir.path(), Some(1)).unwrap());
        Writer::create_delta(dir.path(), 2, base, 1)
            .unwrap()
            .finish()
            .unwrap();
        let before = files(dir.path(), 2);
        assert!(before.unwrap().count >= 4, "{before:?}");
        let shard = version_dir(dir.path(), 1).join("shard-00000.mpf");
        fs::write(shard, b"cut").unwrap();
        let damaged = files(dir.path(), 2);
        assert_ne!(damaged, before);
        fs::remove_dir_all(version_dir(dir.path(), 1)).unwrap();
        assert_ne!(files(dir.path(), 2), damaged, "a base that is gone");
    }
}
