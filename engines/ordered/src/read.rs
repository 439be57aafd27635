//! Reads beside a get and a scan: the items of a list, and what keys are.
//!
//! Invariant: what is found of a key was there at one moment.

use crate::Store;
use crate::error::WrongKind;
use crate::inspect::Inspected;
use crate::list::{Kind, List, places};
use crate::tree::Near;

/// Bytes that an item counts as beside its own; so many items of no bytes as an answer of 8 MiB has are what a client reads at once.
pub(crate) const ITEM_BYTES: usize = 8;

/// Why a list was not read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The key holds something else.
    #[error(transparent)]
    WrongKind(#[from] WrongKind),
    /// The items have too many bytes.
    #[error("the items have {bytes} bytes, and the limit is {max}; ask for fewer items a call")]
    TooLarge {
        /// How many, with 8 for each item.
        bytes: usize,
        /// How many they may have.
        max: usize,
    },
}

/// The items at places of a list, the newest first, if they have no more than so many bytes, with 8 for each of them.
pub(crate) fn items(list: &List, (start, stop): (i64, i64), bytes_max: usize) -> Result<Vec<Vec<u8>>, usize> {
    let places = places(list.len(), start, stop);
    let lengths = list.items(places.clone()).map(|item| item.len() + ITEM_BYTES);
    match lengths.sum() {
        bytes if bytes > bytes_max => Err(bytes),
        _ => Ok(list.items(places).map(<[u8]>::to_vec).collect()),
    }
}

impl Store {
    /// Items of the list that a key holds, from one index to another that is meant too, the newest first: 0 is the newest, -1 the oldest.
    /// Indices beyond its ends are taken as these; a key that is not there has no items.
    ///
    /// # Errors
    /// The key holds no list, or the items have more than `bytes_max` bytes, with 8 for each of them.
    pub fn items(
        &self,
        key: &[u8],
        start: i64,
        stop: i64,
        bytes_max: usize,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let index = &self.handle.index;
        let Some((value, looked)) = index.held(key) else {
            return Ok(Vec::new());
        };
        if looked.is_over(index.clock().now_ms()) {
            return Ok(Vec::new());
        }
        let list = match looked.kind {
            Some(Kind::List) => List::of(value).unwrap_or_default(),
            _ => {
                return Err(ReadError::WrongKind(WrongKind {
                    key: key.to_vec(),
                    found: Kind::Bytes,
                }));
            }
        };
        items(&list, (start, stop), bytes_max).map_err(|bytes| ReadError::TooLarge {
            bytes,
            max: bytes_max,
        })
    }

    /// What keys are, each as it is at a moment of the call.
    pub fn inspect<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Inspected> {
        let index = &self.handle.index;
        let now_ms = index.clock().now_ms();
        let looked = keys
            .iter()
            .map(|key| index.look_at((key.as_ref(), Near::default()), now_ms));
        looked.map(|looked| looked.inspected(now_ms)).collect()
    }
}
