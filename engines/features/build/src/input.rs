//! Files of keys and numbers: what a reader of any format gives, and the list of the formats.
//!
//! Knows nothing of tables. Its invariant: a row that a block holds has a key and, for each column that was asked for, one finite
//! number or more, or bytes. How many is not compared with any other row.

mod arrow;
mod csv;
mod files;
mod jsonl;
mod lists;
mod npy;
mod parquet;

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use millpond_engines_features::write::TEXT_BYTES_MAX;
use millpond_engines_features::{Keys, NotFinite, text_key};

use crate::error::{Error, Place, Problem};
pub use arrow::{Given, Stream};
pub(crate) use files::expand;
pub(crate) use lists::Lists;

/// The column of numbers where nothing else is said.
pub(crate) const VECTOR: &str = "vector";
/// Rows of a block at most.
const BLOCK_ROWS: usize = 2048;
/// Numbers of a block: about as many, however long the rows are.
const BLOCK_NUMBERS: usize = 256 * 1024;
/// Bytes of a line of text at most.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// What is expected of a column of bytes that was not said to be one.
const BYTES_HINT: &str = "numbers, or a column that is said to hold bytes (--column NAME=COLUMN:bytes)";

/// Every format: each is a file beside this one.
static FORMATS: [&Format; 5] = [
    &parquet::FORMAT,
    &arrow::FORMAT,
    &csv::FORMAT,
    &jsonl::FORMAT,
    &npy::FORMAT,
];

type Open = fn(&Input, &Wanted<'_>) -> Result<Box<dyn Reader>, Error>;

/// A form of input files.
pub struct Format {
    /// Its name on the command line.
    name: &'static str,
    /// How the names of its files end, without the dot.
    extensions: &'static [&'static str],
    open: Open,
}

impl Format {
    /// Every format.
    pub fn all() -> &'static [&'static Format] {
        &FORMATS
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The format of that name.
    pub fn by_name(name: &str) -> Option<&'static Format> {
        FORMATS.into_iter().find(|format| format.name == name)
    }

    /// The format of files whose names end as that of `path`.
    fn by_extension(path: &Path) -> Option<&'static Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        FORMATS
            .into_iter()
            .find(|format| format.extensions.contains(&extension.as_str()))
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Where the numbers of one column of a table come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// The column `vector`; in a CSV file that has none, all columns but the key's, in the order of its header.
    #[default]
    Usual,
    /// These columns, one behind another: each a number or a list of numbers.
    Columns(Vec<String>),
}

/// What to read of a file.
pub(crate) struct Wanted<'a> {
    /// The column of the keys.
    pub(crate) key: &'a str,
    /// What the keys are; what the first input has, where it is not said.
    pub(crate) keys: Option<&'a Keys>,
    /// The numbers of each column of the table; none where the keys alone are read.
    pub(crate) sources: &'a [&'a Source],
    /// Which of them give bytes.
    pub(crate) bytes: &'a [bool],
    /// What becomes of NaN and infinities in them.
    pub(crate) not_finite: NotFinite,
}

/// The columns of a file that are read, by number.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    key: usize,
    /// For each source its columns.
    sources: Vec<Vec<usize>>,
}

impl Wanted<'_> {
    /// Whether source `at` gives bytes.
    pub(crate) fn is_bytes(&self, at: usize) -> bool {
        self.bytes.get(at) == Some(&true)
    }

    /// Finds the columns among those that a file has. `others` says whether all but the key's may stand for a missing `vector`.
    fn find(&self, path: &Path, available: &[String], others: bool) -> Result<Columns, Error> {
        let find = |column: &str, option| {
            let mut places = (0..available.len()).filter(|&at| available[at] == column);
            let found = places.next().ok_or_else(|| Error::NoColumn {
                path: path.to_path_buf(),
                column: column.to_owned(),
                option,
                available: available.to_vec(),
            })?;
            match places.next() {
                None => Ok(found),
                Some(_) => Err(Error::ColumnType {
                    path: path.to_path_buf(),
                    column: column.to_owned(),
                    expected: "one column of that name",
                    found: "several".to_owned(),
                }),
            }
        };
        let key = find(self.key, "--key-column NAME")?;
        let find = |column: &str| find(column, "--value-column NAME (or --column)");
        let of_source = |source: &Source| match source {
            Source::Columns(columns) => columns.iter().map(|column| find(column)).collect(),
            Source::Usual
                if others && available.len() > 1 && !available.iter().any(|name| name == VECTOR) =>
            {
                Ok((0..available.len()).filter(|&at| at != key).collect())
            }
            Source::Usual => Ok(vec![find(VECTOR)?]),
        };
        let sources = self
            .sources
            .iter()
            .copied()
            .map(of_source)
            .collect::<Result<_, _>>()?;
        Ok(Columns { key, sources })
    }
}

/// One input: a file, or two of NPY.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The file; of NPY that of the keys.
    pub(crate) path: PathBuf,
    /// Of NPY the file of the rows.
    pub(crate) rows_path: Option<PathBuf>,
    /// Rows in memory, in place of a file.
    given: Option<Given>,
    format: &'static Format,
    /// Length of its files: its part in the progress of a build.
    pub(crate) bytes: u64,
}

impl Input {
    pub(crate) fn open(&self, wanted: &Wanted<'_>) -> Result<Box<dyn Reader>, Error> {
        (self.format.open)(self, wanted)
    }

    /// What tells its content from another one, as far as the system does; none of rows in memory or a pipe.
    pub(crate) fn stamp(&self) -> Option<String> {
        if self.given.is_some() {
            return None;
        }
        let of = |path: &PathBuf| {
            let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            let place = (metadata.dev(), metadata.ino());
            Some(format!(
                "{path:?} {} {modified:?} {changed:?} {place:?}",
                metadata.len()
            ))
        };
        let paths = [Some(&self.path), self.rows_path.as_ref()].into_iter().flatten();
        let stamps: Option<Vec<String>> = paths.map(of).collect();
        Some(format!("{} {}", self.format.name, stamps?.join(" ")))
    }

    /// The error for a row that a table cannot hold.
    pub(crate) fn bad(&self, place: Place, column: &str, problem: Problem) -> Error {
        bad(&self.path, place, column, problem)
    }
}

fn bad(path: &Path, place: Place, column: &str, problem: Problem) -> Error {
    Error::Row {
        path: path.to_path_buf(),
        place,
        column: column.to_owned(),
        problem,
    }
}

/// Reads one input from its beginning to its end, in memory that does not grow with it.
pub(crate) trait Reader {
    /// Replaces what the block holds by the next rows; `false` where there are none.
    fn read(&mut self, block: &mut Block) -> Result<bool, Error>;

    /// Passes over rows that need not be read, as many as that takes no time for, and `rows` at most; returns how many.
    fn skip(&mut self, _rows: u64) -> Result<u64, Error> {
        Ok(0)
    }

    /// How much of the input was read, from 0 to 1.
    fn share(&self) -> f64;
}

/// Some rows, in the order of their file.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) keys: Vec<u64>,
    /// Of keys that are texts: what they are the hashes of.
    texts: Texts,
    /// What texts are hashed in.
    pub(crate) slot: String,
    /// What becomes of NaN and infinities among its numbers.
    pub(crate) not_finite: NotFinite,
    /// Which sources give bytes.
    pub(crate) bytes: Vec<bool>,
    /// For each source its numbers.
    pub(crate) columns: Vec<Lists>,
    /// The number of the first row in its file.
    first: u64,
    /// In files of text: the line of each row, from 1.
    lines: Vec<u64>,
}

impl Block {
    /// Empties it for rows from the number `first` on.
    fn begin(&mut self, first: u64, sources: usize) {
        self.keys.clear();
        self.texts.bytes.clear();
        self.texts.ends.clear();
        self.lines.clear();
        self.first = first;
        self.columns.resize_with(sources, Lists::default);
        for (at, lists) in self.columns.iter_mut().enumerate() {
            lists.begin(self.not_finite, self.bytes.get(at) == Some(&true));
        }
    }

    /// Adds a row's key, a number.
    fn push_key(&mut self, key: u64) -> Result<(), Problem> {
        if self.is_text() {
            let (expected, found) = ("a text", key.to_string());
            return Err(Problem::KeyKind { expected, found });
        }
        self.keys.push(key);
        Ok(())
    }

    /// Adds rows' keys, numbers, where it has none yet.
    fn push_keys(&mut self, keys: impl Iterator<Item = u64>) {
        self.keys.extend(keys);
    }

    /// Adds a row's key, a text.
    fn push_text(&mut self, text: &str) -> Result<(), Problem> {
        if !self.is_text() && !self.keys.is_empty() {
            let (expected, found) = ("a number", shown(text));
            return Err(Problem::KeyKind { expected, found });
        }
        if text.len() > TEXT_BYTES_MAX {
            let expected = "a text of at most 65535 bytes";
            let found = shown(text);
            return Err(Problem::KeyKind { expected, found });
        }
        self.texts.bytes.push_str(text);
        self.texts.ends.push(self.texts.bytes.len());
        self.keys.push(text_key(&self.slot, text));
        Ok(())
    }

    /// Whether its keys are texts.
    pub(crate) fn is_text(&self) -> bool {
        !self.texts.ends.is_empty()
    }

    /// The text of row `at`, where keys are texts.
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        let begin = match at {
            0 => 0,
            at => *self.texts.ends.get(at - 1)?,
        };
        self.texts.bytes.get(begin..*self.texts.ends.get(at)?)
    }

    /// Where row `at` stands.
    pub(crate) fn place(&self, at: usize) -> Place {
        match self.lines.get(at) {
            Some(&line) => Place::Line(line),
            None => Place::Row(self.first + at as u64),
        }
    }

    /// Whether it has as many rows as are worked on at a time.
    fn is_full(&self) -> bool {
        let numbers: usize = self.columns.iter().map(Lists::size).sum();
        self.keys.len() >= BLOCK_ROWS || numbers.max(self.texts.bytes.len()) >= BLOCK_NUMBERS
    }
}

/// Texts, one behind another.
#[derive(Debug, Default)]
struct Texts {
    bytes: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

/// A key written in decimal: unsigned, or signed, of which the bits are the key.
fn key_of_text(text: &str) -> Result<u64, Problem> {
    let signed = || text.parse::<i64>().map(i64::cast_unsigned);
    text.parse::<u64>().or_else(|_| signed()).map_err(|_| {
        let found = shown(text);
        // Digits are no text that somebody wants to be a key.
        let digits = text.strip_prefix('-').unwrap_or(text);
        match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Problem::KeyNumber { found },
            false => Problem::KeyText { found },
        }
    })
}

/// Some of a text, for messages.
fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?} …", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn columns_are_found_by_name_or_are_all_others() {
        let check = |key: &str,
                     sources: &[Source],
                     others: bool,
                     expected: Result<(usize, Vec<Vec<usize>>), &str>| {
            let available = ["a", "key", "b", "b"].map(str::to_owned);
            let sources: Vec<&Source> = sources.iter().collect();
            let wanted = Wanted {
                key,
                keys: None,
                not_finite: NotFinite::Refused,
                sources: &sources,
                bytes: &[],
            };
            let found = wanted.find(Path::new("in"), &available, others);
            match expected {
                Ok((key, sources)) => assert_eq!(found.unwrap(), Columns { key, sources }),
                Err(expected) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(expected), "{error}");
                }
            }
        };
        let named = |names: &[&str]| Source::Columns(names.iter().map(|&name| name.to_owned()).collect());
        check("key", &[], false, Ok((1, vec![])));
        check("key", &[Source::Usual], true, Ok((1, vec![vec![0, 2, 3]])));
        check("key", &[Source::Usual], false, Err("no column \"vector\""));
        check(
            "key",
            &[named(&["a"]), named(&["key", "a"])],
            true,
            Ok((1, vec![vec![0], vec![1, 0]])),
        );
        check(
            "b",
            &[],
            true,
            Err("column \"b\": expected one column of that name, found several"),
        );
        check("c", &[], true, Err("no column \"c\""));
    }

    #[test]
    fn keys_are_decimal_numbers_of_64_bits() {
        let check =
            |text: &str, expected: Option<u64>| assert_eq!(key_of_text(text).ok(), expected, "{text}");
        check("0", Some(0));
        check("18446744073709551615", Some(u64::MAX));
        check("-1", Some(u64::MAX));
        check("-9223372036854775808", Some(1 << 63));
        check("18446744073709551616", None);
        let said = |text: &str| key_of_text(text).unwrap_err().to_string();
        for beyond in ["18446744073709551616", "-9223372036854775809"] {
            let expected = format!(
                "expected a key of 64 bits, a whole number from -9223372036854775808 to 18446744073709551615, found \"{beyond}\""
            );
            assert_eq!(said(beyond), expected);
        }
        for text in ["-", "7.0", "Alien"] {
            assert!(
                said(text).ends_with("; for texts add --keys text"),
                "{}",
                said(text)
            );
        }
        check("1.0", None);
        check("", None);
        check("film", None);
    }
}
