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

/// When a read began: how many copies had been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBegan(u64);

/// Odd while a copy is taken in.
#[derive(Default)]
pub(super) struct Shield(AtomicU64);

impl Shield {
    /// Reads are refused until `lower`; no read that goes on will be taken for whole.
    pub fn raise(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn lower(&self) {
        fence(Ordering::SeqCst);
        let raised = self.0.load(Ordering::SeqCst) | 1;
        self.0.store(raised.wrapping_add(1), Ordering::SeqCst);
    }
}

impl Store {
    /// To be called before a read of a store that may follow another, and [`Store::check_read`] behind it: a read that a copy of the leader's
    /// came between is none.
    ///
    /// # Errors
    /// A copy is being taken in.
    #[inline]
    pub fn begin_read(&self) -> Result<ReadBegan, TakesCopy> {
        let Some(shared) = &self.handle.replication else {
            return Ok(ReadBegan(0));
        };
        match shared.copies.shield.0.load(Ordering::Acquire) {
            raised if raised & 1 == 1 => Err(TakesCopy),
            count => Ok(ReadBegan(count)),
        }
    }

    /// Whether what was read since is one state of the store.
    ///
    /// # Errors
    /// A copy was taken in meanwhile, or is.
    #[inline]
    pub fn check_read(&self, began: ReadBegan) -> Result<(), TakesCopy> {
        let Some(shared) = &self.handle.replication else {
            return Ok(());
        };
        fence(Ordering::Acquire);
        match shared.copies.shield.0.load(Ordering::Relaxed) == began.0 {
            true => Ok(()),
            false => Err(TakesCopy),
        }
    }
}
