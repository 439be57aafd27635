//! No map makes a reader panic, and what is read of one is read again.

use super::*;
use proptest::prelude::*;

const KEYS: &[&str] = &[
    "table",
    "keys",
    "at_version",
    "pool",
    "offsets",
    "texts",
    "columns",
    "type",
    "unique",
    "inverse",
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
    let text = proptest::sample::select(
        &[
            "",
            "mean",
            "sum",
            "f32",
            "f16",
            "bool",
            "bytes",
            "AQAAAAAAAAA=",
            "é",
        ][..],
    );
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
    fn any_data_of_a_tensor_is_read_or_refused(
        element_type in proptest::sample::select(infer::ElementType::ALL),
        shape in proptest::collection::vec(0..4_u64, 0..3),
        data in value(),
        base64 in any::<bool>(),
    ) {
        let tensor = map([
            ("shape".to_owned(), Value::Array(shape.into_iter().map(Value::UInt).collect())),
            ("type".to_owned(), Value::Text(element_type.as_str().into())),
            ("data".to_owned(), data),
        ]);
        let root = map([
            ("inputs".to_owned(), map([("x".to_owned(), tensor)])),
            ("base64".to_owned(), Value::Bool(base64)),
        ]);
        let infer = METHODS.iter().find(|method| method.name == Infer::NAME).unwrap();
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, encoding, false).value(&root);
            let payload = Payload::new(encoding, &bytes).unwrap();
            prop_assert_eq!((infer.call.again)(&payload), Ok(()));
        }
    }

    #[test]
    fn any_map_decodes_or_fails_without_panic(entries in proptest::collection::btree_map(key(), value(), 0..10)) {
        let root = map(entries);
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, encoding, false).value(&root);
            let payload = Payload::new(encoding, &bytes).unwrap();
            for method in METHODS {
                for side in [method.call, method.answer] {
                    prop_assert_eq!((side.again)(&payload), Ok(()));
                }
            }
        }
    }
}
