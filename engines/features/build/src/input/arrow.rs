//! Record batches of Arrow: of IPC files (Feather 2) and streams, or handed over in memory.
//!
//! Its invariant: a panic of Arrow's code is damage.

mod given;
mod ipc;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};

use super::parquet::panic_message;
use super::{BYTES_HINT, Block, Columns, Format, Input, Lists, Reader, Wanted, bad};
use crate::error::{Error, Place, Problem};
pub use given::{Given, Stream};
use ipc::IpcFile;

pub(super) const FORMAT: Format = Format {
    name: "arrow",
    extensions: &["arrow", "arrows", "feather", "ipc"],
    open: |input, wanted| Ok(Box::new(ArrowReader::open(input, wanted)?)),
};

const KEY_TYPES: &str = "int64, uint64 or a string";
const VALUE_TYPES: &str = "float16, float32 or float64, or a list of them";
const BYTES_TYPES: &str = "binary or a string, as the column holds bytes";

/// Record batches, one behind another.
trait Batches {
    /// The next one; none at the end. `row` is the first row that was not read yet, for messages.
    fn next(&mut self, row: u64) -> Result<Option<RecordBatch>, Error>;

    /// What the columns of all of them are, once it is known.
    fn schema(&self) -> Option<SchemaRef>;

    /// How much was read, from 0 to 1.
    fn share(&self) -> f64;
}

struct ArrowReader {
    path: PathBuf,
    batches: Box<dyn Batches>,
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
        let mut batches: Box<dyn Batches> = match &input.given {
            Some(given) => Box::new(given.batches(path)?),
            None => Box::new(IpcFile::open(path)?),
        };
        let batch = batches.next(0)?;
        let schema = batches.schema();
        let schema = schema.ok_or_else(|| ipc::damaged(path, 0, "it has no schema"))?;
        let names = schema.fields().iter().map(|field| field.name().clone());
        let names: Vec<String> = names.collect();
        let columns = wanted.find(path, &names, false)?;
        check_types(&schema, &columns, wanted, path)?;
        Ok(ArrowReader {
            path: path.clone(),
            batches,
            columns,
            names,
            batch,
            at: 0,
            row: 0,
        })
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
                self.batch = self.batches.next(self.row)?;
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
        self.batches.share()
    }
}

fn check_types(schema: &Schema, columns: &Columns, wanted: &Wanted<'_>, path: &Path) -> Result<(), Error> {
    let check = |column: usize, expected, fits: fn(&DataType) -> bool| {
        let field = schema.field(column);
        match fits(value_type(field.data_type())) {
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
            false if is_bytes(value_type(schema.field(column).data_type())) => {
                check(column, BYTES_HINT, is_numbers)
            }
            false => check(column, VALUE_TYPES, is_numbers),
        })
    })
}

/// What the values of a column are, in a dictionary or not.
fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    }
}

/// Where the value of a row is, in a dictionary or in the column itself; none where it is null.
fn value_of(column: &ArrayRef, at: usize) -> Option<(&ArrayRef, usize)> {
    let (values, at) = match column.as_any_dictionary_opt() {
        None => (column, at),
        Some(dictionary) => {
            let numbers = dictionary.keys();
            let number = (!numbers.is_null(at)).then(|| number_of(numbers, at))??;
            (dictionary.values(), number)
        }
    };
    (at < values.len() && !values.is_null(at)).then_some((values, at))
}

/// A whole number of any width, where it has a place in memory.
fn number_of(numbers: &dyn Array, at: usize) -> Option<usize> {
    if let Some(numbers) = numbers.as_primitive_opt::<Int32Type>() {
        usize::try_from(numbers.value(at)).ok()
    } else if let Some(numbers) = numbers.as_primitive_opt::<Int8Type>() {
        usize::try_from(numbers.value(at)).ok()
    } else if let Some(numbers) = numbers.as_primitive_opt::<Int16Type>() {
        usize::try_from(numbers.value(at)).ok()
    } else if let Some(numbers) = numbers.as_primitive_opt::<Int64Type>() {
        usize::try_from(numbers.value(at)).ok()
    } else if let Some(numbers) = numbers.as_primitive_opt::<UInt8Type>() {
        Some(numbers.value(at).into())
    } else if let Some(numbers) = numbers.as_primitive_opt::<UInt16Type>() {
        Some(numbers.value(at).into())
    } else if let Some(numbers) = numbers.as_primitive_opt::<UInt32Type>() {
        usize::try_from(numbers.value(at)).ok()
    } else {
        let numbers = numbers.as_primitive_opt::<UInt64Type>()?;
        usize::try_from(numbers.value(at)).ok()
    }
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
    let (column, at) = value_of(column, at).ok_or(Problem::NullKey)?;
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
    let (column, at) = value_of(column, at).ok_or(Problem::NullVector)?;
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
    let (column, at) = value_of(column, at).ok_or(Problem::NullVector)?;
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
