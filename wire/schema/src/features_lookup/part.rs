//! One node's part of an answer: its bitmap and the bytes of its numbers, as they came.
//!
//! It is read for being merged ([`super::Merge`]): its numbers are not looked at. Its invariant: it borrows the answer.

use super::RowType;
use super::rows::check_offsets;
use crate::declare::{Slot, fill, other, take};
use crate::field::{Block, Bytes, Optional, OrDefault, UInt, Within};
use crate::payload::{Payload, Read};
use std::borrow::Cow;

/// The answer of a node that was asked for some keys of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    /// The version that answered.
    pub version: u64,
    /// The version that the node serves.
    pub active: u64,
    /// Numbers a row; 0 where rows vary in length.
    pub dim: usize,
    /// As what they come.
    pub row_type: RowType,
    /// Bit i of byte i / 8 (lowest first) is set where key i was found.
    pub found: Cow<'a, [u8]>,
    /// The bytes of the numbers, little-endian.
    pub values: Cow<'a, [u8]>,
    /// Of rows that vary in length: row i is `values[offsets[i]..offsets[i + 1]]`.
    pub offsets: Option<Vec<u32>>,
}

impl<'a> Part<'a> {
    /// Reads an answer for one table. Numbers come as one block, as servers send them by msgpack.
    ///
    /// # Errors
    /// The key that is missing or holds something else.
    pub fn decode(payload: &'a Payload<'_>) -> Read<Part<'a>> {
        payload.read(|reader| {
            let (mut version, mut active, mut dim) = (Slot::Unseen, Slot::Unseen, Slot::Unseen);
            let (mut row_type, mut found, mut values) = (Slot::Unseen, Slot::Unseen, Slot::Unseen);
            let mut offsets = Slot::Unseen;
            reader.map("a map", |reader, key| match key {
                b"version" => fill::<UInt>(&mut version, reader, "version"),
                b"active" => fill::<Optional<UInt>>(&mut active, reader, "active"),
                b"dim" => fill::<Within<0, 0xffff_ffff>>(&mut dim, reader, "dim"),
                b"type" => fill::<OrDefault<RowType>>(&mut row_type, reader, "type"),
                b"found" => fill::<Bytes>(&mut found, reader, "found"),
                b"values" => fill::<Bytes>(&mut values, reader, "values"),
                b"offsets" => fill::<Optional<Block<u32>>>(&mut offsets, reader, "offsets"),
                _ => other(reader, key, &mut None),
            })?;
            let version = take::<UInt>(version, "version")?;
            let values = take::<Bytes>(values, "values")?;
            let offsets = take::<Optional<Block<u32>>>(offsets, "offsets")?;
            if let Some(offsets) = &offsets {
                check_offsets(offsets, values.len())?;
            }
            Ok(Part {
                version,
                active: take::<Optional<UInt>>(active, "active")?.unwrap_or(version),
                dim: take::<Within<0, 0xffff_ffff>>(dim, "dim")?,
                row_type: take::<OrDefault<RowType>>(row_type, "type")?,
                found: take::<Bytes>(found, "found")?,
                values,
                offsets,
            })
        })
    }
}
