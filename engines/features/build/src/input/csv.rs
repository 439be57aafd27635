//! CSV files with a header: numbers in columns of their own, or a list such as `[0.5, -1]` in one; bytes as the text of a field.
//!
//! Its invariant: a record is refused, not held, once it is longer than a line may be.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::rc::Rc;

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use millpond_engines_features::Keys;

use super::{Block, Columns, Format, Input, LINE_BYTES_MAX, Lists, Reader, Wanted, bad, key_of_text, shown};
use crate::error::{Error, Place, Problem};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    extensions: &["csv"],
    open: |input, wanted| Ok(Box::new(CsvReader::open(input, wanted)?)),
};

const BUFFER_BYTES: usize = 256 * 1024;

struct CsvReader {
    path: PathBuf,
    bytes_total: u64,
    reader: csv::Reader<Bounded>,
    /// Up to where the reader may read before its record ends.
    limit: Rc<Cell<u64>>,
    columns: Columns,
    names: Vec<String>,
    /// Every key is a text, numbers too.
    is_text: bool,
    record: StringRecord,
    row: u64,
}

impl CsvReader {
    fn open(input: &Input, wanted: &Wanted<'_>) -> Result<CsvReader, Error> {
        let path = &input.path;
        let limit = Rc::new(Cell::new(LINE_BYTES_MAX));
        let file = Bounded {
            file: File::open(path).map_err(Error::open(path))?,
            read: 0,
            limit: Rc::clone(&limit),
        };
        let mut reader = ReaderBuilder::new()
            .trim(Trim::Headers)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(file);
        let header = reader.headers().map_err(|error| wrong(path, 1, error))?;
        // What some programs write before a file of UTF-8 is no part of a name.
        let names: Vec<String> = header
            .iter()
            .map(|name| name.trim_start_matches('\u{feff}').to_owned())
            .collect();
        if names.is_empty() {
            return Err(Error::Empty { path: path.clone() });
        }
        Ok(CsvReader {
            path: path.clone(),
            bytes_total: input.bytes,
            reader,
            limit,
            columns: wanted.find(path, &names, true)?,
            names,
            is_text: matches!(wanted.keys, Some(Keys::Text { .. })),
            record: StringRecord::new(),
            row: 0,
        })
    }

    /// Adds the record at hand to the block.
    fn add(&self, line: u64, block: &mut Block) -> Result<(), Error> {
        let wrong = |column: usize, problem| {
            let name = self.names.get(column).map_or("", String::as_str);
            bad(&self.path, Place::Line(line), name, problem)
        };
        // Spaces around a number say nothing; those of a text are part of it, as in every other format.
        let there = |text: &&str| !text.is_empty();
        let text = |column: usize| self.record.get(column).filter(there);
        let number = |column: usize| text(column).map(str::trim).filter(there);
        let pushed = match self.is_text {
            true => {
                let key = text(self.columns.key).ok_or(Problem::NullKey);
                key.and_then(|text| block.push_text(text))
            }
            false => {
                let key = number(self.columns.key).ok_or(Problem::NullKey);
                key.and_then(|text| block.push_key(key_of_text(text)?))
            }
        };
        pushed.map_err(|problem| wrong(self.columns.key, problem))?;
        block.lines.push(line);
        for (source, lists) in self.columns.sources.iter().zip(&mut block.columns) {
            for &column in source {
                if lists.is_bytes() {
                    // No bytes are a value too.
                    lists.push_bytes(self.record.get(column).unwrap_or_default().as_bytes());
                    continue;
                }
                let text = number(column).ok_or(Problem::NullVector);
                let added = text.and_then(|text| numbers(text, lists));
                added.map_err(|problem| wrong(column, problem))?;
            }
            let ended = lists.end();
            ended.map_err(|problem| wrong(source.first().copied().unwrap_or(0), problem))?;
        }
        Ok(())
    }
}

impl Reader for CsvReader {
    fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.begin(self.row, self.columns.sources.len());
        while !block.is_full() {
            let at = self.reader.position().byte();
            self.limit.set(at.saturating_add(LINE_BYTES_MAX));
            let line = self.reader.position().line();
            let read = self.reader.read_record(&mut self.record);
            if !read.map_err(|error| wrong(&self.path, line, error))? {
                break;
            }
            let line = self.record.position().map_or(line, csv::Position::line);
            self.add(line, block)?;
        }
        self.row += block.keys.len() as u64;
        Ok(!block.keys.is_empty())
    }

    fn share(&self) -> f64 {
        self.reader.position().byte() as f64 / self.bytes_total.max(1) as f64
    }
}

/// Adds a number, or those of a list in brackets.
fn numbers(text: &str, lists: &mut Lists) -> Result<(), Problem> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>();
        number.map_err(|_| Problem::NotNumbers { found: shown(text) })
    };
    let Some(list) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return lists.push(number(text)?);
    };
    if list.trim().is_empty() {
        return Err(Problem::EmptyVector);
    }
    list.split(',').try_for_each(|text| lists.push(number(text)?))
}

fn wrong(path: &std::path::Path, line: u64, error: csv::Error) -> Error {
    let line = error.position().map_or(line, csv::Position::line);
    let problem = match error.into_kind() {
        ErrorKind::Io(source) if source.kind() != io::ErrorKind::FileTooLarge => {
            return Error::read(path)(source);
        }
        ErrorKind::Io(source) => source.to_string(),
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("it has {len} fields, the header has {expected_len}")
        }
        ErrorKind::Utf8 { err, .. } => format!("field {} is not UTF-8", err.field() + 1),
        other => format!("{other:?}"),
    };
    Error::Line {
        path: path.to_path_buf(),
        line,
        problem,
    }
}

/// A file that ends in an error where a record is too long.
struct Bounded {
    file: File,
    read: u64,
    limit: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read > self.limit.get() {
            let message = format!("the record is longer than {LINE_BYTES_MAX} bytes; is a quote left open?");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let count = self.file.read(out)?;
        self.read += count as u64;
        Ok(count)
    }
}
