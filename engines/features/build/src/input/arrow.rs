//! Arrow IPC: files (Feather 2) and streams.
//!
//! Both are read one record batch at a time; of a file the footer says where the batches are. Its invariant: what is read lies inside of
//! the file, whatever its footer says, and a panic of the decoder is damage.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::root_as_footer;
use arrow_schema::{ArrowError, DataType, Schema};

use super::parquet::panic_message;
use super::{BYTES_HINT, Block, Columns, Format, Input, Lists, Reader, Wanted, bad};
use crate::error::{Error, Place, Problem};

pub(super) const FORMAT: Format = Format {
    name: "arrow",
    extensions: &["arrow", "arrows", "feather", "ipc"],
    open: |input, wanted| Ok(Box::new(ArrowReader::open(input, wanted)?)),
};

const MAGIC: &[u8] = b"ARROW1";
/// The magic word, and at least some of the zeros behind it.
const FILE_HEAD_BYTES: u64 = 8;
/// Most zeros behind it.
const PADDING_BYTES_MAX: u64 = 64;
/// The length of the footer, and the magic word.
const FILE_TAIL_BYTES: u64 = 10;
const CHUNK_BYTES: usize = 1 << 20;

const KEY_TYPES: &str = "int64, uint64 or a string";
const VALUE_TYPES: &str = "float16, float32 or float64, or a list of them";
const BYTES_TYPES: &str = "binary or a string, as the column holds bytes";

struct ArrowReader {
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
    columns: Columns,
    names: Vec<String>,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    at: usize,
    /// Rows read so far.
    row: u64,
}

impl ArrowReader {
    fn open(input: &Input, wanted: &Wanted<'_>) -> Result<ArrowReader, Error> {
        let path = &input.path;
        let mut file = File::open(path).map_err(Error::open(path))?;
        let (parts, batches_left) = parts(&mut file, path)?;
        let mut reader = ArrowReader {
            path: path.clone(),
            file,
            bytes_total: parts.iter().map(|part| part.end - part.start).sum(),
            parts,
            bytes_read: 0,
            batches_left,
            decoder: StreamDecoder::new(),
            buffer: Buffer::default(),
            columns: Columns {
                key: 0,
                sources: Vec::new(),
            },
            names: Vec::new(),
            batch: None,
            at: 0,
            row: 0,
        };
        reader.batch = reader.next_batch()?;
        let schema = reader.decoder.schema();
        let schema = schema.ok_or_else(|| damaged(path, 0, "it has no schema"))?;
        let names = schema.fields().iter().map(|field| field.name().clone());
        reader.names = names.collect();
        reader.columns = wanted.find(path, &reader.names, false)?;
        check_types(&schema, &reader.columns, wanted, path)?;
        Ok(reader)
    }

    /// Decodes on until there is a batch; none at the end.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let batch = loop {
            let decode = || self.decoder.decode(&mut self.buffer);
            match guarded(decode) {
                Ok(Some(batch)) => break Some(batch),
                Ok(None) => {}
                // What follows the end of a stream is none of it.
                Err(_) if self.decoder.finish().is_ok() => break None,
                Err(error) => return Err(damaged(&self.path, self.row, error)),
            }
            if !self.read_on()? {
                let finished = self.decoder.finish();
                finished.map_err(|error| damaged(&self.path, self.row, error))?;
                break None;
            }
        };
        match (&mut self.batches_left, &batch) {
            (Some(left @ 1..), Some(_)) => *left -= 1,
            (None, _) | (Some(0), None) => {}
            _ => {
                return Err(damaged(
                    &self.path,
                    self.row,
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

    /// Adds row `at` of the batch to the block.
    fn add(&self, batch: &RecordBatch, at: usize, block: &mut Block) -> Result<(), Error> {
        let place = Place::Row(self.row);
        let wrong = |column: usize, problem| {
            let name = self.names.get(column).map_or("", String::as_str);
            bad(&self.path, place, name, problem)
        };
        let pushed = push_key(batch.column(self.columns.key), at, block);
        pushed.map_err(|problem| wrong(self.columns.key, problem))?;
        for (source, lists) in self.columns.sources.iter().zip(&mut block.columns) {
            for &column in source {
                let add = if lists.is_bytes() { bytes } else { numbers };
                add(batch.column(column), at, lists).map_err(|problem| wrong(column, problem))?;
            }
            let ended = lists.end();
            ended.map_err(|problem| wrong(source.first().copied().unwrap_or(0), problem))?;
        }
        Ok(())
    }
}

impl Reader for ArrowReader {
    fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.begin(self.row, self.columns.sources.len());
        while !block.is_full() {
            let Some(batch) = self.batch.take() else {
                self.at = 0;
                self.batch = self.next_batch()?;
                if self.batch.is_none() {
                    break;
                }
                continue;
            };
            while self.at < batch.num_rows() && !block.is_full() {
                self.add(&batch, self.at, block)?;
                self.at += 1;
                self.row += 1;
            }
            if self.at < batch.num_rows() {
                self.batch = Some(batch);
            }
        }
        Ok(!block.keys.is_empty())
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

fn check_types(schema: &Schema, columns: &Columns, wanted: &Wanted<'_>, path: &Path) -> Result<(), Error> {
    let check = |column: usize, expected, fits: fn(&DataType) -> bool| {
        let field = schema.field(column);
        match fits(field.data_type()) {
            true => Ok(()),
            false => Err(Error::ColumnType {
                path: path.to_path_buf(),
                column: field.name().clone(),
                expected,
                found: field.data_type().to_string(),
            }),
        }
    };
    check(columns.key, KEY_TYPES, |kind| {
        matches!(kind, DataType::Int64 | DataType::UInt64) || kind.is_string()
    })?;
    let mut sources = columns.sources.iter().enumerate();
    sources.try_for_each(|(at, source)| {
        source.iter().try_for_each(|&column| match wanted.is_bytes(at) {
            true => check(column, BYTES_TYPES, is_bytes),
            false if is_bytes(schema.field(column).data_type()) => check(column, BYTES_HINT, is_numbers),
            false => check(column, VALUE_TYPES, is_numbers),
        })
    })
}

fn is_bytes(kind: &DataType) -> bool {
    kind.is_string() || kind.is_binary()
}

fn is_numbers(kind: &DataType) -> bool {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type().is_floating()
        }
        kind => kind.is_floating(),
    }
}

/// Adds the key of a row to the block.
fn push_key(column: &ArrayRef, at: usize, block: &mut Block) -> Result<(), Problem> {
    if column.is_null(at) {
        return Err(Problem::NullKey);
    }
    if let Some(keys) = column.as_primitive_opt::<UInt64Type>() {
        block.push_key(keys.value(at))
    } else if let Some(keys) = column.as_primitive_opt::<Int64Type>() {
        block.push_key(keys.value(at).cast_unsigned())
    } else if let Some(texts) = column.as_string_opt::<i32>() {
        block.push_text(texts.value(at))
    } else if let Some(texts) = column.as_string_opt::<i64>() {
        block.push_text(texts.value(at))
    } else if let Some(texts) = column.as_string_view_opt() {
        block.push_text(texts.value(at))
    } else {
        Err(Problem::NullKey)
    }
}

/// Adds the bytes of a row to the string that is open.
fn bytes(column: &ArrayRef, at: usize, lists: &mut Lists) -> Result<(), Problem> {
    if column.is_null(at) {
        return Err(Problem::NullVector);
    }
    let bytes = if let Some(bytes) = column.as_binary_opt::<i32>() {
        bytes.value(at)
    } else if let Some(bytes) = column.as_binary_opt::<i64>() {
        bytes.value(at)
    } else if let Some(bytes) = column.as_fixed_size_binary_opt() {
        bytes.value(at)
    } else if let Some(bytes) = column.as_binary_view_opt() {
        bytes.value(at)
    } else if let Some(texts) = column.as_string_opt::<i32>() {
        texts.value(at).as_bytes()
    } else if let Some(texts) = column.as_string_opt::<i64>() {
        texts.value(at).as_bytes()
    } else if let Some(texts) = column.as_string_view_opt() {
        texts.value(at).as_bytes()
    } else {
        let found = column.data_type().to_string();
        return Err(Problem::NotBytes { found });
    };
    lists.push_bytes(bytes);
    Ok(())
}

/// Adds the numbers of a row to the list that is open.
fn numbers(column: &ArrayRef, at: usize, lists: &mut Lists) -> Result<(), Problem> {
    let (values, range) = if let Some(list) = column.as_list_opt::<i32>() {
        let ends = list.value_offsets();
        (list.values(), ends[at] as usize..ends[at + 1] as usize)
    } else if let Some(list) = column.as_list_opt::<i64>() {
        let ends = list.value_offsets();
        (list.values(), ends[at] as usize..ends[at + 1] as usize)
    } else if let Some(list) = column.as_fixed_size_list_opt() {
        let (begin, dim) = (list.value_offset_at(at), list.value_length() as usize);
        (list.values(), begin..begin + dim)
    } else {
        (column, at..at + 1)
    };
    if column.is_null(at) {
        return Err(Problem::NullVector);
    }
    if range.is_empty() {
        return Err(Problem::EmptyVector);
    }
    for at in range {
        let position = lists.open_len();
        if values.is_null(at) {
            return Err(Problem::NullElement { position });
        }
        let number = if let Some(values) = values.as_primitive_opt::<Float32Type>() {
            f64::from(values.value(at))
        } else if let Some(values) = values.as_primitive_opt::<Float64Type>() {
            values.value(at)
        } else if let Some(values) = values.as_primitive_opt::<Float16Type>() {
            values.value(at).to_f64()
        } else {
            let found = values.data_type().to_string();
            return Err(Problem::NotNumbers { found });
        };
        lists.push(number)?;
    }
    Ok(())
}

/// Calls the decoder, which may panic on damaged messages.
fn guarded<R>(decode: impl FnOnce() -> Result<R, ArrowError>) -> Result<R, ArrowError> {
    // After a panic the decoder is not used again.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        Err(ArrowError::IpcError(format!("the decoder gave up: {message}")))
    })
}

fn damaged(path: &Path, row: u64, problem: impl ToString) -> Error {
    Error::Damaged {
        path: path.to_path_buf(),
        format: "Arrow IPC",
        row,
        problem: problem.to_string(),
    }
}
