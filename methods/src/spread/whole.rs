//! One table's part of an answer, with its rows in memory.
//! Its invariant: it is written as a server writes it that has all the keys.

use crate::features_lookup::TableAnswer;
use millpond_wire_payload::Encoder;
use millpond_wire_schema::Status;
use millpond_wire_schema::features_lookup::{self as schema, Header, Missing, RowType};

/// The merged rows of one lookup, ready to be written as an answer.
pub(crate) struct Whole {
    pub(super) version: u64,
    pub(super) active: Option<u64>,
    pub(super) dim: usize,
    pub(super) row_type: RowType,
    /// Bits of the bitmap.
    pub(super) keys: usize,
    pub(super) rows: usize,
    pub(super) inverse: Option<Vec<u32>>,
    pub(super) found: Vec<u8>,
    pub(super) values: Vec<u8>,
    /// Of rows that vary in length: where each one begins, and the last ends.
    pub(super) offsets: Option<Vec<u32>>,
    pub(super) missing: Vec<Missing<'static>>,
}

impl Whole {
    /// What this server's own table answers.
    pub(super) fn here(mut part: TableAnswer<'_>) -> Result<Whole, Status> {
        let (found, values, offsets) = part.take_rows()?;
        Ok(Whole {
            version: part.version(),
            active: part.active,
            dim: part.dim(),
            row_type: part.row_type,
            keys: part.keys.len(),
            rows: part.rows,
            inverse: part.inverse.take(),
            found,
            values,
            offsets,
            missing: Vec::new(),
        })
    }

    /// It, where it is needed no more.
    pub(super) fn take(&mut self) -> Whole {
        Whole {
            inverse: self.inverse.take(),
            found: std::mem::take(&mut self.found),
            values: std::mem::take(&mut self.values),
            offsets: self.offsets.take(),
            missing: std::mem::take(&mut self.missing),
            ..*self
        }
    }

    /// The same as the part of a node.
    pub(super) fn into_part(self) -> schema::Part<'static> {
        schema::Part {
            version: self.version,
            active: self.active.unwrap_or(self.version),
            dim: self.dim,
            row_type: self.row_type,
            found: self.found.into(),
            values: self.values.into(),
            offsets: self.offsets,
        }
    }

    pub(super) fn write(&self, out: &mut Encoder<'_>) {
        let header = Header {
            version: self.version,
            dim: self.dim,
            row_type: self.row_type,
            keys: self.keys,
            rows: self.rows,
            inverse: self.inverse.as_deref(),
            overlay_sequence: None,
            active: self.active,
            missing: &self.missing,
        };
        if let Some(ends) = &self.offsets {
            return header.write_varying(self.values.len(), out, |found, offsets, values| {
                if found.len() == self.found.len() {
                    found.copy_from_slice(&self.found);
                }
                values.copy_from_slice(&self.values);
                for (place, end) in offsets.as_chunks_mut().0.iter_mut().zip(ends) {
                    *place = end.to_le_bytes();
                }
            });
        }
        header.write(out, |found, values| {
            if found.len() == self.found.len() && values.len() == self.values.len() {
                found.copy_from_slice(&self.found);
                values.copy_from_slice(&self.values);
            }
        });
    }
}
