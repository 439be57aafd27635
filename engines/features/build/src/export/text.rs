//! Rows as CSV, with lists in brackets, and as JSON lines.
//!
//! Names of columns are plain (letters, digits, `_`, `-` and `.`), so nothing needs a quote but lists and texts. Invariant: a number is written with the
//! digits that give the same 32 bits again.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use millpond_engines_features::{Cell, Schema};

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
    /// The names of the columns.
    columns: Vec<String>,
    out: BufWriter<File>,
}

impl TextWriter {
    fn new(file: File, path: &Path, schema: &Schema, form: Form) -> TextWriter {
        TextWriter {
            path: path.to_path_buf(),
            form,
            columns: schema.columns.iter().map(|column| column.name.clone()).collect(),
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
        }
    }

    fn write(&mut self, key: u64, row: &[Cell<'_>]) -> std::io::Result<()> {
        let (begin, end) = match self.form {
            Form::Csv => ("", "\n"),
            Form::Jsonl => ("{\"key\":", "}\n"),
        };
        write!(self.out, "{begin}{key}")?;
        for (name, &cell) in self.columns.iter().zip(row) {
            match self.form {
                Form::Csv => self.out.write_all(b",")?,
                Form::Jsonl => write!(self.out, ",\"{name}\":")?,
            }
            match cell {
                Cell::Numbers(numbers) => list(&mut self.out, self.form, numbers)?,
                Cell::Bytes(bytes) => text(&mut self.out, self.form, &String::from_utf8_lossy(bytes))?,
            }
        }
        self.out.write_all(end.as_bytes())
    }

    /// Whether the form has a place for what a row has in a column.
    fn check(&self, key: u64, cell: Cell<'_>) -> Result<(), Error> {
        let format = match (self.form, cell) {
            (Form::Csv, Cell::Numbers(_)) => "a CSV file of numbers",
            (Form::Csv, Cell::Bytes(_)) => "a CSV file",
            (Form::Jsonl, _) => "JSON",
        };
        match cell {
            Cell::Numbers(numbers) => match numbers.iter().find(|number| !number.is_finite()) {
                Some(&value) => Err(Error::ExportNumber { key, value, format }),
                None => Ok(()),
            },
            Cell::Bytes(bytes) if str::from_utf8(bytes).is_err() => Err(Error::ExportBytes { key, format }),
            Cell::Bytes(_) => Ok(()),
        }
    }
}

fn list(out: &mut impl Write, form: Form, numbers: &[f32]) -> std::io::Result<()> {
    let (begin, end) = match form {
        Form::Csv => ("\"[", "]\""),
        Form::Jsonl => ("[", "]"),
    };
    out.write_all(begin.as_bytes())?;
    for (at, number) in numbers.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(out, "{comma}{number:?}")?;
    }
    out.write_all(end.as_bytes())
}

/// A text in quotes: what it has of them is doubled, or escaped.
fn text(out: &mut impl Write, form: Form, text: &str) -> std::io::Result<()> {
    match form {
        Form::Csv => write!(out, "\"{}\"", text.replace('"', "\"\"")),
        Form::Jsonl => Ok(serde_json::to_writer(out, text)?),
    }
}

impl RowWriter for TextWriter {
    fn push(&mut self, key: u64, row: &[Cell<'_>]) -> Result<(), Error> {
        row.iter().try_for_each(|&cell| self.check(key, cell))?;
        let path = self.path.clone();
        self.write(key, row).map_err(Error::write(&path))
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        let file = self.out.into_inner().map_err(|error| error.into_error());
        file.and_then(|file| file.sync_all())
            .map_err(Error::write(&self.path))
    }
}
