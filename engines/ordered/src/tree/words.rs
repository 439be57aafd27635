//! Memory of 64-bit words that any thread reads and writes as atomics, by number; it grows and never moves.
//!
//! It knows neither what the words mean nor which are in use. Invariant: a number that was made keeps its memory as long as this lives.
#![allow(unsafe_code)] // Mapped bytes are seen as atomics.

use std::alloc::Layout;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use memmap2::{Advice, MmapMut, MmapRaw};

/// Chunks of the largest size: 512 GiB of 64 MiB.
const LARGEST: usize = 1 << 13;
/// No number has more bits.
const UNITS_BITS: u32 = 40;
/// From here on the system is asked for huge pages: most of a lookup's time is misses, those of the page tables too.
const HUGE_BYTES: usize = 2 << 20;

/// Units of `UNIT` words each. The first chunk has 2^`FIRST` units; each has as many as all before it, up to 2^`LAST`.
pub(super) struct Words<const UNIT: usize, const FIRST: u32, const LAST: u32> {
    chunks: Box<[OnceLock<Chunk>]>,
}

struct Chunk(MmapRaw);

impl Chunk {
    fn new(words: usize) -> Chunk {
        let Ok(map) = MmapMut::map_anon(words * size_of::<u64>()) else {
            // As wherever else memory ends.
            std::alloc::handle_alloc_error(Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>()));
        };
        if map.len() >= HUGE_BYTES {
            // Without them it is slower, and no less right.
            let _ = map.advise(Advice::HugePage);
        }
        Chunk(map.into())
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        let words = self.0.len() / size_of::<u64>();
        // SAFETY: the mapping is private, page-aligned, zeroed by the system, and lives as long as the chunk; the pointer is the system's own,
        // and nothing else refers to its bytes, so that they are written through atomics alone, whose size, alignment and bit validity are
        // those of u64.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().cast::<AtomicU64>(), words) }
    }
}

impl<const UNIT: usize, const FIRST: u32, const LAST: u32> Words<UNIT, FIRST, LAST> {
    pub(super) fn new() -> Self {
        let doubling = (LAST - FIRST + 1) as usize;
        Words {
            chunks: (0..doubling + LARGEST).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The chunk of a unit, its place there, and how many units the chunk has.
    #[inline(always)]
    fn place(at: u64) -> (usize, u64, u64) {
        let shifted = at + (1 << FIRST);
        if shifted < 1 << (LAST + 1) {
            let bits = shifted.ilog2();
            let units = 1 << bits;
            ((bits - FIRST) as usize, shifted - units, units)
        } else {
            let beyond = shifted - (1 << (LAST + 1));
            let chunk = (LAST - FIRST + 1) as usize + (beyond >> LAST) as usize;
            (chunk, beyond & ((1 << LAST) - 1), 1 << LAST)
        }
    }

    /// The words from a unit on to the end of its chunk, where they were made. Any number may be asked for: a reader that is late may
    /// have read half of one.
    #[inline(always)]
    pub(super) fn from(&self, at: u64) -> Option<&[AtomicU64]> {
        if at >> UNITS_BITS != 0 {
            return None;
        }
        let (chunk, place, _) = Self::place(at);
        self.chunks
            .get(chunk)?
            .get()?
            .words()
            .get(place as usize * UNIT..)
    }

    /// Units from this one to the end of its chunk.
    pub(super) fn left(at: u64) -> u64 {
        let (_, place, units) = Self::place(at);
        units - place
    }

    /// Makes the chunk of a unit.
    ///
    /// # Panics
    /// Where there are too many: the memory limits of stores are far below.
    pub(super) fn make(&self, at: u64) {
        let (chunk, _, units) = Self::place(at);
        let place = self.chunks.get(chunk);
        assert!(
            place.is_some(),
            "a store of more than {LARGEST} large chunks of memory"
        );
        if let Some(chunk) = place {
            chunk.get_or_init(|| Chunk::new(units as usize * UNIT));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn units_have_words_of_their_own_and_others_have_none() {
        let words = Words::<3, 2, 4>::new();
        for at in 0..200 {
            words.make(at);
            words.from(at).unwrap()[0].store(at + 1, Ordering::Relaxed);
        }
        for at in 0..200 {
            let from = words.from(at).unwrap();
            assert_eq!(from[0].load(Ordering::Relaxed), at + 1);
            assert_eq!(from.len() as u64, 3 * Words::<3, 2, 4>::left(at));
        }
        for at in [1 << 20, (1 << 40) - 1, 1 << 40, u64::MAX - 3, u64::MAX] {
            assert!(words.from(at).is_none());
        }
    }
}
