//! Batch lookup: rows as they are, or pooled by bags.
//!
//! No threads. Invariant: keys are worked on in blocks, each in two prefetch passes and a copy, so that the cache misses
//! of a block overlap instead of following one another.

use std::sync::Arc;

use crate::error::Error;
use crate::hash::hash;
use crate::layer::{Layer, LayerEntry, Views};
use crate::overlay::{Block, Now, View, ones};
use crate::projection::Projection;
use crate::rows::{Reader, Row};
use crate::shard::Slot;
use crate::table::{LAYERS_MAX, Table};

/// Keys a block: enough misses to fill the processor's queue of outstanding lines, few enough that their slots and rows
/// stay in the nearest cache between the passes.
const BLOCK: usize = 64;

/// Keys of a block where no more are asked for: clearing the places of a whole block costs more than such a lookup.
const BLOCK_MIN: usize = 8;

/// How the rows of a bag become one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Their sum.
    Sum,
    /// Their sum divided by the number of keys found in the bag.
    Mean,
    /// The largest number at each place.
    Max,
}

impl Table {
    /// Looks up `keys` (n) and writes their rows to `values` (n × dim, row by row; where a key is absent the schema's
    /// default row, or zeros) and a bitmap of the present ones to `found` (⌈n/8⌉ bytes; key i is bit i mod 8, lowest
    /// first, of byte i / 8). Returns how many were found. Rows that vary in length are no numbers: of these it finds the keys alone
    /// ([`Table::find_rows`] has the rows).
    ///
    /// The lengths are the caller's promise. If `values` or `found` is too short, only the keys that fit are looked
    /// up (and a debug build panics, because the promise was broken).
    pub fn lookup(&self, keys: &[u64], values: &mut [f32], found: &mut [u8]) -> usize {
        if self.is_varying() {
            return self.find(keys, found);
        }
        debug_assert_eq!(values.len(), keys.len() * self.dim(), "length of values");
        debug_assert_eq!(found.len(), keys.len().div_ceil(8), "length of found");
        let fitting = (values.len() / self.dim()).min(keys.len());
        let reader = Reader::new(self.schema());
        let default_row = self.default_row();
        let mut rows = values.chunks_exact_mut(self.dim());
        self.each::<true>(&keys[..fitting], found, |row| {
            let Some(values) = rows.next() else { return };
            match row.or(default_row) {
                Some(row) => reader.copy(row, values),
                None => values.fill(0.0),
            }
        })
    }

    /// Begins to fetch what lookups of `keys` will read, where the version is resident; a hint that changes nothing. The pilots of
    /// all are asked for first: where a row lies is known when its pilot is there.
    pub fn prefetch(&self, keys: &[u64]) {
        // A mapped file may have been cut, and its pages may be on the disk.
        let layers = self.layers().iter().filter(|_| !self.is_mapped());
        for views in layers.filter_map(|layer| layer.views()) {
            let hashes = keys.iter().map(|key| hash(*key));
            hashes
                .clone()
                .for_each(|hash| views.of(hash).prefetch_pilot(hash));
            hashes.for_each(|hash| views.of(hash).slot(hash).prefetch());
        }
    }

    /// Says which of `keys` (n) are there, as [`Table::lookup`] does, and reads no row.
    pub fn find(&self, keys: &[u64], found: &mut [u8]) -> usize {
        debug_assert_eq!(found.len(), keys.len().div_ceil(8), "length of found");
        self.each::<false>(keys, found, |_| ())
    }

    /// [`Table::lookup`] for an answer's bytes: writes what `projection` has of the rows to `values`
    /// (n × [`Projection::row_bytes`]).
    pub fn lookup_bytes(
        &self,
        keys: &[u64],
        projection: &Projection,
        values: &mut [u8],
        found: &mut [u8],
    ) -> usize {
        if self.is_varying() {
            return self.find(keys, found);
        }
        let row_bytes = projection.row_bytes();
        debug_assert_eq!(values.len(), keys.len() * row_bytes, "length of values");
        debug_assert_eq!(found.len(), keys.len().div_ceil(8), "length of found");
        let fitting = (values.len() / row_bytes).min(keys.len());
        let default_row = self.default_row();
        let mut rows = values.chunks_exact_mut(row_bytes);
        self.each::<true>(&keys[..fitting], found, |row| {
            let Some(values) = rows.next() else { return };
            match row.or(default_row) {
                Some(row) => projection.write(row, values),
                None => values.fill(0),
            }
        })
    }

    /// Looks up `keys` and pools their rows by bags: bag b has the keys `offsets[b]..offsets[b + 1]`.
    ///
    /// `offsets` has bags + 1 entries, ascends from 0 to `keys.len()`; `values` is bags × dim and `found` as in
    /// [`Table::lookup`], a bit a key. A bag without a found key gives the default row, or zeros. Returns how many keys were found.
    ///
    /// # Errors
    /// [`Error::Argument`] when the offsets or a length are not so, or rows vary in length; nothing is written then.
    pub fn lookup_pooled(
        &self,
        keys: &[u64],
        offsets: &[u32],
        pool: Pool,
        values: &mut [f32],
        found: &mut [u8],
    ) -> Result<usize, Error> {
        if self.is_varying() {
            let found = "rows of varying bytes";
            return Err(Error::argument("pool", "rows of numbers", found));
        }
        check_offsets(keys.len(), offsets)?;
        let bags = offsets.len() - 1;
        check_length("values", bags.checked_mul(self.dim()), values.len())?;
        check_length("found", Some(keys.len().div_ceil(8)), found.len())?;

        let reader = Reader::new(self.schema());
        // Of a bag without a row.
        match self.default_row() {
            Some(row) => values
                .chunks_exact_mut(self.dim())
                .for_each(|pooled| reader.copy(row, pooled)),
            None => values.fill(0.0),
        }
        let mut ends = offsets.iter().skip(1).map(|&end| end as usize);
        let mut pooled = values.chunks_exact_mut(self.dim());
        let mut scratch = Vec::new();
        let mut bag = Bag {
            end: 0,
            pooled: &mut [],
            rows: 0,
        };
        let mut key = 0;
        let count = self.each::<true>(keys, found, |row| {
            // Empty bags end where they begin: step over them too.
            while key >= bag.end {
                bag.close(pool);
                let (Some(end), Some(pooled)) = (ends.next(), pooled.next()) else {
                    return;
                };
                bag = Bag { end, pooled, rows: 0 };
            }
            key += 1;
            if let Some(row) = row {
                bag.add(row, pool, reader, &mut scratch);
            }
        });
        bag.close(pool);
        Ok(count)
    }

    /// Finds `keys` in order, hands each row to `visit`, sets the bitmap and counts the found ones. Without `ROWS` fresh rows come
    /// without their bytes.
    #[inline(always)]
    fn each<const ROWS: bool>(
        &self,
        keys: &[u64],
        found: &mut [u8],
        visit: impl FnMut(Option<Row<'_>>),
    ) -> usize {
        match self.view.as_ref().and_then(View::now) {
            Some(now) => self.each_fresh::<ROWS>(&now, keys, found, visit),
            None if keys.len() <= BLOCK_MIN => self.each_under::<BLOCK_MIN>(&mut Nothing, keys, found, visit),
            None => self.each_under::<BLOCK>(&mut Nothing, keys, found, visit),
        }
    }

    /// [`Table::each`] where an overlay has something to say.
    #[inline(never)]
    fn each_fresh<const ROWS: bool>(
        &self,
        now: &Now<'_>,
        keys: &[u64],
        found: &mut [u8],
        visit: impl FnMut(Option<Row<'_>>),
    ) -> usize {
        let row_bytes = self.schema().row_bytes();
        if keys.len() <= BLOCK_MIN {
            let mut fresh = Fresh::<BLOCK_MIN, ROWS>::new(now, row_bytes);
            self.each_under::<BLOCK_MIN>(&mut fresh, keys, found, visit)
        } else {
            let mut fresh = Fresh::<BLOCK, ROWS>::new(now, row_bytes);
            self.each_under::<BLOCK>(&mut fresh, keys, found, visit)
        }
    }

    /// [`Table::each`] of the version under what lies over it.
    #[inline(always)]
    fn each_under<const KEYS: usize>(
        &self,
        over: &mut impl Over,
        keys: &[u64],
        found: &mut [u8],
        visit: impl FnMut(Option<Row<'_>>),
    ) -> usize {
        let layers = self.layers();
        let Some(first) = layers.first().and_then(|layer| layer.views()) else {
            return 0;
        };
        // The usual case is worth code of its own.
        if layers.len() == 1 {
            return each_in::<KEYS, 1>(&[first], (keys, over), found, only_row, visit);
        }
        let mut views = [first; LAYERS_MAX];
        for (views, layer) in views.iter_mut().zip(layers) {
            let Some(of_layer) = layer.views() else { return 0 };
            *views = of_layer;
        }
        let views = views.get(..layers.len()).unwrap_or_default();
        let row_of = |slots: &[_; LAYERS_MAX], key| row_of(layers, slots, key);
        each_in::<KEYS, LAYERS_MAX>(views, (keys, over), found, row_of, visit)
    }
}

/// What lies over the rows of a version: asked of a block of keys in two steps, between which the version's cache misses lie, and
/// then of each key that it says something of. Key i of the block is bit i.
trait Over {
    /// Asks ahead for what it has of a block's keys, by their hashes.
    fn seek(&mut self, hashes: &[u64]);
    /// Reads that: the keys that it says something of.
    fn read(&mut self, keys: &[u64]) -> u64;
    /// The row of such a key, or nothing where it is removed.
    fn row(&self, at: usize) -> Option<Row<'_>>;
}

/// Over a version without an overlay.
struct Nothing;

impl Over for Nothing {
    #[inline(always)]
    fn seek(&mut self, _: &[u64]) {}
    #[inline(always)]
    fn read(&mut self, _: &[u64]) -> u64 {
        0
    }
    #[inline(always)]
    fn row(&self, _: usize) -> Option<Row<'_>> {
        None
    }
}

/// What an overlay says of a block of keys, whose rows are numbers. Without `ROWS` these have no bytes.
struct Fresh<'n, const KEYS: usize, const ROWS: bool> {
    block: Block<'n, KEYS>,
    /// Of the keys that were sought.
    asked: u64,
    /// Those of them that have a row; the rows lie one behind the other.
    there: u64,
    rows: Vec<u8>,
    row_bytes: usize,
}

impl<'n, const KEYS: usize, const ROWS: bool> Fresh<'n, KEYS, ROWS> {
    fn new(now: &'n Now<'n>, row_bytes: usize) -> Fresh<'n, KEYS, ROWS> {
        Fresh {
            block: Block::new(now),
            asked: 0,
            there: 0,
            rows: Vec::new(),
            row_bytes: if ROWS { row_bytes } else { 0 },
        }
    }
}

impl<const KEYS: usize, const ROWS: bool> Over for Fresh<'_, KEYS, ROWS> {
    #[inline(always)]
    fn seek(&mut self, hashes: &[u64]) {
        self.asked = self.block.seek(hashes);
    }

    #[inline]
    fn read(&mut self, keys: &[u64]) -> u64 {
        let mut removed = 0;
        self.there = 0;
        self.rows.clear();
        self.rows
            .reserve(self.asked.count_ones() as usize * self.row_bytes);
        for at in ones(self.asked) {
            let Some(&key) = keys.get(at) else { break };
            match self.block.said::<ROWS>(at, key, &mut self.rows) {
                LayerEntry::Nothing => {}
                LayerEntry::Removed => removed |= 1 << at,
                LayerEntry::Row(_) => self.there |= 1 << at,
            }
        }
        self.there | removed
    }

    #[inline(always)]
    fn row(&self, at: usize) -> Option<Row<'_>> {
        let before = (self.there & ((1 << at) - 1)).count_ones() as usize;
        let begin = before * self.row_bytes;
        let row = self.rows.get(begin..begin + self.row_bytes);
        row.filter(|_| self.there >> at & 1 == 1)
    }
}

/// The row of a key whose slot in the only layer is this.
#[inline(always)]
fn only_row<'a>([slot]: &[Slot<'a>; 1], key: u64) -> Option<Row<'a>> {
    slot.row(key)
}

/// The row of a key whose slots in all layers are these: the newest that says anything of it decides.
#[inline(always)]
fn row_of<'a>(layers: &'a [Arc<Layer>], slots: &[Slot<'a>; LAYERS_MAX], key: u64) -> Option<Row<'a>> {
    for (layer, slot) in layers.iter().zip(slots) {
        match layer.said(slot.row(key)) {
            LayerEntry::Nothing => {}
            LayerEntry::Row(row) => return Some(row),
            LayerEntry::Removed => return None,
        }
    }
    None
}

/// [`Table::each`], given the views of the layers, at most `LAYERS`, and what to make of a key's slots in them.
#[inline(always)]
fn each_in<'a, const KEYS: usize, const LAYERS: usize>(
    views: &[Views<'a>],
    (keys, over): (&[u64], &mut impl Over),
    found: &mut [u8],
    row_of: impl Fn(&[Slot<'a>; LAYERS], u64) -> Option<Row<'a>>,
    mut visit: impl FnMut(Option<Row<'_>>),
) -> usize {
    let mut count = 0;
    for (keys, found) in keys.chunks(KEYS).zip(found.chunks_mut(KEYS / 8)) {
        let mut hashes = [0; KEYS];
        for (place, &key) in hashes.iter_mut().zip(keys) {
            let hash = hash(key);
            *place = hash;
            views.iter().for_each(|views| views.of(hash).prefetch_pilot(hash));
        }
        over.seek(hashes.get(..keys.len()).unwrap_or(&hashes));
        let mut slots = [[Slot::default(); LAYERS]; KEYS];
        for (slots, &hash) in slots.iter_mut().zip(&hashes).take(keys.len()) {
            for (slot, views) in slots.iter_mut().zip(views) {
                *slot = views.of(hash).slot(hash);
                slot.prefetch();
            }
        }
        let said = over.read(keys);
        found.fill(0);
        let mut at = 0;
        for ((keys, slots), bits) in keys.chunks(8).zip(slots.chunks(8)).zip(found) {
            for (bit, (&key, slots)) in keys.iter().zip(slots).enumerate() {
                let row = match said >> (at & 63) & 1 {
                    0 => row_of(slots, key),
                    _ => over.row(at),
                };
                at += 1;
                *bits |= u8::from(row.is_some()) << bit;
                visit(row);
            }
            count += bits.count_ones() as usize;
        }
    }
    count
}

/// The bag that rows are being added to. Rows that came from several nodes are pooled in `wire/schema` (`Pooled`) by the same
/// additions in the same order; crates that know no engine cannot use this. A test of `methods` holds the two together.
struct Bag<'a> {
    /// The key number at which the next bag begins.
    end: usize,
    pooled: &'a mut [f32],
    /// Rows added so far: the divisor of a mean.
    rows: u32,
}

impl Bag<'_> {
    fn add(&mut self, row: Row<'_>, pool: Pool, reader: Reader<'_>, scratch: &mut Vec<f32>) {
        self.rows += 1;
        match pool {
            _ if self.rows == 1 => reader.copy(row, self.pooled),
            Pool::Max => reader.fold(row, self.pooled, scratch, |max, value| *max = max.max(value)),
            Pool::Sum | Pool::Mean => reader.fold(row, self.pooled, scratch, |sum, value| *sum += value),
        }
    }

    fn close(&mut self, pool: Pool) {
        if pool == Pool::Mean && self.rows > 1 {
            let rows = self.rows as f32;
            self.pooled.iter_mut().for_each(|sum| *sum /= rows);
        }
    }
}

fn check_offsets(keys: usize, offsets: &[u32]) -> Result<(), Error> {
    let wrong = |expected: String, found: String| Err(Error::argument("offsets", expected, found));
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return wrong("one more entry than bags".to_owned(), "none".to_owned());
    };
    if first != 0 {
        return wrong("0 as the first entry".to_owned(), first.to_string());
    }
    if last as usize != keys {
        return wrong(
            format!("{keys}, the number of keys, as the last entry"),
            last.to_string(),
        );
    }
    match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(at) => wrong(
            "ascending entries".to_owned(),
            format!("{} before {} at {at}", offsets[at], offsets[at + 1]),
        ),
        None => Ok(()),
    }
}

fn check_length(name: &'static str, expected: Option<usize>, found: usize) -> Result<(), Error> {
    if expected == Some(found) {
        return Ok(());
    }
    let expected = expected.map_or("fewer bags".to_owned(), |n| format!("{n} entries"));
    Err(Error::argument(name, expected, found))
}
