//! Rows as Parquet: a column of unsigned keys, and for each column of the table a list of floats, or binary.
//!
//! Nothing can be null. Invariant: a row group has no more numbers in memory than [`GROUP_NUMBERS`] or bytes for as many, or one row.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millpond_engines_features::{Cell, Numbers, Schema};
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{KEY, RowWriter};
use crate::error::Error;

const GROUP_NUMBERS: usize = 4 << 20;
const GROUP_ROWS: usize = 256 * 1024;
/// What bytes take beside themselves.
const CELL_BYTES: usize = 32;

pub(super) fn open(file: File, path: &Path, schema: &Schema) -> Result<Box<dyn RowWriter>, Error> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let writer = message(schema)
        .and_then(|message| SerializedFileWriter::new(file, Arc::new(message), Arc::new(properties)))
        .map_err(wrong(path))?;
    Ok(Box::new(ParquetWriter {
        path: path.to_path_buf(),
        writer,
        keys: Vec::new(),
        numbers: 0,
        columns: schema
            .columns
            .iter()
            .map(|column| match column.numbers {
                Numbers::Bytes => Values::Fixed(Vec::new()),
                Numbers::VaryingBytes => Values::Varying(Vec::new()),
                _ => Values::Numbers(Vec::new(), column.dim),
            })
            .collect(),
    }))
}

/// What the group at hand has in one column.
enum Values {
    /// And how many a row has.
    Numbers(Vec<f32>, usize),
    Fixed(Vec<FixedLenByteArray>),
    Varying(Vec<ByteArray>),
}

impl Values {
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Values::Numbers(all, _), Cell::Numbers(numbers)) => all.extend_from_slice(numbers),
            (Values::Fixed(all), Cell::Bytes(bytes)) => all.push(ByteArray::from(bytes.to_vec()).into()),
            (Values::Varying(all), Cell::Bytes(bytes)) => all.push(bytes.to_vec().into()),
            // A cell is of its column.
            _ => {}
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Values::Numbers(numbers, dim) => {
                // Repetition 0 begins a list; no list is empty.
                let repetitions: Vec<i16> = (0..numbers.len()).map(|at| i16::from(at % dim > 0)).collect();
                let definitions = vec![1; numbers.len()];
                let (definitions, repetitions) = (Some(&definitions[..]), Some(&repetitions[..]));
                let column = column.typed::<FloatType>();
                column.write_batch(numbers, definitions, repetitions)?;
            }
            Values::Fixed(bytes) => {
                let column = column.typed::<FixedLenByteArrayType>();
                column.write_batch(bytes, None, None)?;
            }
            Values::Varying(bytes) => {
                let column = column.typed::<ByteArrayType>();
                column.write_batch(bytes, None, None)?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            Values::Numbers(all, _) => all.clear(),
            Values::Fixed(all) => all.clear(),
            Values::Varying(all) => all.clear(),
        }
    }
}

struct ParquetWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    /// The keys of the group at hand, as signed numbers of the same bits.
    keys: Vec<i64>,
    columns: Vec<Values>,
    /// Numbers and bytes of the group at hand, in numbers.
    numbers: usize,
}

impl ParquetWriter {
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let absent = || ParquetError::General("a column is missing".to_owned());
        let mut column = group.next_column()?.ok_or_else(absent)?;
        column.typed::<Int64Type>().write_batch(&self.keys, None, None)?;
        column.close()?;
        for values in &self.columns {
            let mut column = group.next_column()?.ok_or_else(absent)?;
            values.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        self.keys.clear();
        self.numbers = 0;
        self.columns.iter_mut().for_each(Values::clear);
        Ok(())
    }
}

impl RowWriter for ParquetWriter {
    fn push(&mut self, key: u64, row: &[Cell<'_>]) -> Result<(), Error> {
        self.keys.push(key.cast_signed());
        for (values, &cell) in self.columns.iter_mut().zip(row) {
            values.push(cell);
            self.numbers += match cell {
                Cell::Numbers(numbers) => numbers.len(),
                Cell::Bytes(bytes) => (bytes.len() + CELL_BYTES) / size_of::<f32>(),
            };
        }
        match self.keys.len() >= GROUP_ROWS || self.numbers >= GROUP_NUMBERS {
            true => self.write_group().map_err(wrong(&self.path)),
            false => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        if !self.keys.is_empty() {
            self.write_group().map_err(wrong(&self.path))?;
        }
        let file = self.writer.into_inner().map_err(wrong(&self.path))?;
        file.sync_all().map_err(Error::write(&self.path))
    }
}

/// The schema of the file.
fn message(schema: &Schema) -> Result<Type, ParquetError> {
    let key = Type::primitive_type_builder(KEY, Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_converted_type(ConvertedType::UINT_64)
        .build()?;
    let mut fields = vec![Arc::new(key)];
    for column in &schema.columns {
        if column.numbers.is_bytes() {
            let physical = match column.numbers {
                Numbers::Bytes => Physical::FIXED_LEN_BYTE_ARRAY,
                _ => Physical::BYTE_ARRAY,
            };
            let field = Type::primitive_type_builder(&column.name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_length(i32::try_from(column.dim).unwrap_or(0))
                .build()?;
            fields.push(Arc::new(field));
            continue;
        }
        let element = Type::primitive_type_builder("element", Physical::FLOAT)
            .with_repetition(Repetition::REQUIRED)
            .build()?;
        let list = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![Arc::new(element)])
            .build()?;
        let field = Type::group_type_builder(&column.name)
            .with_repetition(Repetition::REQUIRED)
            .with_converted_type(ConvertedType::LIST)
            .with_fields(vec![Arc::new(list)])
            .build()?;
        fields.push(Arc::new(field));
    }
    Type::group_type_builder("rows").with_fields(fields).build()
}

/// The writer's errors are those of its file.
fn wrong(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    let path = path.to_path_buf();
    move |error| Error::Write {
        path,
        source: std::io::Error::other(error),
    }
}
