//! Reads small files into one buffer.
//!
//! Its invariant: a file that is absent, forbidden or larger than allowed gives nothing.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;

/// The buffers that are used again for every file.
#[derive(Debug, Default)]
pub(super) struct Reader {
    path: String,
    bytes: Vec<u8>,
}

impl Reader {
    /// The file at `path`, if it has at most `bytes_max` bytes; what is no UTF-8 in it is replaced.
    pub(super) fn read(&mut self, path: std::fmt::Arguments, bytes_max: u64) -> Option<Cow<'_, str>> {
        let file = self.open(path)?;
        self.bytes.clear();
        let read = file.take(bytes_max + 1).read_to_end(&mut self.bytes).ok()?;
        (read as u64 <= bytes_max).then(|| String::from_utf8_lossy(&self.bytes))
    }

    /// Opens the file at `path`.
    pub(super) fn open(&mut self, path: std::fmt::Arguments) -> Option<File> {
        self.path.clear();
        self.path.write_fmt(path).ok()?;
        File::open(&self.path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_absent_or_too_large_gives_nothing() {
        let mut reader = Reader::default();
        assert!(reader.read(format_args!("/proc/self/status"), 1 << 16).is_some());
        assert!(reader.read(format_args!("/proc/self/status"), 10).is_none());
        assert!(reader.read(format_args!("/proc/self/absent"), 10).is_none());
    }
}
