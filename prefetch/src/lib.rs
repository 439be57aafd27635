//! The kernel that asks the processor for a cache line ahead of its use.
//!
//! Not a promise: on processors other than x86-64 it does nothing, and lookups only get slower. Invariant: it takes
//! references, so it never names memory that is not mapped.
#![allow(unsafe_code)] // The intrinsic is declared unsafe because it takes a raw pointer.

/// Fetches the cache line of `place` into the nearest cache.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer comes from a reference, and a prefetch neither writes nor faults; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
