//! Where the keys of the fresh rows' index have their cells: places in groups of seven, each with a tag of eight bits.
//!
//! Counts nothing and never grows: the index makes others. Invariants: a key has one place as long as it is there, in its first group or
//! in one behind, and every group before that says so; and a place names a cell that is whole.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::cells::Cells;
use super::index::Entry;
use super::seed::{Seed, Seeded};
use crate::hash::hash;
use crate::prefetch::prefetch;

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

/// Places for keys. The first group that a key may lie in is by its hash; where that is full, it lies in one behind.
pub(crate) struct Slots {
    /// What hashes here are by: keys that were chosen to lie in one group lie apart.
    pub(super) seed: Seed,
    /// Groups in which hashes have their first. Others follow, so that searching never wraps around.
    homes: u64,
    tags: Box<[AtomicU64]>,
    /// Of each place the number of its cell and one.
    numbers: Box<[AtomicU32]>,
    pub(super) cells: Cells,
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

    /// Asks for the tags of a key's first group.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Seeded) {
        if let Some(tags) = self.tags.get(self.home(hash)) {
            prefetch(tags);
        }
    }

    /// Of at most `KEYS` keys, by their hashes, those that may be there: key i is bit i. Most keys that are not there are not among them.
    /// What these have is asked for ahead.
    #[inline]
    pub(crate) fn candidates<const KEYS: usize>(&self, hashes: &[Seeded]) -> u64 {
        const { assert!(KEYS <= u64::BITS as usize, "a bit for each") };
        let hashes = hashes.get(..KEYS).unwrap_or(hashes);
        let mut asked = 0_u64;
        // Without a branch: which keys go on is not to be foreseen.
        for &hash in hashes.iter().rev() {
            let tags = self.tags_of(self.home(hash)).unwrap_or_default();
            asked = asked << 1 | u64::from(places_of(tag(hash), tags) | tags & behind_bit(hash) != 0);
        }
        match asked {
            0 => 0,
            asked => self.placed::<KEYS>(hashes, asked),
        }
    }

    /// Those of them that have a place by their tag.
    fn placed<const KEYS: usize>(&self, hashes: &[Seeded], mut asked: u64) -> u64 {
        let (mut candidates, mut places) = (0_u64, [0; KEYS]);
        let mut free = places.iter_mut();
        while asked != 0 {
            let at = asked.trailing_zeros();
            asked &= asked - 1;
            let place = hashes.get(at as usize).and_then(|hash| self.candidate(*hash));
            if let Some(place) = place {
                candidates |= 1 << at;
                self.numbers.get(place).into_iter().for_each(prefetch);
                free.next().into_iter().for_each(|free| *free = place);
            }
        }
        for place in places.iter().take(candidates.count_ones() as usize) {
            let number = self.number_at(*place).checked_sub(1);
            number.into_iter().for_each(|number| self.cells.prefetch(number));
        }
        candidates
    }

    /// The first place that may be a key's by its tag.
    #[inline]
    fn candidate(&self, hash: Seeded) -> Option<usize> {
        let mut group = self.home(hash);
        loop {
            let tags = self.tags_of(group)?;
            let same = places_of(tag(hash), tags);
            if same != 0 {
                return Some(place_in(group, same));
            }
            if !is_behind(hash, tags) {
                return None;
            }
            group += 1;
        }
    }

    /// The entry of a key, if there is one; its row is in `row` then.
    #[inline]
    pub(crate) fn find<'r>(&self, key: u64, hash: Seeded, row: &'r mut Vec<u8>) -> Option<Entry<&'r [u8]>> {
        let found = self.entry(key, hash, Some(key), row)?;
        Some(found.with_row(row))
    }

    /// The same without its row.
    pub(crate) fn head(&self, key: u64, hash: Seeded) -> Option<Entry<()>> {
        self.entry(key, hash, None, &mut Vec::new())
    }

    #[inline]
    fn entry(&self, key: u64, hash: Seeded, wanted: Option<u64>, row: &mut Vec<u8>) -> Option<Entry<()>> {
        let mut group = self.home(hash);
        loop {
            let tags = self.tags_of(group)?;
            let mut same = places_of(tag(hash), tags);
            while same != 0 {
                let found = self.entry_at(place_in(group, same), wanted, row);
                if let Some(entry) = found.filter(|entry| entry.key == key) {
                    return Some(entry);
                }
                same &= same - 1;
            }
            if !is_behind(hash, tags) {
                return None;
            }
            group += 1;
        }
    }

    /// The entry of a place. Its row is put into `row` where the key is the `wanted` one.
    ///
    /// A cell is written anew only once its place names another; then the place is asked again. So nobody waits for a writer that
    /// stands still.
    #[inline]
    fn entry_at(&self, place: usize, wanted: Option<u64>, row: &mut Vec<u8>) -> Option<Entry<()>> {
        let named = self.numbers.get(place)?;
        loop {
            let number = named.load(Ordering::Acquire);
            let copied = self.cells.copy(number.checked_sub(1)?, wanted, row)?;
            fence(Ordering::Acquire);
            if named.load(Ordering::Relaxed) == number && copied.is_still(&self.cells) {
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
    pub(super) fn occupy(&self, place: usize, hash: Seeded, cell: u32) -> usize {
        let mut led = 0;
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
            let hash = self.hash(entry.key);
            let Spot::Free(place) = self.spot(entry.key, hash) else {
                return None;
            };
            self.cells.write_as(count, &from.cells, cell);
            self.occupy(place, hash, count);
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
