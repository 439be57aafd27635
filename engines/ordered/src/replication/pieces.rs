//! The beginning of a record that is larger than one shipment, until the rest of it has come.
//!
//! It checks no record: that is done once it is whole. Invariants: pieces are of one record of one leader's epoch, each behind the one before,
//! and never more bytes than a record has at most.

use millpond_wal::FRAME_BYTES;

use super::{FollowError, Shipment};
use crate::record::FORMAT;

/// What has come of a record.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Of its shipments: the history, the epoch, and its sequence.
    of: Option<([u8; 16], u64, u64)>,
    bytes: Vec<u8>,
}

impl Pieces {
    /// Bytes that have come of the record of this sequence.
    pub fn bytes_of(&self, sequence: u64) -> u64 {
        match self.of {
            Some((.., first)) if first == sequence => self.bytes.len() as u64,
            _ => 0,
        }
    }

    /// Gives up what has come.
    pub fn clear(&mut self) {
        *self = Pieces::default();
    }

    /// Takes a shipment: one of whole records comes back, and with its last piece a record. A piece that does not go on with what has come is
    /// dropped with that: the record is asked for from its beginning.
    ///
    /// # Errors
    /// The record is larger than any.
    pub fn take(&mut self, shipment: Shipment) -> Result<Option<Shipment>, FollowError> {
        let Shipment { skipped, rest, .. } = shipment;
        if skipped == 0 && rest == 0 {
            self.clear();
            return Ok(Some(shipment));
        }
        let of = Some((shipment.history, shipment.epoch, shipment.first));
        if skipped == 0 {
            self.clear();
            self.of = of;
        }
        if self.of != of || self.bytes.len() as u64 != skipped {
            self.clear();
            return Ok(None);
        }
        let max = (FORMAT.body_bytes_max + FRAME_BYTES) as u64;
        let bytes = skipped.saturating_add(shipment.bytes.len() as u64);
        let bytes = bytes.saturating_add(rest);
        if bytes > max {
            self.clear();
            let sequence = shipment.first;
            let why = format!("record {sequence} has {bytes} bytes, and {max} are the most");
            return Err(FollowError::Broken(why));
        }
        self.bytes.extend_from_slice(&shipment.bytes);
        if rest > 0 {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.clear();
        Ok(Some(Shipment {
            bytes,
            skipped: 0,
            ..shipment
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn piece(first: u64, skipped: u64, bytes: &[u8], rest: u64) -> Shipment {
        Shipment {
            history: [7; 16],
            epoch: 1,
            first,
            last: 9,
            bytes: bytes.to_vec(),
            skipped,
            rest,
            now_ms: 0,
        }
    }

    #[test]
    fn a_record_is_whole_with_its_last_piece() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(piece(3, 0, b"ab", 3)).unwrap(), None);
        assert_eq!((pieces.bytes_of(3), pieces.bytes_of(4)), (2, 0));
        assert_eq!(pieces.take(piece(3, 2, b"cd", 1)).unwrap(), None);
        let whole = pieces.take(piece(3, 4, b"e", 0)).unwrap().unwrap();
        assert_eq!(whole, piece(3, 0, b"abcde", 0));
        assert_eq!(pieces.bytes_of(3), 0);
    }

    #[test]
    fn what_does_not_go_on_begins_anew() {
        let check = |next: Shipment| {
            let mut pieces = Pieces::default();
            pieces.take(piece(3, 0, b"ab", 3)).unwrap();
            assert_eq!(pieces.take(next).unwrap(), None);
            assert_eq!(pieces.bytes_of(3), 0);
        };
        check(piece(3, 1, b"b", 3));
        check(piece(4, 2, b"c", 3));
        check(Shipment {
            epoch: 2,
            ..piece(3, 2, b"c", 2)
        });
        check(Shipment {
            history: [8; 16],
            ..piece(3, 2, b"cde", 0)
        });
        let mut pieces = Pieces::default();
        pieces.take(piece(3, 0, b"ab", 3)).unwrap();
        assert_eq!(pieces.take(piece(3, 0, b"x", 4)).unwrap(), None);
        assert_eq!(pieces.bytes_of(3), 1, "it was sent from its beginning");
        let whole = piece(3, 0, b"whole", 0);
        assert_eq!(pieces.take(whole.clone()).unwrap(), Some(whole));
        assert_eq!(pieces.bytes_of(3), 0);
    }

    #[test]
    fn no_more_is_taken_than_a_record_has() {
        let mut pieces = Pieces::default();
        let refused = pieces.take(piece(3, 0, b"ab", u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("are the most"), "{refused}");
        assert_eq!(pieces.bytes_of(3), 0);
    }
}
