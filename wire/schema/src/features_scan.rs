//! `features.scan`: the keys of a table, a page at a time, in no order.
//! Its invariant: an answer without a cursor is the end, and a cursor goes on in the version that gave it, or not at all.
//!
//! ```text
//! off size cursor          off size cursor as a number
//!   0    8 version           0    6 position
//!   8    8 position          6    2 version mod 65,536
//! ```
//!
//! The second form is for protocols whose cursors are numbers; all numbers are little-endian.

use crate::declare::schema;
use crate::field::{Block, Bytes, Optional, Text, UInt, Within};

/// Keys one call may ask for.
pub const LIMIT_MAX: usize = 10_000;

schema! {
    /// A call.
    call Call {
        /// The table's name.
        table: Text,
        /// The cursor of the answer before.
        cursor: Optional<Bytes>,
        /// Keys at the most. Fewer may come before the end, or none.
        limit: Within<1, LIMIT_MAX>,
    }
}

schema! {
    /// An answer.
    answer Answer {
        /// The version that answered.
        version: UInt,
        /// Rows of that version.
        rows: UInt,
        /// Some of its keys.
        keys: Block<u64>,
        /// Where the next call goes on; absent at the end.
        cursor: Optional<Bytes>,
    }
}

/// Bits of a position: beside it a number has room for the lowest bits of a version.
const POSITION_BITS: u32 = 48;
const POSITION_MAX: u64 = (1 << POSITION_BITS) - 1;

/// Where a scan goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The version that gave it.
    pub version: u64,
    /// The place in that version: a number of 48 bits.
    pub position: u64,
}

impl Cursor {
    /// As it stands in an answer.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.version.to_le_bytes(), self.position.to_le_bytes()].concat()
    }

    /// The one that these bytes are, if they are one.
    pub fn of_bytes(bytes: &[u8]) -> Option<Cursor> {
        let (version, position) = bytes.split_first_chunk()?;
        let cursor = Cursor {
            version: u64::from_le_bytes(*version),
            position: u64::from_le_bytes(position.try_into().ok()?),
        };
        (cursor.position <= POSITION_MAX).then_some(cursor)
    }

    /// As a number, which has the lowest 16 bits of the version alone.
    pub fn to_number(self) -> u64 {
        self.version << POSITION_BITS | self.position
    }

    /// The one of that version that a number stands for; nothing where its bits are of another version.
    pub fn of_number(number: u64, version: u64) -> Option<Cursor> {
        let position = number & POSITION_MAX;
        let cursor = Cursor { version, position };
        (cursor.to_number() == number).then_some(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_whole_and_a_number_in_versions_with_the_same_bits() {
        for version in [0, 1, 65_535, 65_537, u64::MAX] {
            for position in [0, 1, POSITION_MAX] {
                let cursor = Cursor { version, position };
                assert_eq!(Cursor::of_bytes(&cursor.to_bytes()), Some(cursor));
                let number = cursor.to_number();
                assert_eq!(Cursor::of_number(number, version), Some(cursor));
                assert_eq!(Cursor::of_number(number, version ^ 1), None);
                let alike = version ^ 65_536;
                let found = Cursor::of_number(number, alike);
                assert_eq!(found.map(|found| found.version), Some(alike));
            }
        }
        let beyond = Cursor {
            version: 1,
            position: POSITION_MAX + 1,
        };
        for bytes in [&[][..], &[0; 8], &[0; 15], &[0; 17], &beyond.to_bytes()] {
            assert_eq!(Cursor::of_bytes(bytes), None, "{bytes:?}");
        }
    }
}
