//! Memory of a length that is known, filled with zeros, in huge pages where the system grants them.
//!
//! Not for what grows, and no allocator: small memory is the allocator's. Invariant: all of it is zeros until it is written to.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

/// What a huge page has on most systems: less memory gains nothing by a mapping of its own.
const HUGE_BYTES: usize = 2 << 20;

/// Memory that is given back as one.
pub(crate) enum Pages {
    Allocated(Vec<u8>),
    Mapped(MmapMut),
}

impl Pages {
    /// As much memory as has `len` bytes. The system hands it out when it is first written to: a huge page at a time, not 512 small ones.
    pub(crate) fn zeroed(len: usize) -> io::Result<Pages> {
        if len < HUGE_BYTES {
            return Ok(Pages::Allocated(vec![0; len]));
        }
        let memory = MmapMut::map_anon(len)?;
        // Refused by systems without huge pages, which work all the same.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(Advice::HugePage);
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
        for len in [0, 1, HUGE_BYTES - 1, HUGE_BYTES, HUGE_BYTES * 2 + 7] {
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
