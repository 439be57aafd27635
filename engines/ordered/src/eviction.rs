//! Which entries give way to writes for which a store has no memory left.
//!
//! It removes nothing itself: who has the store's writes in hand does, by the log. Invariant: what one write may cost is bounded,
//! whatever the store holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use crate::index::{Index, is_over};
use crate::put::{PUT_BYTES_MAX, PUT_ENTRIES_MAX};
use crate::tree::{Cell, Drawn, Random};

/// The most entries that give way to one write: as many as a put may have.
pub const EVICTED_MAX: usize = PUT_ENTRIES_MAX;
/// Entries that are looked at, one draw after the other, without one that may go, until there is taken to be none.
const FRUITLESS_MAX: usize = 1024;
/// What an entry takes in the record of removals beside its key.
const REMOVAL_BYTES: usize = 16;

/// What gives way where a store's entries take all the memory that they may. What has expired goes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Nothing: writes that would make them grow are refused.
    #[default]
    None,
    /// Of entries that are drawn at random, the one whose last write is the longest ago.
    OldestWrite,
    /// Of those that expire, the one that would expire first; entries that do not expire stay.
    SoonestExpiry,
}

impl Eviction {
    /// "none", "oldest_write" or "soonest_expiry".
    pub fn as_str(self) -> &'static str {
        match self {
            Eviction::None => "none",
            Eviction::OldestWrite => "oldest_write",
            Eviction::SoonestExpiry => "soonest_expiry",
        }
    }

    /// The place of an entry among those that give way, the lowest first; nothing where it stays.
    fn rank(self, cell: &Cell<'_>, now_ms: u64) -> Option<(bool, u64)> {
        let (lasts, expires_ms) = (!is_over(now_ms, cell.expires_ms), cell.expires_ms);
        match self {
            Eviction::None => None,
            _ if !lasts => Some((lasts, expires_ms)),
            // Versions count the store's writes.
            Eviction::OldestWrite => Some((lasts, cell.version)),
            Eviction::SoonestExpiry => (expires_ms != 0).then_some((lasts, expires_ms)),
        }
    }
}

/// The memory that a store's entries may take, and what makes room in it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub bytes_max: Option<u64>,
    pub eviction: Eviction,
    evicted: AtomicU64,
}

impl Room {
    pub fn new(bytes_max: Option<u64>, eviction: Eviction) -> Room {
        Room {
            bytes_max,
            eviction,
            evicted: AtomicU64::new(0),
        }
    }

    /// Bytes that the entries take beyond what they may and that are to be made free, as where a log was read that had more.
    pub fn beyond(&self, index: &Index) -> u64 {
        let evicts = self.eviction != Eviction::None;
        let bytes_max = self.bytes_max.filter(|_| evicts);
        bytes_max.map_or(0, |max| index.bytes().saturating_sub(max))
    }

    /// Counts entries that were removed.
    pub fn count(&self, evicted: usize) {
        self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
    }

    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

/// What is to go.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    pub keys: BTreeSet<Vec<u8>>,
    /// What their entries take.
    pub bytes: u64,
    /// Of the record that removes them.
    record_bytes: usize,
}

/// For whom room is made.
pub(crate) struct Wanted {
    /// Bytes that are to be free.
    pub bytes: u64,
    /// The most entries that go for them.
    pub entries_max: usize,
    pub now_ms: u64,
    /// Of the draws: the same store gives the same victims for it.
    pub seed: u64,
}

impl Victims {
    /// Draws some, of keys that `may` go, until they take what is wanted, or no more may be looked at. Nobody else may write meanwhile.
    pub fn draw(index: &Index, eviction: Eviction, wanted: &Wanted, may: impl Fn(&[u8]) -> bool) -> Victims {
        let (mut victims, mut drawn) = (Victims::default(), Vec::new());
        let mut random = Random::of(wanted.seed);
        let is_hopeless = match eviction {
            Eviction::None => true,
            Eviction::OldestWrite => false,
            Eviction::SoonestExpiry => index.expiring() == 0,
        };
        let mut fruitless = if is_hopeless { FRUITLESS_MAX } else { 0 };
        while victims.bytes < wanted.bytes && fruitless < FRUITLESS_MAX {
            let looked_at = index.draw(&mut random, |cell| eviction.rank(cell, wanted.now_ms), &mut drawn);
            drawn.retain(|drawn| may(&drawn.key) && !victims.keys.contains(&drawn.key));
            // Of a draw the first quarter at most: those behind it are as good as any others.
            drawn.sort_unstable_by_key(|drawn| drawn.rank);
            drawn.truncate(drawn.len().div_ceil(4));
            fruitless = if drawn.is_empty() {
                fruitless + looked_at
            } else {
                0
            };
            for drawn in drawn.drain(..) {
                if victims.bytes >= wanted.bytes {
                    break;
                }
                if !victims.take(drawn, wanted.entries_max) {
                    return victims;
                }
            }
        }
        victims
    }

    /// Takes one more, if so many may go.
    fn take<R>(&mut self, drawn: Drawn<R>, entries_max: usize) -> bool {
        let record_bytes = self.record_bytes + drawn.key.len() + REMOVAL_BYTES;
        if self.keys.len() == entries_max || record_bytes > PUT_BYTES_MAX {
            return false;
        }
        // One leaf may be drawn twice.
        if self.keys.insert(drawn.key) {
            self.record_bytes = record_bytes;
            self.bytes += crate::index::taken_bytes(drawn.bytes);
        }
        true
    }
}
