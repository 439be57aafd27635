//! The folder of a log: made, and held by one process.
//!
//! Not what is in it (`recover`). Invariant: while the file that [`lock`] returns is open, no other caller gets one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::record::Format;

/// How long a folder that somebody holds is waited for, and how often it is tried: whoever asks [`is_held`] may hold it for an
/// instant, and the process before this one may still be about to end.
const HELD_MAX: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(10);

/// Makes the folder if only it is missing.
///
/// # Errors
/// [`Error::Folder`].
pub fn create_dir(format: &Format, dir: &Path) -> Result<(), Error> {
    match std::fs::create_dir(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(source) => Err(failed(format, dir, "create the folder")(source)),
    }
}

/// Holds the folder for as long as the file is open. Waits a second for one that is held.
///
/// # Errors
/// [`Error::Locked`], [`Error::Folder`].
pub fn lock(format: &Format, dir: &Path) -> Result<File, Error> {
    let failed = failed(format, dir, "lock the folder");
    let opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join("lock"));
    let file = match opened {
        Ok(file) => file,
        Err(source) => return Err(failed(source)),
    };
    let until = Instant::now() + HELD_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(AGAIN),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    keeper: format.keeper,
                    dir: dir.to_owned(),
                    fix: "stop the other process or choose another folder",
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// Whether somebody holds the folder, or nobody can tell. Nothing is made, and another caller that asks is not disturbed.
pub fn is_held(dir: &Path) -> bool {
    match File::open(dir.join("lock")) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn failed<'a>(
    format: &'a Format,
    dir: &'a Path,
    action: &'static str,
) -> impl Fn(io::Error) -> Error + use<'a> {
    move |source| Error::Folder {
        keeper: format.keeper,
        dir: dir.to_owned(),
        action,
        source,
    }
}
