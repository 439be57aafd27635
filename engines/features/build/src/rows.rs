//! Reads keys and vectors out of a Parquet file, row by row.
//!
//! Knows nothing of tables. Invariant: a row that is handed on has a key and finite values, at least one; its length is
//! not compared with any other row's.

use std::any::Any;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::columns::Columns;
use crate::error::{Error, Problem};

/// Rows decoded at a time: enough to make the calls cheap, few enough to stay small at any dimension.
const BATCH_ROWS: usize = 2048;

/// Takes a row's number, key and vector, which is empty where only keys are read.
pub(crate) type Visit<'a> = dyn FnMut(u64, u64, &[f32]) -> Result<(), Error> + 'a;

/// An opened input.
pub(crate) struct Rows<'a> {
    path: &'a Path,
    reader: SerializedFileReader<File>,
    columns: Columns,
    /// As the footer says.
    pub(crate) rows_total: u64,
}

impl Rows<'_> {
    /// Without a column of values the keys alone are read.
    pub(crate) fn open<'a>(path: &'a Path, key: &str, value: Option<&str>) -> Result<Rows<'a>, Error> {
        let file = File::open(path).map_err(|source| Error::Open {
            path: path.to_path_buf(),
            source,
        })?;
        let reader = guarded(|| SerializedFileReader::new(file)).map_err(damaged(path, 0))?;
        let metadata = reader.metadata().file_metadata();
        let columns = Columns::find(metadata.schema_descr(), key, value, path)?;
        let rows_total = u64::try_from(metadata.num_rows()).unwrap_or(0);
        check_codecs(&reader, &columns, path)?;
        Ok(Rows {
            path,
            reader,
            columns,
            rows_total,
        })
    }

    /// Visits every row in order.
    pub(crate) fn each(&self, visit: &mut Visit<'_>) -> Result<(), Error> {
        let mut row = 0;
        for group in 0..self.reader.num_row_groups() {
            self.each_in_group(group, &mut row, visit)?;
        }
        if row != self.rows_total {
            let message = format!("expected {} rows, found {row}", self.rows_total);
            return Err(damaged(self.path, row)(ParquetError::General(message)));
        }
        Ok(())
    }

    fn each_in_group(&self, group: usize, row: &mut u64, visit: &mut Visit<'_>) -> Result<(), Error> {
        let at = *row;
        let open = || -> Result<_, ParquetError> {
            let group = self.reader.get_row_group(group)?;
            let keys = group.get_column_reader(self.columns.key)?;
            let values = self.columns.value.map(|value| group.get_column_reader(value));
            Ok((group, keys, values.transpose()?))
        };
        let (group, keys, values) = guarded(open).map_err(damaged(self.path, at))?;
        let schema = group.metadata().schema_descr();
        let key_leaf = schema.column(self.columns.key);
        let ColumnReader::Int64ColumnReader(keys) = keys else {
            return Err(damaged(self.path, at)(unexpected(&key_leaf)));
        };
        let keys = Keys {
            reader: keys,
            level_max: key_leaf.max_def_level(),
        };
        let (Some(values), Some(value)) = (values, self.columns.value) else {
            return self.each_key(keys, row, visit);
        };
        let value_leaf = schema.column(value);
        match values {
            ColumnReader::FloatColumnReader(values) => {
                self.each_of_readers(keys, Vectors::new(values, &value_leaf), row, visit)
            }
            ColumnReader::DoubleColumnReader(values) => {
                self.each_of_readers(keys, Vectors::new(values, &value_leaf), row, visit)
            }
            _ => Err(damaged(self.path, at)(unexpected(&value_leaf))),
        }
    }

    fn each_key(&self, mut keys: Keys, row: &mut u64, visit: &mut Visit<'_>) -> Result<(), Error> {
        loop {
            let batch = guarded(|| keys.read()).map_err(damaged(self.path, *row))?;
            if batch.is_empty() {
                return Ok(());
            }
            for key in batch {
                let key = key.ok_or_else(|| self.bad(*row, Problem::NullKey))?;
                visit(*row, key, &[])?;
                *row += 1;
            }
        }
    }

    fn bad(&self, row: u64, problem: Problem) -> Error {
        Error::Row {
            path: self.path.to_path_buf(),
            row,
            problem,
        }
    }

    fn each_of_readers<T: DataType>(
        &self,
        mut keys: Keys,
        mut vectors: Vectors<T>,
        row: &mut u64,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error>
    where
        T::T: Copy + Into<f64>,
    {
        loop {
            let batch = guarded(|| keys.read()).map_err(damaged(self.path, *row))?;
            let count = guarded(|| vectors.read()).map_err(damaged(self.path, *row))?;
            if batch.len() != count {
                let message = "the columns have different numbers of rows".to_owned();
                return Err(damaged(self.path, *row)(ParquetError::General(message)));
            }
            if batch.is_empty() {
                return Ok(());
            }
            for key in batch {
                let key = key.ok_or_else(|| self.bad(*row, Problem::NullKey))?;
                let vector = vectors.next().map_err(|problem| self.bad(*row, problem))?;
                visit(*row, key, vector)?;
                *row += 1;
            }
        }
    }
}

struct Keys {
    reader: ColumnReaderImpl<Int64Type>,
    /// The definition level of a key that is not null.
    level_max: i16,
}

impl Keys {
    /// The next keys, `None` where one is null; no keys at the end.
    fn read(&mut self) -> Result<Vec<Option<u64>>, ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let (rows, _, _) = self
            .reader
            .read_records(BATCH_ROWS, Some(&mut levels), None, &mut values)?;
        // An unsigned key is stored as the signed number of the same bits.
        let mut keys = values.iter().map(|&key| key as u64);
        Ok((0..rows)
            .map(|row| match levels.get(row) {
                Some(&level) if level < self.level_max => None,
                _ => keys.next(),
            })
            .collect())
    }
}

/// A batch of vectors as Parquet stores lists: the elements of all, and for each element (or null, or empty list) its
/// levels. Repetition 0 begins a list; the definition level says how much of the path to the element is there.
struct Vectors<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition level of an element that is not null.
    level_max: i16,
    /// The lowest definition level at which the list has an element; one below, it is empty.
    level_element: i16,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<T::T>,
    /// How many levels and values earlier vectors of the batch have used.
    levels_used: usize,
    values_used: usize,
    /// The vector at hand.
    vector: Vec<f32>,
}

impl<T: DataType> Vectors<T>
where
    T::T: Copy + Into<f64>,
{
    fn new(reader: ColumnReaderImpl<T>, leaf: &ColumnDescriptor) -> Vectors<T> {
        Vectors {
            reader,
            level_max: leaf.max_def_level(),
            level_element: leaf.repeated_ancestor_def_level(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Vec::new(),
            levels_used: 0,
            values_used: 0,
            vector: Vec::new(),
        }
    }

    /// Reads the next batch; returns its number of vectors, 0 at the end.
    fn read(&mut self) -> Result<usize, ParquetError> {
        self.definitions.clear();
        self.repetitions.clear();
        self.values.clear();
        (self.levels_used, self.values_used) = (0, 0);
        let (rows, _, _) = self.reader.read_records(
            BATCH_ROWS,
            Some(&mut self.definitions),
            Some(&mut self.repetitions),
            &mut self.values,
        )?;
        Ok(rows)
    }

    /// The next vector of the batch.
    fn next(&mut self) -> Result<&[f32], Problem> {
        self.vector.clear();
        let begin = self.levels_used;
        let more = |at: &usize| *at == begin || self.repetitions.get(*at).is_some_and(|&r| r > 0);
        for at in (begin..self.definitions.len()).take_while(more) {
            let definition = self.definitions[at];
            let position = self.vector.len();
            if definition < self.level_element {
                return Err(match definition + 1 == self.level_element {
                    true => Problem::EmptyVector,
                    false => Problem::NullVector,
                });
            }
            let value = self
                .values
                .get(self.values_used)
                .filter(|_| definition == self.level_max)
                .ok_or(Problem::NullElement { position })?;
            let value: f64 = (*value).into();
            let narrow = value as f32;
            if !narrow.is_finite() {
                return Err(Problem::NotFinite { position, value });
            }
            self.vector.push(narrow);
            self.levels_used = at + 1;
            self.values_used += 1;
        }
        match self.vector.is_empty() {
            true => Err(Problem::EmptyVector),
            false => Ok(&self.vector),
        }
    }
}

/// A codec that this build does not have is no damage.
fn check_codecs(reader: &SerializedFileReader<File>, columns: &Columns, path: &Path) -> Result<(), Error> {
    for group in reader.metadata().row_groups() {
        for column in [Some(columns.key), columns.value].into_iter().flatten() {
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

/// Calls the Parquet reader, which panics on some damaged pages; a damaged file must end in an error like any other.
fn guarded<R>(read: impl FnOnce() -> Result<R, ParquetError>) -> Result<R, ParquetError> {
    // After a panic the reader is not used again, so a state it left half changed is not seen.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        Err(ParquetError::General(format!("the reader gave up: {message}")))
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied())
        .unwrap_or("no reason given")
}

fn damaged(path: &Path, row: u64) -> impl FnOnce(ParquetError) -> Error {
    move |source| Error::Parquet {
        path: path.to_path_buf(),
        row,
        source,
    }
}

fn unexpected(leaf: &ColumnDescriptor) -> ParquetError {
    ParquetError::General(format!(
        "column {} is stored as another type than the schema says",
        leaf.path()
    ))
}
