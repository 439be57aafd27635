//! Every method, both ways in both encodings: what round-trips, what is refused and in which words, what the documentation
//! says, and that no map makes a reader panic.
#![allow(clippy::unwrap_used)]

use super::*;
use features_lookup::{Lookup, Lookups, ManyRows, Missing, Pool, RowType, Rows};
use infer::{Data, bf16, f16};
use payload::{Encoder, Encoding, Map, Payload, Value};
use proptest::prelude::*;
use std::borrow::Cow;
use std::fmt::Debug;

/// Writes and reads again, in both encodings; returns the JSON.
fn round_trip<F: Field>(value: &F::Of<'static>) -> String
where
    F::Of<'static>: PartialEq + Debug,
{
    let mut bytes = Vec::new();
    for encoding in [Encoding::Msgpack, Encoding::Json] {
        bytes.clear();
        F::write(value, &mut Encoder::new(&mut bytes, encoding, false));
        let payload = Payload::new(encoding, &bytes).unwrap();
        let (found, _) = F::decode(&payload).unwrap();
        assert_eq!(&F::own(found), value);
    }
    String::from_utf8(bytes).unwrap()
}

/// What reading that JSON says.
fn check<F: Field>(json: &str, expected: &str)
where
    for<'a> F::Of<'a>: Debug,
{
    let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
    let found = match F::decode(&payload) {
        Ok((call, _)) => format!("{call:?}"),
        Err(error) => error.to_string(),
    };
    assert!(
        found.contains(expected),
        "{found:?} does not contain {expected:?}"
    );
}

#[test]
fn lookups_round_trip() {
    let lookup = |pool, offsets: &[u32]| Lookup {
        table: "t".into(),
        keys: Some(vec![1, u64::MAX]),
        texts: None,
        at_version: Some(3),
        pool,
        offsets: offsets.to_vec(),
        columns: vec![],
        row_type: RowType::F32,
        unique: false,
        map: None,
    };
    let call = features_lookup::Call::One(lookup(Pool::Sum, &[0, 2]));
    let json = round_trip::<features_lookup::Call<'_>>(&call);
    let expected =
        r#"{"table":"t","keys":[1,18446744073709551615],"at_version":3,"pool":"sum","offsets":[0,2]}"#;
    assert_eq!(json, expected);
    let lookups = vec![lookup(Pool::None, &[]), lookup(Pool::Mean, &[0, 2])];
    round_trip::<features_lookup::Call<'_>>(&features_lookup::Call::Many(Lookups { lookups }));
    let call = features_lookup::Call::One(Lookup {
        columns: vec!["a".into(), "b".into()],
        row_type: RowType::Bf16,
        unique: true,
        map: Some(12),
        keys: None,
        texts: Some(vec![Cow::Borrowed(b"drama"), Cow::Borrowed(&[0xff])]),
        ..lookup(Pool::None, &[])
    });
    round_trip::<features_lookup::Call<'_>>(&call);
    let rows = |version| Rows {
        version,
        dim: 2,
        row_type: RowType::F32,
        found: Cow::Borrowed(&[3]),
        values: Data::F32(vec![0.5, 1.0, -2.0, 3.5]),
        offsets: None,
        inverse: None,
        active: None,
        missing: Vec::new(),
        overlay_sequence: Some(9),
    };
    let json = round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows(2)));
    assert_eq!(
        json,
        r#"{"version":2,"dim":2,"type":"f32","found":[3],"values":[0.5,1.0,-2.0,3.5],"overlay_sequence":9}"#
    );
    let lookups = vec![rows(2), rows(9)];
    round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::Many(ManyRows { lookups }));
}

fn missing() -> Vec<Missing<'static>> {
    vec![Missing {
        node: "b".into(),
        keys: vec![3, u64::MAX],
        code: 30116,
        ex: "the connection closed".into(),
    }]
}

#[test]
fn rows_that_vary_in_length_come_with_offsets() {
    let inverse = [1, 0, 1];
    let rows = Rows {
        version: 7,
        dim: 0,
        row_type: RowType::U8,
        found: Cow::Borrowed(&[2]),
        values: Data::U8(b"abc".to_vec()),
        offsets: Some(vec![0, 0, 3]),
        inverse: Some(inverse.to_vec()),
        overlay_sequence: None,
        active: None,
        missing: Vec::new(),
    };
    let json = round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows.clone()));
    assert_eq!(
        json,
        r#"{"version":7,"dim":0,"type":"u8","found":[2],"values":[97,98,99],"offsets":[0,0,3],"inverse":[1,0,1]}"#
    );
    let header = features_lookup::Header {
        version: 7,
        dim: 0,
        row_type: RowType::U8,
        keys: 2,
        rows: 2,
        inverse: Some(&inverse),
        overlay_sequence: None,
        active: None,
        missing: &[],
    };
    for encoding in [Encoding::Msgpack, Encoding::Json] {
        let (mut whole, mut filled) = (Vec::new(), Vec::new());
        Rows::write(&rows, &mut Encoder::new(&mut whole, encoding, true));
        header.write_varying(
            3,
            &mut Encoder::new(&mut filled, encoding, true),
            |found, offsets, values| {
                found[0] = 2;
                offsets[8] = 3;
                values.copy_from_slice(b"abc");
            },
        );
        assert_eq!(filled, whole);
    }
    for offsets in [vec![], vec![0, 4], vec![1, 3], vec![0, 3, 2, 3]] {
        let wrong = Rows {
            offsets: Some(offsets.clone()),
            ..rows.clone()
        };
        let mut bytes = Vec::new();
        Rows::write(&wrong, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
        let read = Payload::new(Encoding::Msgpack, &bytes)
            .and_then(|payload| Rows::decode(&payload).map(|(rows, _)| Rows::own(rows)));
        let error = read.unwrap_err().to_string();
        assert!(
            error.contains("ascending offsets from 0 to the number of bytes (3)"),
            "{error}"
        );
    }
}

#[test]
fn upserts_round_trip_and_need_keys() {
    let call = features_upsert::Call {
        table: "t".into(),
        keys: None,
        texts: Some(vec![Cow::Borrowed(b"drama")]),
        columns: vec!["a".into()],
        values: vec![1.5],
        rows: None,
        offsets: None,
        remove: Some(vec![7]),
        remove_texts: None,
        copy: None,
        missed: None,
    };
    let json = round_trip::<features_upsert::Call<'_>>(&call);
    assert_eq!(
        json,
        r#"{"table":"t","texts":[[100,114,97,109,97]],"columns":["a"],"values":[1.5],"remove":[7]}"#
    );
    let of_bytes = features_upsert::Call {
        keys: Some(vec![1, 2]),
        texts: None,
        values: vec![],
        rows: Some(Cow::Borrowed(b"ab\0")),
        offsets: Some(vec![0, 0, 3]),
        ..call
    };
    let json = round_trip::<features_upsert::Call<'_>>(&of_bytes);
    assert_eq!(
        json,
        r#"{"table":"t","keys":[1,2],"columns":["a"],"rows":[97,98,0],"offsets":[0,0,3],"remove":[7]}"#
    );
    for refused in [
        r#"{"table":"t"}"#,
        r#"{"table":"t","keys":[1],"values":[1],"rows":"a"}"#,
        r#"{"table":"t","keys":[1],"offsets":[0,1]}"#,
        r#"{"table":"t","keys":[1],"texts":["a"]}"#,
        r#"{"table":"t","remove":[1],"remove_texts":["a"]}"#,
        r#"{"table":"t","keys":[1],"missed":{"nodes":["b"],"sequence":1,"lease_ms":1}}"#,
        r#"{"table":"t","keys":[1],"copy":{"map":1,"time":1,"origin":1},"missed":{"nodes":["b"],"sequence":1,"lease_ms":1}}"#,
    ] {
        let payload = Payload::new(Encoding::Json, refused.as_bytes()).unwrap();
        assert!(features_upsert::Call::decode(&payload).is_err(), "{refused}");
    }
}

#[test]
fn rows_read_to_their_place_are_the_same_answer() {
    let kinds = [
        (RowType::F32, Data::F32(vec![1.5; 20])),
        (RowType::F64, Data::F64(vec![1.5; 20])),
        (RowType::F16, Data::F16(vec![f16::from_f32(1.5); 20])),
        (RowType::Bf16, Data::Bf16(vec![bf16::from_f32(1.5); 20])),
        (RowType::U8, Data::U8(vec![7; 20])),
        (RowType::None, Data::U8(Vec::new())),
    ];
    for ((row_type, values), encoding) in kinds
        .into_iter()
        .flat_map(|kind| [(kind.clone(), Encoding::Msgpack), (kind, Encoding::Json)])
    {
        let inverse = (row_type == RowType::F16).then(|| vec![0, 1, 0]);
        let missing = missing();
        let rows = Rows {
            version: 7,
            dim: 2,
            row_type,
            found: Cow::Borrowed(&[0x81, 2]),
            values,
            offsets: None,
            inverse: inverse.clone(),
            active: Some(9),
            missing: missing.clone(),
            overlay_sequence: inverse.as_ref().map(|_| 5),
        };
        let header = features_lookup::Header {
            version: 7,
            dim: 2,
            row_type,
            keys: 10,
            rows: 10,
            inverse: inverse.as_deref(),
            active: Some(9),
            missing: &missing,
            overlay_sequence: inverse.as_ref().map(|_| 5),
        };
        let written = |write: &dyn Fn(&mut Encoder<'_>)| {
            let mut bytes = vec![b'1'];
            write(&mut Encoder::new(&mut bytes, encoding, false));
            bytes
        };
        let number = match row_type {
            RowType::F32 => 1.5_f32.to_le_bytes().to_vec(),
            RowType::F64 => 1.5_f64.to_le_bytes().to_vec(),
            RowType::F16 => f16::from_f32(1.5).to_le_bytes().to_vec(),
            RowType::Bf16 => bf16::from_f32(1.5).to_le_bytes().to_vec(),
            RowType::U8 => vec![7],
            RowType::None => Vec::new(),
        };
        let filled = written(&|out| {
            header.write(out, |found, places| {
                found.copy_from_slice(&[0x81, 2]);
                places.copy_from_slice(&number.repeat(20));
            });
        });
        assert_eq!(filled, written(&|out| Rows::write(&rows, out)));
        round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows.clone()));
        let answer = features_lookup::Answer::Many(ManyRows {
            lookups: vec![rows.clone(), rows.clone()],
        });
        let parts = written(&|out| {
            features_lookup::write_many(&[&rows, &rows], out, |rows, out| Rows::write(rows, out));
        });
        assert_eq!(
            parts,
            written(&|out| features_lookup::Answer::write(&answer, out))
        );
    }
}

#[test]
fn lookups_are_checked() {
    let check = check::<features_lookup::Call<'_>>;
    check(r#"{"table":"t","keys":[1]}"#, "One(");
    check(
        r#"{"lookups":[{"table":"t","keys":[1]},{"table":"u","keys":[]}]}"#,
        "Many(",
    );
    check(
        r#"{"lookups":[{"table":"t"}]}"#,
        "key \"lookups[0].keys\" is missing",
    );
    check(r#"{"lookups":[],"table":"t"}"#, "\"table\" is unknown");
    check(r#"{"table":"t","keys":[1],"kezs":2}"#, "\"kezs\" is unknown");
    check(
        r#"{"lookups":[{"table":"t","keys":[1],"kezs":2}]}"#,
        "key \"lookups[0].kezs\" is unknown here; known keys: table, keys, texts, at_version, pool, offsets, columns, type, unique, map (and",
    );
    check(
        r#"{"table":"t","keys":[1],"table":"u"}"#,
        "\"table\" occurs twice",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"median"}"#,
        "\"pool\" is \"median\"",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum"}"#,
        "\"offsets\" is missing",
    );
    check(
        r#"{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,1]}"#,
        "0 … 1; expected ascending",
    );
    check(
        r#"{"lookups":[{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,2,1,2]}]}"#,
        "\"lookups[0].offsets\" is descending at 2",
    );
    check(
        r#"{"table":"t","keys":[1,2],"pool":"mean","offsets":[0,0,2]}"#,
        "pool: Mean",
    );
    check(r#"{"table":"t","texts":["a","b"]}"#, "texts: Some([");
    check(r#"{"table":"t"}"#, "key \"keys\" is missing; expected u64 values");
    check(
        r#"{"table":"t","keys":[1],"texts":["a"]}"#,
        "\"texts\" is given; expected no `texts` beside `keys`",
    );
    check(
        r#"{"table":"t","texts":["a"],"pool":"sum","offsets":[0,2]}"#,
        "to the number of keys (1)",
    );
    check(
        r#"{"table":"t","keys":[1],"type":"i8"}"#,
        "\"type\" is \"i8\"; expected \"f32\", \"f64\"",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum","offsets":[0,1],"type":"u8"}"#,
        "\"type\" is given; expected a type of floats",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum","offsets":[0,1],"unique":true}"#,
        "\"unique\" is given; expected no",
    );
}

#[test]
fn answers_that_do_not_fit_are_named() {
    check::<features_lookup::Answer<'_>>(
        r#"{"lookups": [1]}"#,
        "key \"lookups[0]\" is an integer; expected a map",
    );
    check::<features_lookup::Answer<'_>>(
        r#"{"lookups": [{"version": 1, "dim": 1, "found": []}]}"#,
        "key \"lookups[0].values\" is missing",
    );
    check::<ordered_get::Answer<'_>>(
        r#"{"values": [null], "versions": []}"#,
        "key \"versions\" is 0 versions; expected one for each of 1 values",
    );
    check::<rank::Answer<'_>>(
        r#"{"items": [1], "scores": [], "model": "m", "versions": {}}"#,
        "key \"scores\" is 0 scores; expected one for each of 1 items",
    );
    check::<rank::Answer<'_>>(
        r#"{"items": [], "scores": [], "model": "m", "versions": {"t": "x"}}"#,
        "key \"versions.t\" is text; expected an integer",
    );
    check::<system::Pong<'_>>("{}", "\"ts\" is missing");
    check::<system::IsServing<'_>>("{}", "\"status\" is missing");
}

#[test]
fn ordered_methods_round_trip() {
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    round_trip::<ordered_get::Call<'_>>(&ordered_get::Call {
        table: Some("events".into()),
        keys: vec![bytes(b"a"), bytes(&[0, 255])],
    });
    let json = round_trip::<ordered_get::Answer<'_>>(&ordered_get::Answer {
        values: vec![Some(bytes(b"ab")), None, Some(bytes(b""))],
        versions: vec![7, 0, u64::MAX],
    });
    assert_eq!(
        json,
        r#"{"values":[[97,98],null,[]],"versions":[7,0,18446744073709551615]}"#
    );
    round_trip::<ordered_put::Call<'_>>(&ordered_put::Call {
        table: None,
        entries: vec![(bytes(b"k"), bytes(&[0, 1, 255]))],
        if_version: Some(4),
        if_absent: true,
    });
    round_trip::<ordered_put::Answer<'_>>(&ordered_put::Answer {
        versions: vec![1, u64::MAX],
        durability: "synced".into(),
    });
    round_trip::<ordered_scan::Call<'_>>(&ordered_scan::Call {
        prefix: Some(bytes(b"u/1/")),
        limit: 10,
        cursor: Some(bytes(&[1, 200])),
        ..ordered_scan::Call::default()
    });
    for cursor in [None, Some(bytes(b"l"))] {
        let entries = vec![(bytes(b"k"), bytes(&[0, 255]))];
        round_trip::<ordered_scan::Answer<'_>>(&ordered_scan::Answer { entries, cursor });
    }
}

#[test]
fn ordered_calls_are_checked() {
    check::<ordered_put::Call<'_>>(
        r#"{"entries": [["a"]]}"#,
        "key \"entries[0]\" is an array of 1; expected [key, value]",
    );
    check::<ordered_scan::Call<'_>>("{}", "\"limit\" is missing");
    check::<ordered_scan::Call<'_>>(r#"{"limit": 10001}"#, "from 1 to 10000");
    check::<ordered_scan::Call<'_>>(r#"{"limit": 0}"#, "from 1 to 10000");
    check::<ordered_get::Call<'_>>(r#"{"keys": ["u/1", [1, 2]]}"#, "[117, 47, 49], [1, 2]");
    check::<ordered_get::Call<'_>>(r#"{"keys": [1.5]}"#, "key \"keys[0]\" is a floating-point number");
    check::<tune::Call<'_>>(r#"{"key": "a", "value": 1}"#, "\"value\" is an integer");
}

#[test]
fn ranks_round_trip() {
    let user = Map(vec![("id".into(), Value::Text("u".into()))]);
    round_trip::<rank::Call<'_>>(&rank::Call {
        pipeline: Some("rank".into()),
        user,
        items: vec![Value::UInt(5), Value::Text("x".into()), Value::Int(-1)],
        top: Some(1),
    });
    let json = round_trip::<rank::Answer<'_>>(&rank::Answer {
        items: vec![Value::UInt(5)],
        scores: vec![0.25],
        model: "m".into(),
        versions: vec![("t".into(), 1)],
    });
    assert_eq!(
        json,
        r#"{"items":[5],"scores":[0.25],"model":"m","versions":{"t":1}}"#
    );
    check::<rank::Call<'_>>(
        r#"{"user": {}, "items": [1, 2.5]}"#,
        "key \"items[1]\" is a floating-point number; expected text or an integer",
    );
    check::<rank::Call<'_>>(r#"{"user": {}, "items": [], "top": 10001}"#, "from 0 to 10000");
}

#[test]
fn methods_of_the_server_itself_round_trip() {
    for force in [false, true] {
        let (key, value) = ("server.stat".into(), "false".into());
        round_trip::<tune::Call<'_>>(&tune::Call { key, value, force });
    }
    let (key, value) = ("server.stat".into(), "false".into());
    let answer = tune::Answer {
        done: true,
        key,
        value,
    };
    let json = round_trip::<tune::Answer<'_>>(&answer);
    assert_eq!(json, r#"{"return":true,"key":"server.stat","value":"false"}"#);
    round_trip::<system::Pong<'_>>(&system::Pong {
        ts: 1_700_000_000_123,
    });
    round_trip::<system::IsServing<'_>>(&system::IsServing { status: false });
    check::<()>(r#"{"_trace": "t", "base64": true}"#, "()");
    check::<()>(
        r#"{"a": 1}"#,
        "key \"a\" is unknown here; known keys: _deadline_ms",
    );
}

#[test]
fn reserved_keys_are_read_beside_the_others() {
    let json =
        br#"{"_deadline_ms": 5, "_priority": 2, "table": "t", "keys": [1], "_token": "x", "base64": true}"#;
    let payload = Payload::new(Encoding::Json, json).unwrap();
    let (_, reserved) = Lookup::decode(&payload).unwrap();
    assert_eq!(
        (
            reserved.deadline_ms,
            reserved.priority,
            reserved.token.map(|token| token.0),
            reserved.base64
        ),
        (Some(5), Some(2), Some("x"), true)
    );
    check::<features_lookup::Call<'_>>(
        r#"{"lookups":[{"table":"t","keys":[1],"_deadline_ms":2}]}"#,
        "key \"lookups[0]._deadline_ms\" is unknown",
    );
}

/// The documentation names every method, and every key with its words: these two tables are its own.
#[test]
fn the_documentation_has_every_method_and_key() {
    let mut methods = "| method | in | out |\n|---|---|---|\n".to_owned();
    let mut keys = "| method | key | what it is |\n|---|---|---|\n".to_owned();
    for MethodSchema {
        name, call, answer, ..
    } in METHODS
    {
        methods += &format!("| `{name}` | {} | {} |\n", (call.notation)(), (answer.notation)());
        for (direction, side) in [("in", call), ("out", answer)] {
            for key in (side.keys)() {
                keys += &format!(
                    "| `{name}`, {direction} | `{}`: {} | {} |\n",
                    key.name, key.notation, key.about
                );
            }
        }
    }
    let page = include_str!("../../../docs/methods.md");
    for table in [methods, keys] {
        assert!(
            page.contains(&table),
            "docs/methods.md needs this table:\n\n{table}"
        );
    }
}

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
