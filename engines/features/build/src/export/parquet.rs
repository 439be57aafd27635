//! Rows as Parquet: a column of unsigned keys and a list of floats for each column of the table.
//!
//! Nothing can be null. Invariant: a row group has no more numbers in memory than [`GROUP_NUMBERS`], or one row.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millpond_engines_features::Schema;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{KEY, RowWriter};
use crate::error::Error;

const GROUP_NUMBERS: usize = 4 << 20;
const GROUP_ROWS: usize = 256 * 1024;

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
        dims: schema.columns.iter().map(|column| column.dim).collect(),
        keys: Vec::new(),
        columns: vec![Vec::new(); schema.columns.len()],
    }))
}

struct ParquetWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    /// Numbers of a row in each column.
    dims: Vec<usize>,
    /// The keys of the group at hand, as signed numbers of the same bits.
    keys: Vec<i64>,
    /// For each column the numbers of the group at hand.
    columns: Vec<Vec<f32>>,
}

impl ParquetWriter {
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let absent = || ParquetError::General("a column is missing".to_owned());
        let mut column = group.next_column()?.ok_or_else(absent)?;
        column.typed::<Int64Type>().write_batch(&self.keys, None, None)?;
        column.close()?;
        for (numbers, &dim) in self.columns.iter().zip(&self.dims) {
            let mut column = group.next_column()?.ok_or_else(absent)?;
            // Repetition 0 begins a list; no list is empty.
            let repetitions: Vec<i16> = (0..numbers.len()).map(|at| i16::from(at % dim > 0)).collect();
            let definitions = vec![1; numbers.len()];
            let column_writer = column.typed::<FloatType>();
            column_writer.write_batch(numbers, Some(&definitions), Some(&repetitions))?;
            column.close()?;
        }
        group.close()?;
        self.keys.clear();
        self.columns.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

impl RowWriter for ParquetWriter {
    fn push(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        self.keys.push(key.cast_signed());
        let mut left = row;
        for (numbers, &dim) in self.columns.iter_mut().zip(&self.dims) {
            let (own, others) = left.split_at(dim.min(left.len()));
            numbers.extend_from_slice(own);
            left = others;
        }
        match self.keys.len() >= GROUP_ROWS || self.keys.len() * row.len() >= GROUP_NUMBERS {
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
