//! Parquet files.
//!
//! Not a reader of every schema: keys are INT64 or strings, numbers are floats or lists of them, bytes are strings or binary. Its invariant: a panic of the Parquet reader,
//! which some damaged pages bring about, ends in an error like any other damage.

mod cells;
mod columns;

use std::any::Any;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{BLOCK_NUMBERS, BLOCK_ROWS, Block, Format, Input, Reader, Wanted, bad};
use crate::error::{Error, Place, Problem};
use cells::{Cells, Key, Keys, cells, keys};
use columns::Leaves;

pub(super) const FORMAT: Format = Format {
    name: "parquet",
    extensions: &["parquet", "pq"],
    open: |input, wanted| Ok(Box::new(ParquetReader::open(input, wanted)?)),
};

/// Rows of the first batch, which tells how long rows are.
const FIRST_ROWS: usize = 16;
/// Rows of a batch that has bytes: the next may be far longer than those before.
const BYTES_ROWS: usize = 128;

struct ParquetReader {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    leaves: Leaves,
    /// As the footer says.
    rows_total: u64,
    /// Rows read so far.
    row: u64,
    /// Rows of the next batch.
    batch_rows: usize,
    /// The next row group.
    group: usize,
    open: Option<Group>,
    /// The row behind the open group.
    group_end: u64,
}

/// The columns of a row group.
struct Group {
    keys: Box<dyn Keys>,
    /// For each source its leaves.
    sources: Vec<Vec<Box<dyn Cells>>>,
}

impl ParquetReader {
    fn open(input: &Input, wanted: &Wanted<'_>) -> Result<ParquetReader, Error> {
        let path = &input.path;
        let file = File::open(path).map_err(Error::open(path))?;
        let reader = guarded(|| SerializedFileReader::new(file)).map_err(damaged(path, 0))?;
        let metadata = reader.metadata().file_metadata();
        let leaves = Leaves::find(metadata.schema_descr(), wanted, path)?;
        let rows_total = u64::try_from(metadata.num_rows()).unwrap_or(0);
        check_codecs(&reader, &leaves, path)?;
        Ok(ParquetReader {
            path: path.clone(),
            reader,
            leaves,
            rows_total,
            row: 0,
            batch_rows: FIRST_ROWS,
            group: 0,
            open: None,
            group_end: 0,
        })
    }

    fn open_group(&self) -> Result<Group, ParquetError> {
        let group = self.reader.get_row_group(self.group)?;
        let schema = group.metadata().schema_descr();
        let leaf = |at: usize| cells(group.get_column_reader(at)?, &schema.column(at));
        let of_source = |source: &Vec<usize>| source.iter().map(|&at| leaf(at)).collect();
        let key = self.leaves.key;
        Ok(Group {
            keys: keys(group.get_column_reader(key)?, &schema.column(key))?,
            sources: self
                .leaves
                .sources
                .iter()
                .map(of_source)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Reads the next rows of the open group into the block; `false` at its end.
    fn read_group(&self, group: &mut Group, block: &mut Block) -> Result<bool, Error> {
        let rows = self.batch_rows;
        let damaged = |error| damaged(&self.path, self.row)(error);
        let read = guarded(|| group.keys.read(rows)).map_err(damaged)?;
        for cells in group.sources.iter_mut().flatten() {
            let count = guarded(|| cells.read(rows)).map_err(damaged)?;
            if count != read {
                let message = "the columns have different numbers of rows".to_owned();
                return Err(damaged(ParquetError::General(message)));
            }
        }
        if !fill(group, read, block) {
            let keys = group.keys.each().map_err(damaged)?;
            self.row_by_row(group, &keys, block)?;
        }
        Ok(read > 0)
    }

    /// Adds the rows of a batch, each of which may be wrong.
    fn row_by_row(&self, group: &mut Group, keys: &[Option<Key>], block: &mut Block) -> Result<(), Error> {
        for (row, key) in (self.row..).zip(keys) {
            let wrong = |column: &str, problem| bad(&self.path, Place::Row(row), column, problem);
            let pushed = match key {
                Some(Key::Number(key)) => block.push_key(*key),
                Some(Key::Text(text)) => block.push_text(text),
                None => Err(Problem::NullKey),
            };
            pushed.map_err(|problem| wrong(&self.leaves.key_name, problem))?;
            for (source, lists) in group.sources.iter_mut().zip(&mut block.columns) {
                for cells in source.iter_mut() {
                    let found = cells.next(lists);
                    found.map_err(|problem| wrong(cells.name(), problem))?;
                }
                let ended = lists.end();
                ended.map_err(|problem| wrong(source.first().map_or("", |cells| cells.name()), problem))?;
            }
        }
        Ok(())
    }
}

/// Adds all rows of a batch at once, where none of them needs a look of its own; `false` where nothing was added.
fn fill(group: &mut Group, rows: usize, block: &mut Block) -> bool {
    let Some(keys) = group.keys.plain().filter(|keys| keys.len() == rows) else {
        return false;
    };
    let not_finite = block.not_finite;
    let dim = |source: &mut Vec<Box<dyn Cells>>| match source.as_mut_slice() {
        [only] => only.plain_dim(rows, not_finite),
        // Numbers of several columns stand in turns.
        _ => None,
    };
    let dims: Option<Vec<usize>> = group.sources.iter_mut().map(dim).collect();
    let Some(dims) = dims.filter(|_| !block.bytes.contains(&true)) else {
        return false;
    };
    block.push_keys(keys.iter().map(|key| key.cast_unsigned()));
    let sources = group.sources.iter_mut().flatten();
    for ((cells, lists), dim) in sources.zip(&mut block.columns).zip(dims) {
        cells.fill(rows, dim, lists);
    }
    true
}

impl Reader for ParquetReader {
    fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.begin(self.row, self.leaves.sources.len());
        loop {
            let mut group = match self.open.take() {
                Some(group) => group,
                None if self.group == self.reader.num_row_groups() => break,
                None => {
                    let group = guarded(|| self.open_group()).map_err(damaged(&self.path, self.row))?;
                    let rows = self.reader.metadata().row_group(self.group).num_rows();
                    self.group_end = self.row + u64::try_from(rows).unwrap_or(0);
                    self.group += 1;
                    group
                }
            };
            if self.read_group(&mut group, block)? {
                self.open = Some(group);
                self.row += block.keys.len() as u64;
                let numbers: usize = block.columns.iter().map(|lists| lists.row(0).len()).sum();
                let rows_max = match block.bytes.contains(&true) {
                    true => BYTES_ROWS,
                    false => BLOCK_ROWS,
                };
                self.batch_rows = (BLOCK_NUMBERS / numbers.max(1)).clamp(1, rows_max);
                return Ok(true);
            }
        }
        if self.row != self.rows_total {
            let message = format!("expected {} rows, found {}", self.rows_total, self.row);
            return Err(damaged(&self.path, self.row)(ParquetError::General(message)));
        }
        Ok(false)
    }

    fn skip(&mut self, rows: u64) -> Result<u64, Error> {
        let groups = self.reader.metadata().row_groups();
        let mut skipped = 0;
        // Groups are passed over whole.
        if self.open.is_some() {
            let left = self.group_end.saturating_sub(self.row);
            if left > rows {
                return Ok(0);
            }
            self.open = None;
            skipped = left;
        }
        while let Some(group) = groups.get(self.group) {
            let count = u64::try_from(group.num_rows()).unwrap_or(0);
            if count > rows - skipped {
                break;
            }
            self.group += 1;
            skipped += count;
        }
        self.row += skipped;
        Ok(skipped)
    }

    fn share(&self) -> f64 {
        self.row as f64 / self.rows_total.max(1) as f64
    }
}

/// A codec that this build does not have is no damage.
fn check_codecs(reader: &SerializedFileReader<File>, leaves: &Leaves, path: &Path) -> Result<(), Error> {
    for group in reader.metadata().row_groups() {
        for &column in leaves.sources.iter().flatten().chain([&leaves.key]) {
            let codec = group.column(column).compression();
            if !matches!(
                codec,
                Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
            ) {
                // Some are shown with their level behind them.
                let codec = codec.to_string().to_lowercase();
                return Err(Error::Codec {
                    path: path.to_path_buf(),
                    codec: codec.split('(').next().unwrap_or_default().to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// Calls the Parquet reader, which panics on some damaged pages.
fn guarded<R>(read: impl FnOnce() -> Result<R, ParquetError>) -> Result<R, ParquetError> {
    // After a panic the reader is not used again, so a state it left half changed is not seen.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        Err(ParquetError::General(format!("the reader gave up: {message}")))
    })
}

pub(super) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given")
}

fn damaged(path: &Path, row: u64) -> impl FnOnce(ParquetError) -> Error {
    move |source| Error::Damaged {
        path: path.to_path_buf(),
        format: "Parquet",
        row,
        problem: source.to_string(),
    }
}
