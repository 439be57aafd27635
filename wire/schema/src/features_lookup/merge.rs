//! The whole answer of a call whose keys went to several nodes: each part's rows are copied once, to where their keys stand.
//!
//! It asks nobody and knows no node. Its invariants: a part that does not fit is refused whole, and it is said whether its node is to
//! blame; the answer is allocated once, after its size was checked; what it holds is all of one version.

use super::{Header, Missing, Part, Pooled, RowType, Rows};
use crate::infer::Data;
use crate::payload::{Encoder, PayloadError, Read};
use crate::{Code, Status};
use std::borrow::Cow;

/// What a node was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The table's name.
    pub table: &'a str,
    /// How many of the keys.
    pub keys: usize,
    /// The version, where it was to be a certain one.
    pub at_version: Option<u64>,
    /// How the rows are pooled, where they are: bags may be more than keys.
    pub pooled: Option<&'a Pooled>,
    /// Bytes that the answer has beside these rows: those of the call's other tables and, with `unique`, what says which row each key
    /// has.
    pub beside: usize,
}

/// Why a part is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It is not what its node was asked for: another node may answer better.
    Node(PayloadError),
    /// It is right, and no node could answer so that the call can be answered.
    Call(Status),
}

impl From<PayloadError> for Unfit {
    fn from(error: PayloadError) -> Unfit {
        Unfit::Node(error)
    }
}

/// The parts that have come.
#[derive(Debug)]
pub struct Merge {
    keys: usize,
    row_type: RowType,
    /// Bytes of rows that the answer may have.
    bytes_max: usize,
    /// What the first part says, and all others must.
    shape: Option<Shape>,
    found: Vec<u8>,
    values: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    version: u64,
    dim: usize,
}

impl Merge {
    /// An answer for so many keys, of which no part has come.
    pub fn new(keys: usize, row_type: RowType, bytes_max: usize) -> Merge {
        Merge {
            keys,
            row_type,
            bytes_max,
            shape: None,
            found: vec![0; keys.div_ceil(8)],
            values: Vec::new(),
        }
    }

    /// Holds a part against what its node was asked for.
    ///
    /// # Errors
    /// What does not fit, and whether its node is to blame. Nothing is to be placed then.
    pub fn check(&self, part: &Part<'_>, asked: &Asked<'_>) -> Result<(), Unfit> {
        self.check_shape(part, asked.keys, asked.at_version)?;
        let row_bytes = part.dim.saturating_mul(part.row_type.bytes());
        let pooled = asked.pooled.map_or(0, |pooled| pooled.answer_bytes(part.dim));
        let bytes = self.keys.saturating_mul(row_bytes).max(pooled);
        let bytes = bytes.saturating_add(asked.beside);
        if bytes > self.bytes_max {
            let most = self.bytes_max;
            let ex = format!(
                "the answer would hold {bytes} bytes of rows; the limit is {most} (ask for fewer keys or bags a call)"
            );
            return Err(Unfit::Call(Status::new(Code::TooLarge, ex)));
        }
        if part.dim == 0 && !part.values.is_empty() {
            let ex = format!(
                "table {:?} has rows that vary in length, which are not put together from several servers; ask each with `map`",
                asked.table
            );
            return Err(Unfit::Call(Status::new(Code::BadArgument, ex)));
        }
        Ok(())
    }

    /// Whether it says what was asked for, and holds what it says.
    fn check_shape(&self, part: &Part<'_>, keys: usize, at_version: Option<u64>) -> Read<()> {
        let bad =
            |key, found: String, expected: String| Err(PayloadError::invalid(found, expected).under(key));
        let asked = |version: u64| at_version.is_none_or(|asked| asked == version);
        if !asked(part.version) {
            let expected = format!("version {}, which was asked for", at_version.unwrap_or(0));
            return bad("version", format!("version {}", part.version), expected);
        }
        if part.row_type != self.row_type {
            let expected = format!("\"{}\", which was asked for", self.row_type.as_str());
            return bad("type", format!("\"{}\"", part.row_type.as_str()), expected);
        }
        if part.found.len() != keys.div_ceil(8) {
            let expected = format!("{} bytes for {keys} keys", keys.div_ceil(8));
            return bad("found", format!("{} bytes", part.found.len()), expected);
        }
        let row_bytes = part.dim.saturating_mul(part.row_type.bytes());
        // Bytes without a number of them a row are rows that vary in length: of no node's fault.
        let varies = part.dim == 0 && part.row_type == RowType::U8;
        if !varies && Some(part.values.len()) != keys.checked_mul(row_bytes) {
            let expected = format!("{keys} rows of {} numbers", part.dim);
            return bad("values", format!("{} bytes", part.values.len()), expected);
        }
        match self.shape {
            // Another version may have other columns: the caller decides which one it takes.
            Some(first) if first.version == part.version && first.dim != part.dim => {
                let expected = format!("{}, as other nodes answer version {}", first.dim, first.version);
                bad("dim", part.dim.to_string(), expected)
            }
            _ => Ok(()),
        }
    }

    /// Copies the rows of a part that [`Merge::check`] has passed to their places. Those that were there are replaced.
    ///
    /// # Errors
    /// The part is of another version than those before it, and [`Merge::reset`] was not called.
    pub fn place(&mut self, part: &Part<'_>, positions: &[u32]) -> Read<()> {
        let shape = Shape {
            version: part.version,
            dim: part.dim,
        };
        self.begin(shape)?;
        let row_bytes = shape.dim.saturating_mul(self.row_type.bytes());
        for (index, position) in positions.iter().enumerate() {
            let bit = part
                .found
                .get(index / 8)
                .is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            self.set(*position as usize, bit);
        }
        if row_bytes == 0 {
            return Ok(());
        }
        for (row, position) in part.values.chunks_exact(row_bytes).zip(positions) {
            if let Some(place) = self.row(*position, row_bytes) {
                place.copy_from_slice(row);
            }
        }
        Ok(())
    }

    /// Drops what has come: the call begins anew with another version.
    pub fn reset(&mut self) {
        self.shape = None;
        self.found.fill(0);
        self.values = Vec::new();
    }

    /// Keys that have no answer: they count as not found, and their rows are zeros.
    pub fn miss(&mut self, positions: &[u32]) {
        let row_bytes = self.dim().saturating_mul(self.row_type.bytes());
        for position in positions {
            self.set(*position as usize, false);
            if let Some(place) = self.row(*position, row_bytes) {
                place.fill(0);
            }
        }
    }

    /// The version of the parts; `None` before the first has come.
    pub fn version(&self) -> Option<u64> {
        self.shape.map(|shape| shape.version)
    }

    /// Numbers a row; 0 before the first part has come.
    pub fn dim(&self) -> usize {
        self.shape.map_or(0, |shape| shape.dim)
    }

    /// The bitmap of the keys that were found.
    pub fn found(&self) -> &[u8] {
        &self.found
    }

    /// The bytes of all rows, in the order of the keys.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// The same, for keeps.
    pub fn into_values(self) -> Vec<u8> {
        self.values
    }

    /// The row that was answered for a key that is not there, of rows of 32-bit floats; of the keys that are `missing` none was.
    pub(super) fn absent_row(&self, missing: impl Iterator<Item = u32>) -> Option<Vec<f32>> {
        // A node that is down may leave most of a large call without an answer: each key is looked at once.
        let mut has_row = vec![true; self.keys];
        for at in missing {
            if let Some(has_row) = has_row.get_mut(at as usize) {
                *has_row = false;
            }
        }
        let is_found = |at: usize| {
            self.found
                .get(at / 8)
                .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
        };
        let mut keys = has_row.iter().enumerate();
        let (at, _) = keys.find(|(at, has_row)| **has_row && !is_found(*at))?;
        let row_bytes = self.dim().checked_mul(size_of::<f32>())?;
        let row = self.values.get(at.checked_mul(row_bytes)?..)?.get(..row_bytes)?;
        let numbers = row.as_chunks().0.iter();
        Some(numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// Writes the answer as a server does that has all the keys.
    pub fn write(&self, missing: &[Missing<'static>], out: &mut Encoder<'_>) {
        let header = Header {
            version: self.version().unwrap_or(0),
            dim: self.dim(),
            row_type: self.row_type,
            keys: self.keys,
            rows: self.keys,
            inverse: None,
            overlay_sequence: None,
            active: None,
            missing,
        };
        header.write(out, |found, values| {
            found.copy_from_slice(&self.found);
            // Without a part there are no numbers.
            if values.len() == self.values.len() {
                values.copy_from_slice(&self.values);
            }
        });
    }

    /// The answer as a client reads it.
    pub fn into_rows(self, missing: Vec<Missing<'static>>) -> Rows<'static> {
        Rows {
            version: self.version().unwrap_or(0),
            dim: self.dim(),
            row_type: self.row_type,
            found: Cow::Owned(self.found),
            values: self
                .row_type
                .numbers(&self.values)
                .unwrap_or(Data::U8(Vec::new())),
            offsets: None,
            inverse: None,
            overlay_sequence: None,
            active: None,
            missing,
        }
    }

    /// The same where its rows were pooled, by [`super::Pooled`].
    pub fn into_pooled_rows(
        self,
        row_type: RowType,
        values: &[u8],
        missing: Vec<Missing<'static>>,
    ) -> Rows<'static> {
        let dim = self.dim();
        let without_values = Merge {
            values: Vec::new(),
            ..self
        };
        Rows {
            dim,
            row_type,
            values: row_type.numbers(values).unwrap_or(Data::U8(Vec::new())),
            ..without_values.into_rows(missing)
        }
    }

    /// Allocates the answer for the first part; others must be like it.
    fn begin(&mut self, shape: Shape) -> Read<()> {
        match self.shape {
            Some(first) if first == shape => Ok(()),
            Some(first) => {
                let found = format!("version {} with {} numbers a row", shape.version, shape.dim);
                let expected = format!(
                    "version {} with {}, as other nodes answer",
                    first.version, first.dim
                );
                Err(PayloadError::invalid(found, expected).under("version"))
            }
            None => {
                let row_bytes = shape.dim.saturating_mul(self.row_type.bytes());
                self.values = vec![0; self.keys.saturating_mul(row_bytes).min(self.bytes_max)];
                self.shape = Some(shape);
                Ok(())
            }
        }
    }

    fn set(&mut self, position: usize, bit: bool) {
        if let Some(byte) = self.found.get_mut(position / 8) {
            let mask = 1 << (position % 8);
            *byte = if bit { *byte | mask } else { *byte & !mask };
        }
    }

    fn row(&mut self, position: u32, row_bytes: usize) -> Option<&mut [u8]> {
        let start = (position as usize).checked_mul(row_bytes)?;
        self.values.get_mut(start..start.checked_add(row_bytes)?)
    }
}

#[cfg(test)]
mod tests;
