//! How much memory a piece of work held at its worst, over all threads of the process.
//!
//! It is an allocator that counts and leaves the work to the system's. Its invariant: what was allocated and not yet given
//! back is counted exactly; what a peer may make this side hold is measured, not guessed.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes allocated now.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most since the last mark.
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

impl Counting {
    fn add(bytes: usize) {
        let held = HELD.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(held, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the arguments it came with; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::add(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above; `place` came from this allocator, which took it from the system's.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // While it moves, both are there.
        Counting::add(bytes);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

/// Runs `work`, which may hold no more than `bytes_max` beside what is held already.
///
/// # Panics
/// When it held more, with both figures.
pub(crate) fn within<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    let held = PEAK.load(Relaxed).saturating_sub(before);
    assert!(
        held <= bytes_max,
        "{held} bytes were held at once; the limits of this input allow {bytes_max}"
    );
    done
}
