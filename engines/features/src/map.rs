//! The one place that maps files into memory.
//!
//! Not a cache and not a reader: it gives bytes, and what they mean is decided elsewhere. Invariant: a section is
//! mapped read-only and only after its bounds were checked against the length of the file.
#![allow(unsafe_code)] // A mapping is unsafe by nature: the file could change under it.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Mmap, MmapOptions};

/// A read-only stretch of a file, as bytes.
pub(crate) struct Section(Mmap);

impl Section {
    /// Maps `bytes` bytes of `file` from `offset`; both must lie inside the file.
    pub(crate) fn map(file: &File, offset: u64, bytes: usize) -> io::Result<Section> {
        let file_bytes = file.metadata()?.len();
        if offset
            .checked_add(bytes as u64)
            .is_none_or(|end| end > file_bytes)
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the stretch lies inside the file, the mapping is read-only, and the format demands that the files
        // of a version never change once it has its name (docs/formats/feature-shard.md, last section).
        let map = unsafe { MmapOptions::new().offset(offset).len(bytes).map(file)? };
        Ok(Section(map))
    }
}

impl Deref for Section {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
