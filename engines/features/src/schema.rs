//! What a row holds: its columns, and how each lies in the file; and what its key is.
//!
//! Invariant: in a checked schema a slot has at least one byte of its row and at most [`ROW_BYTES_MAX`], and its columns
//! follow each other without gaps.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hash::text_key;
use crate::header::{BYTES_FORMAT, FORMAT};
use crate::rows::{self, Unfit};

/// Most numbers in a row, all columns together.
pub const DIM_MAX: usize = 65_536;
/// Most bytes of a row.
pub const ROW_BYTES_MAX: usize = DIM_MAX * 4;
/// What a slot has of a row that varies in length: where it begins in the heap.
pub(crate) const START_BYTES: usize = 6;
const COLUMNS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 128;
/// What an error has of a name that no column has.
const NAME_CHARS_SHOWN: usize = 64;
pub(crate) const SCALE_BYTES: usize = 4;

/// How the numbers of a column are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754 binary16): three digits, up to 65,504.
    F16,
    /// The upper halves of 32-bit floats: two digits, their whole range.
    Bf16,
    /// Signed bytes with one scale a row: two digits of the row's largest.
    I8Scaled,
    /// No numbers: `dim` bytes, which are answered as they are.
    Bytes,
    /// No numbers: as many bytes as each row has. The column is the only one of its table, and its `dim` is 0.
    VaryingBytes,
}

impl Numbers {
    /// Every kind, by its name in a manifest.
    pub const ALL: [(&'static str, Numbers); 6] = [
        ("f32", Numbers::F32),
        ("f16", Numbers::F16),
        ("bf16", Numbers::Bf16),
        ("i8_scaled", Numbers::I8Scaled),
        ("bytes", Numbers::Bytes),
        ("varying_bytes", Numbers::VaryingBytes),
    ];

    /// Its name in a manifest.
    pub fn as_str(self) -> &'static str {
        let named = Numbers::ALL.into_iter().find(|(_, numbers)| *numbers == self);
        named.map_or("", |(name, _)| name)
    }

    /// Bytes of `dim` numbers in a row.
    pub(crate) fn bytes(self, dim: usize) -> usize {
        match self {
            Numbers::F32 => dim * 4,
            Numbers::F16 | Numbers::Bf16 => dim * 2,
            Numbers::I8Scaled => SCALE_BYTES + dim,
            Numbers::Bytes => dim,
            Numbers::VaryingBytes => START_BYTES,
        }
    }

    /// Whether a column of them has bytes, which nobody adds up or converts.
    pub fn is_bytes(self) -> bool {
        matches!(self, Numbers::Bytes | Numbers::VaryingBytes)
    }
}

/// A column: some numbers of every row, under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name, different from the others'.
    pub name: String,
    /// How its numbers are stored.
    #[serde(rename = "type")]
    pub numbers: Numbers,
    /// How many numbers a row has in it, or bytes; 0 where rows vary in length.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dim: usize,
}

fn is_zero(dim: &usize) -> bool {
    *dim == 0
}

impl Column {
    /// Bytes of it in a row.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.bytes(self.dim)
    }
}

/// Whether a row may hold NaN and infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFinite {
    /// No: a writer refuses such a row.
    #[default]
    Refused,
    /// Yes, as they come.
    Kept,
}

/// What the keys of a table are to those who look them up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Keys {
    /// Numbers of 64 bits.
    #[default]
    U64,
    /// Texts, of which the table has the hashes ([`text_key`](crate::text_key)).
    Text {
        /// The slot that the texts are hashed in.
        slot: String,
    },
}

impl Keys {
    /// The key of a text; none where keys are numbers.
    pub fn of_text(&self, text: impl AsRef<[u8]>) -> Option<u64> {
        match self {
            Keys::U64 => None,
            Keys::Text { slot } => Some(text_key(slot, text)),
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keys::U64 => f.write_str("numbers"),
            Keys::Text { slot } => write!(f, "texts, hashed in slot {slot:?}"),
        }
    }
}

/// The columns of a table, in the order in which a row has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// What its keys are.
    pub keys: Keys,
    /// The columns.
    pub columns: Vec<Column>,
    /// What becomes of NaN and infinities.
    pub not_finite: NotFinite,
    /// The row that a lookup answers for a key that is not there: a number for each of the columns', and of bytes each as a
    /// number. Zeros where there is none, or no bytes where rows vary in length.
    pub default_row: Option<Vec<f32>>,
}

impl Schema {
    /// One column named `vector` of `dim` finite 32-bit floats.
    pub fn floats(dim: usize) -> Schema {
        Schema {
            keys: Keys::U64,
            columns: vec![Column {
                name: "vector".to_owned(),
                numbers: Numbers::F32,
                dim,
            }],
            not_finite: NotFinite::Refused,
            default_row: None,
        }
    }

    /// Numbers in a row, all columns together.
    pub fn dim(&self) -> usize {
        self.columns.iter().map(|column| column.dim).sum()
    }

    /// Whether calls and answers look alike: keys of one kind, and columns of the same names, as long, of numbers or of bytes.
    /// How numbers are stored is not seen in them.
    pub fn answers_like(&self, other: &Schema) -> bool {
        let mut pairs = self.columns.iter().zip(&other.columns);
        self.keys == other.keys
            && self.columns.len() == other.columns.len()
            && pairs.all(|(one, other)| {
                (&one.name, one.dim, one.numbers.is_bytes())
                    == (&other.name, other.dim, other.numbers.is_bytes())
            })
    }

    /// Whether a row is bytes, of a length of its own.
    pub fn is_varying(&self) -> bool {
        self.columns
            .iter()
            .any(|column| column.numbers == Numbers::VaryingBytes)
    }

    /// The first column of bytes, if there is any.
    pub fn bytes_column(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.numbers.is_bytes())
    }

    /// The columns of these names, in their order, and where each begins among the bytes of a row.
    ///
    /// # Errors
    /// [`Error::Argument`] for a name that no column has, or that comes twice.
    pub(crate) fn select(&self, names: &[impl AsRef<str>]) -> Result<Vec<(&Column, usize)>, Error> {
        // A caller may name anything, and as much of it as a call holds.
        let mut selected: Vec<(&Column, usize)> = Vec::with_capacity(names.len().min(self.columns.len()));
        for name in names {
            let name = name.as_ref();
            let mut begin = 0;
            let found = self.columns.iter().find(|column| {
                let is_it = column.name == name;
                begin += if is_it { 0 } else { column.bytes() };
                is_it
            });
            let Some(column) = found else {
                let known: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
                let shown: String = name.chars().take(NAME_CHARS_SHOWN).collect();
                let expected = format!("some of {known:?}");
                return Err(Error::argument("columns", expected, format!("{shown:?}")));
            };
            if selected.iter().any(|(other, _)| other.name == column.name) {
                let found = format!("{name:?} twice");
                return Err(Error::argument("columns", "different names", found));
            }
            selected.push((column, begin));
        }
        Ok(selected)
    }

    /// What a row has, for people.
    pub(crate) fn describe_row(&self) -> String {
        let all_bytes = self.columns.iter().all(|column| column.numbers.is_bytes());
        match (self.is_varying(), all_bytes) {
            (true, _) => "varying bytes".to_owned(),
            (false, true) => format!("{} bytes", self.dim()),
            (false, false) => format!("{} numbers", self.dim()),
        }
    }

    /// The format of files that hold such rows: programs that know no bytes refuse them by its number.
    pub(crate) fn format(&self) -> u32 {
        match self.bytes_column() {
            Some(_) => BYTES_FORMAT,
            None => FORMAT,
        }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    /// Whether a row is nothing but 32-bit floats, as an answer has them.
    pub(crate) fn is_floats(&self) -> bool {
        self.columns.iter().all(|column| column.numbers == Numbers::F32)
    }

    /// # Errors
    /// [`Error::Argument`], naming the limit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let count = self.columns.len();
        if count == 0 || count > COLUMNS_MAX {
            return Err(Error::argument("columns", format!("1 to {COLUMNS_MAX}"), count));
        }
        if let Keys::Text { slot } = &self.keys
            && slot.len() > NAME_BYTES_MAX
        {
            let expected = format!("a name of at most {NAME_BYTES_MAX} bytes");
            return Err(Error::argument("slot of the keys", expected, format!("{slot:?}")));
        }
        let mut dim = 0_usize;
        for (at, column) in self.columns.iter().enumerate() {
            check_name("name of a column", &column.name)?;
            if self.columns[..at].iter().any(|other| other.name == column.name) {
                let found = format!("{:?} twice", column.name);
                return Err(Error::argument("columns", "different names", found));
            }
            if column.numbers == Numbers::VaryingBytes {
                check_varying(column, count)?;
            } else if column.dim == 0 {
                let expected = format!("at least 1 in column {:?}", column.name);
                return Err(Error::argument("dim", expected, 0));
            }
            dim = dim.saturating_add(column.dim);
        }
        if dim > DIM_MAX {
            return Err(Error::argument("dim", format!("1 to {DIM_MAX}"), dim));
        }
        // As many floats as there may be fit; the scales of columns beside them may not.
        let bytes = self.row_bytes();
        if bytes > ROW_BYTES_MAX {
            let expected = format!("at most {ROW_BYTES_MAX}, all columns and their scales together");
            return Err(Error::argument("bytes of a row", expected, bytes));
        }
        self.default_bytes().map(drop)
    }

    /// The default row as a slot has it.
    ///
    /// # Errors
    /// [`Error::Argument`] for one that no table of these columns can hold.
    pub(crate) fn default_bytes(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(row) = &self.default_row else {
            return Ok(None);
        };
        if self.is_varying() && row.len() > ROW_BYTES_MAX {
            let expected = format!("at most {ROW_BYTES_MAX} bytes");
            return Err(Error::argument(
                "default row (--default-row)",
                expected,
                row.len(),
            ));
        }
        if !self.is_varying() && row.len() != self.dim() {
            let expected = format!("{} numbers", self.dim());
            return Err(Error::argument(
                "default row (--default-row)",
                expected,
                row.len(),
            ));
        }
        let mut bytes = Vec::with_capacity(self.row_bytes());
        match rows::encode(self, row, &mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(Unfit { position, value }) => {
                let found = format!("{value} at {position}");
                Err(Error::argument(
                    "default row (--default-row)",
                    "numbers that its columns can hold",
                    found,
                ))
            }
        }
    }
}

/// A column of varying bytes is all that its table has.
fn check_varying(column: &Column, count: usize) -> Result<(), Error> {
    if count > 1 {
        let expected = format!(
            "column {:?} alone, as its rows vary in length (or give its bytes a fixed number)",
            column.name
        );
        return Err(Error::argument("columns", expected, count));
    }
    if column.dim > 0 {
        let expected = format!("none in column {:?}, as its rows vary in length", column.name);
        return Err(Error::argument("dim", expected, column.dim));
    }
    Ok(())
}

/// A name that is a folder's, or stands in a configuration.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    let expected = "1 to 128 letters, digits, '_', '-' or '.', not beginning with '.'";
    Err(Error::argument(what, expected, format!("{name:?}")))
}

#[cfg(test)]
mod tests;
