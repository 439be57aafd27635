//! Arrow IPC: files (Feather 2) and streams.
//!
//! Both are read one record batch at a time; of a file the footer says where the batches are. Its invariant: what is read lies inside of
//! the file, whatever its footer says.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_footer;
use arrow_schema::SchemaRef;

use super::{Batches, guarded};
use crate::error::Error;

const MAGIC: &[u8] = b"ARROW1";
/// The magic word, and at least some of the zeros behind it.
const FILE_HEAD_BYTES: u64 = 8;
/// Most zeros behind it.
const PADDING_BYTES_MAX: u64 = 64;
/// The length of the footer, and the magic word.
const FILE_TAIL_BYTES: u64 = 10;
const CHUNK_BYTES: usize = 1 << 20;

/// A file, read up to some batch.
pub(super) struct IpcFile {
    path: PathBuf,
    file: File,
    /// What is to be decoded and was not read yet.
    parts: VecDeque<Range<u64>>,
    bytes_total: u64,
    bytes_read: u64,
    /// Record batches that are still to come, where a footer says how many there are.
    batches_left: Option<usize>,
    decoder: StreamDecoder,
    /// What was read and not decoded.
    buffer: Buffer,
}

impl IpcFile {
    pub(super) fn open(path: &Path) -> Result<IpcFile, Error> {
        let mut file = File::open(path).map_err(Error::open(path))?;
        let (parts, batches_left) = parts(&mut file, path)?;
        Ok(IpcFile {
            path: path.to_path_buf(),
            file,
            bytes_total: parts.iter().map(|part| part.end - part.start).sum(),
            parts,
            bytes_read: 0,
            batches_left,
            decoder: StreamDecoder::new(),
            buffer: Buffer::default(),
        })
    }

    /// Decodes on until there is a batch; none at the end.
    fn next_batch(&mut self, row: u64) -> Result<Option<RecordBatch>, Error> {
        let batch = loop {
            let decode = || self.decoder.decode(&mut self.buffer);
            match guarded(decode) {
                Ok(Some(batch)) => break Some(batch),
                Ok(None) => {}
                // What follows the end of a stream is none of it.
                Err(_) if self.decoder.finish().is_ok() => break None,
                Err(error) => return Err(damaged(&self.path, row, error)),
            }
            if !self.read_on()? {
                let finished = self.decoder.finish();
                finished.map_err(|error| damaged(&self.path, row, error))?;
                break None;
            }
        };
        match (&mut self.batches_left, &batch) {
            (Some(left @ 1..), Some(_)) => *left -= 1,
            (None, _) | (Some(0), None) => {}
            _ => {
                return Err(damaged(
                    &self.path,
                    row,
                    "its footer has another number of batches",
                ));
            }
        }
        Ok(batch)
    }

    /// Reads the next bytes to decode; `false` at the end.
    fn read_on(&mut self) -> Result<bool, Error> {
        let Some(part) = self.parts.front_mut() else {
            return Ok(false);
        };
        let count = (part.end - part.start).min(CHUNK_BYTES as u64);
        let mut chunk = vec![0; count as usize];
        self.file
            .seek(SeekFrom::Start(part.start))
            .and_then(|_| self.file.read_exact(&mut chunk))
            .map_err(Error::read(&self.path))?;
        part.start += count;
        if part.is_empty() {
            self.parts.pop_front();
        }
        self.bytes_read += count;
        self.buffer = Buffer::from_vec(chunk);
        Ok(true)
    }
}

impl Batches for IpcFile {
    fn next(&mut self, row: u64) -> Result<Option<RecordBatch>, Error> {
        self.next_batch(row)
    }

    fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    fn share(&self) -> f64 {
        self.bytes_read as f64 / self.bytes_total.max(1) as f64
    }
}

/// What of a file is to be decoded, in order; and how many record batches that is, if it says so.
fn parts(file: &mut File, path: &Path) -> Result<(VecDeque<Range<u64>>, Option<usize>), Error> {
    let length = file.metadata().map_err(Error::read(path))?.len();
    let mut magic = [0; MAGIC.len()];
    if length < FILE_HEAD_BYTES {
        return Err(damaged(path, 0, format!("it has {length} bytes")));
    }
    read_at(file, 0, &mut magic, path)?;
    if magic != MAGIC {
        let mut whole = VecDeque::new();
        whole.push_back(0..length);
        return Ok((whole, None));
    }
    let cut = || damaged(path, 0, "it does not end as a file of Arrow does");
    let mut tail = [0; FILE_TAIL_BYTES as usize];
    let tail_at = length.checked_sub(FILE_TAIL_BYTES).ok_or_else(cut)?;
    read_at(file, tail_at, &mut tail, path)?;
    let (footer_bytes, magic) = tail.split_first_chunk().ok_or_else(cut)?;
    let footer_bytes = u64::from(u32::from_le_bytes(*footer_bytes));
    let footer_at = tail_at.checked_sub(footer_bytes);
    let footer_at = footer_at.filter(|&at| at >= FILE_HEAD_BYTES && magic == MAGIC);
    let footer_at = footer_at.ok_or_else(cut)?;
    let mut footer = vec![0; footer_bytes as usize];
    read_at(file, footer_at, &mut footer, path)?;
    let footer = root_as_footer(&footer).map_err(|error| damaged(path, 0, error))?;
    let (dictionaries, batches) = (footer.dictionaries(), footer.recordBatches());
    let blocks = dictionaries.iter().chain(batches.iter()).flatten();
    let mut parts = VecDeque::new();
    for block in blocks {
        let begin = u64::try_from(block.offset()).ok();
        let head = u64::try_from(block.metaDataLength()).ok();
        let body = u64::try_from(block.bodyLength()).ok();
        let end = begin.and_then(|begin| begin.checked_add(head?)?.checked_add(body?));
        match (begin, end) {
            (Some(begin), Some(end)) if begin < end && end <= footer_at => parts.push_back(begin..end),
            _ => return Err(damaged(path, 0, "its footer names a place outside of the file")),
        }
    }
    // The schema's message stands before the first block; only zeros are before it.
    let first = parts.iter().map(|part| part.start).min().unwrap_or(footer_at);
    let mut padding = vec![0; first.saturating_sub(FILE_HEAD_BYTES).min(PADDING_BYTES_MAX) as usize];
    read_at(file, FILE_HEAD_BYTES, &mut padding, path)?;
    let zeros = padding.iter().take_while(|&&byte| byte == 0).count();
    parts.push_front(FILE_HEAD_BYTES + zeros as u64..first);
    Ok((parts, Some(batches.map_or(0, |batches| batches.len()))))
}

fn read_at(file: &mut File, at: u64, bytes: &mut [u8], path: &Path) -> Result<(), Error> {
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.read_exact(bytes))
        .map_err(Error::read(path))
}

pub(super) fn damaged(path: &Path, row: u64, problem: impl ToString) -> Error {
    Error::Damaged {
        path: path.to_path_buf(),
        format: "Arrow IPC",
        row,
        problem: problem.to_string(),
    }
}
