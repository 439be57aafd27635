//! Payload bytes to a [`Map`]: msgpack through rmp-serde, JSON through serde_json.
//!
//! It is not a schema. Its invariant: depth, number of values and length are bounded whatever the input says of itself.

use crate::bad_byte::first_bad_byte;
use crate::value::{LEVELS_MAX, Seed, VALUES_MAX};
use crate::{Encoding, Map, PayloadError, Value};
use serde::Deserialize as _;
use serde::de::DeserializeSeed;
use std::cell::Cell;

/// Decodes a payload, which must be exactly one map.
///
/// # Errors
/// [`PayloadError`]: not valid, root not a map, or bytes behind it.
pub fn decode_map(encoding: Encoding, payload: &[u8]) -> Result<Map<'_>, PayloadError> {
    let value = match encoding {
        Encoding::Msgpack => decode_msgpack(payload)?,
        Encoding::Json => decode_json(payload)?,
    };
    match value {
        Value::Map(map) => Ok(map),
        other => Err(PayloadError::RootNotMap { found: other.kind() }),
    }
}

fn decode_msgpack(payload: &[u8]) -> Result<Value<'_>, PayloadError> {
    let budget = Cell::new(VALUES_MAX);
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(payload);
    // Its own count begins elsewhere; the seed's is the one that is told.
    deserializer.set_max_depth(2 * LEVELS_MAX);
    let value = seed(&budget)
        .deserialize(&mut deserializer)
        .map_err(|error| PayloadError::Malformed {
            encoding: "msgpack",
            detail: first_bad_byte(payload).unwrap_or_else(|| error.to_string()),
        })?;
    // rmp-serde does not tell where it stopped: only the end of the input fails to start another value.
    match serde::de::IgnoredAny::deserialize(&mut deserializer) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err(PayloadError::Trailing),
    }
}

fn decode_json(payload: &[u8]) -> Result<Value<'_>, PayloadError> {
    let malformed = |error: serde_json::Error| PayloadError::Malformed {
        encoding: "JSON",
        detail: error.to_string(),
    };
    let budget = Cell::new(VALUES_MAX);
    let mut deserializer = serde_json::Deserializer::from_slice(payload);
    let value = seed(&budget).deserialize(&mut deserializer).map_err(malformed)?;
    deserializer.end().map_err(malformed)?;
    Ok(value)
}

fn seed(budget: &Cell<usize>) -> Seed<'_> {
    Seed {
        budget,
        levels: LEVELS_MAX,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(encoding: Encoding, payload: &[u8], expected: &str) {
        let found = match decode_map(encoding, payload) {
            Ok(map) => format!("{map:?}"),
            Err(error) => error.to_string(),
        };
        assert!(
            found.contains(expected),
            "{found:?} does not contain {expected:?}"
        );
    }

    #[test]
    fn both_encodings_give_the_same_tree() {
        let msgpack = [0x82, 0xa1, b'a', 0x01, 0xa1, b'b', 0x92, 0xff, 0xc3];
        let json = br#"{"a": 1, "b": [-1, true]}"#;
        assert_eq!(
            decode_map(Encoding::Msgpack, &msgpack).unwrap(),
            decode_map(Encoding::Json, json).unwrap()
        );
    }

    #[test]
    fn bad_payloads_are_named() {
        check(
            Encoding::Msgpack,
            &[0x93, 1, 2, 3],
            "root is an array; expected a map",
        );
        check(Encoding::Json, b"[1]", "root is an array");
        check(Encoding::Msgpack, &[0x80, 0x80], "bytes follow");
        check(Encoding::Json, b"{} x", "trailing characters");
        check(Encoding::Json, b"{\"a\":1,\"a\":2}", "\"a\" occurs twice");
        check(Encoding::Json, b"{\"a\":nan}", "not valid JSON");
        check(Encoding::Msgpack, &[0x81, 0x01, 0x01], "not valid msgpack");
    }

    #[test]
    fn msgpack_that_lies_about_its_length_is_refused_without_allocating_it() {
        // array32, bin32, str32 and map32 that announce 4 GiB and hold nothing
        for tag in [0xdd, 0xc6, 0xdb, 0xdf] {
            check(
                Encoding::Msgpack,
                &[0x81, 0xa1, b'a', tag, 0xff, 0xff, 0xff, 0xff],
                "not valid msgpack",
            );
        }
    }

    #[test]
    fn depth_and_count_are_bounded() {
        let mut deep = vec![0x81, 0xa1, b'a'];
        deep.extend(std::iter::repeat_n(0x91, 10_000));
        deep.push(0xc0);
        check(Encoding::Msgpack, &deep, "nested more than 64 deep");
        let text = format!("{{\"a\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        check(Encoding::Json, text.as_bytes(), "nested more than 64 deep");
    }

    fn array(announced: usize, holds: usize) -> Vec<u8> {
        let announced = u32::try_from(announced).unwrap().to_be_bytes();
        [b"\x81\xa1a\xdd", &announced[..], &vec![0xc0; holds]].concat()
    }

    #[test]
    fn no_more_values_are_read_than_a_payload_may_hold() {
        // The map itself and its array are two of them.
        let most = VALUES_MAX - 2;
        check(Encoding::Msgpack, &array(most, most), "Nil, Nil");
        check(
            Encoding::Msgpack,
            &array(most + 1, most + 1),
            "more than 1048576 values",
        );
        // JSON announces nothing: it is counted.
        let json = |numbers: usize| format!("{{\"a\":[0{}]}}", ",0".repeat(numbers - 1));
        check(Encoding::Json, json(most).as_bytes(), "UInt(0), UInt(0)");
        check(
            Encoding::Json,
            json(most + 1).as_bytes(),
            "send blocks of numbers as bin or base64",
        );
    }

    #[test]
    fn too_long_an_array_or_map_is_refused_for_what_it_announces() {
        // None of what they announce is there: whoever reads on finds the end first.
        check(
            Encoding::Msgpack,
            &array(VALUES_MAX - 1, 0),
            "more than 1048576 values",
        );
        check(
            Encoding::Msgpack,
            &array(VALUES_MAX - 2, 0),
            "not valid msgpack: ",
        );
        let map = b"\x81\xa1a\xdf\x00\x0f\xff\xff";
        check(Encoding::Msgpack, map, "more than 1048576 values");
        // What came before is counted too.
        let both = [&b"\x82\xa1b\x92\xc0\xc0"[..], &array(VALUES_MAX - 4, 0)[1..]].concat();
        check(Encoding::Msgpack, &both, "more than 1048576 values");
    }

    #[test]
    fn as_many_levels_are_accepted_in_either_encoding() {
        for (arrays, expected) in [(63, "Array"), (64, "nested more than 64 deep")] {
            let msgpack = [&b"\x81\xa1a"[..], &vec![0x91; arrays], b"\x01"].concat();
            check(Encoding::Msgpack, &msgpack, expected);
            let json = format!("{{\"a\":{}1{}}}", "[".repeat(arrays), "]".repeat(arrays));
            check(Encoding::Json, json.as_bytes(), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = decode_map(Encoding::Msgpack, &bytes);
            let _ = decode_map(Encoding::Json, &bytes);
        }
    }
}
