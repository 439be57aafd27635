//! Gives every key of a shard a slot of its own, and writes the shard in that order.
//!
//! The method is hash and displace (Belazzougui, Botelho and Dietzfelbinger, 2009), as docs/formats/feature-shard.md has
//! it. Knows nothing of columns. Invariant: the bytes follow from the keys and rows alone, not from their order.

use millpond_prefetch::prefetch;
use std::io::{self, Write};
use std::path::Path;

use super::buckets::Buckets;
use super::pilots::{Bits, pilots};
use super::section::Section;
use super::varying::Lengths;
use crate::error::Error;
use crate::hash::{Places, hash, key_of};
use crate::header::{Header, HeapSection, KEY_BYTES, Layout, SHARD_ROWS_MAX};
use crate::pages::Pages;

/// Seeds are powers of the first, so that hashes spread by one become those of the next by a multiplication.
const FIRST_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const SEEDS_MAX: usize = 16;
/// Larger buckets take less memory and more tries.
const BUCKET_ROWS: u64 = 4;
/// Of ten slots nine are used: more would take more tries, fewer more memory.
const USED: (u64, u64) = (9, 10);
const BUFFER_BYTES: usize = 64 * 1024;
/// Slots whose places are found before the first is written.
const AHEAD: usize = 32;

/// What a shard says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) shard: u32,
    pub(crate) shards: u32,
    pub(crate) version: u64,
    pub(crate) row_bytes: u32,
    pub(crate) is_delta: bool,
}

/// The keys of a shard while they come.
#[derive(Default)]
pub(crate) struct Keys {
    hashes: Vec<u64>,
}

impl Keys {
    pub(crate) fn push(&mut self, key: u64) {
        self.hashes.push(hash(key));
    }

    pub(crate) fn extend(&mut self, keys: &[u64]) {
        self.hashes.extend(keys.iter().map(|&key| hash(key)));
    }

    pub(crate) fn len(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// Keeps each key once, and returns those that were there more often, in their order.
    pub(crate) fn fold(&mut self) -> Vec<u64> {
        self.hashes.sort_unstable();
        let same = self.hashes.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        let mut met: Vec<u64> = same
            .filter_map(|same| same.first().copied().map(key_of))
            .collect();
        met.sort_unstable();
        self.hashes.dedup();
        met
    }

    /// Whether the key is there, after [`Keys::fold`].
    pub(crate) fn has(&self, key: u64) -> bool {
        self.hashes.binary_search(&hash(key)).is_ok()
    }

    /// Takes out the keys `gone`, which are in order.
    pub(crate) fn take_out(&mut self, gone: &[u64]) {
        if !gone.is_empty() {
            self.hashes
                .retain(|&hash| gone.binary_search(&key_of(hash)).is_err());
        }
    }

    /// Finds a slot for each. `path` is for messages.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`], [`Error::NoArrangement`]; [`Error::Io`] where there is no memory.
    pub(crate) fn arrange(self, path: &Path) -> Result<Arrangement, Error> {
        let rows = self.len();
        let mut spreads = self.hashes;
        let mut places = Places {
            seed: FIRST_SEED,
            buckets: rows.div_ceil(BUCKET_ROWS),
            slots: match rows {
                0 => 0,
                _ => (rows * USED.1).div_ceil(USED.0).max(rows + 1),
            },
        };
        let no_arrangement = || Error::NoArrangement {
            path: path.to_path_buf(),
            rows,
        };
        if rows > SHARD_ROWS_MAX {
            return Err(no_arrangement());
        }
        for _ in 0..SEEDS_MAX {
            for spread in &mut spreads {
                *spread = spread.wrapping_mul(FIRST_SEED);
            }
            let buckets = Buckets::of(spreads, places).map_err(Error::io("arrange", path))?;
            if let Some(pilots) = pilots(&buckets, places) {
                let filler = buckets.lowest().map_or(0, |spread| places.key_of(spread));
                return Ok(Arrangement {
                    keep_first: false,
                    lengths: None,
                    rows,
                    places,
                    pilots,
                    filler,
                });
            }
            // No pilot gives two slots to one key.
            if let Some(spread) = buckets.met_twice() {
                let key = places.key_of(spread);
                return Err(Error::DuplicateKey { key });
            }
            spreads = buckets.into_spreads();
            places.seed = places.seed.wrapping_mul(FIRST_SEED);
        }
        Err(no_arrangement())
    }
}

/// Where every key of a shard goes.
pub(crate) struct Arrangement {
    /// Of several rows of a key the first stays, else the last.
    pub(crate) keep_first: bool,
    /// Where rows vary in length: how long that of each slot is.
    pub(super) lengths: Option<Lengths>,
    rows: u64,
    places: Places,
    pilots: Vec<u16>,
    /// The key that slots without one have: its own slot is another.
    pub(super) filler: u64,
}

/// Hands every slot of a shard, a key and its row, to the visitor it is given, one or several behind each other. Of slots of the
/// same key the arrangement keeps one.
pub(crate) type Slots<'a> = dyn FnMut(&mut dyn FnMut(&[u8])) -> Result<(), Error> + 'a;

/// Gets a key and its row.
pub(crate) type Kept<'a> = dyn FnMut(u64, &[u8]) + 'a;

impl Arrangement {
    /// Writes the pilots and the slots, and returns the header that belongs before them; the checksum of a heap is not in it yet. The slots are visited once for each
    /// `memory_bytes` of them; `path` is for messages. `kept` gets the key and the row of each slot that has one.
    pub(crate) fn write(
        &self,
        identity: Identity,
        memory_bytes: usize,
        out: &mut impl Write,
        path: &Path,
        slots: &mut Slots<'_>,
        mut kept: Option<&mut Kept<'_>>,
    ) -> Result<Header, Error> {
        let (mut header, layout) = self.header(identity)?;
        let mut section = Section::new(out);
        let written = self.write_pilots(&mut section, &layout);
        header.pilots_checksum = written.map_err(Error::io("write", path))?;
        let slot_bytes = header.slot_bytes();
        let pass_slots = (memory_bytes / slot_bytes).max(1) as u64;
        let (mut begin, mut heap_at) = (0, 0);
        while begin < self.places.slots {
            let end = self.places.slots.min(begin.saturating_add(pass_slots));
            let range = begin..end;
            let image_bytes = (end - begin) as usize * slot_bytes;
            let mut image = Pages::zeroed(image_bytes).map_err(Error::io("write", path))?;
            self.fill(&mut image, range, slot_bytes, slots)?;
            if let Some(lengths) = &self.lengths {
                lengths.write_starts(&mut heap_at, begin..end, image.chunks_exact_mut(slot_bytes));
            }
            if let Some(kept) = &mut kept {
                self.each_kept(begin, image.chunks_exact(slot_bytes), *kept);
            }
            section.write(&image).map_err(Error::io("write", path))?;
            begin = end;
        }
        let ended = section.end(layout.slots_bytes);
        header.slots_checksum = ended.map_err(Error::io("write", path))?;
        Ok(header)
    }

    /// The header without checksums.
    pub(super) fn header(&self, identity: Identity) -> Result<(Header, Layout), Error> {
        let heap = self.lengths.as_ref().map(|lengths| HeapSection {
            bytes: lengths.sum(),
            checksum: 0,
        });
        let header = Header {
            format: identity.format,
            heap,
            shard: identity.shard,
            shards: identity.shards,
            row_bytes: identity.row_bytes,
            version: identity.version,
            rows: self.rows,
            is_delta: identity.is_delta,
            places: self.places,
            pilots_checksum: 0,
            slots_checksum: 0,
        };
        let layout = header.layout();
        let layout = layout.ok_or_else(|| Error::argument("rows", "a shard below 2^64 bytes", self.rows));
        Ok((header, layout?))
    }

    /// Writes the pilots; returns their checksum.
    pub(super) fn write_pilots<W: Write>(
        &self,
        section: &mut Section<'_, W>,
        layout: &Layout,
    ) -> io::Result<u64> {
        for pilots in self.pilots.chunks(BUFFER_BYTES) {
            let bytes: Vec<u8> = pilots.iter().flat_map(|pilot| pilot.to_le_bytes()).collect();
            section.write(&bytes)?;
        }
        section.end(layout.pilots_bytes)
    }

    /// Fills an image of zeros with the slots of a range, as they lie in the file.
    fn fill(
        &self,
        image: &mut [u8],
        range: std::ops::Range<u64>,
        slot_bytes: usize,
        slots: &mut Slots<'_>,
    ) -> Result<(), Error> {
        let mut filled = Bits::new(range.end - range.start);
        let mut numbers = [0; AHEAD];
        slots(&mut |slots| {
            for some in slots.chunks(AHEAD * slot_bytes) {
                // All places are asked for before the first is written: most of them are in no cache.
                for (number, slot) in numbers.iter_mut().zip(some.chunks_exact(slot_bytes)) {
                    let at = self.slot_of(slot).unwrap_or(u64::MAX);
                    *number = at.wrapping_sub(range.start);
                    if let Some(place) = image.get((*number as usize).wrapping_mul(slot_bytes)) {
                        prefetch(place);
                    }
                }
                for (&number, slot) in numbers.iter().zip(some.chunks_exact(slot_bytes)) {
                    if number >= range.end - range.start || (filled.set(number) && self.keep_first) {
                        continue;
                    }
                    let begin = number as usize * slot_bytes;
                    if let Some(place) = image.get_mut(begin..begin + slot_bytes) {
                        place.copy_from_slice(slot);
                    }
                }
            }
        })?;
        let filler = self.filler.to_le_bytes();
        filled.each_unset(|number| {
            let begin = number as usize * slot_bytes;
            if let Some(place) = image.get_mut(begin..begin + KEY_BYTES) {
                place.copy_from_slice(&filler);
            }
        });
        Ok(())
    }

    /// Hands on the slots of an image that have a row; `begin` is the number of its first slot.
    fn each_kept<'s>(&self, begin: u64, slots: impl Iterator<Item = &'s [u8]>, kept: &mut Kept<'_>) {
        for (number, slot) in (begin..).zip(slots) {
            if let Some((key, row)) = slot.split_first_chunk()
                && self.slot_of(slot) == Some(number)
            {
                kept(u64::from_le_bytes(*key), row);
            }
        }
    }

    pub(super) fn slots(&self) -> u64 {
        self.places.slots
    }

    /// The number of the slot of the key that `slot` begins with.
    pub(super) fn slot_of(&self, slot: &[u8]) -> Option<u64> {
        let key = u64::from_le_bytes(*slot.first_chunk()?);
        let spread = self.places.spread(hash(key));
        let pilot = self.pilots.get(self.places.bucket(spread) as usize)?;
        Some(self.places.slot(spread, *pilot))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn arrange(keys: impl IntoIterator<Item = u64>) -> Result<Arrangement, Error> {
        let mut all = Keys::default();
        keys.into_iter().for_each(|key| all.push(key));
        all.arrange(Path::new("shard"))
    }

    fn check(keys: &[u64]) {
        let arrangement = arrange(keys.iter().copied()).unwrap();
        let mut taken = vec![false; arrangement.places.slots as usize];
        for key in keys {
            let slot = arrangement.slot_of(&key.to_le_bytes()).unwrap() as usize;
            assert!(!taken[slot], "{} keys: slot {slot} twice", keys.len());
            taken[slot] = true;
        }
        assert!(keys.is_empty() || keys.contains(&arrangement.filler));
    }

    #[test]
    fn every_key_has_a_slot_of_its_own() {
        for rows in [0, 1, 2, 3, 4, 5, 8, 9, 10, 64, 100, 1000, 20_000_u64] {
            check(&(0..rows).collect::<Vec<_>>());
            check(&(0..rows).map(|key| key << 32).collect::<Vec<_>>());
            check(&(0..rows).map(|key| u64::MAX - key * 7919).collect::<Vec<_>>());
            check(&(0..rows).map(hash).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        for key in [0, 7, u64::MAX] {
            let keys = (1000..2000).chain([key]).chain(3000..3100).chain([key]);
            let error = arrange(keys).err().unwrap();
            assert!(
                matches!(error, Error::DuplicateKey { key: found } if found == key),
                "{error}"
            );
        }
    }

    #[test]
    fn bytes_do_not_depend_on_the_order_or_the_memory() {
        let write = |keys: &[u64], memory_bytes| {
            let arrangement = arrange(keys.iter().copied()).unwrap();
            let identity = Identity {
                format: 2,
                shard: 0,
                shards: 1,
                version: 1,
                row_bytes: 3,
                is_delta: false,
            };
            let mut out = Vec::new();
            let header = arrangement.write(
                identity,
                memory_bytes,
                &mut out,
                Path::new("x"),
                &mut |visit| {
                    for key in keys {
                        let row = [1, 2, *key as u8];
                        visit(&[&key.to_le_bytes()[..], &row].concat());
                    }
                    Ok(())
                },
                None,
            );
            (header.unwrap(), out)
        };
        let keys: Vec<u64> = (0..500).map(|key| key * 31).collect();
        let turned: Vec<u64> = keys.iter().rev().copied().collect();
        let expected = write(&keys, usize::MAX);
        assert_eq!(
            expected.1.len() as u64 + 128,
            expected.0.layout().unwrap().file_bytes
        );
        for memory_bytes in [0, 1, 100, 4096] {
            assert_eq!(write(&turned, memory_bytes), expected);
        }
    }

    #[test]
    fn of_rows_of_one_key_the_first_or_the_last_stays() {
        let identity = Identity {
            format: 2,
            shard: 0,
            shards: 1,
            version: 1,
            row_bytes: 1,
            is_delta: false,
        };
        // Many small shards: the key that fills empty slots is among those that are there twice.
        for keys in (1..40_u64).map(|count| (0..count).collect::<Vec<_>>()) {
            for (keep_first, memory_bytes) in [(true, 0), (true, 25), (true, 1 << 20), (false, 25)] {
                let mut all = Keys::default();
                keys.iter().chain(&keys).for_each(|&key| all.push(key));
                assert_eq!(all.fold(), keys);
                let mut arrangement = all.arrange(Path::new("x")).unwrap();
                arrangement.keep_first = keep_first;
                let mut got = Vec::new();
                let mut slots = |visit: &mut dyn FnMut(&[u8])| {
                    for row in [1, 2] {
                        keys.iter()
                            .for_each(|key| visit(&[&key.to_le_bytes()[..], &[row]].concat()));
                    }
                    Ok(())
                };
                let mut kept = |key: u64, row: &[u8]| got.push((key, row.to_vec()));
                let (out, path) = (&mut Vec::new(), Path::new("x"));
                arrangement
                    .write(identity, memory_bytes, out, path, &mut slots, Some(&mut kept))
                    .unwrap();
                got.sort();
                let row = if keep_first { 1 } else { 2 };
                let expected: Vec<_> = keys.iter().map(|&key| (key, vec![row])).collect();
                assert_eq!(got, expected);
            }
        }
    }
}
