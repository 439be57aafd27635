//! Writes the slots of a shard whose rows are in memory: each slot fetches its row.
//!
//! Knows no file of rows, and none whose rows vary in length. Invariant: what is written is what [`Arrangement::write`] would write
//! of the same rows; four bytes a slot stay in memory for it, and no second copy of the rows.

use millpond_prefetch::prefetch;
use std::io::{self, Write};
use std::path::Path;

use super::arrange::{Arrangement, Identity, Kept};
use super::removals::key_of_slot;
use super::section::{PIECE_BYTES, Section};
use crate::error::Error;
use crate::header::{Header, KEY_BYTES};
use crate::pages::Pages;

/// Rows that are asked for before the first is needed: most of them are in no cache.
const AHEAD: usize = 32;
/// What says where the row of a slot is.
const ORIGIN_BYTES: usize = 4;

/// Rows in memory, each a slot as the shard will have it, in the order in which they came.
#[derive(Clone, Copy)]
pub(super) struct InMemory<'a> {
    chunks: &'a [&'a [u8]],
    slot_bytes: usize,
    /// Bits of an origin that say which row of a chunk it is.
    row_bits: u32,
}

impl<'a> InMemory<'a> {
    /// None where there are more chunks than an origin can tell apart.
    pub(super) fn new(chunks: &'a [&'a [u8]], slot_bytes: usize) -> Option<InMemory<'a>> {
        let rows_max = chunks.iter().map(|chunk| chunk.len() / slot_bytes).max();
        let row_bits = usize::BITS - rows_max.unwrap_or(0).leading_zeros();
        let chunks_max = u32::MAX.checked_shr(row_bits)? as usize;
        (chunks.len() <= chunks_max).then_some(InMemory {
            chunks,
            slot_bytes,
            row_bits,
        })
    }

    /// Every row with its origin, which is never 0.
    fn each(self) -> impl Iterator<Item = (u32, &'a [u8])> {
        (0..).zip(self.chunks).flat_map(move |(number, chunk)| {
            let first = (number << self.row_bits) + 1;
            (first..).zip(chunk.chunks_exact(self.slot_bytes))
        })
    }

    /// The row of an origin; empty where there is none.
    #[inline(always)]
    fn row(self, origin: u32) -> &'a [u8] {
        let Some(at) = origin.checked_sub(1) else {
            return &[];
        };
        let chunk = self.chunks.get((at >> self.row_bits) as usize);
        let begin = (at & ((1 << self.row_bits) - 1)) as usize * self.slot_bytes;
        chunk
            .and_then(|chunk| chunk.get(begin..begin + self.slot_bytes))
            .unwrap_or_default()
    }
}

impl Arrangement {
    /// Writes the pilots and the slots of rows in memory but those of the keys `taken_out`, which are in order; otherwise as
    /// [`Arrangement::write`].
    pub(super) fn write_gathered(
        &self,
        identity: Identity,
        rows: InMemory<'_>,
        taken_out: &[u64],
        out: &mut impl Write,
        path: &Path,
        mut kept: Option<&mut Kept<'_>>,
    ) -> Result<Header, Error> {
        let (mut header, layout) = self.header(identity)?;
        let origins = self.origins(rows, taken_out).map_err(Error::io("write", path))?;
        let mut section = Section::new(out);
        let written = self.write_pilots(&mut section, &layout);
        header.pilots_checksum = written.map_err(Error::io("write", path))?;
        let origins = origins.as_chunks::<ORIGIN_BYTES>().0;
        let piece_slots = (PIECE_BYTES / rows.slot_bytes).max(1);
        let mut piece = vec![0; piece_slots.min(origins.len()) * rows.slot_bytes];
        let written = origins.chunks(piece_slots).try_for_each(|origins| {
            let some = piece.get_mut(..origins.len() * rows.slot_bytes);
            let some = some.unwrap_or_default();
            self.gather(rows, origins, some, kept.as_deref_mut());
            section.write(some)
        });
        let ended = written.and_then(|()| section.end(layout.slots_bytes));
        header.slots_checksum = ended.map_err(Error::io("write", path))?;
        Ok(header)
    }

    /// Where the row of each slot is.
    fn origins(&self, rows: InMemory<'_>, taken_out: &[u64]) -> io::Result<Pages> {
        let mut origins = Pages::zeroed(self.slots() as usize * ORIGIN_BYTES)?;
        let of_slots = origins.as_chunks_mut::<ORIGIN_BYTES>().0;
        let is_gone = |key: u64| !taken_out.is_empty() && taken_out.binary_search(&key).is_ok();
        for (origin, slot) in rows.each() {
            if key_of_slot(slot).is_none_or(is_gone) {
                continue;
            }
            let number = self.slot_of(slot).unwrap_or(u64::MAX);
            if let Some(place) = of_slots.get_mut(number as usize)
                && !(self.keep_first && *place != [0; ORIGIN_BYTES])
            {
                *place = origin.to_le_bytes();
            }
        }
        Ok(origins)
    }

    /// Fills some slots with their rows.
    fn gather(
        &self,
        rows: InMemory<'_>,
        origins: &[[u8; ORIGIN_BYTES]],
        slots: &mut [u8],
        mut kept: Option<&mut Kept<'_>>,
    ) {
        let filler = self.filler.to_le_bytes();
        let mut found = [&[][..]; AHEAD];
        let slots = slots.chunks_mut(AHEAD * rows.slot_bytes);
        for (origins, slots) in origins.chunks(AHEAD).zip(slots) {
            for (row, &origin) in found.iter_mut().zip(origins) {
                *row = rows.row(u32::from_le_bytes(origin));
                if let (Some(first), Some(last)) = (row.first(), row.last()) {
                    prefetch(first);
                    prefetch(last);
                }
            }
            for (row, slot) in found.iter().zip(slots.chunks_exact_mut(rows.slot_bytes)) {
                if row.is_empty() {
                    let (key, rest) = slot.split_at_mut(KEY_BYTES);
                    key.copy_from_slice(&filler);
                    rest.fill(0);
                    continue;
                }
                slot.copy_from_slice(row);
                if let (Some(kept), Some((key, row))) = (&mut kept, row.split_first_chunk()) {
                    kept(u64::from_le_bytes(*key), row);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::write::arrange::Keys;

    /// Writes rows, each key twice, in both ways; `removed` of the keys are taken out.
    fn check(count: u64, removed: &[u64], rows_of_chunk: usize, keep_first: bool) {
        const SLOT: usize = KEY_BYTES + 2;
        let identity = Identity {
            format: 2,
            shard: 0,
            shards: 1,
            version: 1,
            row_bytes: 2,
            is_delta: false,
        };
        let (mut keys, mut slots) = (Keys::default(), Vec::new());
        for (key, turn) in [1, 2]
            .into_iter()
            .flat_map(|turn| (0..count).map(move |key| (key, turn)))
        {
            keys.push(key);
            slots.extend(key.to_le_bytes());
            slots.extend([key as u8, turn]);
        }
        keys.fold();
        keys.take_out(removed);
        let path = Path::new("x");
        let mut arrangement = keys.arrange(path).unwrap();
        arrangement.keep_first = keep_first;
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        let mut each = |visit: &mut dyn FnMut(&[u8])| {
            let slots = slots.chunks_exact(SLOT);
            let stay = slots.filter(|slot| key_of_slot(slot).is_some_and(|key| !removed.contains(&key)));
            stay.for_each(visit);
            Ok(())
        };
        let header = arrangement.write(identity, usize::MAX, &mut expected, path, &mut each, None);
        let chunks: Vec<&[u8]> = slots.chunks(rows_of_chunk * SLOT).collect();
        let rows = InMemory::new(&chunks, SLOT).unwrap();
        let mut kept = Vec::new();
        let gathered = arrangement.write_gathered(
            identity,
            rows,
            removed,
            &mut got,
            path,
            Some(&mut |key, row| kept.push((key, row.to_vec()))),
        );
        assert_eq!(gathered.unwrap(), header.unwrap(), "{count} keys");
        assert!(
            got == expected,
            "{count} keys, {removed:?} removed, {rows_of_chunk} a chunk"
        );
        kept.sort();
        let stay = (0..count).filter(|key| !removed.contains(key));
        let turn = if keep_first { 1 } else { 2 };
        let stay: Vec<_> = stay.map(|key| (key, vec![key as u8, turn])).collect();
        assert_eq!(kept, stay);
    }

    #[test]
    fn what_is_gathered_is_what_is_put_in_order() {
        for count in [0, 1, 31, 32, 33, 3000] {
            for rows_of_chunk in [1, 7, 4096, 10_000] {
                for keep_first in [true, false] {
                    check(count, &[], rows_of_chunk, keep_first);
                    check(count, &[0, 30, 5000], rows_of_chunk, keep_first);
                }
            }
        }
        // More than are written at a time.
        check(PIECE_BYTES as u64 / 10 * 2 + 5, &[7], 1000, false);
    }

    #[test]
    fn chunks_that_an_origin_cannot_tell_apart_are_refused() {
        let (row, many) = ([0_u8; 9], vec![0_u8; 9 << 16]);
        let fits = |chunks: &[&[u8]]| InMemory::new(chunks, 9).is_some();
        assert!(fits(&[]) && fits(&[&row]) && fits(&[&many, &row]));
        let mut chunks = vec![&row[..]; 1 << 15];
        assert!(fits(&chunks));
        chunks[7] = &many;
        assert!(!fits(&chunks));
    }
}
