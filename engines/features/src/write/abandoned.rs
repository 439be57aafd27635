//! What writers that were killed left in a table's folder, and no later writer can use.
//!
//! It reads no row. Invariant: nothing goes while a live process has the lock of its journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::{self, Journal};
use super::unfinished;
use crate::error::Error;
use crate::versions::version_dir;

/// How long an empty folder stays.
const EMPTY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What became of the folders that writers left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Abandoned {
    /// These are gone.
    pub removed: Vec<PathBuf>,
    /// These stay, each with the reason, because it is not known whether somebody needs them.
    pub unclear: Vec<(PathBuf, String)>,
}

/// What is known of a folder.
enum State {
    /// A writer is at work, or a later build of the same inputs can go on with it.
    Needed,
    Gone,
    Unclear(String),
}

/// Removes the folders of unfinished versions whose writers are dead and that no build can go on with: those of folds, of compactions,
/// of builds from pipes or memory, and of builds whose version another writer has written since.
///
/// # Errors
/// [`Error::Io`] where the folder cannot be listed.
pub fn remove_abandoned(table_dir: &Path) -> Result<Abandoned, Error> {
    let mut done = Abandoned::default();
    if !table_dir.exists() {
        return Ok(done);
    }
    for (version, path) in unfinished::all_left(table_dir)? {
        let is_taken = version_dir(table_dir, version).exists();
        match remove_one(&path, is_taken) {
            Ok(State::Needed) => {}
            Ok(State::Gone) => done.removed.push(path),
            Ok(State::Unclear(why)) => done.unclear.push((path, why)),
            // Its writer has just come to its end, or it was cleared away by another one.
            Err(_) if !path.exists() => {}
            Err(error) => done.unclear.push((path, error.to_string())),
        }
    }
    Ok(done)
}

/// Removes one whose writer is dead; of a build that another one can go on with only where its version `is_taken`.
fn remove_one(path: &Path, is_taken: bool) -> Result<State, Error> {
    let is_needed = || Ok(!is_taken && Journal::says_more(path)?);
    // Its lock is left alone: a build that is about to go on with it would take it for one that is at work.
    if is_needed()? {
        return Ok(State::Needed);
    }
    let locked = match Journal::lock_dead(&path.join(journal::FILE))? {
        Some(locked) => Some(locked),
        // Its writer was killed before the journal had its name.
        None if !path.join(journal::FILE).exists() => Journal::lock_dead(&path.join(journal::NEW_FILE))?,
        None => return Ok(State::Needed),
    };
    // The lock is held until the folder is gone.
    if let Some(_locked) = locked {
        // It may have begun since.
        if is_needed()? {
            return Ok(State::Needed);
        }
        fs::remove_dir_all(path).map_err(Error::io("remove", path))?;
        return Ok(State::Gone);
    }
    if [journal::FILE, journal::NEW_FILE]
        .iter()
        .any(|file| path.join(file).exists())
    {
        return Ok(State::Needed);
    }
    let mut entries = fs::read_dir(path).map_err(Error::io("list", path))?;
    if entries.next().is_some() {
        let why = "it has no journal, so it is not known whether a build or a fold is at work there";
        return Ok(State::Unclear(why.to_owned()));
    }
    // Programs before there were journals have none in the folder of a fold that is at work, and no file before the end. One of a time
    // to come is of a clock that was set.
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let modified = modified.map_err(Error::io("read", path))?;
    if modified.elapsed().is_ok_and(|age| age >= EMPTY_KEPT) {
        // A writer whose empty folder goes makes another one.
        fs::remove_dir(path).map_err(Error::io("remove", path))?;
        return Ok(State::Gone);
    }
    Ok(State::Needed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Schema;
    use crate::write::Writer;
    use std::time::SystemTime;

    /// A writer of that version, with a row.
    fn writer(dir: &Path, version: u64) -> Writer {
        let mut writer = Writer::create(dir, "films", version, Schema::floats(2), 1).unwrap();
        writer.push(1, &[1.0, 2.0]).unwrap();
        writer
    }

    /// What a kill leaves.
    fn kill(mut writer: Writer) -> PathBuf {
        writer.unfinished.keep();
        writer.unfinished.path.clone()
    }

    #[test]
    fn what_the_dead_left_goes_and_nothing_of_the_living_or_of_what_can_be_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let of = |version| writer(dir.path(), version);
        assert_eq!(
            remove_abandoned(&dir.path().join("absent")).unwrap(),
            Abandoned::default()
        );
        let (live, live_build) = (of(1), of(1).resumable("a", false).unwrap());
        let resumable = kill(of(1).resumable("b", false).unwrap());
        let dead = [kill(of(1)), kill(of(2))];
        let folder = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        // Killed before there was a journal, and before it had its name.
        let (empty, new) = (
            folder(".00000003.7-0.unfinished"),
            folder(".00000003.7-1.unfinished"),
        );
        fs::write(new.join(journal::NEW_FILE), "").unwrap();
        let recent = folder(".00000003.7-3.unfinished");
        let opened = fs::File::open(&empty).unwrap();
        let day_ago = SystemTime::now() - EMPTY_KEPT - Duration::from_secs(60);
        opened.set_modified(day_ago).unwrap();
        let strange = folder(".00000003.7-2.unfinished");
        fs::write(strange.join("rows-00000"), "rows").unwrap();
        let fetched = folder(".00000003.fetched.unfinished");

        let done = remove_abandoned(dir.path()).unwrap();
        let mut expected: Vec<_> = dead.into_iter().chain([empty, new]).collect();
        expected.sort();
        assert_eq!(done.removed, expected);
        assert!(matches!(&done.unclear[..], [(path, why)] if *path == strange && why.contains("no journal")));
        assert!(expected.iter().all(|path| !path.exists()));
        assert!(
            [&resumable, &strange, &fetched, &recent]
                .iter()
                .all(|path| path.exists())
        );
        live.finish().unwrap();
        assert!(live_build.finish().is_err(), "the other one was faster");
        // Its number is taken, so no build goes on with it.
        assert_eq!(remove_abandoned(dir.path()).unwrap().removed, [resumable]);
    }
}
