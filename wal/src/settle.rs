//! Brings what recovery read to the disk before anybody is shown it.
//!
//! Not reading or judging (`recover`), and not going on (`log`). Invariant: when [`settle`] returns, a loss of power
//! leaves what recovery found, whatever became of the process that wrote it: it may have been killed before its sync, or its
//! sync may have failed. After a failed sync the system may take the pages for clean that it could not write, and a further
//! sync then succeeds for nothing. So the bytes are written once more, in place, before they are synced.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::disk::{Disk, LogFile};
use crate::error::Error;
use crate::log::write_all;
use crate::record::Format;

/// Bytes that are read and written again at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The end of a segment up to which recovery read.
pub(crate) struct Sound {
    /// Bytes from the file's start, each of them judged.
    pub length: u64,
    /// Of these bytes.
    pub crc32c: u32,
}

/// Writes the first bytes of the last segment once more and syncs them. Segments before it need none of this: each was
/// synced before the next was begun.
pub(crate) fn settle(
    format: &Format,
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    sound: &Sound,
) -> Result<Box<dyn LogFile>, Error> {
    let failed = |action| {
        move |source| Error::Folder {
            keeper: format.keeper,
            dir: dir.to_owned(),
            action,
            source,
        }
    };
    let file = disk.open(path).map_err(failed("open its last segment"))?;
    let found = rewrite(&*file, path, sound.length).map_err(failed("write its last segment again"))?;
    file.sync().map_err(failed("sync its last segment"))?;
    if found != sound.crc32c {
        return Err(Error::Unsteady {
            file: path.to_owned(),
        });
    }
    Ok(file)
}

/// Syncs the log's folder and the folder it lies in: neither its segments nor the log itself may go with the power.
///
/// # Errors
/// [`Error::Folder`].
pub fn sync_folders(format: &Format, disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let failed = |action| {
        move |source| Error::Folder {
            keeper: format.keeper,
            dir: dir.to_owned(),
            action,
            source,
        }
    };
    disk.sync_dir(dir).map_err(failed("sync the folder"))?;
    let real = dir.canonicalize().map_err(failed("find the folder"))?;
    let Some(parent) = real.parent() else {
        return Ok(());
    };
    match disk.sync_dir(parent) {
        // A folder that this user may not even read is not one that this user made the store's folder in.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced.map_err(failed("sync the folder above it")),
    }
}

/// Returns the checksum of what was written: what was judged may have been read from memory that is gone by now.
fn rewrite(file: &dyn LogFile, path: &Path, length: u64) -> io::Result<u32> {
    let mut reader = File::open(path)?;
    let mut buffer = vec![0; CHUNK_BYTES.min(usize::try_from(length).unwrap_or(CHUNK_BYTES))];
    let (mut offset, mut checksum) = (0, 0);
    while offset < length {
        let left = usize::try_from(length - offset).unwrap_or(CHUNK_BYTES);
        let count = left.min(buffer.len());
        let chunk = buffer.get_mut(..count).unwrap_or_default();
        reader.read_exact(chunk)?;
        checksum = crc32c::crc32c_append(checksum, chunk);
        write_all(file, chunk, offset)?;
        offset += count as u64;
    }
    Ok(checksum)
}
