//! The keys, numbers or bytes of one column of a Parquet row group, a batch at a time.
//!
//! Parquet stores a list as its elements, and for each element (or null, or empty list) two levels. Repetition 0 begins a list; the
//! definition level says how much of the path to the element is there. Its invariant: a batch is used up row by row, and reading
//! never goes beyond the levels and values that the batch has.

use half::f16;
use millpond_engines_features::NotFinite;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use crate::error::Problem;
use crate::input::Lists;

/// A key as a file has it.
pub(super) enum Key {
    Number(u64),
    Text(String),
}

/// The column of the keys.
pub(super) trait Keys {
    /// Reads the next batch; returns its number of rows, 0 at the end.
    fn read(&mut self, rows: usize) -> Result<usize, ParquetError>;

    /// The keys of the batch, where they are numbers and none is null.
    fn plain(&self) -> Option<&[i64]>;

    /// The keys of the batch, `None` where one is null.
    fn each(&self) -> Result<Vec<Option<Key>>, ParquetError>;
}

pub(super) fn keys(reader: ColumnReader, leaf: &ColumnDescriptor) -> Result<Box<dyn Keys>, ParquetError> {
    Ok(match reader {
        ColumnReader::Int64ColumnReader(reader) => Box::new(KeyColumn::new(reader, leaf)),
        ColumnReader::ByteArrayColumnReader(reader) => Box::new(KeyColumn::new(reader, leaf)),
        _ => return Err(unexpected(leaf)),
    })
}

struct KeyColumn<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition level of a key that is not null.
    level_max: i16,
    rows: usize,
    levels: Vec<i16>,
    values: Vec<T::T>,
}

impl<T: DataType> KeyColumn<T> {
    fn new(reader: ColumnReaderImpl<T>, leaf: &ColumnDescriptor) -> KeyColumn<T> {
        KeyColumn {
            reader,
            level_max: leaf.max_def_level(),
            rows: 0,
            levels: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<T: DataType> Keys for KeyColumn<T>
where
    T::T: StoredKey,
{
    fn read(&mut self, rows: usize) -> Result<usize, ParquetError> {
        self.levels.clear();
        self.values.clear();
        let levels = Some(&mut self.levels);
        (self.rows, _, _) = self.reader.read_records(rows, levels, None, &mut self.values)?;
        Ok(self.rows)
    }

    fn plain(&self) -> Option<&[i64]> {
        // As many as there are rows: none is null.
        (self.values.len() == self.rows).then(|| T::T::numbers(&self.values))?
    }

    fn each(&self) -> Result<Vec<Option<Key>>, ParquetError> {
        let mut keys = self.values.iter();
        (0..self.rows)
            .map(|row| match self.levels.get(row) {
                Some(&level) if level < self.level_max => Ok(None),
                _ => keys.next().map(StoredKey::key).transpose(),
            })
            .collect()
    }
}

/// What a key is stored as.
trait StoredKey: Sized {
    fn key(&self) -> Result<Key, ParquetError>;

    /// Keys that are numbers.
    fn numbers(_: &[Self]) -> Option<&[i64]> {
        None
    }
}

/// An unsigned key is stored as the signed number of the same bits.
impl StoredKey for i64 {
    fn key(&self) -> Result<Key, ParquetError> {
        Ok(Key::Number(self.cast_unsigned()))
    }

    fn numbers(keys: &[i64]) -> Option<&[i64]> {
        Some(keys)
    }
}

impl StoredKey for ByteArray {
    fn key(&self) -> Result<Key, ParquetError> {
        Ok(Key::Text(self.as_utf8()?.to_owned()))
    }
}

/// A column of numbers, or of lists of them.
pub(super) trait Cells {
    /// The name of the column.
    fn name(&self) -> &str;

    /// Reads the next batch; returns its number of rows, 0 at the end.
    fn read(&mut self, rows: usize) -> Result<usize, ParquetError>;

    /// How many numbers each of the batch's rows has, where all have as many and none is null or refused.
    fn plain_dim(&mut self, rows: usize, not_finite: NotFinite) -> Option<usize>;

    /// Hands over a list for each of the batch's rows, of which that is known.
    fn fill(&mut self, rows: usize, dim: usize, lists: &mut Lists);

    /// Adds the numbers of the batch's next row to the list that is open.
    fn next(&mut self, lists: &mut Lists) -> Result<(), Problem>;
}

pub(super) fn cells(reader: ColumnReader, leaf: &ColumnDescriptor) -> Result<Box<dyn Cells>, ParquetError> {
    Ok(match reader {
        ColumnReader::FloatColumnReader(reader) => Box::new(Column::new(reader, leaf)),
        ColumnReader::DoubleColumnReader(reader) => Box::new(Column::new(reader, leaf)),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => Box::new(Column::new(reader, leaf)),
        ColumnReader::ByteArrayColumnReader(reader) => Box::new(Column::new(reader, leaf)),
        _ => return Err(unexpected(leaf)),
    })
}

/// What a number is stored as, or bytes.
trait Stored: Sized {
    fn add_to(&self, lists: &mut Lists) -> Result<(), Problem>;

    /// Values that are 32-bit floats.
    fn floats(_: &mut Vec<Self>) -> Option<&mut Vec<f32>> {
        None
    }
}

impl Stored for f32 {
    fn add_to(&self, lists: &mut Lists) -> Result<(), Problem> {
        lists.push(f64::from(*self))
    }

    fn floats(values: &mut Vec<f32>) -> Option<&mut Vec<f32>> {
        Some(values)
    }
}

impl Stored for f64 {
    fn add_to(&self, lists: &mut Lists) -> Result<(), Problem> {
        lists.push(*self)
    }
}

/// A 16-bit float where numbers are wanted: other byte strings are not found as columns of numbers.
impl Stored for FixedLenByteArray {
    fn add_to(&self, lists: &mut Lists) -> Result<(), Problem> {
        if lists.is_bytes() {
            lists.push_bytes(self.data());
            return Ok(());
        }
        let bits = self.data().first_chunk().copied().map(u16::from_le_bytes);
        lists.push(bits.map_or(f64::NAN, |bits| f16::from_bits(bits).to_f64()))
    }
}

impl Stored for ByteArray {
    fn add_to(&self, lists: &mut Lists) -> Result<(), Problem> {
        lists.push_bytes(self.data());
        Ok(())
    }
}

struct Column<T: DataType> {
    name: String,
    reader: ColumnReaderImpl<T>,
    /// The definition level of an element that is not null.
    level_max: i16,
    /// The lowest definition level at which the list has an element; one below, it is empty. 0 where there is no list.
    level_element: i16,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<T::T>,
    /// How many levels and values earlier rows of the batch have used.
    levels_used: usize,
    values_used: usize,
}

impl<T: DataType> Column<T> {
    fn new(reader: ColumnReaderImpl<T>, leaf: &ColumnDescriptor) -> Column<T> {
        Column {
            name: leaf.path().parts().first().cloned().unwrap_or_default(),
            reader,
            level_max: leaf.max_def_level(),
            level_element: match leaf.max_rep_level() {
                0 => 0,
                _ => leaf.repeated_ancestor_def_level(),
            },
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Vec::new(),
            levels_used: 0,
            values_used: 0,
        }
    }
}

impl<T: DataType> Cells for Column<T>
where
    T::T: Stored,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&mut self, rows: usize) -> Result<usize, ParquetError> {
        self.definitions.clear();
        self.repetitions.clear();
        self.values.clear();
        (self.levels_used, self.values_used) = (0, 0);
        let (rows, _, _) = self.reader.read_records(
            rows,
            Some(&mut self.definitions),
            Some(&mut self.repetitions),
            &mut self.values,
        )?;
        if self.level_max == 0 {
            // A number that cannot be null has no levels.
            self.definitions.resize(rows, 0);
        }
        Ok(rows)
    }

    fn plain_dim(&mut self, rows: usize, not_finite: NotFinite) -> Option<usize> {
        let floats = T::T::floats(&mut self.values)?;
        let dim = floats.len().checked_div(rows).filter(|&dim| dim > 0)?;
        // As many values as levels: no list is empty, and no number is null. None of these ends early, so that many are looked at together.
        let is_whole = floats.len() == rows * dim && self.definitions.len() == floats.len();
        let is_even = match self.level_element {
            0 => dim == 1,
            _ => {
                begins(&self.repetitions) == rows
                    && self.repetitions.iter().step_by(dim).all(|&level| level == 0)
            }
        };
        let is_finite = |all, float: &f32| all & float.is_finite();
        let is_plain =
            is_whole && is_even && (not_finite == NotFinite::Kept || floats.iter().fold(true, is_finite));
        is_plain.then_some(dim)
    }

    fn fill(&mut self, rows: usize, dim: usize, lists: &mut Lists) {
        if let Some(floats) = T::T::floats(&mut self.values) {
            lists.take(floats, rows, dim);
        }
    }

    fn next(&mut self, lists: &mut Lists) -> Result<(), Problem> {
        let begin = self.levels_used;
        let more = |at: &usize| *at == begin || self.repetitions.get(*at).is_some_and(|&r| r > 0);
        let first = lists.open_len();
        for at in (begin..self.definitions.len()).take_while(more) {
            let definition = self.definitions[at];
            if definition < self.level_element {
                return Err(match definition + 1 == self.level_element {
                    true => Problem::EmptyVector,
                    false => Problem::NullVector,
                });
            }
            let value = self.values.get(self.values_used);
            let value = value.filter(|_| definition == self.level_max);
            let position = lists.open_len();
            let value = value.ok_or_else(|| match lists.is_bytes() {
                true => Problem::NullVector,
                false => Problem::NullElement { position },
            });
            value?.add_to(lists)?;
            self.levels_used = at + 1;
            self.values_used += 1;
        }
        match lists.open_len() == first && !lists.is_bytes() {
            true => Err(Problem::EmptyVector),
            false => Ok(()),
        }
    }
}

/// How many lists begin: sums that a vector register has several of are added up for some levels at a time.
fn begins(repetitions: &[i16]) -> usize {
    let of_some = |some: &[i16]| some.iter().map(|&level| u16::from(level == 0)).sum::<u16>();
    repetitions
        .chunks(1 << 15)
        .map(|some| usize::from(of_some(some)))
        .sum()
}

fn unexpected(leaf: &ColumnDescriptor) -> ParquetError {
    ParquetError::General(format!(
        "column {} is stored as another type than the schema says",
        leaf.path()
    ))
}
