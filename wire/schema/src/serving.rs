//! `*status`: {} → {status: true while calls are taken}.
//! It is FPNN's; its invariant: the answer is one boolean.

use crate::frame::{Encoder, FieldError, Fields, Map};

/// Writes the answer: whether the server is ready and not draining.
pub fn encode_answer(out: &mut Encoder<'_>, serving: bool) {
    out.map(1);
    out.key("status");
    out.bool(serving);
    out.end_map();
}

/// Reads the answer.
///
/// # Errors
/// [`FieldError`] naming the key.
pub fn decode_answer(map: Map<'_>) -> Result<bool, FieldError> {
    let (mut fields, _) = Fields::root(map)?;
    fields
        .optional_bool("status")?
        .ok_or_else(|| FieldError::Missing {
            key: "status".to_owned(),
            expected: "true or false".to_owned(),
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
            for serving in [true, false] {
                let mut bytes = Vec::new();
                encode_answer(&mut Encoder::new(&mut bytes, encoding, false), serving);
                assert_eq!(decode_answer(decode_map(encoding, &bytes).unwrap()), Ok(serving));
            }
        }
        let error = decode_answer(Map::default()).unwrap_err().to_string();
        assert!(error.contains("\"status\" is missing"), "{error}");
    }
}
