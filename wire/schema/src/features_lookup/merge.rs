//! The whole answer of a call whose keys went to several nodes: each part's rows are copied once, to where their keys stand.
//!
//! It asks nobody and knows no node. Its invariants: a part that does not fit is refused whole, and it is said whether its node is to
//! blame; the answer is allocated once, after its size was checked; what it holds is all of one version.

mod varying;

use super::{Header, Missing, Part, Pooled, RowType, Rows};
use crate::infer::Data;
use crate::payload::{Encoder, PayloadError, Read};
use crate::{Code, Status};
use std::borrow::Cow;
use varying::Varying;

/// What a node was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The table's name.
    pub table: &'a str,
    /// Which of the keys, by their places in the call.
    pub positions: &'a [u32],
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
    /// Rows of one length.
    values: Vec<u8>,
    /// Those that vary in length.
    varying: Varying,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    version: u64,
    dim: usize,
    is_varying: bool,
}

impl Shape {
    fn of(part: &Part<'_>) -> Shape {
        Shape {
            version: part.version,
            dim: part.dim,
            is_varying: part.offsets.is_some(),
        }
    }

    fn describe(self) -> String {
        match self.is_varying {
            true => "bytes that vary in length".to_owned(),
            false => format!("{} numbers", self.dim),
        }
    }
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
            varying: Varying::default(),
        }
    }

    /// Holds a part against what its node was asked for.
    ///
    /// # Errors
    /// What does not fit, and whether its node is to blame. Nothing is to be placed then.
    pub fn check(&self, part: &Part<'_>, asked: &Asked<'_>) -> Result<(), Unfit> {
        self.check_shape(part, asked.positions.len(), asked.at_version)?;
        let row_bytes = part.dim.saturating_mul(part.row_type.bytes());
        let pooled = asked.pooled.map_or(0, |pooled| pooled.answer_bytes(part.dim));
        let bytes = match part.offsets {
            None => self.keys.saturating_mul(row_bytes).max(pooled),
            // What came of another version goes when this comes.
            Some(_) => match self.shape == Some(Shape::of(part)) {
                true => self.varying.bytes_without(asked.positions),
                false => 0,
            }
            .saturating_add(part.values.len())
            .saturating_add((self.keys + 1).saturating_mul(size_of::<u32>())),
        };
        let bytes = bytes.saturating_add(asked.beside);
        // Offsets have 32 bits.
        let most = match part.offsets {
            Some(_) => self.bytes_max.min(u32::MAX as usize),
            None => self.bytes_max,
        };
        if bytes > most {
            let ex = format!(
                "the answer would hold {bytes} bytes of rows; the limit is {most} (ask for fewer keys or bags a call)"
            );
            return Err(Unfit::Call(Status::new(Code::TooLarge, ex)));
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
        if let Some(offsets) = &part.offsets
            && (offsets.len() != keys + 1 || part.dim != 0 || part.row_type != RowType::U8)
        {
            let expected = format!("{} of rows of bytes, whose dim is 0", keys + 1);
            let found = format!("{} of a dim of {}", offsets.len(), part.dim);
            return bad("offsets", found, expected);
        }
        if part.offsets.is_none() && Some(part.values.len()) != keys.checked_mul(row_bytes) {
            let expected = format!("{keys} rows of {} numbers", part.dim);
            return bad("values", format!("{} bytes", part.values.len()), expected);
        }
        match self.shape {
            // Another version may have other columns: the caller decides which one it takes.
            Some(first) if first.version == part.version && first != Shape::of(part) => {
                let expected = format!(
                    "{}, as other nodes answer version {}",
                    first.describe(),
                    first.version
                );
                bad("dim", Shape::of(part).describe(), expected)
            }
            _ => Ok(()),
        }
    }

    /// Copies the rows of a part that [`Merge::check`] has passed to their places. Those that were there are replaced.
    ///
    /// # Errors
    /// The part is of another version than those before it, and [`Merge::reset`] was not called.
    pub fn place(&mut self, part: &Part<'_>, positions: &[u32]) -> Read<()> {
        let shape = Shape::of(part);
        self.begin(shape)?;
        let row_bytes = shape.dim.saturating_mul(self.row_type.bytes());
        for (index, position) in positions.iter().enumerate() {
            let bit = part
                .found
                .get(index / 8)
                .is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            self.set(*position as usize, bit);
        }
        if let Some(offsets) = &part.offsets {
            for (ends, position) in offsets.array_windows::<2>().zip(positions) {
                let row = part.values.get(ends[0] as usize..ends[1] as usize);
                self.varying.set(*position as usize, row.unwrap_or_default());
            }
            return Ok(());
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
        self.varying = Varying::default();
    }

    /// Keys that have no answer: they count as not found, and their rows are zeros, or no bytes where they vary in length.
    pub fn miss(&mut self, positions: &[u32]) {
        let row_bytes = self.dim().saturating_mul(self.row_type.bytes());
        for position in positions {
            self.set(*position as usize, false);
            if let Some(place) = self.row(*position, row_bytes) {
                place.fill(0);
            }
            self.varying.set(*position as usize, &[]);
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

    /// The bytes of all rows, in the order of the keys; none where they vary in length.
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// What the rows take in the answer so far, with the offsets of those that vary in length.
    pub fn rows_bytes(&self) -> usize {
        match self.is_varying() {
            true => self.varying.bytes_without(&[]) + (self.keys + 1) * size_of::<u32>(),
            false => self.values.len(),
        }
    }

    /// The bytes of all rows, in the order of the keys, and of rows that vary in length where each one begins and the last ends.
    pub fn into_values(self) -> (Vec<u8>, Option<Vec<u32>>) {
        match self.is_varying() {
            true => {
                let (values, offsets) = self.varying.joined();
                (values, Some(offsets))
            }
            false => (self.values, None),
        }
    }

    /// The bytes of a key's row so far.
    pub fn row_at(&self, position: usize) -> &[u8] {
        if self.is_varying() {
            return self.varying.get(position);
        }
        let row_bytes = self.dim().saturating_mul(self.row_type.bytes());
        let start = position.saturating_mul(row_bytes);
        let row = self.values.get(start..start.saturating_add(row_bytes));
        row.unwrap_or_default()
    }

    fn is_varying(&self) -> bool {
        self.shape.is_some_and(|shape| shape.is_varying)
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
        if self.is_varying() {
            let (rows, ends) = self.varying.joined();
            return header.write_varying(rows.len(), out, |found, offsets, values| {
                found.copy_from_slice(&self.found);
                values.copy_from_slice(&rows);
                for (place, end) in offsets.as_chunks_mut().0.iter_mut().zip(&ends) {
                    *place = end.to_le_bytes();
                }
            });
        }
        header.write(out, |found, values| {
            found.copy_from_slice(&self.found);
            // Without a part there are no numbers.
            if values.len() == self.values.len() {
                values.copy_from_slice(&self.values);
            }
        });
    }

    /// The answer as a client reads it.
    pub fn into_rows(mut self, missing: Vec<Missing<'static>>) -> Rows<'static> {
        let (version, dim, row_type) = (self.version().unwrap_or(0), self.dim(), self.row_type);
        let found = Cow::Owned(std::mem::take(&mut self.found));
        let (values, offsets) = self.into_values();
        Rows {
            version,
            dim,
            row_type,
            found,
            values: row_type.numbers(&values).unwrap_or(Data::U8(Vec::new())),
            offsets,
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
                let found = format!("version {} with {} a row", shape.version, shape.describe());
                let expected = format!(
                    "version {} with {}, as other nodes answer",
                    first.version,
                    first.describe()
                );
                Err(PayloadError::invalid(found, expected).under("version"))
            }
            None => {
                let row_bytes = shape.dim.saturating_mul(self.row_type.bytes());
                self.values = vec![0; self.keys.saturating_mul(row_bytes).min(self.bytes_max)];
                if shape.is_varying {
                    self.varying = Varying::of(self.keys);
                }
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
