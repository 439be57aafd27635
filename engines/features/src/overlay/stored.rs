//! Rows one behind the other, as upserts and their log have them: all of one length, or each behind its own.
//!
//! Knows no keys. Invariant: what [`push`] wrote is what [`StoredRows`] gives, and no bytes make it read beyond them.

use crate::schema::{ROW_BYTES_MAX, Schema};

/// In place of the bytes of a row, where rows vary in length.
pub(crate) const VARYING: usize = 0;
/// Of a row that varies in length: its bytes, in 32 bits, little-endian.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Bytes of each row of a table, or [`VARYING`].
pub(crate) fn row_bytes_of(schema: &Schema) -> usize {
    match schema.is_varying() {
        true => VARYING,
        false => schema.row_bytes(),
    }
}

/// Appends a row.
pub(crate) fn push(row_bytes: usize, row: &[u8], out: &mut Vec<u8>) {
    if row_bytes == VARYING {
        out.extend_from_slice(&(row.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(row);
}

/// How many rows some bytes are; nothing where they are no rows, or one is longer than any may be.
pub(crate) fn count(row_bytes: usize, bytes: &[u8]) -> Option<u64> {
    if row_bytes != VARYING {
        return bytes
            .len()
            .is_multiple_of(row_bytes)
            .then_some((bytes.len() / row_bytes) as u64);
    }
    let mut rows = StoredRows::new(row_bytes, bytes);
    let mut count = 0;
    while !rows.bytes.is_empty() {
        rows.next()?;
        count += 1;
    }
    Some(count)
}

/// Each of a table's rows as it lies in such bytes, with its length where rows vary in it, so that some of them can be put together
/// again; nothing where they are no whole rows.
pub fn stored_rows<'a>(schema: &Schema, bytes: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let row_bytes = row_bytes_of(schema);
    let rows = count(row_bytes, bytes)?;
    let mut left = StoredRows::new(row_bytes, bytes);
    let rows = (0..rows).map(|_| {
        let from = left.bytes;
        left.next()?;
        from.get(..from.len() - left.bytes.len())
    });
    rows.collect()
}

/// The rows, in their order.
#[derive(Clone)]
pub(crate) struct StoredRows<'a> {
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> StoredRows<'a> {
    pub(crate) fn new(row_bytes: usize, bytes: &'a [u8]) -> StoredRows<'a> {
        StoredRows { row_bytes, bytes }
    }
}

impl<'a> Iterator for StoredRows<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = match self.row_bytes {
            VARYING => {
                let (length, rest) = self.bytes.split_first_chunk::<LENGTH_BYTES>()?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
            length => (length, self.bytes),
        };
        let (row, rest) = rest
            .split_at_checked(length)
            .filter(|_| length <= ROW_BYTES_MAX)?;
        self.bytes = rest;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Numbers};
    use proptest::prelude::*;

    fn varying() -> Schema {
        let column = Column {
            name: "doc".to_owned(),
            numbers: Numbers::VaryingBytes,
            dim: 0,
        };
        Schema {
            columns: vec![column],
            ..Schema::floats(1)
        }
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20)) {
            let mut bytes = Vec::new();
            rows.iter().for_each(|row| push(VARYING, row, &mut bytes));
            prop_assert_eq!(count(VARYING, &bytes), Some(rows.len() as u64));
            let schema = varying();
            let lying = stored_rows(&schema, &bytes).unwrap_or_default();
            prop_assert!(lying.iter().map(|row| row.len() - LENGTH_BYTES).eq(rows.iter().map(Vec::len)));
            prop_assert_eq!(lying.concat(), bytes.as_slice());
            prop_assert!(StoredRows::new(VARYING, &bytes).eq(rows.iter().map(Vec::as_slice)));
            if bytes.pop().is_some() {
                prop_assert_eq!(count(VARYING, &bytes), None);
                prop_assert_eq!(StoredRows::new(VARYING, &bytes).count(), rows.len() - 1);
                prop_assert_eq!(stored_rows(&schema, &bytes), None);
            }
            let all = rows.concat();
            let of_three = StoredRows::new(3, &all);
            prop_assert!(of_three.eq(all.chunks_exact(3)));
        }
    }

    #[test]
    fn no_row_is_longer_than_any_may_be() {
        let mut bytes = Vec::new();
        push(VARYING, &vec![7; ROW_BYTES_MAX], &mut bytes);
        assert_eq!(count(VARYING, &bytes), Some(1));
        push(VARYING, &vec![7; ROW_BYTES_MAX + 1], &mut bytes);
        assert_eq!(count(VARYING, &bytes), None);
    }
}
