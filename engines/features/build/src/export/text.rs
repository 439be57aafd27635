//! Rows as CSV, with lists in brackets, and as JSON lines.
//!
//! Names of columns are plain (letters, digits, `_`, `-` and `.`), so nothing needs a quote but lists. Invariant: a number is written with the
//! digits that give the same 32 bits again.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use millpond_engines_features::Schema;

use super::{KEY, RowWriter};
use crate::error::Error;

const BUFFER_BYTES: usize = 256 * 1024;

pub(super) fn open_csv(file: File, path: &Path, schema: &Schema) -> Result<Box<dyn RowWriter>, Error> {
    let mut writer = TextWriter::new(file, path, schema, Form::Csv);
    let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
    let header = writeln!(writer.out, "{KEY},{}", names.join(","));
    header.map_err(Error::write(path))?;
    Ok(Box::new(writer))
}

pub(super) fn open_jsonl(file: File, path: &Path, schema: &Schema) -> Result<Box<dyn RowWriter>, Error> {
    Ok(Box::new(TextWriter::new(file, path, schema, Form::Jsonl)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Csv,
    Jsonl,
}

struct TextWriter {
    path: PathBuf,
    form: Form,
    /// The columns: what stands before the list of each, and how long it is.
    columns: Vec<(String, usize)>,
    out: BufWriter<File>,
}

impl TextWriter {
    fn new(file: File, path: &Path, schema: &Schema, form: Form) -> TextWriter {
        let columns = schema.columns.iter().map(|column| {
            let before = match form {
                Form::Csv => ",\"[".to_owned(),
                Form::Jsonl => format!(",\"{}\":[", column.name),
            };
            (before, column.dim)
        });
        TextWriter {
            path: path.to_path_buf(),
            form,
            columns: columns.collect(),
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
        }
    }

    fn write(&mut self, key: u64, row: &[f32]) -> std::io::Result<()> {
        let (begin, list_end, end) = match self.form {
            Form::Csv => ("", "]\"", "\n"),
            Form::Jsonl => ("{\"key\":", "]", "}\n"),
        };
        write!(self.out, "{begin}{key}")?;
        let mut numbers = row.iter();
        for (before, dim) in &self.columns {
            self.out.write_all(before.as_bytes())?;
            for (at, number) in numbers.by_ref().take(*dim).enumerate() {
                let comma = if at > 0 { "," } else { "" };
                write!(self.out, "{comma}{number:?}")?;
            }
            self.out.write_all(list_end.as_bytes())?;
        }
        self.out.write_all(end.as_bytes())
    }
}

impl RowWriter for TextWriter {
    fn push(&mut self, key: u64, row: &[f32]) -> Result<(), Error> {
        if let Some(&value) = row.iter().find(|number| !number.is_finite()) {
            let format = match self.form {
                Form::Csv => "a CSV file of numbers",
                Form::Jsonl => "JSON",
            };
            return Err(Error::ExportNumber { key, value, format });
        }
        let path = self.path.clone();
        self.write(key, row).map_err(Error::write(&path))
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        let file = self.out.into_inner().map_err(|error| error.into_error());
        file.and_then(|file| file.sync_all())
            .map_err(Error::write(&self.path))
    }
}
