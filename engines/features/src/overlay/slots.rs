//! Where the keys of the fresh rows' index have their cells: places in groups of seven, each with a tag of eight bits.
//!
//! Counts nothing and never grows: the index makes others. Invariants: a key has one place as long as it is there, in its first group or
//! in one behind, and every group before that says so; and a place names a cell that is whole.

use millpond_prefetch::prefetch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use arc_swap::{ArcSwap, Guard};

use super::block::ones;
use super::cells::Cells;
use super::filter::Filter;
use super::index::Entry;
use super::seed::{Seed, Seeded};
use crate::hash::hash;

/// Places of a group: their tags are the lower bytes of one word. The highest byte has a bit for each eighth of the hashes: set
/// once a key of those lies in a group behind.
pub(super) const GROUP: usize = 7;
const BEHIND_SHIFT: u32 = 56;
/// The tag of a place without a key.
const EMPTY: u8 = 0;
/// Each byte's lowest bit, and the highest of each tag.
const LOWS: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = (LOWS << 7) & !(0xff << BEHIND_SHIFT);
/// In place of a cell.
const NO_CELL: u32 = 0;

/// The filter as it was when it was asked for.
pub(super) type PinnedFilter = Guard<Arc<Filter>>;

/// Places for keys. The first group that a key may lie in is by its hash; where that is full, it lies in one behind.
pub(crate) struct Slots {
    /// What hashes here are by: keys that were chosen to lie in one group lie apart.
    pub(super) seed: Seed,
    /// Groups in which hashes have their first. Others follow, so that searching never wraps around.
    homes: u64,
    tags: Box<[AtomicU64]>,
    /// Of each place the number of its cell and one.
    numbers: Box<[AtomicU32]>,
    /// Another one from time to time.
    filter: ArcSwap<Filter>,
    pub(super) cells: Cells,
}

/// A key that is looked for: a group, and in it the places that may be its by their tags, each a bit.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sought {
    hash: Seeded,
    group: usize,
    same: u64,
}

impl Sought {
    #[inline(always)]
    fn place(&self) -> usize {
        place_in(self.group, self.same)
    }
}

/// Where a key is, or may come: to an empty place, behind groups that do not all know it yet.
pub(super) enum Spot {
    There(usize),
    Free(usize),
    Nowhere,
}

impl Slots {
    /// Of cells with rows of so many bytes. `beside` is how many cells there may be beside one for each place, and how many words
    /// rows may take that vary in length.
    pub(super) fn new(
        seed: Seed,
        (row_bytes, has_stamps): (usize, bool),
        (homes, tail): (usize, usize),
        (cells_beside, heap_words): (usize, usize),
    ) -> Slots {
        let groups = homes + tail;
        let places = groups * GROUP;
        Slots {
            seed,
            homes: homes as u64,
            tags: (0..groups).map(|_| AtomicU64::new(0)).collect(),
            numbers: (0..places).map(|_| AtomicU32::new(NO_CELL)).collect(),
            filter: ArcSwap::from_pointee(Filter::new(homes * GROUP)),
            cells: Cells::new(row_bytes, has_stamps, places + cells_beside, heap_words),
        }
    }

    /// Places of groups that are homes.
    pub(super) fn capacity(&self) -> usize {
        self.homes as usize * GROUP
    }

    pub(super) fn places(&self) -> usize {
        self.numbers.len()
    }

    /// The hash by which a key lies here.
    #[inline]
    pub(crate) fn hash(&self, key: u64) -> Seeded {
        self.seed.mix(hash(key))
    }

    #[inline]
    pub(super) fn home(&self, hash: Seeded) -> usize {
        ((u128::from(hash.0) * u128::from(self.homes)) >> 64) as usize
    }

    #[inline]
    fn tags_of(&self, group: usize) -> Option<u64> {
        self.tags.get(group).map(|tags| tags.load(Ordering::Acquire))
    }

    pub(super) fn number_at(&self, place: usize) -> u32 {
        self.numbers
            .get(place)
            .map_or(NO_CELL, |number| number.load(Ordering::Acquire))
    }

    /// Where a key is looked for first, which is asked for.
    #[inline]
    pub(crate) fn sought(&self, hash: Seeded) -> Sought {
        let group = self.home(hash);
        if let Some(tags) = self.tags.get(group) {
            prefetch(tags);
        }
        Sought { hash, group, same: 0 }
    }

    /// What turns away most keys that are not there.
    #[inline]
    pub(super) fn filter(&self) -> PinnedFilter {
        self.filter.load()
    }

    /// Lets readers have another filter, which has all keys that are there. The writer's.
    pub(super) fn replace_filter(&self, filter: Filter) {
        self.filter.store(Arc::new(filter));
    }

    /// Of the keys that are asked for those that have a place by their tag; key i is bit i. What these have is asked for ahead.
    pub(crate) fn candidates<const KEYS: usize>(&self, sought: &mut [Sought; KEYS], asked: u64) -> u64 {
        let mut candidates = 0;
        for at in ones(asked) {
            let Some(sought) = sought.get_mut(at) else { break };
            if self.go_on(sought) {
                candidates |= 1 << at;
                self.numbers.get(sought.place()).into_iter().for_each(prefetch);
            }
        }
        for sought in ones(candidates).filter_map(|at| sought.get(at)) {
            let number = self.number_at(sought.place()).checked_sub(1);
            number.into_iter().for_each(|number| self.cells.prefetch(number));
        }
        candidates
    }

    /// Goes on to the next place that may be the key's by its tag, if there is one.
    #[inline]
    fn go_on(&self, sought: &mut Sought) -> bool {
        let mut tags = self.tags_of(sought.group);
        if sought.same == 0 {
            sought.same = tags.map_or(0, |tags| places_of(tag(sought.hash), tags));
        } else {
            sought.same &= sought.same - 1;
        }
        while sought.same == 0 {
            if !tags.is_some_and(|tags| is_behind(sought.hash, tags)) {
                return false;
            }
            sought.group += 1;
            tags = self.tags_of(sought.group);
            sought.same = tags.map_or(0, |tags| places_of(tag(sought.hash), tags));
        }
        true
    }

    /// The entry of a key, if there is one, with its row behind what is in `rows` where that is wanted. `sought` stands at the first
    /// place that may be the key's.
    #[inline]
    pub(crate) fn find<const ROWS: bool>(
        &self,
        key: u64,
        mut sought: Sought,
        rows: &mut Vec<u8>,
    ) -> Option<Entry<()>> {
        loop {
            let found = self.entry_at(sought.place(), ROWS.then_some(key), rows);
            if let Some(entry) = found.filter(|entry| entry.key == key) {
                return Some(entry);
            }
            if !self.go_on(&mut sought) {
                return None;
            }
        }
    }

    /// The same of a key that was not sought.
    pub(crate) fn find_first<const ROWS: bool>(&self, key: u64, rows: &mut Vec<u8>) -> Option<Entry<()>> {
        let mut sought = self.sought(self.hash(key));
        let may_be_there = self.go_on(&mut sought);
        may_be_there.then(|| self.find::<ROWS>(key, sought, rows))?
    }

    /// The entry of a key, if there is one, without its row.
    pub(crate) fn head(&self, key: u64) -> Option<Entry<()>> {
        self.find_first::<false>(key, &mut Vec::new())
    }

    /// The entry of a place. Its row comes behind what is in `rows` where the key is the `wanted` one.
    ///
    /// A cell is written anew only once its place names another; then the place is asked again. So nobody waits for a writer that
    /// stands still.
    #[inline]
    fn entry_at(&self, place: usize, wanted: Option<u64>, rows: &mut Vec<u8>) -> Option<Entry<()>> {
        let (named, begin) = (self.numbers.get(place)?, rows.len());
        loop {
            rows.truncate(begin);
            let number = named.load(Ordering::Acquire);
            let copied = self.cells.copy(number.checked_sub(1)?, wanted, rows)?;
            fence(Ordering::Acquire);
            if named.load(Ordering::Relaxed) == number && copied.is_still() {
                return Some(copied.entry);
            }
            std::hint::spin_loop();
        }
    }

    /// The entry of a place without its row, if there is one.
    pub(super) fn head_at(&self, place: usize) -> Option<Entry<()>> {
        self.entry_at(place, None, &mut Vec::new())
    }

    /// Where a key is or may come. The writer's.
    pub(super) fn spot(&self, key: u64, hash: Seeded) -> Spot {
        let (mut group, mut free, mut may_be_there) = (self.home(hash), None, true);
        while let Some(tags) = self.tags_of(group) {
            let mut same = if may_be_there {
                places_of(tag(hash), tags)
            } else {
                0
            };
            while same != 0 {
                let place = place_in(group, same);
                if self.head_at(place).is_some_and(|entry| entry.key == key) {
                    return Spot::There(place);
                }
                same &= same - 1;
            }
            let empty = places_of(EMPTY, tags);
            free = free.or((empty != 0).then(|| place_in(group, empty)));
            may_be_there &= is_behind(hash, tags);
            match free {
                Some(place) if !may_be_there => return Spot::Free(place),
                _ => group += 1,
            }
        }
        free.map_or(Spot::Nowhere, Spot::Free)
    }

    /// Lets the place of a key that is there name another cell; the one that it named. The writer's.
    pub(super) fn replace(&self, place: usize, cell: u32) -> Option<u32> {
        let before = self.numbers.get(place)?.swap(cell + 1, Ordering::AcqRel);
        before.checked_sub(1)
    }

    /// Lets a key have an empty place, which names its cell; how many eighths of groups lead behind these now that did not before. The writer's.
    pub(super) fn occupy(&self, place: usize, key: u64, cell: u32) -> usize {
        self.filter.load().add(hash(key));
        let (mut led, hash) = (0, self.hash(key));
        for tags in self.tags.get(self.home(hash)..place / GROUP).unwrap_or_default() {
            let before = tags.load(Ordering::Relaxed);
            led += usize::from(!is_behind(hash, before));
            tags.store(before | behind_bit(hash), Ordering::Release);
        }
        if let Some(number) = self.numbers.get(place) {
            number.store(cell + 1, Ordering::Release);
        }
        self.set_tag(place, tag(hash));
        led
    }

    /// Empties a place; the cell that it named. The writer's.
    pub(super) fn empty(&self, place: usize) -> Option<u32> {
        let cell = self
            .numbers
            .get(place)?
            .swap(NO_CELL, Ordering::AcqRel)
            .checked_sub(1)?;
        self.set_tag(place, EMPTY);
        Some(cell)
    }

    fn set_tag(&self, place: usize, tag: u8) {
        if let Some(tags) = self.tags.get(place / GROUP) {
            let mut bytes = tags.load(Ordering::Relaxed).to_le_bytes();
            if let Some(byte) = bytes.get_mut(place % GROUP) {
                *byte = tag;
            }
            tags.store(u64::from_le_bytes(bytes), Ordering::Release);
        }
    }

    /// Takes over all entries of other places, into cells from 0 on; how many, or nothing where there is no place for one.
    pub(super) fn take_over(&self, from: &Slots) -> Option<u32> {
        let mut count = 0;
        for place in 0..from.places() {
            let (Some(entry), Some(cell)) = (from.head_at(place), from.number_at(place).checked_sub(1))
            else {
                continue;
            };
            let Spot::Free(place) = self.spot(entry.key, self.hash(entry.key)) else {
                return None;
            };
            self.cells.write_as(count, &from.cells, cell);
            self.occupy(place, entry.key, count);
            count += 1;
        }
        Some(count)
    }

    /// Keys whose hashes here, cut to their upper bits, are at least `from`, in their order: all there are up to the cut hash that the
    /// next call goes on from, or to the end. They are more than `keys_max` where there are so many in the first `places_max`.
    pub(crate) fn keys_from(
        &self,
        from: u64,
        (keys_max, places_max): (usize, usize),
        cut: u32,
        keep: impl Fn(&Entry<()>) -> bool,
    ) -> (Vec<(u64, u64)>, Option<u64>) {
        let (mut found, mut next) = (Vec::new(), None);
        let first = self.home(Seeded(from << cut));
        let mut group = first;
        while let Some(tags) = self.tags_of(group) {
            let entries = (0..GROUP).filter_map(|at| self.head_at(group * GROUP + at));
            for entry in entries.filter(|entry| keep(entry)) {
                let cut = self.hash(entry.key).0 >> cut;
                found.extend((cut >= from).then_some((cut, entry.key)));
            }
            group += 1;
            let is_enough = found.len() > keys_max || (group - first) * GROUP >= places_max;
            // No key whose home is up to such a group lies behind it.
            if is_enough && tags >> BEHIND_SHIFT == 0 && (group as u64) < self.homes {
                let begin = self.first_hash(group) >> cut;
                if begin > from {
                    // Where the cut is within a home, keys behind it come with the next.
                    found.retain(|(cut, _)| *cut < begin);
                    next = Some(begin);
                    break;
                }
            }
        }
        found.sort_unstable();
        (found, next)
    }

    /// The lowest hash whose home is a group.
    fn first_hash(&self, group: usize) -> u64 {
        (((group as u128) << 64).div_ceil(u128::from(self.homes))) as u64
    }
}

/// The tag of a hash, by bits that say little of its home.
#[inline]
fn tag(hash: Seeded) -> u8 {
    (hash.0 as u8).max(EMPTY + 1)
}

/// The bit of a hash in the word of a group that its key lies behind.
#[inline]
fn behind_bit(hash: Seeded) -> u64 {
    1 << (BEHIND_SHIFT + (hash.0 >> 8 & 7) as u32)
}

#[inline]
fn is_behind(hash: Seeded, tags: u64) -> bool {
    tags & behind_bit(hash) != 0
}

/// The highest bit of each tag that is `tag`, the lowest of them for certain; those above may be another.
#[inline]
fn places_of(tag: u8, tags: u64) -> u64 {
    let zeros = tags ^ (u64::from(tag) * LOWS);
    zeros.wrapping_sub(LOWS) & !zeros & HIGHS
}

/// The place whose byte has the lowest bit that is set.
#[inline]
fn place_in(group: usize, bits: u64) -> usize {
    group * GROUP + bits.trailing_zeros() as usize / 8
}
