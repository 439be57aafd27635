//! Writes a file that will be synced: the disk begins with what is there while the rest is made.
//!
//! Not a sync, and no promise: whoever needs the bytes to be on the disk syncs the file, and gets every error of the disk there.
//! Invariant: bytes go to the file as they come, and nothing is kept back.
#![allow(unsafe_code)] // The system call has no safe form.

use std::fs::File;
use std::io::{self, Write};

/// Bytes that the disk is given at a time: enough to write them at its full speed.
const GIVEN_BYTES: u64 = 4 << 20;

/// A file, and how much of it the disk has been given.
pub(super) struct Behind<'a> {
    file: &'a mut File,
    written: u64,
    given: u64,
}

impl<'a> Behind<'a> {
    /// The file is written from its beginning on.
    pub(super) fn new(file: &'a mut File) -> Behind<'a> {
        Behind {
            file,
            written: 0,
            given: 0,
        }
    }
}

impl Write for Behind<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written += count as u64;
        if self.written - self.given >= GIVEN_BYTES {
            give(self.file, self.given, self.written - self.given);
            self.given = self.written;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Has the disk begin to write a range of the file. A system that does not know how writes it when the file is synced.
#[cfg(target_os = "linux")]
fn give(file: &File, begin: u64, bytes: u64) {
    use std::os::fd::AsRawFd as _;

    let (Ok(begin), Ok(bytes)) = (i64::try_from(begin), i64::try_from(bytes)) else {
        return;
    };
    // SAFETY: the descriptor is open while `file` is borrowed, and the call takes no memory.
    unsafe { libc::sync_file_range(file.as_raw_fd(), begin, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
fn give(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_has_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = File::create_new(&path).unwrap();
        let mut behind = Behind::new(&mut file);
        let mut expected = Vec::new();
        for piece in 0..9_u8 {
            let bytes = vec![piece; (1 << 20) + 7];
            behind.write_all(&bytes).unwrap();
            expected.extend(bytes);
        }
        assert_eq!(behind.given, behind.written / GIVEN_BYTES * (4 * ((1 << 20) + 7)));
        behind.flush().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
    }
}
