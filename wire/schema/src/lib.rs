//! What the methods' payloads hold: one file a method with both directions, and one table of errors.
//!
//! It is not a server: no handler, no socket, no engine. Its invariant: whatever `encode` writes, `decode` of the same
//! file reads back, in msgpack and in JSON.
//!
//! ```
//! use millpond_wire_schema::{features_lookup, frame::{Encoding, decode_map}};
//!
//! let payload = br#"{"table": "films", "keys": [1, 2, 3]}"#;
//! let (call, _) = features_lookup::Call::decode(decode_map(Encoding::Json, payload).unwrap()).unwrap();
//! assert_eq!(call.lookups[0].keys, [1, 2, 3]);
//! ```

pub mod features_lookup;
pub mod infer;
pub mod infos;
pub mod ordered_get;
pub mod ordered_put;
pub mod ordered_scan;
pub mod ping;
pub mod rank;
pub mod serving;
pub mod status;
pub mod tune;

pub use millpond_wire_frame as frame;
pub use status::{Code, Status};

#[cfg(test)]
mod tests {
    //! No map makes a decoder panic: keys that the methods know, with values of every kind.
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use frame::{Encoder, Encoding, Map, Value, decode_map};
    use proptest::prelude::*;

    const KEYS: &[&str] = &[
        "table",
        "keys",
        "at_version",
        "pool",
        "offsets",
        "lookups",
        "found",
        "values",
        "dim",
        "version",
        "versions",
        "entries",
        "if_version",
        "if_absent",
        "durability",
        "start",
        "end",
        "prefix",
        "limit",
        "cursor",
        "model",
        "samples",
        "inputs",
        "outputs",
        "shape",
        "type",
        "data",
        "scores",
        "pipeline",
        "user",
        "items",
        "top",
        "ts",
        "base64",
        "_deadline_ms",
        "_priority",
        "_token",
        "status",
        "key",
        "value",
        "code",
        "ex",
        "other",
    ];

    fn key() -> impl Strategy<Value = String> {
        proptest::sample::select(KEYS).prop_map(str::to_owned)
    }

    fn value() -> impl Strategy<Value = Value<'static>> {
        let text = proptest::sample::select(&["", "mean", "sum", "f32", "bool", "AQAAAAAAAAA=", "é"][..]);
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::Bool),
            prop_oneof![0..5_u64, any::<u64>()].prop_map(Value::UInt),
            (i64::MIN..0).prop_map(Value::Int),
            (-1e9..1e9_f64).prop_map(|value| Value::Float(value + 0.5)),
            text.prop_map(|text| Value::Text(text.into())),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(bytes.into())),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                proptest::collection::btree_map(key(), inner, 0..6).prop_map(map),
            ]
        })
    }

    fn map(entries: impl IntoIterator<Item = (String, Value<'static>)>) -> Value<'static> {
        Value::Map(Map(entries
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect()))
    }

    proptest! {
        #[test]
        fn any_map_decodes_or_fails_without_panic(entries in proptest::collection::btree_map(key(), value(), 0..10)) {
            let root = map(entries);
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let mut bytes = Vec::new();
                Encoder::new(&mut bytes, encoding, false).value(&root);
                let decoded = || decode_map(encoding, &bytes).unwrap();
                let _ = features_lookup::Call::decode(decoded());
                let _ = features_lookup::decode_answer(decoded());
                let _ = infer::Call::decode(decoded());
                let _ = infer::Answer::decode(decoded());
                let _ = infer::decode_scores(decoded());
                let _ = ordered_get::Call::decode(decoded());
                let _ = ordered_get::decode_answer(decoded());
                let _ = ordered_put::Call::decode(decoded());
                let _ = ordered_put::Answer::decode(decoded());
                let _ = ordered_scan::Call::decode(decoded());
                let _ = ordered_scan::Answer::decode(decoded());
                let _ = ping::decode_answer(decoded());
                let _ = rank::Call::decode(decoded());
                let _ = rank::Answer::decode(decoded());
                let _ = serving::decode_answer(decoded());
                let _ = tune::Call::decode(decoded());
                Status::decode(&decoded());
            }
        }
    }
}
