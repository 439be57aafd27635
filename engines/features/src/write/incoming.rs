//! The rows of a shard as they come: in memory while there is room, in a file of their own from then on.
//!
//! Knows no order and no table. Invariant: what is read again is what was pushed, in that order; rows that went through the
//! file are held against the checksum of what was written.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::journal::Prefix;
use super::removals::key_of_slot;
use super::varying::{self, Record};
use crate::error::Error;
use crate::header::KEY_BYTES;
use crate::pages::Pages;

/// Of rows that are read at a time.
const CHUNK_BYTES: usize = 256 * 1024;
/// Of rows in memory that lie together, or are written at a time: the first ones, and further ones.
const OPEN_BYTES: (usize, usize) = (CHUNK_BYTES, 2 << 20);

/// Rows while they are pushed.
pub(super) struct Incoming {
    path: PathBuf,
    chunk_bytes: usize,
    /// Full ones, in their order; none once there is a file.
    chunks: Vec<Chunk>,
    /// The one that is filled. No row lies in two.
    open: Chunk,
    spilled: Option<Spilled>,
}

/// Some rows in memory.
struct Chunk {
    pages: Pages,
    /// Bytes of rows.
    len: usize,
}

impl Chunk {
    fn new(bytes: usize) -> io::Result<Chunk> {
        let pages = Pages::zeroed(bytes)?;
        Ok(Chunk { pages, len: 0 })
    }

    fn room(&self) -> usize {
        self.pages.len() - self.len
    }

    /// The place of the next bytes, for which there is room.
    #[inline(always)]
    fn next(&mut self, bytes: usize) -> &mut [u8] {
        let begin = self.len;
        self.len += bytes;
        self.pages.get_mut(begin..self.len).unwrap_or_default()
    }

    fn rows(&self) -> &[u8] {
        self.pages.get(..self.len).unwrap_or_default()
    }
}

struct Spilled {
    file: File,
    bytes: u64,
    /// Over all bytes of the file.
    written: Xxh3Default,
}

/// What rows are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) is_delta: bool,
    /// Each row has its length.
    pub(super) is_varying: bool,
    /// Bytes of a slot, its key among them.
    pub(super) slot_bytes: usize,
}

impl Incoming {
    /// Of shard `number` in `dir`, with a chunk of about `chunk_bytes` that is filled.
    pub(super) fn new(dir: &Path, number: u32, chunk_bytes: usize) -> Incoming {
        Incoming {
            path: dir.join(format!("rows-{number:05}")),
            chunk_bytes: chunk_bytes.min(OPEN_BYTES.1),
            chunks: Vec::new(),
            open: Chunk {
                pages: Pages::Allocated(Vec::new()),
                len: 0,
            },
            spilled: None,
        }
    }

    pub(super) fn push(&mut self, key: u64, row: &[u8]) -> Result<(), Error> {
        let (key_place, place) = self.place(row.len())?;
        key_place.copy_from_slice(&key.to_le_bytes());
        place.copy_from_slice(row);
        Ok(())
    }

    /// Adds a row of 32-bit floats.
    #[inline(always)]
    pub(super) fn push_floats(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        let (key_place, place) = self.place(size_of_val(row))?;
        key_place.copy_from_slice(&key.to_le_bytes());
        for (place, number) in place.as_chunks_mut().0.iter_mut().zip(row) {
            *place = number.to_le_bytes();
        }
        Ok(())
    }

    /// The places of the next key and of its row, which has so many bytes.
    #[inline(always)]
    fn place(&mut self, row_bytes: usize) -> Result<(&mut [u8], &mut [u8]), Error> {
        let bytes = KEY_BYTES + row_bytes;
        if self.open.room() < bytes {
            self.turn(bytes)?;
        }
        Ok(self.open.next(bytes).split_at_mut(KEY_BYTES))
    }

    /// Makes room for a row of `bytes`.
    fn turn(&mut self, bytes: usize) -> Result<(), Error> {
        self.write_out()?;
        if self.open.room() >= bytes {
            return Ok(());
        }
        // A small table takes little memory.
        let most = match self.open.pages.is_empty() {
            true => OPEN_BYTES.0,
            false => OPEN_BYTES.1,
        };
        let room = Chunk::new(self.chunk_bytes.min(most).max(bytes));
        let full = std::mem::replace(&mut self.open, room.map_err(Error::io("keep", &self.path))?);
        self.chunks.extend(Some(full).filter(|full| full.len > 0));
        Ok(())
    }

    /// Puts what is in memory into the file, and from now on all that comes.
    pub(super) fn spill(&mut self) -> Result<(), Error> {
        if self.spilled.is_some() {
            return Ok(());
        }
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&self.path);
        let mut spilled = Spilled {
            file: options.map_err(Error::io("create", &self.path))?,
            bytes: 0,
            written: Xxh3Default::new(),
        };
        for chunk in self.chunks.drain(..) {
            spilled
                .write(chunk.rows())
                .map_err(Error::io("write", &self.path))?;
        }
        self.chunks.shrink_to_fit();
        self.spilled = Some(spilled);
        Ok(())
    }

    /// Writes the open chunk to the file.
    fn write_out(&mut self) -> Result<(), Error> {
        if let Some(spilled) = &mut self.spilled {
            let written = spilled.write(self.open.rows());
            written.map_err(Error::io("write", &self.path))?;
            self.open.len = 0;
        }
        Ok(())
    }

    /// The name of its file.
    pub(super) fn name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }

    /// Has all rows that came in the file, and says what that has; nothing where there is none.
    pub(super) fn flush(&mut self) -> Result<Prefix, Error> {
        self.write_out()?;
        let spilled = self.spilled.as_ref();
        Ok(spilled.map_or(Prefix::default(), |spilled| Prefix {
            bytes: spilled.bytes,
            checksum: spilled.written.digest(),
        }))
    }

    /// Goes on behind the rows that an earlier writer left; none where they are not what it wrote. `on_key` gets the key of each.
    pub(super) fn go_on(
        mut self,
        left: Prefix,
        shape: Shape,
        on_key: &mut dyn FnMut(u64),
    ) -> Result<Option<Incoming>, Error> {
        let Some(mut file) = opened_at(&self.path, left.bytes)? else {
            return Ok(None);
        };
        let written = match shape.is_varying {
            true => each_record(&mut file, shape.is_delta, &mut |record| {
                key_of_slot(record.slot).into_iter().for_each(&mut *on_key);
            }),
            false => each(&mut file, shape.slot_bytes, &mut |slots| {
                let slots = slots.chunks_exact(shape.slot_bytes);
                slots.filter_map(key_of_slot).for_each(&mut *on_key);
            }),
        };
        let Some(written) = written.ok().filter(|written| written.digest() == left.checksum) else {
            return Ok(None);
        };
        let bytes = left.bytes;
        self.spilled = Some(Spilled { file, bytes, written });
        Ok(Some(self))
    }

    /// No more rows come.
    pub(super) fn end(mut self, shape: Shape) -> Result<Rows, Error> {
        self.write_out()?;
        let place = match self.spilled {
            Some(Spilled { file, written, .. }) => RowsIn::File {
                file,
                path: self.path,
                written: written.digest(),
            },
            None => {
                self.chunks.push(self.open);
                RowsIn::Memory(self.chunks)
            }
        };
        Ok(Rows { place, shape })
    }
}

/// A file that an earlier writer left, cut to its first `bytes`; none where it has fewer or is not there.
pub(super) fn opened_at(path: &Path, bytes: u64) -> Result<Option<File>, Error> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", path))?,
    };
    let there = file.metadata().map_err(Error::io("read", path))?.len();
    if there < bytes {
        return Ok(None);
    }
    file.set_len(bytes)
        .and_then(|()| file.seek(io::SeekFrom::End(0)))
        .map_err(Error::io("cut", path))?;
    Ok(Some(file))
}

impl Spilled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

/// All rows, to be read again and again.
pub(super) struct Rows {
    place: RowsIn,
    shape: Shape,
}

enum RowsIn {
    Memory(Vec<Chunk>),
    File {
        file: File,
        path: PathBuf,
        /// The checksum of what was written.
        written: u64,
    },
}

impl Rows {
    /// Bytes of a slot, its key among them.
    pub(super) fn slot_bytes(&self) -> usize {
        self.shape.slot_bytes
    }

    /// The rows, where all are in memory and of one length.
    pub(super) fn in_memory(&self) -> Option<Vec<&[u8]>> {
        match &self.place {
            RowsIn::Memory(chunks) if !self.shape.is_varying => {
                Some(chunks.iter().map(Chunk::rows).collect())
            }
            _ => None,
        }
    }

    /// Visits all slots, some at a time, in the order in which they came.
    pub(super) fn each(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if self.shape.is_varying {
            return self.each_record(&[], &mut |record| visit(record.slot));
        }
        let slot_bytes = self.shape.slot_bytes;
        match &mut self.place {
            RowsIn::Memory(chunks) => {
                chunks.iter().for_each(|chunk| visit(chunk.rows()));
                Ok(())
            }
            RowsIn::File { file, path, written } => {
                let read = each(file, slot_bytes, visit).map_err(Error::io("read", path))?;
                check(path, *written, &read)
            }
        }
    }

    /// Visits all rows that vary in length, in the order in which they came, but those of the keys `taken_out`, which are in order.
    pub(super) fn each_record(
        &mut self,
        taken_out: &[u64],
        visit: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), Error> {
        let is_delta = self.shape.is_delta;
        let mut that_stay = |record: Record<'_>| {
            if varying::stays(&record, taken_out) {
                visit(record);
            }
        };
        match &mut self.place {
            RowsIn::Memory(chunks) => chunks.iter().try_for_each(|chunk| {
                let mut rows = chunk.rows();
                let read = varying::each(&mut rows, chunk.len as u64, is_delta, &mut that_stay);
                read.map_err(Error::io("read the rows of", Path::new("memory")))
            }),
            RowsIn::File { file, path, written } => {
                let read = each_record(file, is_delta, &mut that_stay);
                check(path, *written, &read.map_err(Error::io("read", path))?)
            }
        }
    }

    /// Visits the slots of all keys but those `taken_out`, which are in order.
    pub(super) fn each_but(&mut self, taken_out: &[u64], visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if taken_out.is_empty() {
            return self.each(visit);
        }
        let slot_bytes = self.shape.slot_bytes;
        self.each(&mut |slots| {
            for slot in slots.chunks_exact(slot_bytes) {
                if key_of_slot(slot).is_none_or(|key| taken_out.binary_search(&key).is_err()) {
                    visit(slot);
                }
            }
        })
    }

    /// Removes the file, where there is one.
    pub(super) fn remove(self) -> Result<(), Error> {
        match self.place {
            RowsIn::Memory(_) => Ok(()),
            RowsIn::File { path, .. } => fs::remove_file(&path).map_err(Error::io("remove", &path)),
        }
    }
}

/// Whether what was read is what was written.
fn check(path: &Path, written: u64, read: &Xxh3Default) -> Result<(), Error> {
    let read = read.digest();
    if read == written {
        return Ok(());
    }
    let (expected, found) = (format!("checksum {written:016x}"), format!("{read:016x}"));
    Err(Error::damaged(path, "rows, read again", expected, found))
}

/// Visits the slots in a file of rows; returns their checksum.
fn each(rows: &mut File, slot_bytes: usize, visit: &mut dyn FnMut(&[u8])) -> io::Result<Xxh3Default> {
    rows.rewind()?;
    let mut left = rows.metadata()?.len() as usize / slot_bytes;
    let mut hasher = Xxh3Default::new();
    let mut slots = vec![0; (CHUNK_BYTES / slot_bytes).clamp(1, left.max(1)) * slot_bytes];
    while left > 0 {
        let count = left.min(slots.len() / slot_bytes);
        let slots = &mut slots[..count * slot_bytes];
        rows.read_exact(slots)?;
        hasher.update(slots);
        visit(slots);
        left -= count;
    }
    Ok(hasher)
}

/// Visits the rows that vary in length in a file of rows; returns its checksum.
fn each_record(
    rows: &mut File,
    is_delta: bool,
    visit: &mut dyn FnMut(Record<'_>),
) -> io::Result<Xxh3Default> {
    rows.rewind()?;
    let left = rows.metadata()?.len();
    let hashed = Hashed {
        of: rows,
        hasher: Xxh3Default::new(),
    };
    let mut rows = BufReader::with_capacity(CHUNK_BYTES, hashed);
    varying::each(&mut rows, left, is_delta, visit)?;
    Ok(rows.into_inner().hasher)
}

/// Reads, and keeps the checksum of what was read.
struct Hashed<R> {
    of: R,
    hasher: Xxh3Default,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.of.read(bytes)?;
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }
}
