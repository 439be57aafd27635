//! Rows that vary in length while a shard is written: as they come each says how long it is, in the shard they lie
//! one behind another, in the order of their slots.
//!
//! Decides nothing about keys. Invariant: four bytes a slot stay in memory, and of the rows no more than was allowed, or one.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

use super::arrange::Arrangement;
use super::removals::key_of_slot;
use super::section::Section;
use crate::error::Error;
use crate::header::{Header, KEY_BYTES};
use crate::schema::{ROW_BYTES_MAX, START_BYTES};

/// What says how long a row is, as it comes.
const LENGTH_BYTES: usize = 4;
/// What a slot takes while its row is put in its place: where it begins, and whether it is there.
const PLACE_BYTES: u64 = 9;
/// The length of a slot's row until the row comes.
const NONE: u32 = u32::MAX;

/// Puts the length of a row before it, as it is kept until its shard is written.
pub(super) fn frame(row: &mut Vec<u8>) {
    let length = (row.len() as u32).to_le_bytes();
    row.splice(..0, length);
}

/// A row as it came.
pub(super) struct Record<'a> {
    /// Its key, and as much as a slot of the shard has behind it: where the row begins is not known yet.
    pub(super) slot: &'a [u8],
    pub(super) row: &'a [u8],
}

/// Visits rows as they were pushed, `left` bytes of them, in the order in which they came.
pub(super) fn each(
    rows: &mut impl Read,
    mut left: u64,
    is_delta: bool,
    visit: &mut dyn FnMut(Record<'_>),
) -> io::Result<()> {
    let (mut head, mut row) = ([0; KEY_BYTES + LENGTH_BYTES], Vec::new());
    let mut slot = vec![0; KEY_BYTES + START_BYTES + usize::from(is_delta)];
    while left > 0 {
        rows.read_exact(&mut head)?;
        let (key, length) = head.split_at(KEY_BYTES);
        let length = length
            .first_chunk()
            .map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        if length > ROW_BYTES_MAX {
            let message = format!("a row of {length} bytes where at most {ROW_BYTES_MAX} were written");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        row.resize(length + usize::from(is_delta), 0);
        rows.read_exact(&mut row)?;
        left = left.saturating_sub((head.len() + row.len()) as u64);
        let (bytes, flag) = row.split_at(length);
        slot[..KEY_BYTES].copy_from_slice(key);
        slot[KEY_BYTES + START_BYTES..].copy_from_slice(flag);
        visit(Record {
            slot: &slot,
            row: bytes,
        });
    }
    Ok(())
}

/// Hands every row of a shard to the visitor that it is given; of rows of the same key the arrangement keeps one.
pub(super) type Records<'a> = dyn FnMut(&mut dyn FnMut(Record<'_>)) -> Result<(), Error> + 'a;

/// How long the row of each slot is: 0 where there is none.
pub(crate) struct Lengths(Vec<u32>);

impl Lengths {
    pub(super) fn of(arrangement: &Arrangement, records: &mut Records<'_>) -> Result<Lengths, Error> {
        let mut lengths = vec![NONE; arrangement.slots() as usize];
        records(&mut |record| {
            let number = arrangement.slot_of(record.slot);
            let place = number.and_then(|number| lengths.get_mut(number as usize));
            if let Some(place) = place
                && !(arrangement.keep_first && *place != NONE)
            {
                *place = record.row.len() as u32;
            }
        })?;
        lengths
            .iter_mut()
            .filter(|length| **length == NONE)
            .for_each(|length| *length = 0);
        Ok(Lengths(lengths))
    }

    /// Bytes of all rows.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|&length| u64::from(length)).sum()
    }

    fn range(&self, range: Range<u64>) -> &[u32] {
        let lengths = self.0.get(range.start as usize..range.end as usize);
        lengths.unwrap_or_default()
    }

    /// Says in the slots of a range where their rows begin; `at` is where the first does, and then where the next behind them does.
    pub(super) fn write_starts<'s>(
        &self,
        at: &mut u64,
        range: Range<u64>,
        slots: impl Iterator<Item = &'s mut [u8]>,
    ) {
        for (slot, &length) in slots.zip(self.range(range)) {
            if let Some(place) = slot.get_mut(KEY_BYTES..KEY_BYTES + START_BYTES) {
                place.copy_from_slice(&at.to_le_bytes()[..START_BYTES]);
            }
            *at += u64::from(length);
        }
    }

    /// The slots from `begin` on whose rows fit into the memory; one at least.
    fn that_fit(&self, begin: u64, memory_bytes: usize) -> u64 {
        let mut left = memory_bytes as u64;
        let mut end = begin;
        for &length in self.range(begin..self.0.len() as u64) {
            let bytes = u64::from(length) + PLACE_BYTES;
            if bytes > left && end > begin {
                break;
            }
            left = left.saturating_sub(bytes);
            end += 1;
        }
        end
    }
}

/// Writes the heap behind the slots, and its checksum into the header. The rows are visited once for each `memory_bytes` of them.
pub(super) fn write_heap(
    arrangement: &Arrangement,
    header: &mut Header,
    memory_bytes: usize,
    out: &mut impl Write,
    path: &Path,
    records: &mut Records<'_>,
) -> Result<(), Error> {
    let (Some(lengths), Some(layout)) = (&arrangement.lengths, header.layout()) else {
        return Ok(());
    };
    let mut section = Section::new(out);
    let mut begin = 0;
    while begin < arrangement.slots() {
        let end = lengths.that_fit(begin, memory_bytes);
        let image = image(arrangement, lengths, begin..end, records)?;
        section.write(&image).map_err(Error::io("write", path))?;
        begin = end;
    }
    let checksum = section.end(layout.heap_bytes).map_err(Error::io("write", path))?;
    if let Some(heap) = &mut header.heap {
        heap.checksum = checksum;
    }
    Ok(())
}

/// The rows of a range of slots, one behind another.
fn image(
    arrangement: &Arrangement,
    lengths: &Lengths,
    range: Range<u64>,
    records: &mut Records<'_>,
) -> Result<Vec<u8>, Error> {
    let mut bytes = 0;
    let lengths = lengths.range(range.clone());
    let starts = lengths.iter().map(|&length| {
        let start = bytes;
        bytes += length as usize;
        start
    });
    let starts: Vec<usize> = starts.collect();
    let (mut image, mut done) = (vec![0; bytes], vec![false; lengths.len()]);
    records(&mut |record| {
        let number = arrangement.slot_of(record.slot);
        let Some(at) = number.and_then(|number| number.checked_sub(range.start)) else {
            return;
        };
        let at = at as usize;
        let (Some(&start), Some(&length), Some(done)) = (starts.get(at), lengths.get(at), done.get_mut(at))
        else {
            return;
        };
        // Of rows of one key the kept one has this length, and so may others: the first of them or the last is it.
        if record.row.len() != length as usize || (arrangement.keep_first && *done) {
            return;
        }
        *done = true;
        if let Some(place) = image.get_mut(start..start + record.row.len()) {
            place.copy_from_slice(record.row);
        }
    })?;
    Ok(image)
}

/// Whether a row's key is none of those `taken_out`, which are in order.
pub(super) fn stays(record: &Record<'_>, taken_out: &[u64]) -> bool {
    taken_out.is_empty() || key_of_slot(record.slot).is_none_or(|key| taken_out.binary_search(&key).is_err())
}
