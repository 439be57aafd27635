//! The fresh rows in memory, by key: written by one thread, read by any without a lock.
//!
//! Not durable, and blind to time and versions: a reader judges what it finds. Invariants: a reader finds an entry whole, the one
//! before or the one after a write, whatever the writer does; and places never move within one [`Slots`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};

use crate::hash::hash;
use crate::prefetch::prefetch;

/// What an entry takes beside its row: the counted allocation, the row's own, and its share of places.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 112;
/// Places of the smallest index, as a power of two, beside the tail.
const BITS_MIN: u32 = 6;
/// Places behind the last home, or twice as many until all fit: probing never wraps around, so that places ascend as hashes do.
const TAIL: usize = 64;

/// What was written of a key last.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: u64,
    /// Of the upsert that wrote it.
    pub sequence: u64,
    /// When, by the overlay's clock.
    pub written_ms: u64,
    /// As stored; none where the key was removed.
    pub row: Option<Box<[u8]>>,
}

impl Entry {
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.row.as_deref().map_or(0, <[u8]>::len))
    }
}

/// Memory that an entry takes whose row has so many bytes.
pub(crate) fn bytes_of(row_bytes: usize) -> u64 {
    row_bytes as u64 + ENTRY_OVERHEAD_BYTES
}

/// The index.
pub(crate) struct Index {
    slots: ArcSwap<Slots>,
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// Places for entries; a key has its first by the upper bits of its hash, and goes on behind it.
pub(crate) struct Slots {
    bits: u32,
    /// Of each place the lower bits of a hash; zero where nothing was ever.
    marks: Box<[AtomicU32]>,
    /// Empty again where an entry was taken away.
    entries: Box<[ArcSwapOption<Entry>]>,
}

/// The places that readers have; entries may change meanwhile.
pub(crate) type Pinned = Guard<Arc<Slots>>;

impl Slots {
    fn new(bits: u32, tail: usize) -> Slots {
        let places = (1 << bits) + tail;
        Slots {
            bits,
            marks: (0..places).map(|_| AtomicU32::new(0)).collect(),
            entries: (0..places).map(|_| ArcSwapOption::empty()).collect(),
        }
    }

    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.bits)) as usize
    }

    fn mark_at(&self, at: usize) -> u32 {
        self.marks.get(at).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    /// Asks for the place where a key's search begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(mark) = self.marks.get(self.home(hash)) {
            prefetch(mark);
        }
    }

    /// Hands the entry of a key to `read`, if there is one.
    #[inline]
    pub(crate) fn find<R>(&self, key: u64, hash: u64, read: impl FnOnce(Option<&Entry>) -> R) -> R {
        let (mut at, wanted) = (self.home(hash), mark(hash));
        loop {
            match self.mark_at(at) {
                0 => return read(None),
                found if found == wanted => {
                    let entry = self.entries.get(at).map(ArcSwapOption::load);
                    let entry = entry.as_ref().and_then(|entry| entry.as_deref());
                    if let Some(entry) = entry.filter(|entry| entry.key == key) {
                        return read(Some(entry));
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The place of a key: its own, one that an entry of the same mark left, or the first that was never used. The writer's.
    fn place(&self, key: u64, hash: u64) -> Option<usize> {
        let (mut at, wanted) = (self.home(hash), mark(hash));
        let mut left = None;
        loop {
            match self.mark_at(at) {
                0 => return left.or((at < self.marks.len()).then_some(at)),
                found if found == wanted => match self.entries.get(at)?.load().as_deref() {
                    Some(entry) if entry.key == key => return Some(at),
                    None => left = left.or(Some(at)),
                    Some(_) => {}
                },
                _ => {}
            }
            at += 1;
        }
    }

    /// Puts an entry in its place; what was there before. `None` where there is no place.
    fn put(&self, entry: Arc<Entry>) -> Option<Put> {
        let hash = hash(entry.key);
        let at = self.place(entry.key, hash)?;
        let is_new = self.mark_at(at) == 0;
        let before = self.entries.get(at)?.swap(Some(entry));
        self.marks.get(at)?.store(mark(hash), Ordering::Release);
        Some((before, is_new))
    }

    /// Keys whose hashes, cut to their upper bits, are at least `from`, in their order: all there are up to the cut hash that the
    /// next call goes on from, or to the end. They are more than `keys_max` where there are so many in the first `places_max`.
    pub(crate) fn keys_from(
        &self,
        from: u64,
        (keys_max, places_max): (usize, usize),
        cut: u32,
        keep: impl Fn(&Entry) -> bool,
    ) -> (Vec<(u64, u64)>, Option<u64>) {
        let (mut found, mut next) = (Vec::new(), None);
        let first = self.home(from << cut);
        let mut at = first;
        while at < self.marks.len() {
            let is_enough = found.len() > keys_max || at - first >= places_max;
            // No key whose home is before such a place lies behind it.
            if is_enough && self.mark_at(at) == 0 && at + 1 < 1 << self.bits {
                next = Some(((at as u64 + 1) << (64 - self.bits)) >> cut);
                break;
            }
            if let Some(entry) = self.entries.get(at).map(ArcSwapOption::load)
                && let Some(entry) = entry.as_deref()
                && keep(entry)
            {
                let cut = hash(entry.key) >> cut;
                found.extend((cut >= from).then_some((cut, entry.key)));
            }
            at += 1;
        }
        found.sort_unstable();
        (found, next)
    }
}

/// What was in a place before, and whether nothing ever was.
type Put = (Option<Arc<Entry>>, bool);

fn mark(hash: u64) -> u32 {
    hash as u32 | 1
}

/// The writer's side: what it counts beside the places.
pub(crate) struct Writer {
    index: Arc<Index>,
    /// Places that are used or were.
    used: usize,
}

impl Index {
    /// Without an entry, and the one writer it has.
    pub(crate) fn new() -> (Arc<Index>, Writer) {
        let index = Arc::new(Index {
            slots: ArcSwap::from_pointee(Slots::new(BITS_MIN, TAIL)),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let writer = Writer {
            index: Arc::clone(&index),
            used: 0,
        };
        (index, writer)
    }

    /// Rows and removals. One atomic load.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn pin(&self) -> Pinned {
        self.slots.load()
    }
}

impl Writer {
    pub(crate) fn get(&self, key: u64) -> Option<Arc<Entry>> {
        let slots = self.index.slots.load();
        let at = slots.place(key, hash(key))?;
        let entry = slots.entries.get(at)?.load_full();
        entry.filter(|entry| entry.key == key)
    }

    pub(crate) fn put(&mut self, entry: Entry) {
        let (bytes, entry) = (entry.bytes(), Arc::new(entry));
        // Counted first: a reader that sees the count looks, and one that does not finds the entry the next time.
        self.index.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.index.entries.fetch_add(1, Ordering::Release);
        let slots = self.index.slots.load_full();
        let fits = self.used < 1 << (slots.bits - 1);
        let put = fits.then(|| slots.put(Arc::clone(&entry))).flatten();
        let (before, is_new) = match put {
            Some(put) => put,
            None => self.grow(&entry),
        };
        self.used += usize::from(is_new);
        if let Some(before) = before {
            self.uncount(&before);
        }
    }

    /// Moves everything to as many places as it needs, and puts the entry there.
    fn grow(&mut self, entry: &Arc<Entry>) -> Put {
        let mut bits = BITS_MIN;
        while 1_u64 << bits < self.index.len().saturating_mul(4) {
            bits += 1;
        }
        let mut tail = TAIL;
        loop {
            let slots = Slots::new(bits, tail);
            if let Some((used, put)) = self.moved(&slots, entry) {
                self.used = used;
                self.index.slots.store(Arc::new(slots));
                return put;
            }
            // Too many keys behind the last homes. However many homes there were, those keys could share the last one.
            tail *= 2;
        }
    }

    fn moved(&self, to: &Slots, entry: &Arc<Entry>) -> Option<(usize, Put)> {
        let mut used = 0;
        for old in &self.index.slots.load().entries {
            if let Some(old) = old.load_full() {
                to.put(old)?;
                used += 1;
            }
        }
        Some((used, to.put(Arc::clone(entry))?))
    }

    /// Takes away what `goes` of the entries in some places, from `from` on. Where the next call goes on, or nothing at the end.
    pub(crate) fn take_away(
        &mut self,
        from: usize,
        places: usize,
        goes: impl Fn(&Entry) -> bool,
    ) -> (u64, Option<usize>) {
        let slots = self.index.slots.load_full();
        let mut count = 0;
        for place in slots.entries.iter().skip(from).take(places) {
            let entry = place.load_full();
            if let Some(entry) = entry.filter(|entry| goes(entry)) {
                place.store(None);
                self.uncount(&entry);
                count += 1;
            }
        }
        let next = from.saturating_add(places);
        (count, (next < slots.entries.len()).then_some(next))
    }

    fn uncount(&self, entry: &Entry) {
        self.index.bytes.fetch_sub(entry.bytes(), Ordering::Relaxed);
        self.index.entries.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(key: u64, sequence: u64) -> Entry {
        Entry {
            key,
            sequence,
            written_ms: 0,
            row: (!sequence.is_multiple_of(3)).then(|| Box::from(sequence.to_le_bytes())),
        }
    }

    fn sequence_of(index: &Index, key: u64) -> Option<u64> {
        index
            .pin()
            .find(key, hash(key), |entry| entry.map(|entry| entry.sequence))
    }

    proptest! {
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0..300_u64, 0..8_u8), 0..2000)) {
            let (index, mut writer) = Index::new();
            let mut model = BTreeMap::new();
            for (sequence, (key, kind)) in (1..).zip(changes) {
                if kind == 0 {
                    writer.take_away(0, usize::MAX, |entry| entry.key % 7 == key % 7);
                    model.retain(|found: &u64, _| found % 7 != key % 7);
                } else {
                    writer.put(entry(key, sequence));
                    model.insert(key, sequence);
                }
            }
            for key in 0..300 {
                prop_assert_eq!(sequence_of(&index, key), model.get(&key).copied());
                prop_assert_eq!(writer.get(key).map(|entry| entry.sequence), model.get(&key).copied());
            }
            prop_assert_eq!(index.len(), model.len() as u64);
            let bytes: u64 = model.iter().map(|(key, sequence)| entry(*key, *sequence).bytes()).sum();
            prop_assert_eq!(index.bytes(), bytes);
            let mut pages = Vec::new();
            let mut from = 0;
            loop {
                let (page, next) = index.pin().keys_from(from, (5, 20), 17, |_| true);
                pages.extend(page.iter().map(|found| found.1));
                let Some(next) = next else { break };
                prop_assert!(next > from);
                from = next;
            }
            pages.sort_unstable();
            prop_assert_eq!(pages, model.keys().copied().collect::<Vec<_>>());
        }
    }

    /// Readers find of each key one of its entries, never none, while a writer replaces them and the index grows.
    #[test]
    fn readers_never_miss_what_is_there() {
        let (index, mut writer) = Index::new();
        (0..50).for_each(|key| writer.put(entry(key, 1)));
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = [0; 50];
                    while !done.load(Ordering::Relaxed) {
                        for key in 0..50 {
                            let found = sequence_of(&index, key).unwrap();
                            assert!(found >= last[key as usize]);
                            last[key as usize] = found;
                        }
                    }
                });
            }
            for sequence in 2..200 {
                (0..50).for_each(|key| writer.put(entry(key, sequence)));
                writer.put(entry(1000 + sequence, sequence));
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
