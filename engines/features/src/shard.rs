//! One opened shard: its bytes, and the search for a key in them.
//!
//! Not a table: it answers for any key it is asked, and the table asks the right shard. Invariant: a search reads one
//! pilot and one slot, both inside the file, whatever the bytes say.

use millpond_prefetch::prefetch;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files;
use crate::hash::{Places, hash};
use crate::header::{HEADER_BYTES, Header, KEY_BYTES, Layout, PILOT_BYTES};
use crate::map::Bytes;
use crate::rows::Row;

/// Bytes of a cache line, and how many lines of a slot are asked for ahead; the processor follows longer rows by itself.
const LINE_BYTES: usize = 64;
const LINES_AHEAD_MAX: usize = 4;

pub(crate) struct Shard {
    /// For messages.
    path: PathBuf,
    pub(crate) header: Header,
    layout: Layout,
    /// Ties the file to its manifest.
    pub(crate) header_checksum: u64,
    /// What is mapped, whatever its path names meanwhile; none where the bytes stand in memory.
    file: Option<File>,
    /// The whole file.
    bytes: Bytes,
}

impl Shard {
    /// Maps a shard file; only its header is read.
    pub(crate) fn open(path: &Path) -> Result<Shard, Error> {
        let (file, (header, layout, header_checksum)) = open_header(path)?;
        Ok(Shard {
            path: path.to_path_buf(),
            header,
            layout,
            header_checksum,
            bytes: Bytes::map(&file).map_err(Error::io("map", path))?,
            file: Some(file),
        })
    }

    /// A shard that has no file: its bytes stand in memory. `path` is for messages.
    pub(crate) fn of_bytes(bytes: &[u8], path: &Path) -> Result<Shard, Error> {
        let header = header_of(&mut { bytes }, bytes.len() as u64, path)?;
        let (header, layout, header_checksum) = Header::decode(&header, bytes.len() as u64, path)?;
        Ok(Shard {
            path: path.to_path_buf(),
            header,
            layout,
            header_checksum,
            file: None,
            bytes: Bytes::read(&mut { bytes }, bytes.len()).map_err(Error::io("hold", path))?,
        })
    }

    /// Whether the mapped file is still as long as it was. One that was deleted, or had another put in its place, stays
    /// whole for its mapping.
    pub(crate) fn check_length(&self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        let metadata = file.metadata().map_err(Error::io("read", &self.path))?;
        let (expected, found) = (self.layout.file_bytes, metadata.len());
        if found != expected {
            let what = "length in bytes since it was opened";
            return Err(Error::damaged(&self.path, what, expected, found));
        }
        Ok(())
    }

    /// Length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.layout.file_bytes
    }

    /// Whether its bytes are those of the file, and not a copy.
    pub(crate) fn is_mapped(&self) -> bool {
        self.file.is_some()
    }

    /// Whether bytes of the file were missing when they were read: answers may be wrong since then.
    #[inline(always)]
    pub(crate) fn was_cut(&self) -> bool {
        self.bytes.was_cut()
    }

    /// The error that says so.
    pub(crate) fn cut(&self) -> Error {
        Error::Cut {
            path: self.path.clone(),
        }
    }

    /// Reads every byte and compares the checksums.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.check_length()?;
        let check = |what, section: &[u8], expected: u64| {
            let found = xxh3_64(section);
            if found == expected {
                return Ok(());
            }
            let (expected, found) = (format!("{expected:016x}"), format!("{found:016x}"));
            Err(Error::damaged(&self.path, what, expected, found))
        };
        let (pilots, rest) = self.sections();
        let slots = rest.split_at_checked(self.layout.slots_bytes as usize);
        let (slots, heap) = slots.unwrap_or_default();
        check("checksum of pilots", pilots, self.header.pilots_checksum)?;
        check("checksum of slots", slots, self.header.slots_checksum)?;
        match self.header.heap {
            Some(section) => check("checksum of heap", heap, section.checksum),
            None => Ok(()),
        }
    }

    /// The bytes of all rows, where they vary in length.
    pub(crate) fn heap_bytes(&self) -> Option<&[u8]> {
        let bytes = self.header.heap?.bytes as usize;
        let heap = self.bytes.get(self.layout.heap_offset as usize..);
        Some(heap.and_then(|heap| heap.get(..bytes)).unwrap_or_default())
    }

    /// Reads the whole file into memory, and verifies it there.
    pub(crate) fn make_resident(&mut self) -> Result<(), Error> {
        self.check_length()?;
        if let Some(file) = &mut self.file {
            let bytes = file
                .rewind()
                .and_then(|()| Bytes::read(file, self.layout.file_bytes as usize));
            self.bytes = bytes.map_err(Error::io("read", &self.path))?;
            self.file = None;
        }
        self.verify()
    }

    /// The pilots with their padding, and all behind them.
    fn sections(&self) -> (&[u8], &[u8]) {
        let sections = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        sections
            .split_at_checked(self.layout.pilots_bytes as usize)
            .unwrap_or_default()
    }

    /// What a search needs, gathered once.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        let (pilots, slots) = self.sections();
        let places = self.header.places;
        let pilots = pilots.get(..(places.buckets * PILOT_BYTES) as usize);
        let slot_bytes = self.header.slot_bytes();
        let slots = slots.get(..places.slots as usize * slot_bytes);
        View {
            pilots: pilots.unwrap_or_default().as_chunks().0,
            slots: slots.unwrap_or_default(),
            slot_bytes,
            places,
        }
    }
}

/// Opens a shard file and decodes its header, which goes with the length of the file.
pub(crate) fn open_header(path: &Path) -> Result<(File, (Header, Layout, u64)), Error> {
    let mut file = files::open(path).map_err(Error::io("open", path))?;
    let metadata = file.metadata().map_err(Error::io("read", path))?;
    let bytes = header_of(&mut file, metadata.len(), path)?;
    let decoded = Header::decode(&bytes, metadata.len(), path)?;
    Ok((file, decoded))
}

/// The first bytes of a file that has at least as many.
fn header_of(file: &mut impl Read, file_bytes: u64, path: &Path) -> Result<[u8; HEADER_BYTES], Error> {
    if file_bytes < HEADER_BYTES as u64 {
        let found = format!("{file_bytes} bytes");
        return Err(Error::damaged(path, "header", "at least 128 bytes", found));
    }
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// A shard's sections, as a search sees them.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// One for each bucket.
    pilots: &'a [[u8; 2]],
    slots: &'a [u8],
    slot_bytes: usize,
    places: Places,
}

impl<'a> View<'a> {
    /// Asks for the pilot of a hashed key.
    #[inline(always)]
    pub(crate) fn prefetch_pilot(&self, hash: u64) {
        let bucket = self.places.bucket(self.places.spread(hash));
        if let Some(pilot) = self.pilots.get(bucket as usize) {
            prefetch(pilot);
        }
    }

    /// The one slot that a hashed key can have.
    #[inline(always)]
    pub(crate) fn slot(&self, hash: u64) -> Slot<'a> {
        let Some(number) = self.number(hash) else {
            return Slot(&[]);
        };
        let begin = number as usize * self.slot_bytes;
        Slot(self.slots.get(begin..begin + self.slot_bytes).unwrap_or_default())
    }

    /// The number of that slot.
    #[inline(always)]
    pub(crate) fn number(&self, hash: u64) -> Option<u64> {
        let spread = self.places.spread(hash);
        let pilot = self.pilots.get(self.places.bucket(spread) as usize)?;
        Some(self.places.slot(spread, u16::from_le_bytes(*pilot)))
    }

    /// Every key with its row.
    pub(crate) fn rows(self) -> impl Iterator<Item = (u64, Row<'a>)> {
        (0..self.slots()).filter_map(move |number| self.entry(number))
    }

    /// How many slots it has.
    pub(crate) fn slots(&self) -> u64 {
        (self.slots.len() / self.slot_bytes.max(1)) as u64
    }

    /// What lies in a slot, a row or not: its first bytes, as a key, and those behind them.
    #[inline]
    pub(crate) fn numbered(&self, number: u64) -> Option<(u64, Row<'a>)> {
        let begin = (number as usize).checked_mul(self.slot_bytes)?;
        let slot = self.slots.get(begin..)?.get(..self.slot_bytes)?;
        let (key, row) = slot.split_first_chunk::<KEY_BYTES>()?;
        Some((u64::from_le_bytes(*key), row))
    }

    /// The key and the row in a slot, where that is the slot of its key.
    #[inline]
    pub(crate) fn entry(&self, number: u64) -> Option<(u64, Row<'a>)> {
        let (key, row) = self.numbered(number)?;
        (self.number(hash(key)) == Some(number)).then_some((key, row))
    }
}

/// A key and its row, as they lie in the file; empty in a shard without rows.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot<'a>(&'a [u8]);

impl<'a> Slot<'a> {
    /// Asks for its first cache lines and for its last.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        // A slot need not begin with a line, so its end may lie in one more.
        if let (Some(first), Some(last)) = (self.0.first(), self.0.last()) {
            prefetch(first);
            prefetch(last);
        }
        if self.0.len() > LINE_BYTES {
            for line in self.0.chunks_exact(LINE_BYTES).take(LINES_AHEAD_MAX).skip(1) {
                if let Some(place) = line.first() {
                    prefetch(place);
                }
            }
        }
    }

    /// Its row, where it is that of `key`.
    #[inline(always)]
    pub(crate) fn row(self, key: u64) -> Option<Row<'a>> {
        let (slot_key, row) = self.0.split_first_chunk::<KEY_BYTES>()?;
        (u64::from_le_bytes(*slot_key) == key).then_some(row)
    }
}
