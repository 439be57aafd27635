//! Which log a file belongs to: an id that its copies have too, and an epoch that counts who may write it.
//!
//! Not every format has it. Invariant: within a log the id stays, and the epoch never descends.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// What files of one log have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// From 1; higher for each writer that took over from another.
    pub epoch: u64,
    /// Drawn when the log began.
    pub id: [u8; 16],
}

impl History {
    /// Bytes that it takes in a file.
    pub const BYTES: usize = 24;

    /// Of a log that begins.
    pub fn begin() -> History {
        let random = RandomState::new();
        let id = u128::from(random.hash_one(0u8)) << 64 | u128::from(random.hash_one(1u8));
        History {
            epoch: 1,
            id: id.to_le_bytes(),
        }
    }

    /// As it stands in a file.
    pub fn to_bytes(self) -> [u8; History::BYTES] {
        let mut bytes = [0; History::BYTES];
        let (epoch, id) = bytes.split_at_mut(8);
        epoch.copy_from_slice(&self.epoch.to_le_bytes());
        id.copy_from_slice(&self.id);
        bytes
    }

    /// From a file.
    pub fn from_bytes(bytes: &[u8; History::BYTES]) -> History {
        let (mut epoch, mut id) = ([0; 8], [0; 16]);
        for (place, byte) in epoch.iter_mut().chain(&mut id).zip(bytes) {
            *place = *byte;
        }
        History {
            epoch: u64::from_le_bytes(epoch),
            id,
        }
    }

    /// Whether a file may follow this one in a log.
    pub(crate) fn goes_on_as(&self, next: Option<History>) -> bool {
        next.is_some_and(|next| next.id == self.id && next.epoch >= self.epoch)
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.id {
            write!(f, "{byte:02x}")?;
        }
        write!(f, " in epoch {}", self.epoch)
    }
}

/// What a header says, for messages.
pub(crate) fn words(history: Option<History>) -> String {
    history.map_or("no history".into(), |history| format!("history {history}"))
}
