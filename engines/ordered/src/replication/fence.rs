//! The file that says that another store leads: a leader that was replaced is none after its next start either.
//!
//! Invariant: it is whole or not there. A log whose epoch is no lower makes it void.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::record::FORMAT;

fn path(dir: &Path) -> PathBuf {
    dir.join("fenced")
}

/// The epoch of the store that leads, where it was noted.
pub fn read(dir: &Path) -> Result<Option<u64>, Error> {
    let failed = |action, source| Error::Folder {
        keeper: FORMAT.keeper,
        dir: dir.to_owned(),
        action,
        source,
    };
    let text = match fs::read_to_string(path(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| failed("read its file \"fenced\"", source))?,
    };
    let epoch = text.trim().parse().map_err(|_| {
        let found = format!("found {:?}", text.chars().take(32).collect::<String>());
        let source = io::Error::new(io::ErrorKind::InvalidData, found);
        let action =
            "read an epoch in its file \"fenced\"; remove the file if no other server leads the store:";
        failed(action, source)
    })?;
    Ok(Some(epoch))
}

/// Notes it, durably.
pub fn write(dir: &Path, epoch: u64) -> io::Result<()> {
    let unfinished = dir.join("fenced.unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(format!("{epoch}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path(dir))?;
    File::open(dir)?.sync_all()
}
