//! Chooses the entries to evict when a store is full.
//!
//! It removes nothing: the thread that makes the store's writes does, by the log. Invariant: the work for one write is bounded, whatever
//! the store holds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::index::{Index, is_over, taken_bytes};
use crate::put::{PUT_BYTES_MAX, PUT_ENTRIES_MAX};
use crate::tree::{Cell, Random};

/// The most entries that give way to one write: as many as a put may have.
pub const EVICTED_MAX: usize = PUT_ENTRIES_MAX;
/// Entries that are looked at for one write, whatever comes of it, and so many more for each one that goes.
const LOOKS_MIN: usize = 1024;
const LOOKS_EACH: usize = 32;
/// Of these in the order of keys, at one moment.
const LOOKED_ON_MAX: usize = 1024;
/// Those that go take at most so many times what the mean entry takes: more than they can is not looked for.
const MEANS_MAX: u64 = 4;
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
    fn rank(self, (version, expires_ms): (u64, u64), now_ms: u64) -> Option<(bool, u64)> {
        let lasts = !is_over(now_ms, expires_ms);
        match self {
            Eviction::None => None,
            _ if !lasts => Some((lasts, expires_ms)),
            // Versions count the store's writes.
            Eviction::OldestWrite => Some((lasts, version)),
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
    /// Of the next draws: they are others than those before, also where these found too little and nothing changed.
    seed: AtomicU64,
    /// The key from which on entries are looked at in order where draws find too little.
    from: Mutex<Vec<u8>>,
}

impl Room {
    pub fn new(bytes_max: Option<u64>, eviction: Eviction) -> Room {
        Room {
            bytes_max,
            eviction,
            ..Room::default()
        }
    }

    fn next_seed(&self) -> u64 {
        self.seed.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether so many bytes may become free for one write, as far as the mean entry says.
    pub fn may_find(&self, index: &Index, bytes: u64) -> bool {
        let mean = index.bytes() / (index.len() as u64).max(1);
        bytes <= mean.saturating_mul(MEANS_MAX * EVICTED_MAX as u64)
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
    /// No more may go.
    is_full: bool,
}

/// For whom room is made.
pub(crate) struct Wanted {
    /// Bytes that are to be free.
    pub bytes: u64,
    /// The most entries that go for them.
    pub entries_max: usize,
    pub now_ms: u64,
}

impl Victims {
    /// Draws some, of keys that `may` go, until they take what is wanted, or no more may be looked at; where draws find too little, entries
    /// are looked at in the order of their keys. Nobody else may write meanwhile.
    pub fn draw(index: &Index, room: &Room, wanted: &Wanted, may: impl Fn(&[u8]) -> bool) -> Victims {
        let mut victims = Victims::default();
        let is_hopeless = match room.eviction {
            Eviction::None => true,
            Eviction::OldestWrite => false,
            Eviction::SoonestExpiry => index.expiring() == 0,
        };
        if is_hopeless || wanted.bytes == 0 {
            return victims;
        }
        let (mut random, mut drawn, mut looked_at) = (Random::of(room.next_seed()), Vec::new(), 0);
        let rank = |cell: &Cell<'_>| room.eviction.rank((cell.version, cell.expires_ms), wanted.now_ms);
        while !victims.are_enough(wanted) && looked_at < victims.looks_max() {
            looked_at += index.draw(&mut random, rank, &mut drawn);
            drawn.retain(|drawn| may(&drawn.key) && !victims.keys.contains(&drawn.key));
            // Of a draw the first quarter at most: those behind it are as good as any others.
            drawn.sort_unstable_by_key(|drawn| drawn.rank);
            drawn.truncate(drawn.len().div_ceil(4));
            for drawn in drawn.drain(..) {
                victims.take(drawn.key, taken_bytes(drawn.bytes), wanted);
            }
        }
        if !victims.are_enough(wanted) {
            victims.look_on(index, room, wanted, may);
        }
        victims
    }

    /// Takes more in the order of keys, from where the last such look ended, and once around at most.
    fn look_on(&mut self, index: &Index, room: &Room, wanted: &Wanted, may: impl Fn(&[u8]) -> bool) {
        let mut from = room.from.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut looked_at, mut ends) = (0, 0);
        while !self.are_enough(wanted) && looked_at < self.looks_max() && ends < 2 {
            let mut found = Vec::new();
            let (count, next) = index.look_on(&from, LOOKED_ON_MAX, |entry| {
                let rank = room
                    .eviction
                    .rank((entry.version, entry.expires_ms), wanted.now_ms);
                if let Some(rank) = rank.filter(|_| may(entry.key) && !self.keys.contains(entry.key)) {
                    found.push((rank, entry.key.to_vec()));
                }
                true
            });
            looked_at += count;
            ends += usize::from(next.is_none());
            found.sort_unstable();
            let mut found = found.into_iter();
            while !self.are_enough(wanted)
                && let Some((_, key)) = found.next()
            {
                let bytes = index.bytes_of(&key);
                self.take(key, bytes, wanted);
            }
            // What is left of these is the next to go.
            let left = found.map(|(_, key)| key).min();
            *from = left.or(next).unwrap_or_default();
        }
    }

    fn are_enough(&self, wanted: &Wanted) -> bool {
        self.is_full || self.bytes >= wanted.bytes
    }

    /// How many entries may be looked at by each way.
    fn looks_max(&self) -> usize {
        LOOKS_MIN + LOOKS_EACH * self.keys.len()
    }

    /// Takes one more, if any is wanted and so many may go.
    fn take(&mut self, key: Vec<u8>, bytes: u64, wanted: &Wanted) {
        if self.are_enough(wanted) {
            return;
        }
        let record_bytes = self.record_bytes + key.len() + REMOVAL_BYTES;
        if self.keys.len() == wanted.entries_max || record_bytes > PUT_BYTES_MAX {
            self.is_full = true;
        } else if self.keys.insert(key) {
            // One leaf may be drawn twice.
            self.record_bytes = record_bytes;
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests;
