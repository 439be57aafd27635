//! Memory of a length that is known, filled with zeros, which the system hands out as one.
//!
//! Not for what grows, and no allocator: small memory is the allocator's. Invariant: all of it is zeros until it is written to.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::{MmapMut, MmapOptions};

/// Less memory gains nothing by a mapping of its own.
const MAPPED_BYTES: usize = 1 << 20;

/// Memory that is given back as one.
pub(crate) enum Pages {
    Allocated(Vec<u8>),
    Mapped(MmapMut),
}

impl Pages {
    /// As much memory as has `len` bytes, all of which are about to be used: the process is not interrupted for each page. Pages are
    /// small. Huge ones save little of what is used once, and cost far more where a virtual machine gives free ones back to its host.
    pub(crate) fn zeroed(len: usize) -> io::Result<Pages> {
        if len < MAPPED_BYTES {
            return Ok(Pages::Allocated(vec![0; len]));
        }
        let memory = MmapOptions::new().len(len).populate().map_anon()?;
        Ok(Pages::Mapped(memory))
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Pages::Allocated(bytes) => bytes,
            Pages::Mapped(bytes) => bytes,
        }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Pages::Allocated(bytes) => bytes,
            Pages::Mapped(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memory_is_zeros_and_keeps_what_is_written() {
        for len in [0, 1, MAPPED_BYTES - 1, MAPPED_BYTES, MAPPED_BYTES * 2 + 7] {
            let mut pages = Pages::zeroed(len).unwrap();
            assert_eq!(pages.len(), len);
            assert!(pages.iter().all(|&byte| byte == 0));
            if let Some(last) = pages.last_mut() {
                *last = 7;
                assert_eq!(pages.last(), Some(&7));
            }
        }
    }
}
