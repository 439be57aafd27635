//! `*tune`: {key, value, force?} → {return: true, key, value: what it is now}.
//! Key and value are text, as FPNN has them; its invariant: the answer's value is one that a call may send again.

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved};
use std::borrow::Cow;

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// What to change.
    pub key: Cow<'a, str>,
    /// To what.
    pub value: Cow<'a, str>,
    /// Also where the caller could call no more after it.
    pub force: bool,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let call = Call {
            key: fields.text("key")?,
            value: fields.text("value")?,
            force: fields.optional_bool("force")?.unwrap_or(false),
        };
        fields.finish()?;
        Ok((call, reserved))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(2 + usize::from(self.force));
        out.key("key");
        out.text(&self.key);
        out.key("value");
        out.text(&self.value);
        if self.force {
            out.key("force");
            out.bool(true);
        }
        out.end_map();
    }
}

/// Writes the answer.
pub fn encode_answer(out: &mut Encoder<'_>, key: &str, value: &str) {
    out.map(3);
    out.key("return");
    out.bool(true);
    out.key("key");
    out.text(key);
    out.key("value");
    out.text(value);
    out.end_map();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::frame::{Encoding, decode_map};

    #[test]
    fn calls_round_trip() {
        for (encoding, force) in [(Encoding::Msgpack, false), (Encoding::Json, true)] {
            let call = Call {
                key: "server.stat".into(),
                value: "false".into(),
                force,
            };
            let mut bytes = Vec::new();
            call.encode(&mut Encoder::new(&mut bytes, encoding, false));
            assert_eq!(
                Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                call
            );
        }
        let error = Call::decode(decode_map(Encoding::Json, br#"{"key": "a", "value": 1}"#).unwrap());
        assert!(error.unwrap_err().to_string().contains("\"value\" is an integer"));
    }
}
