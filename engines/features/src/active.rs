//! `ACTIVE` in a table's folder: which version a start serves, which one was served before it, and which are held beside.
//!
//! Not a setting of people: switches write it, on a server or by the command line. Invariant: a reader finds the file of one
//! switch whole, or that of the switch before; a file that says anything else is an error, never a guess.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::process;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files;
use crate::versions::{delete_version, versions};

/// The name of the file in a table's folder.
pub(crate) const FILE: &str = "ACTIVE";
/// The format that is written.
const FORMAT: u32 = 3;
/// More than any such file has.
const BYTES_MAX: u64 = 1024;
/// Versions held that it names at most.
const HELD_MAX: usize = 16;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// The version that a start serves.
    pub version: u64,
    /// The version that was served before, to which a way back leads.
    pub before: Option<u64>,
    /// The highest version that was ever served: a server that looks for new versions takes none up to it.
    pub highest: u64,
    /// The versions that answer calls that name them, the one served last first: a start opens them too.
    pub held: Vec<u64>,
}

impl Active {
    /// That one serves and the other one did. A write keeps a higher `highest` that the file has.
    pub fn of(version: u64, before: Option<u64>) -> Active {
        let highest = version.max(before.unwrap_or_default());
        Active {
            version,
            before,
            highest,
            held: Vec::new(),
        }
    }

    /// Says that these versions are held beside, the one served last first; the one that serves is not among them.
    #[must_use]
    pub fn holding(mut self, held: impl IntoIterator<Item = u64>) -> Active {
        self.held = Vec::new();
        for version in held {
            if version != self.version && !self.held.contains(&version) && self.held.len() < HELD_MAX {
                self.held.push(version);
            }
        }
        self
    }

    /// Another version serves, and this one is the first of those that are held.
    fn followed_by(&self, version: u64, before: Option<u64>) -> Active {
        Active::of(version, before).holding([self.version].into_iter().chain(self.held.iter().copied()))
    }

    /// The bytes of the file; format 1 says nothing of the highest version, and format 2 nothing of those that are held.
    fn encode(&self, format: u32) -> String {
        let before = self
            .before
            .map_or_else(|| "none".to_owned(), |before| before.to_string());
        let mut said = format!("format {format}\nversion {}\nbefore {before}\n", self.version);
        if format > 1 {
            said += &format!("highest {}\n", self.highest);
        }
        if format > 2 {
            let held: Vec<String> = self.held.iter().map(u64::to_string).collect();
            let held = Some(held.join(" ")).filter(|held| !held.is_empty());
            said += &format!("held {}\n", held.as_deref().unwrap_or("none"));
        }
        let checksum = xxh3_64(said.as_bytes());
        format!("{said}checksum {checksum:016x}\n")
    }

    fn decode(text: &str) -> Option<Active> {
        let mut lines = text.lines();
        let format = lines.next()?.strip_prefix("format ")?.parse().ok()?;
        let version = lines.next()?.strip_prefix("version ")?.parse().ok()?;
        let before = match lines.next()?.strip_prefix("before ")? {
            "none" => None,
            before => Some(before.parse().ok()?),
        };
        let mut active = Active::of(version, before);
        if !(1..=FORMAT).contains(&format) {
            return None;
        }
        if format > 1 {
            active.highest = lines.next()?.strip_prefix("highest ")?.parse().ok()?;
        }
        if format > 2 {
            let held = lines.next()?.strip_prefix("held ")?;
            let held = held.split(' ').filter(|held| *held != "none");
            let held: Result<Vec<u64>, _> = held.map(str::parse).collect();
            active = active.holding(held.ok()?);
        }
        // One way of writing it, checksum and all.
        (active.encode(format) == text).then_some(active)
    }

    /// What a table's folder says; nothing where no switch has been written there.
    ///
    /// # Errors
    /// [`Error::Active`] where the file holds something else, [`Error::Io`] where it cannot be read.
    pub fn read(table_dir: &Path) -> Result<Option<Active>, Error> {
        let path = table_dir.join(FILE);
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(Error::io("read", &path))?;
        let active = std::str::from_utf8(&bytes).ok().and_then(Active::decode);
        active.map(Some).ok_or_else(|| Error::Active {
            path,
            problem: "it is not as a switch wrote it".to_owned(),
        })
    }

    /// Writes the file: whole and on the disk when this returns, or as it was.
    ///
    /// # Errors
    /// [`Error::VersionNotFound`] where the version has no folder, so that a start could not serve it; [`Error::Io`].
    pub fn write(&self, table_dir: &Path) -> Result<(), Error> {
        self.put(table_dir, |unfinished, path| fs::rename(unfinished, path))
    }

    /// Writes the file where there is none, and else leaves it as it is: another process may write at the same time.
    ///
    /// # Errors
    /// As [`Active::write`]; [`Error::Io`] also where the file system has no hard links.
    pub fn write_first(&self, table_dir: &Path) -> Result<(), Error> {
        self.put(table_dir, |unfinished, path| {
            let linked = fs::hard_link(unfinished, path);
            let _ = fs::remove_file(unfinished);
            match linked {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        })
    }

    /// Gives the file, once it is whole beside, its name.
    fn put(&self, table_dir: &Path, name: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<(), Error> {
        let available = versions(table_dir)?;
        if !available.contains(&self.version) {
            return Err(not_found(table_dir, self.version, available));
        }
        let known = Active::read(table_dir).ok().flatten();
        let highest = known.map_or(0, |known| known.highest).max(self.highest);
        let text = Active {
            highest,
            ..self.clone()
        }
        .encode(FORMAT);
        let (path, unfinished) = (
            table_dir.join(FILE),
            table_dir.join(format!(".{FILE}.{}.unfinished", process::id())),
        );
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let named = written
            .map_err(Error::io("write", &unfinished))
            .and_then(|()| name(&unfinished, &path).map_err(Error::io("write", &path)));
        if named.is_err() {
            // Readers ignore what is left of it.
            let _ = fs::remove_file(&unfinished);
        }
        named?;
        let synced = File::open(table_dir).and_then(|dir| dir.sync_all());
        synced.map_err(Error::io("sync", table_dir))
    }
}

/// The version that a start serves: what [`Active`] says, or the highest there is.
///
/// # Errors
/// [`Error::NoVersions`]; [`Error::Active`] where the file is damaged or names a version that is not there.
pub fn version_at_start(table_dir: &Path) -> Result<u64, Error> {
    let available = versions(table_dir)?;
    let highest = available.last().copied().unwrap_or_default();
    match Active::read(table_dir)? {
        None => Ok(highest),
        Some(active) if available.contains(&active.version) => Ok(active.version),
        Some(active) => Err(Error::Active {
            path: table_dir.join(FILE),
            problem: format!("version {} is not there: found {available:?}", active.version),
        }),
    }
}

/// Says that a start is to serve another version, the highest when left out. Returns what is written: a running server does
/// not read it.
///
/// # Errors
/// As [`version_at_start`] and [`Active::write`].
pub fn activate_at_start(table_dir: &Path, version: Option<u64>) -> Result<Active, Error> {
    let available = versions(table_dir)?;
    // A damaged file, or one that names a version that is gone, is what this replaces.
    let old = version_at_start(table_dir).ok();
    let version = version.or(available.last().copied()).unwrap_or_default();
    let said = Active::read(table_dir).ok().flatten();
    let held = said.as_ref().map(|said| said.held.clone()).unwrap_or_default();
    let active = match old {
        Some(old) if old == version => {
            let before = said.and_then(|said| said.before);
            Active::of(version, before).holding(held)
        }
        Some(old) => Active::of(old, None)
            .holding(held)
            .followed_by(version, Some(old)),
        None => Active::of(version, None).holding(held),
    };
    active.write(table_dir)?;
    Ok(active)
}

/// Says that a start is to serve what was served before the last switch; a second time undoes the first.
///
/// # Errors
/// [`Error::NothingBefore`]; as [`Active::read`] and [`Active::write`].
pub fn roll_back_at_start(table_dir: &Path) -> Result<Active, Error> {
    let nothing = || Error::NothingBefore {
        path: table_dir.to_path_buf(),
    };
    let now = Active::read(table_dir)?.ok_or_else(nothing)?;
    let active = now.followed_by(now.before.ok_or_else(nothing)?, Some(now.version));
    active.write(table_dir)?;
    Ok(active)
}

/// Deletes a version that neither a delta needs nor `ACTIVE` names ([`delete_version`]); a server knows itself what else is needed.
///
/// # Errors
/// [`Error::IsActive`] where `ACTIVE` names it; otherwise as [`delete_version`].
pub fn delete_unused_version(table_dir: &Path, version: u64) -> Result<(), Error> {
    // A file that cannot be read names no version that may go.
    let active = Active::read(table_dir)?.map(|active| active.version);
    delete_but(table_dir, version, active)
}

/// Deletes a version that neither a delta nor a start needs ([`delete_version`]): without `ACTIVE` a start serves the highest.
///
/// # Errors
/// [`Error::IsActive`] where a start would serve it; otherwise as [`delete_version`].
pub fn delete_at_start(table_dir: &Path, version: u64) -> Result<(), Error> {
    let active = match Active::read(table_dir)? {
        Some(active) => Some(active.version),
        None => versions(table_dir)?.last().copied(),
    };
    delete_but(table_dir, version, active)
}

fn delete_but(table_dir: &Path, version: u64, active: Option<u64>) -> Result<(), Error> {
    if active == Some(version) {
        let path = table_dir.to_path_buf();
        return Err(Error::IsActive { path, version });
    }
    delete_version(table_dir, version)?;
    if let Err(error) = forget(table_dir, version) {
        // The next start says that it is gone.
        tracing::warn!(%error, version, "ACTIVE still names a version that was deleted");
    }
    Ok(())
}

/// Takes a version out of those to which a way back leads.
fn forget(table_dir: &Path, version: u64) -> Result<(), Error> {
    let Some(mut active) = Active::read(table_dir)? else {
        return Ok(());
    };
    if active.before != Some(version) && !active.held.contains(&version) {
        return Ok(());
    }
    active.before = active.before.filter(|before| *before != version);
    active.held.retain(|held| *held != version);
    active.write(table_dir)
}

pub(crate) fn not_found(table_dir: &Path, version: u64, available: Vec<u64>) -> Error {
    Error::VersionNotFound {
        path: table_dir.to_path_buf(),
        version,
        available,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::versions::folder;

    fn folder_of(versions: &[u64]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for version in versions {
            fs::create_dir(dir.path().join(folder(*version))).unwrap();
        }
        dir
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = folder_of(&[3, u64::MAX]);
        assert_eq!(Active::read(dir.path()).unwrap(), None);
        let held: Vec<u64> = (0..16).map(|at| u64::MAX - 1 - at).collect();
        for active in [
            Active::of(3, None),
            Active::of(u64::MAX, Some(3)),
            Active::of(3, Some(u64::MAX)).holding([7, 3, 7, 8]),
            Active::of(u64::MAX, Some(u64::MAX - 1)).holding(held),
        ] {
            active.write(dir.path()).unwrap();
            assert_eq!(Active::read(dir.path()).unwrap(), Some(active));
        }
        let names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "nothing unfinished is left: {names:?}");
        assert_eq!(versions(dir.path()).unwrap(), [3, u64::MAX]);
    }

    #[test]
    fn the_first_file_replaces_none() {
        let dir = folder_of(&[1, 2]);
        let active = |version| Active::of(version, None);
        assert!(matches!(
            active(3).write_first(dir.path()),
            Err(Error::VersionNotFound { version: 3, .. })
        ));
        assert_eq!(Active::read(dir.path()).unwrap(), None);
        for version in [2, 1] {
            active(version).write_first(dir.path()).unwrap();
            assert_eq!(Active::read(dir.path()).unwrap(), Some(active(2)));
        }
        active(1).write(dir.path()).unwrap();
        let stays = Active {
            highest: 2,
            ..active(1)
        };
        assert_eq!(Active::read(dir.path()).unwrap(), Some(stays));
        let count = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(count, 3, "nothing unfinished is left");
    }

    #[test]
    fn files_of_earlier_formats_are_read() {
        let dir = folder_of(&[2, 3]);
        let active = Active::of(2, Some(3));
        for format in [1, 2] {
            fs::write(dir.path().join(FILE), active.encode(format)).unwrap();
            assert_eq!(Active::read(dir.path()).unwrap(), Some(active.clone()));
        }
        assert_eq!(active.highest, 3);
        for format in [0, 4] {
            fs::write(dir.path().join(FILE), active.encode(format)).unwrap();
            assert!(Active::read(dir.path()).is_err(), "format {format}");
        }
    }

    #[test]
    fn the_highest_version_that_served_is_never_forgotten() {
        let dir = folder_of(&[1, 2, 3]);
        for version in [3, 2, 1, 2] {
            Active::of(version, None).write(dir.path()).unwrap();
            let highest = Active::read(dir.path()).unwrap().unwrap().highest;
            assert_eq!(highest, 3, "after a switch to {version}");
        }
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_an_error() {
        let dir = folder_of(&[12, 13]);
        let active = Active::of(12, Some(13)).holding([13, 1]);
        active.write(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).unwrap();
            let error = version_at_start(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("ACTIVE") && error.contains("features activate"),
                "{error}"
            );
        }
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(Active::read(dir.path()).is_err(), "{end} bytes");
        }
        fs::write(&path, [&whole[..], b"\n"].concat()).unwrap();
        assert!(Active::read(dir.path()).is_err());
    }

    #[test]
    fn a_start_serves_the_active_version_or_the_highest() {
        let dir = folder_of(&[1, 2, 3]);
        let check = |done: Result<Active, Error>, version: u64, before: Option<u64>, held: &[u64]| {
            assert_eq!(
                done.unwrap(),
                Active::of(version, before).holding(held.iter().copied())
            );
            assert_eq!(version_at_start(dir.path()).unwrap(), version);
        };
        assert_eq!(version_at_start(dir.path()).unwrap(), 3);
        assert!(matches!(
            roll_back_at_start(dir.path()),
            Err(Error::NothingBefore { .. })
        ));
        check(activate_at_start(dir.path(), Some(1)), 1, Some(3), &[3]);
        check(activate_at_start(dir.path(), Some(2)), 2, Some(1), &[1, 3]);
        check(activate_at_start(dir.path(), Some(2)), 2, Some(1), &[1, 3]);
        check(roll_back_at_start(dir.path()), 1, Some(2), &[2, 3]);
        check(roll_back_at_start(dir.path()), 2, Some(1), &[1, 3]);
        check(activate_at_start(dir.path(), None), 3, Some(2), &[2, 1]);
        let refused = activate_at_start(dir.path(), Some(9)).unwrap_err().to_string();
        assert!(
            refused.contains("version 9 is not in") && refused.contains("[1, 2, 3]"),
            "{refused}"
        );
        assert!(matches!(
            delete_unused_version(dir.path(), 3),
            Err(Error::IsActive { version: 3, .. })
        ));
        // Now 3 serves, 2 did before, and both 2 and 1 are held.
        forget(dir.path(), 2).unwrap();
        forget(dir.path(), 9).unwrap();
        let active = Active::read(dir.path()).unwrap().unwrap();
        assert_eq!((active.version, active.before, active.held), (3, None, vec![1]));
        fs::remove_dir(dir.path().join(folder(3))).unwrap();
        let gone = version_at_start(dir.path()).unwrap_err().to_string();
        assert!(gone.contains("version 3 is not there"), "{gone}");
        check(activate_at_start(dir.path(), None), 2, None, &[1]);
    }

    #[test]
    fn without_the_file_the_highest_is_what_a_start_needs() {
        let dir = folder_of(&[1, 2, 3]);
        let refused = delete_at_start(dir.path(), 3);
        assert!(matches!(refused, Err(Error::IsActive { version: 3, .. })));
        assert!(matches!(
            delete_at_start(dir.path(), 9),
            Err(Error::VersionNotFound { version: 9, .. })
        ));
        assert_eq!(versions(dir.path()).unwrap(), [1, 2, 3]);
    }
}
