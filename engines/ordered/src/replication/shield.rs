//! Whether what readers find is one state of the store: not while a copy of the leader's takes its place.
//!
//! Invariant: a read between two looks that said the same saw no part of a copy that was being taken in.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::Store;

/// The store takes in a copy of its leader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store takes in a copy of its leader's, and serves no reads until it has; try again later, or read elsewhere"
)]
pub struct TakesCopy;

/// Odd while a copy is taken in.
#[derive(Default)]
pub(super) struct Shield(AtomicU64);

impl Shield {
    /// Reads are refused until `lower`; no read that goes on will be taken for whole.
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn lower(&self) {
        fence(Ordering::SeqCst);
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 == 1
    }
}

impl Store {
    /// What `read` finds of a store that may follow another, where that is one state of it: no copy of the leader's was taken in meanwhile.
    ///
    /// # Errors
    /// A copy was taken in meanwhile, or is.
    #[inline]
    pub fn read_whole<R>(&self, read: impl FnOnce(&Store) -> R) -> Result<R, TakesCopy> {
        let Some(shared) = &self.handle.replication else {
            return Ok(read(self));
        };
        let count = &shared.copies.shield.0;
        let began = count.load(Ordering::Acquire);
        if began & 1 == 1 {
            return Err(TakesCopy);
        }
        let found = read(self);
        fence(Ordering::Acquire);
        match count.load(Ordering::Relaxed) == began {
            true => Ok(found),
            false => Err(TakesCopy),
        }
    }
}
