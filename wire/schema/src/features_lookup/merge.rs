//! The whole answer of a call whose keys went to several nodes: each part's rows are copied once, to where their keys stand.
//!
//! It asks nobody and knows no node. Its invariants: a part that does not fit is refused whole, and its node is to blame; the answer
//! is allocated once, after its size was checked; what it holds is all of one version.

use super::{Header, Missing, Part, RowType, Rows};
use crate::infer::Data;
use crate::payload::{Encoder, PayloadError, Read};
use std::borrow::Cow;

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

    /// Holds a part against what its node was asked for: so many keys, of this version or of any.
    ///
    /// # Errors
    /// What does not fit. Nothing is to be placed then.
    pub fn check(&self, part: &Part<'_>, keys: usize, at_version: Option<u64>) -> Read<()> {
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
        if Some(part.values.len()) != keys.checked_mul(row_bytes) {
            let expected = format!("{keys} rows of {} numbers", part.dim);
            return bad("values", format!("{} bytes", part.values.len()), expected);
        }
        let bytes = self.keys.saturating_mul(row_bytes);
        if bytes > self.bytes_max {
            let (most, keys) = (self.bytes_max, self.keys);
            let expected = format!("at most {most} bytes for all {keys} keys (ask for fewer keys a call)");
            return bad("values", format!("{bytes} bytes"), expected);
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
