//! `*ping`: {} → {ts: milliseconds since the Unix epoch}.
//! It is answered before everything else; its invariant: it touches no engine.

use crate::frame::{Encoder, FieldError, Fields, Map};

/// Writes the answer; `ts_ms` is the server's clock.
pub fn encode_answer(out: &mut Encoder<'_>, ts_ms: u64) {
    out.map(1);
    out.key("ts");
    out.uint(ts_ms);
    out.end_map();
}

/// Reads the answer: the server's clock in milliseconds.
///
/// # Errors
/// [`FieldError`] naming the key.
pub fn decode_answer(map: Map<'_>) -> Result<u64, FieldError> {
    let (mut fields, _) = Fields::root(map)?;
    fields
        .optional_uint("ts", u64::MAX)?
        .ok_or_else(|| FieldError::Missing {
            key: "ts".to_owned(),
            expected: "milliseconds since the Unix epoch".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn the_answer_round_trips() {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            encode_answer(&mut Encoder::new(&mut bytes, encoding, false), 1_700_000_000_123);
            assert_eq!(
                decode_answer(decode_map(encoding, &bytes).unwrap()),
                Ok(1_700_000_000_123)
            );
        }
        let error = decode_answer(Map::default()).unwrap_err().to_string();
        assert!(error.contains("\"ts\" is missing"), "{error}");
    }
}
