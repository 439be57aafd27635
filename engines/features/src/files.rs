//! Opens the files of a table for reading.
//!
//! Knows nothing of what is in them. Invariant: an open ends at once, whatever stands under the name; what is no regular file is
//! refused before a byte of it is read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file. A named pipe would keep an ordinary open waiting for a writer for good.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// The bytes of a regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::write::Writer;
    use crate::{Active, Schema, Table, version_at_start};
    use std::fs;
    use std::process::Command;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    /// Waits end here only so that a hang fails.
    const WAIT_MAX: Duration = Duration::from_secs(60);

    /// Whatever a reader of the table waits for, it is refused.
    fn check(dir: &Path, name: &str, reads: impl FnOnce(&Path) -> Option<String> + Send + 'static) {
        let path = dir.join(name);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (told, ended) = sync_channel(1);
        let dir = dir.to_owned();
        std::thread::spawn(move || told.send(reads(&dir)));
        let problem = ended.recv_timeout(WAIT_MAX).unwrap().unwrap();
        assert!(
            problem.contains(name) && problem.contains("it is no regular file"),
            "{problem}"
        );
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for version in [1, 2] {
            let writer = Writer::create(dir.path(), "films", version, Schema::floats(2), 1).unwrap();
            writer.finish().unwrap();
        }
        let opens = |dir: &Path| {
            Table::open_version(dir, None)
                .err()
                .map(|error| error.to_string())
        };
        check(dir.path(), "00000002/manifest.json", opens);
        fs::remove_dir_all(dir.path().join("00000002")).unwrap();
        check(dir.path(), "00000001/shard-00000.mpf", opens);
        check(dir.path(), "ACTIVE", |dir| {
            version_at_start(dir).err().map(|error| error.to_string())
        });
        assert_eq!(Active::read(dir.path()).unwrap(), None);
        assert!(open(dir.path()).is_err(), "a folder is none either");
    }
}
