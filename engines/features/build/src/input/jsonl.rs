//! JSON lines: an object a line, `{"key": 7, "vector": [0.5, -1]}`; bytes are those of a text, in UTF-8.
//!
//! Numbers go from the text to the block; no tree is built. Its invariant: a line is refused, not held, once it is longer than a line may
//! be.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Block, Format, Input, LINE_BYTES_MAX, Lists, Reader, Source, VECTOR, Wanted, bad};
use crate::error::{Error, Place, Problem};

pub(super) const FORMAT: Format = Format {
    name: "jsonl",
    extensions: &["jsonl", "ndjson"],
    open: |input, wanted| Ok(Box::new(JsonReader::open(input, wanted)?)),
};

const BUFFER_BYTES: usize = 256 * 1024;
/// What some programs write before a file of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
const TWICE: &str = "it names a column twice";

struct JsonReader {
    path: PathBuf,
    bytes_total: u64,
    bytes_read: u64,
    file: BufReader<File>,
    key_name: String,
    /// For each source the names of its columns.
    sources: Vec<Vec<String>>,
    text: Vec<u8>,
    line: u64,
    row: u64,
    /// For each column of all sources its numbers in the line at hand.
    cells: Vec<Cell>,
}

/// What a line has of one column.
#[derive(Default)]
struct Cell {
    numbers: Vec<f64>,
    /// Of a column of bytes: those of its text.
    bytes: Vec<u8>,
    is_bytes: bool,
    problem: Option<Problem>,
    is_there: bool,
    /// With a value or with null.
    is_named: bool,
}

impl JsonReader {
    fn open(input: &Input, wanted: &Wanted<'_>) -> Result<JsonReader, Error> {
        let path = &input.path;
        let file = File::open(path).map_err(Error::open(path))?;
        let names = |source: &Source| match source {
            Source::Usual => vec![VECTOR.to_owned()],
            Source::Columns(columns) => columns.clone(),
        };
        let sources: Vec<Vec<String>> = wanted.sources.iter().copied().map(names).collect();
        let mut cells = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            cells.extend(source.iter().map(|_| Cell {
                is_bytes: wanted.is_bytes(at),
                ..Cell::default()
            }));
        }
        Ok(JsonReader {
            path: path.clone(),
            bytes_total: input.bytes,
            bytes_read: 0,
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            key_name: wanted.key.to_owned(),
            sources,
            text: Vec::new(),
            line: 0,
            row: 0,
            cells,
        })
    }

    /// Reads the next line that is not blank; `false` at the end.
    fn next_line(&mut self) -> Result<bool, Error> {
        loop {
            self.text.clear();
            let mut limited = (&mut self.file).take(LINE_BYTES_MAX + 1);
            let read = limited.read_until(b'\n', &mut self.text);
            let count = read.map_err(Error::read(&self.path))? as u64;
            if count == 0 {
                return Ok(false);
            }
            self.bytes_read += count;
            self.line += 1;
            if count > LINE_BYTES_MAX {
                return Err(self.wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
            }
            if self.line == 1 && self.text.starts_with(BYTE_ORDER_MARK) {
                self.text.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn wrong(&self, problem: String) -> Error {
        Error::Line {
            path: self.path.clone(),
            line: self.line,
            problem,
        }
    }

    /// Adds the line at hand to the block.
    fn add(&mut self, block: &mut Block) -> Result<(), Error> {
        for cell in &mut self.cells {
            cell.numbers.clear();
            cell.bytes.clear();
            (cell.problem, cell.is_there, cell.is_named) = (None, false, false);
        }
        let mut json = serde_json::Deserializer::from_slice(&self.text);
        let line = Line {
            key_name: &self.key_name,
            names: self.sources.iter().flatten(),
            cells: &mut self.cells,
        };
        let read = json
            .deserialize_map(line)
            .and_then(|key| json.end().map(|()| key));
        let key = read.map_err(|error| {
            self.wrong(format!(
                "it is no object such as {{\"key\": 7, \"vector\": [0.5, -1]}}: {error}"
            ))
        })?;
        let wrong = |column: &str, problem| bad(&self.path, Place::Line(self.line), column, problem);
        let pushed = key.unwrap_or(Err(Problem::NullKey)).and_then(|key| match key {
            Key::Number(key) => block.push_key(key),
            Key::Text(text) => block.push_text(&text),
        });
        pushed.map_err(|problem| wrong(&self.key_name, problem))?;
        block.lines.push(self.line);
        let mut cells = self.cells.iter_mut();
        for (source, lists) in self.sources.iter().zip(&mut block.columns) {
            for (name, cell) in source.iter().zip(&mut cells) {
                cell.add_to(lists).map_err(|problem| wrong(name, problem))?;
            }
            let ended = lists.end();
            ended.map_err(|problem| wrong(source.first().map_or("", String::as_str), problem))?;
        }
        Ok(())
    }
}

impl Reader for JsonReader {
    fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.begin(self.row, self.sources.len());
        while !block.is_full() && self.next_line()? {
            self.add(block)?;
        }
        self.row += block.keys.len() as u64;
        Ok(!block.keys.is_empty())
    }

    fn share(&self) -> f64 {
        self.bytes_read as f64 / self.bytes_total.max(1) as f64
    }
}

impl Cell {
    fn push(&mut self, number: f64) {
        match self.is_bytes {
            true => {
                self.problem = Some(Problem::NotBytes {
                    found: number.to_string(),
                })
            }
            false => self.numbers.push(number),
        }
    }

    fn add_to(&mut self, lists: &mut Lists) -> Result<(), Problem> {
        if !self.is_there {
            return Err(Problem::NullVector);
        }
        lists.push_bytes(&self.bytes);
        self.numbers.iter().try_for_each(|&number| lists.push(number))?;
        self.problem.take().map_or(Ok(()), Err)
    }
}

/// Reads an object: the key it gives, and the numbers into the cells.
struct Line<'a, I> {
    key_name: &'a str,
    names: I,
    cells: &'a mut [Cell],
}

impl<'de, 'n, I: Iterator<Item = &'n String> + Clone> Visitor<'de> for Line<'_, I> {
    type Value = Option<Result<Key, Problem>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut key = None;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if name == self.key_name {
                if key.is_some() {
                    return Err(serde::de::Error::custom(TWICE));
                }
                key = Some(map.next_value_seed(ReadKey)?);
                continue;
            }
            let mut places = self.names.clone().zip(&mut *self.cells);
            match places.find(|(wanted, _)| **wanted == *name) {
                Some((_, cell)) => map.next_value_seed(cell)?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(key)
    }
}

/// A key as a line has it.
enum Key {
    Number(u64),
    Text(String),
}

/// Reads a key.
struct ReadKey;

impl<'de> DeserializeSeed<'de> for ReadKey {
    type Value = Result<Key, Problem>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadKey {
    type Value = Result<Key, Problem>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of 64 bits or a text")
    }

    fn visit_u64<E>(self, key: u64) -> Result<Self::Value, E> {
        Ok(Ok(Key::Number(key)))
    }

    fn visit_i64<E>(self, key: i64) -> Result<Self::Value, E> {
        Ok(Ok(Key::Number(key.cast_unsigned())))
    }

    fn visit_f64<E>(self, key: f64) -> Result<Self::Value, E> {
        let found = format!("{key:?}");
        Ok(Err(Problem::KeyNumber { found }))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Ok(Key::Text(key.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Err(Problem::NullKey))
    }
}

/// Reads a number, or a list of numbers.
impl<'de> DeserializeSeed<'de> for &mut Cell {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if self.is_named {
            return Err(serde::de::Error::custom(TWICE));
        }
        (self.is_there, self.is_named) = (true, true);
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Cell {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list of numbers")
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.push(number);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.push(number as f64);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.push(number as f64);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.is_bytes {
            self.bytes.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let found = super::shown(text);
        self.problem = Some(Problem::NotNumbers { found });
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.is_there = false;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.is_bytes {
            let found = "a list".to_owned();
            self.problem = Some(Problem::NotBytes { found });
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        while let Some(number) = list.next_element::<Option<f64>>()? {
            let position = self.numbers.len();
            match number {
                Some(number) => self.numbers.push(number),
                None => self.problem = self.problem.take().or(Some(Problem::NullElement { position })),
            }
        }
        Ok(())
    }
}
