//! The parquet crate alone: every column of a file is read, and nothing done with it. It prints million rows a second.

use anyhow::bail;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

/// Rows of a batch, as the builder reads them.
const BATCH_ROWS: usize = 8192;

pub(crate) fn read(path: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let mut rows = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for column in 0..group.num_columns() {
            match group.get_column_reader(column)? {
                ColumnReader::Int64ColumnReader(column) => drain(column)?,
                ColumnReader::FloatColumnReader(column) => drain(column)?,
                _ => bail!("{}: a column that is neither INT64 nor FLOAT", path.display()),
            }
        }
        rows += group.metadata().num_rows();
    }
    let figure = rows as f64 / began.elapsed().as_secs_f64() / 1e6;
    Ok(writeln!(io::stdout(), "{figure:.3}")?)
}

fn drain<T: DataType>(mut column: ColumnReaderImpl<T>) -> anyhow::Result<()> {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        definitions.clear();
        repetitions.clear();
        let (records, ..) = column.read_records(
            BATCH_ROWS,
            Some(&mut definitions),
            Some(&mut repetitions),
            &mut values,
        )?;
        black_box((&values, &definitions, &repetitions));
        if records == 0 {
            return Ok(());
        }
    }
}
