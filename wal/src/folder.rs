//! The folder of a log: made, and held by one process.
//!
//! Not what is in it (`recover`). Invariant: while the file that [`lock`] returns is open, no other caller gets one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::record::Format;

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

/// Holds the folder for as long as the file is open.
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
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Locked {
            keeper: format.keeper,
            dir: dir.to_owned(),
        }),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
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
