//! The bytes of a shard file: a mapping of it, or a copy in memory.
//!
//! Not a cache and not a reader: it gives bytes, and what they mean is decided elsewhere. Invariant: a file is mapped
//! read-only, and a page of it that is gone reads as zeros.
#![allow(unsafe_code)] // A mapping is unsafe by nature: the file could change under it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};

use crate::guard::Guard;

/// The whole of a file, as bytes.
pub(crate) enum Bytes {
    /// Read from the file as they are needed, and shared with every process that maps it. The guard is dropped first.
    Mapped(Guard, Mmap),
    /// A copy; nothing that happens to the file matters to it.
    Resident(Mmap),
}

impl Bytes {
    /// Maps a file that is not empty.
    pub(crate) fn map(file: &File) -> io::Result<Bytes> {
        // SAFETY: the mapping is read-only, the format demands that the files of a version never change once it has its
        // name (docs/formats/feature-shard.md, last section), and whatever bytes are found are taken for no more than bytes.
        let map = unsafe { MmapOptions::new().map(file)? };
        Ok(Bytes::Mapped(Guard::new(&map), map))
    }

    /// Whether a page of the file was gone when it was read.
    #[inline(always)]
    pub(crate) fn was_cut(&self) -> bool {
        match self {
            Bytes::Mapped(guard, _) => guard.was_cut(),
            Bytes::Resident(_) => false,
        }
    }

    /// Reads `len` bytes, in huge pages where the system grants them: a table has more pages of 4 KiB than the
    /// processor can keep the addresses of.
    pub(crate) fn read(from: &mut impl Read, len: usize) -> io::Result<Bytes> {
        let mut memory = MmapMut::map_anon(len)?;
        // Refused by systems without huge pages, which serve all the same.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(Advice::HugePage);
        from.read_exact(&mut memory)?;
        Ok(Bytes::Resident(memory.make_read_only()?))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(_, map) | Bytes::Resident(map) => map,
        }
    }
}
