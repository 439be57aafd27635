//! One opened shard: its two mapped sections, and the search for a key in them.
//!
//! Not a table: it answers for any key it is asked, and the table asks the right shard. Invariant: a search ends after
//! `probes_max` slots and never names bytes outside the rows, whatever the index holds.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::header::{HEADER_BYTES, Header};
use crate::map::Section;
use crate::prefetch::prefetch;

/// A row as it lies in the file: little-endian floats.
pub(crate) type Row<'a> = &'a [[u8; 4]];

/// A slot as it lies in the file: the key, then the row's number plus one.
type Slot = [u8; 16];

/// Floats in a cache line, and how many lines of a row are asked for ahead; the processor follows longer rows by itself.
const LINE_FLOATS: usize = 16;
const LINES_AHEAD_MAX: usize = 4;

pub(crate) struct Shard {
    /// For messages.
    path: PathBuf,
    pub(crate) header: Header,
    /// Ties the file to its manifest.
    pub(crate) header_checksum: u64,
    /// Device and inode: whether the path still names the file that is mapped.
    identity: (u64, u64),
    file_bytes: u64,
    rows: Section,
    index: Section,
}

impl Shard {
    /// Maps a shard file; only its header is read.
    pub(crate) fn open(path: &Path) -> Result<Shard, Error> {
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        let file_bytes = metadata.len();
        if file_bytes < HEADER_BYTES as u64 {
            let found = format!("{file_bytes} bytes");
            let expected = "at least 128 bytes";
            return Err(Error::damaged(path, "header", expected, found));
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact(&mut bytes).map_err(Error::io("read", path))?;
        let (header, layout, header_checksum) = Header::decode(&bytes, file_bytes, path)?;
        let map = |offset, bytes: u64| {
            let bytes = usize::try_from(bytes)
                .map_err(|_| Error::damaged(path, "length", "what fits this machine", bytes))?;
            Section::map(&file, offset, bytes).map_err(Error::io("map", path))
        };
        Ok(Shard {
            path: path.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            file_bytes,
            rows: map(HEADER_BYTES as u64, layout.rows_bytes)?,
            index: map(layout.index_offset, layout.index_bytes)?,
            header,
            header_checksum,
        })
    }

    /// Whether the file is still as long as what is mapped of it: reading a page that was cut off ends the process (SIGBUS).
    /// A file that was deleted, or had another put in its place, stays whole for its mapping.
    pub(crate) fn check_length(&self) -> Result<(), Error> {
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(Error::io("read", &self.path))?,
        };
        let is_ours = (metadata.dev(), metadata.ino()) == self.identity;
        if is_ours && metadata.len() != self.file_bytes {
            let what = "length in bytes since it was opened";
            return Err(Error::damaged(&self.path, what, self.file_bytes, metadata.len()));
        }
        Ok(())
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
        check("checksum of rows", &self.rows, self.header.rows_checksum)?;
        check("checksum of index", &self.index, self.header.index_checksum)
    }

    /// What a search needs, gathered once.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        View {
            slots: self.index.as_chunks().0,
            floats: self.rows.as_chunks().0,
            rows: self.header.rows,
            probes_max: self.header.probes_max,
            dim: self.header.dim as usize,
        }
    }
}

/// A shard's sections, as a search sees them.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// A power of two of them, as the header was checked for.
    slots: &'a [Slot],
    /// All rows, and the padding.
    floats: Row<'a>,
    rows: u64,
    probes_max: u64,
    dim: usize,
}

impl<'a> View<'a> {
    #[inline(always)]
    fn slot(&self, number: u64) -> Option<&'a Slot> {
        let mask = self.slots.len().wrapping_sub(1);
        self.slots.get(number as usize & mask)
    }

    /// Asks for the first slot of a hashed key.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        if let Some(slot) = self.slot(hash) {
            prefetch(slot);
        }
    }

    /// The row of a key, if it is there.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64, hash: u64) -> Option<Row<'a>> {
        let mut at = hash;
        for _ in 0..self.probes_max {
            let [slot_key, place] = self.slot(at)?.as_chunks::<8>().0 else {
                return None;
            };
            // Place 0 wraps to a number no row has, so an empty slot and a damaged one end the search alike.
            let number = u64::from_le_bytes(*place).wrapping_sub(1);
            if number >= self.rows {
                return None;
            }
            if u64::from_le_bytes(*slot_key) == key {
                let start = number as usize * self.dim;
                return self.floats.get(start..start + self.dim);
            }
            at = at.wrapping_add(1);
        }
        None
    }
}

/// Asks for the first cache lines of a row and for its last.
#[inline(always)]
pub(crate) fn prefetch_row(row: Row<'_>) {
    // A row need not begin with a line, so its end may lie in one more.
    if let (Some(first), Some(last)) = (row.first(), row.last()) {
        prefetch(first);
        prefetch(last);
    }
    if row.len() > LINE_FLOATS {
        for line in row.chunks_exact(LINE_FLOATS).take(LINES_AHEAD_MAX).skip(1) {
            if let Some(place) = line.first() {
                prefetch(place);
            }
        }
    }
}
