//! What is written: punctuation, blocks, lengths, and that it reads back.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::{Map, decode_map};
use proptest::prelude::*;
use std::borrow::Cow;

fn encoded(encoding: Encoding, base64: bool, write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out, encoding, base64));
    out
}

#[test]
fn json_is_punctuated() {
    let json = encoded(Encoding::Json, false, |e| {
        e.map(|e| {
            e.key("scores");
            e.block(&[0.5, -1.0, f32::NAN]);
            e.key("ok");
            e.bool(true);
            e.key("empty");
            e.map(|_| ());
            e.key("text");
            e.text("a\"\\\n\u{1}é");
            e.key("keys");
            e.block(&[u64::MAX]);
        });
    });
    let expected = "{\"scores\":[0.5,-1.0,null],\"ok\":true,\"empty\":{},\"text\":\"a\\\"\\\\\\n\\u0001é\",\"keys\":[18446744073709551615]}";
    assert_eq!(String::from_utf8(json).unwrap(), expected);
}

#[test]
fn blocks_are_bin_or_base64() {
    assert_eq!(
        encoded(Encoding::Msgpack, false, |e| e.block(&[1.0_f32])),
        [0xc4, 4, 0, 0, 0x80, 0x3f]
    );
    assert_eq!(
        encoded(Encoding::Json, true, |e| e.bytes(b"hello")),
        b"\"aGVsbG8=\""
    );
    let long = encoded(Encoding::Msgpack, false, |e| e.block(&[0_u64; 40]));
    assert_eq!(long[..3], [0xc5, 1, 64]);
    assert_eq!(long.len(), 3 + 320);
    let strings = |encoding, base64| {
        encoded(encoding, base64, |e| {
            e.items([&b"hello"[..], b"", b"\xff"].iter(), |e, string| e.string(string));
        })
    };
    assert_eq!(
        strings(Encoding::Msgpack, false),
        b"\x93\xc4\x05hello\xc4\0\xc4\x01\xff"
    );
    assert_eq!(strings(Encoding::Json, false), br#"["hello","",[255]]"#);
    assert_eq!(strings(Encoding::Json, true), br#"["aGVsbG8=","","/w=="]"#);
}

#[test]
fn what_lies_before_the_first_value_separates_nothing() {
    for before in 0..=u8::MAX {
        let mut out = vec![before];
        let mut encoder = Encoder::new(&mut out, Encoding::Json, false);
        encoder.array(|encoder| {
            encoder.uint(1);
            encoder.raw(b"{}");
        });
        assert_eq!(out[1..], *b"[1,{}]", "behind {before:#04x}");
    }
}

#[test]
fn blocks_of_zeros_are_filled_where_they_lie() {
    let mut out = b"before".to_vec();
    let mut encoder = Encoder::new(&mut out, Encoding::Msgpack, false);
    assert!(encoder.is_binary());
    let (first, none, second) = (encoder.zeros(2), encoder.zeros(0), encoder.zeros(300));
    let [second, first, none] = encoder.places([second, first, none]).unwrap();
    (first[1], second[299]) = (1, 2);
    assert!(none.is_empty());
    let mut expected = encoded(Encoding::Msgpack, false, |e| {
        e.bytes(&[0, 1]);
        e.bytes(&[]);
        e.bytes(&[0; 300]);
    });
    *expected.last_mut().unwrap() = 2;
    assert_eq!(out[6..], expected);
}

/// However many there are, a map and an array are as long as the counted ones say, and what is inside counts once.
#[test]
fn lengths_are_as_many_as_were_written() {
    for len in [0, 1, 15, 16, 17, 300, 65_535, 65_536] {
        let names: Vec<String> = (0..len).map(|at| at.to_string()).collect();
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let written = encoded(encoding, false, |e| {
                e.map(|e| {
                    e.key("map");
                    e.map(|e| {
                        names.iter().for_each(|name| {
                            e.key(name);
                            e.items([1, 2].iter(), |e, at| e.uint(*at));
                        });
                    });
                    e.key("array");
                    e.array(|e| names.iter().for_each(|_| e.map(|_| ())));
                });
            });
            let pair = || Value::Array(vec![Value::UInt(1), Value::UInt(2)]);
            let map = names.iter().map(|name| (name.as_str().into(), pair())).collect();
            let array = vec![Value::Map(Map::default()); len];
            let expected = Map(vec![
                ("map".into(), Value::Map(Map(map))),
                ("array".into(), Value::Array(array)),
            ]);
            let counted = encoded(encoding, false, |e| e.value(&Value::Map(expected.clone())));
            assert!(written == counted, "{len} in {encoding:?}");
            assert!(decode_map(encoding, &written).unwrap() == expected, "{len}");
        }
    }
}

fn values() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::UInt),
        (i64::MIN..0).prop_map(Value::Int),
        (-1e300..1e300).prop_map(Value::Float),
        "\\PC{0,300}".prop_map(|text| Value::Text(Cow::Owned(text))),
    ];
    leaf.prop_recursive(3, 40, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            proptest::collection::btree_map("[a-z\"\\\\]{0,40}", inner, 0..20)
                .prop_map(|map| Value::Map(Map(map.into_iter().map(|(k, v)| (Cow::Owned(k), v)).collect()))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(value in values()) {
        let root = Value::Map(Map(vec![(Cow::Borrowed("v"), value)]));
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let bytes = encoded(encoding, false, |e| e.value(&root));
            let back = Value::Map(decode_map(encoding, &bytes).unwrap());
            prop_assert_eq!(&back, &root);
        }
    }
}
