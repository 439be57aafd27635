//! Rows of bytes that vary in length: a slot says where its row begins in the heap, the next slot where it ends.
//!
//! Writes nothing. Invariant: a row lies inside the heap, whatever the slots say; one that would not has no bytes.

use crate::hash::{hash, shard_of};
use crate::layer::{Layer, LayerEntry};
use crate::overlay;
use crate::rows::{Cell, Row};
use crate::schema::{Numbers, ROW_BYTES_MAX, START_BYTES};
use crate::shard::{Shard, View};
use crate::table::Table;
use millpond_prefetch::prefetch;

/// Keys whose slots and rows are asked for ahead.
const BLOCK: usize = 64;

/// The rows of a shard that vary in length.
#[derive(Clone, Copy)]
pub(crate) struct Heap<'a> {
    view: View<'a>,
    rows: &'a [u8],
}

impl Shard {
    /// Its rows, where they vary in length.
    pub(crate) fn heap(&self) -> Option<Heap<'_>> {
        let rows = self.heap_bytes()?;
        let view = self.view();
        Some(Heap { view, rows })
    }
}

impl Layer {
    /// The heap of the shard that a hash belongs to, where rows vary in length.
    pub(crate) fn heap(&self, hash: u64) -> Option<Heap<'_>> {
        let number = shard_of(hash, self.shards.len() as u32);
        self.shards.get(number as usize)?.heap()
    }
}

impl<'a> Heap<'a> {
    /// What the layer that it belongs to says of a key.
    pub(crate) fn find(self, layer: &Layer, hash: u64, key: u64) -> LayerEntry<'a> {
        let number = self.view.number(hash);
        let slot = number.and_then(|number| self.view.numbered(number));
        match (number, slot) {
            (Some(number), Some((found, slot))) if found == key => self.said(layer, number, slot),
            _ => LayerEntry::Nothing,
        }
    }

    /// Visits every key that the layer has something to say of, and that.
    pub(crate) fn each<E>(
        self,
        layer: &Layer,
        visit: &mut dyn FnMut(u64, LayerEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        (0..self.view.slots()).try_for_each(|number| match self.view.entry(number) {
            Some((key, slot)) => visit(key, self.said(layer, number, slot)),
            None => Ok(()),
        })
    }

    /// What a slot says of its key.
    fn said(self, layer: &Layer, number: u64, slot: Row<'a>) -> LayerEntry<'a> {
        match layer.said(Some(slot)) {
            LayerEntry::Row(_) => LayerEntry::Row(self.row(number).unwrap_or_default()),
            other => other,
        }
    }

    fn row(self, number: u64) -> Option<Row<'a>> {
        let begin = self.start(number)?;
        let end = match number + 1 < self.view.slots() {
            true => self.start(number + 1)?,
            false => self.rows.len(),
        };
        let row = self.rows.get(begin..end)?;
        (row.len() <= ROW_BYTES_MAX).then_some(row)
    }

    /// Where the row of a slot begins.
    fn start(self, number: u64) -> Option<usize> {
        let (_, slot) = self.view.numbered(number)?;
        let mut start = [0; 8];
        start
            .get_mut(..START_BYTES)?
            .copy_from_slice(slot.get(..START_BYTES)?);
        usize::try_from(u64::from_le_bytes(start)).ok()
    }
}

/// Rows of some keys, found and, those of the version, not yet copied: their bytes are known before they are.
#[derive(Debug, Clone)]
pub struct FoundRows<'t> {
    /// One for each key: the default row, or none, where it is not there.
    rows: Vec<Found<'t>>,
    /// Of those that an overlay has, which may be written anew.
    fresh: Vec<u8>,
    hits: usize,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Found<'t> {
    InVersion(Row<'t>),
    /// From where to where in `fresh`.
    Fresh(usize, usize),
}

impl FoundRows<'_> {
    /// How many keys have a row.
    pub fn hits(&self) -> usize {
        self.hits
    }

    /// Bytes of all rows together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes where the rows begin, and at last where they end, to `offsets` (n + 1 numbers of 32 bits, little-endian), and the
    /// rows to `values` ([`FoundRows::bytes`]).
    pub fn write(&self, offsets: &mut [u8], values: &mut [u8]) {
        debug_assert_eq!(values.len() as u64, self.bytes, "length of values");
        debug_assert_eq!(offsets.len(), (self.rows.len() + 1) * 4, "length of offsets");
        let (mut end, mut values) = (0_u32, values);
        let (places, _) = offsets.as_chunks_mut();
        let Some((first, ends)) = places.split_first_mut() else {
            return;
        };
        *first = end.to_le_bytes();
        for (found, place) in self.rows.iter().zip(ends) {
            let row = match *found {
                Found::InVersion(row) => row,
                Found::Fresh(begin, end) => self.fresh.get(begin..end).unwrap_or_default(),
            };
            let Some((own, left)) = values.split_at_mut_checked(row.len()) else {
                return;
            };
            own.copy_from_slice(row);
            values = left;
            end = end.wrapping_add(row.len() as u32);
            *place = end.to_le_bytes();
        }
    }
}

impl Table {
    /// Whether its rows are bytes, each of a length of its own: [`Table::find_rows`] answers them then.
    pub fn is_varying(&self) -> bool {
        self.schema().is_varying()
    }

    /// Finds `keys` (n) and where their rows lie, as they are stored; sets the bits of those that are there in `found` (⌈n/8⌉ bytes;
    /// key i is bit i mod 8, lowest first, of byte i / 8). Fresh rows are copied: where there are any, it
    /// ends early once the rows have more than `bytes_max`, and is not to be written then.
    pub fn find_rows(&self, keys: &[u64], found: &mut [u8], bytes_max: u64) -> FoundRows<'_> {
        debug_assert_eq!(found.len(), keys.len().div_ceil(8), "length of found");
        found.fill(0);
        let default_row = self.default_row().unwrap_or_default();
        let now = self.view.as_ref().and_then(overlay::View::now);
        let mut all = FoundRows {
            rows: Vec::with_capacity(keys.len()),
            fresh: Vec::new(),
            hits: 0,
            bytes: 0,
        };
        let mut fresh = now.as_ref().map(overlay::Block::<BLOCK>::new);
        for keys in keys.chunks(BLOCK) {
            let hashes = self.prefetch_slots(keys);
            let asked = fresh.as_mut().map_or(0, |fresh| {
                fresh.seek(hashes.get(..keys.len()).unwrap_or_default())
            });
            for (place, &key) in keys.iter().enumerate() {
                let begin = all.fresh.len();
                let said = match &fresh {
                    Some(fresh) if asked >> place & 1 == 1 => fresh.said::<true>(place, key, &mut all.fresh),
                    _ => LayerEntry::Nothing,
                };
                let row = match said {
                    LayerEntry::Nothing => self.row(key).map(Found::InVersion),
                    LayerEntry::Removed => None,
                    LayerEntry::Row(_) => Some(Found::Fresh(begin, all.fresh.len())),
                };
                let at = all.rows.len();
                if let (Some(_), Some(bits)) = (row, found.get_mut(at / 8)) {
                    *bits |= 1 << (at % 8);
                    all.hits += 1;
                }
                let row = row.unwrap_or(Found::InVersion(default_row));
                all.bytes += match row {
                    Found::InVersion(row) => {
                        // Its bytes are read when they are copied.
                        row.first().into_iter().for_each(prefetch);
                        row.len() as u64
                    }
                    Found::Fresh(begin, end) => (end - begin) as u64,
                };
                all.rows.push(row);
                if now.is_some() && all.bytes > bytes_max {
                    return all;
                }
            }
        }
        all
    }

    /// What a row has in each column. `numbers` has [`Table::dim`] places, to which those of its columns are written.
    pub fn cells<'r>(&self, row: Row<'r>, numbers: &'r mut [f32]) -> Vec<Cell<'r>> {
        self.decode(row, numbers);
        let (mut begin, mut first) = (0, 0);
        let columns = self.schema().columns.iter();
        let cells = columns.map(|column| {
            let (bytes, dim) = (column.bytes(), column.dim);
            let cell = match column.numbers {
                Numbers::VaryingBytes => Cell::Bytes(row),
                Numbers::Bytes => Cell::Bytes(row.get(begin..begin + bytes).unwrap_or_default()),
                _ => Cell::Numbers(numbers.get(first..first + dim).unwrap_or_default()),
            };
            (begin, first) = (begin + bytes, first + dim);
            cell
        });
        cells.collect()
    }

    /// Asks for the pilots of all keys, then for their slots, so that the cache misses overlap. The keys' hashes.
    fn prefetch_slots(&self, keys: &[u64]) -> [u64; BLOCK] {
        let mut hashes = [0; BLOCK];
        let places = hashes.iter_mut().zip(keys);
        places.for_each(|(place, key)| *place = hash(*key));
        let own = hashes.get(..keys.len()).unwrap_or_default();
        for views in self.layers().iter().filter_map(|layer| layer.views()) {
            own.iter().for_each(|hash| views.of(*hash).prefetch_pilot(*hash));
            own.iter().for_each(|hash| views.of(*hash).slot(*hash).prefetch());
        }
        hashes
    }
}
