//! Writes one shard: its rows to a file of their own as they come, then the shard in its order.
//!
//! Does not sync folders or name versions; the writer above does. Invariant: the shard's file has a header only when all
//! behind it is written, and the file of rows is gone when the shard is finished.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::arrange::{Identity, Keys};
use crate::error::Error;
use crate::header::{HEADER_BYTES, KEY_BYTES, SHARD_ROWS_MAX};
use crate::manifest::{ShardEntry, shard_file};

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) struct ShardWriter {
    number: u32,
    dir: PathBuf,
    /// The rows as they came: each is a slot as the shard will have it.
    rows_path: PathBuf,
    rows: BufWriter<File>,
    keys: Keys,
}

impl ShardWriter {
    pub(super) fn create(dir: &Path, number: u32) -> Result<ShardWriter, Error> {
        let rows_path = dir.join(format!("rows-{number:05}"));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&rows_path);
        let file = options.map_err(Error::io("create", &rows_path))?;
        Ok(ShardWriter {
            number,
            dir: dir.to_path_buf(),
            rows_path,
            rows: BufWriter::with_capacity(BUFFER_BYTES, file),
            keys: Keys::default(),
        })
    }

    pub(super) fn push(&mut self, key: u64, row: &[u8]) -> Result<(), Error> {
        if self.keys.len() == SHARD_ROWS_MAX {
            let expected = format!("enough of them for {SHARD_ROWS_MAX} rows each");
            return Err(Error::argument("shards", expected, "more rows"));
        }
        self.keys.push(key);
        self.rows
            .write_all(&key.to_le_bytes())
            .and_then(|()| self.rows.write_all(row))
            .map_err(Error::io("write", &self.rows_path))
    }

    /// Writes the shard with at most `memory_bytes` of its slots in memory at a time.
    pub(super) fn finish(self, identity: Identity, memory_bytes: usize) -> Result<ShardEntry, Error> {
        let (rows_path, path) = (self.rows_path, self.dir.join(shard_file(self.number)));
        let rows = self.rows.into_inner().map_err(|error| error.into_error());
        let mut rows = rows.map_err(Error::io("write", &rows_path))?;
        let arrangement = self.keys.arrange(&path)?;
        let slot_bytes = KEY_BYTES + identity.row_bytes as usize + usize::from(identity.is_delta);
        let mut file = File::create_new(&path).map_err(Error::io("create", &path))?;
        file.write_all(&[0; HEADER_BYTES])
            .map_err(Error::io("write", &path))?;
        let header = arrangement.write(identity, memory_bytes, &mut file, &path, &mut |visit| {
            each(&mut rows, slot_bytes, visit).map_err(Error::io("read", &rows_path))
        })?;
        let (bytes, checksum) = header.encode();
        file.rewind()
            .and_then(|()| file.write_all(&bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| file.metadata())
            .map_err(Error::io("write", &path))
            .and_then(|metadata| {
                fs::remove_file(&rows_path).map_err(Error::io("remove", &rows_path))?;
                Ok(ShardEntry {
                    file: shard_file(self.number),
                    bytes: metadata.len(),
                    rows: header.rows,
                    checksum: format!("{checksum:016x}"),
                })
            })
    }
}

/// Visits the slots in a file of rows.
fn each(rows: &mut File, slot_bytes: usize, visit: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    rows.rewind()?;
    let bytes = rows.metadata()?.len();
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, rows);
    let mut slot = vec![0; slot_bytes];
    for _ in 0..bytes / slot_bytes as u64 {
        reader.read_exact(&mut slot)?;
        visit(&slot);
    }
    Ok(())
}
