//! Every method, both ways in both encodings: what round-trips, what is refused and in which words, and what the documentation says.
#![allow(clippy::unwrap_used)]

mod any_map;
mod lookups;

use super::*;
use features_lookup::Lookup;
use payload::{Encoder, Encoding, Map, Payload, Value};
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
fn upserts_round_trip_and_need_keys() {
    let call = features_upsert::Call {
        texts: Some(vec![Cow::Borrowed(b"drama")]),
        columns: vec!["a".into()],
        values: vec![1.5],
        remove: Some(vec![7]),
        ..features_upsert::Call::new("t".into())
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
fn questions_for_copies_round_trip() {
    round_trip::<ordered_copy::Call<'_>>(&ordered_copy::Call {
        table: None,
        follower: "b:8090".into(),
        history: Cow::Borrowed(&[7; 16]),
        epoch: 3,
        position: 9,
        checkpoint: Some(12),
        offset: Some(0),
        behind: None,
        partial: 5,
        bytes_max: Some(1),
    });
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
        ..ordered_get::Answer::default()
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
        if_present: true,
        ttl_ms: Some(60_000),
        keep_ttl: false,
    });
    round_trip::<ordered_put::Answer<'_>>(&ordered_put::Answer {
        versions: vec![1, u64::MAX],
        durability: "synced".into(),
    });
    round_trip::<ordered_remove::Call<'_>>(&ordered_remove::Call {
        table: None,
        keys: vec![bytes(b"k"), bytes(b"")],
        if_version: Some(0),
    });
    round_trip::<ordered_increment::Call<'_>>(&ordered_increment::Call {
        table: Some("counters".into()),
        key: bytes(b"k"),
        by: i64::MIN,
        ttl_ms: Some(1),
    });
    round_trip::<ordered_expire::Call<'_>>(&ordered_expire::Call {
        table: None,
        keys: vec![bytes(b"k")],
        ttl_ms: None,
        persist: true,
    });
    check::<ordered_expire::Call<'_>>(r#"{"keys": []}"#, "\"ttl_ms\" is missing");
    check::<ordered_expire::Call<'_>>(r#"{"keys": [], "ttl_ms": 1, "persist": true}"#, "one of the two");
    round_trip::<ordered_append::Call<'_>>(&ordered_append::Call {
        table: None,
        key: bytes(b"l"),
        items: vec![bytes(b"a"), bytes(b"")],
        keep: Some(100),
        ttl_ms: Some(1),
    });
    round_trip::<ordered_items::Call<'_>>(&ordered_items::Call {
        table: None,
        key: bytes(b"l"),
        start: 0,
        stop: -1,
    });
    round_trip::<ordered_follow::Call<'_>>(&ordered_follow::Call {
        table: None,
        follower: "b:8090".into(),
        history: bytes(&[7; 16]),
        epoch: 3,
        position: 9,
        record_epoch: Some(2),
        record_crc32c: None,
        partial: 5,
        bytes_max: Some(1),
        wait_ms: 0,
    });
    for keys in [None, Some(vec![bytes(b"k")])] {
        round_trip::<ordered_inspect::Call<'_>>(&ordered_inspect::Call { table: None, keys });
    }
    check::<ordered_put::Call<'_>>(
        r#"{"entries": [], "ttl_ms": 1, "keep_ttl": true}"#,
        "one of the two",
    );
    round_trip::<ordered_increment::Answer<'_>>(&ordered_increment::Answer {
        value: -1,
        version: 9,
        durability: "logged".into(),
    });
    round_trip::<ordered_scan::Call<'_>>(&ordered_scan::Call {
        prefix: Some(bytes(b"u/1/")),
        limit: 10,
        cursor: Some(bytes(&[1, 200])),
        ..ordered_scan::Call::default()
    });
    for cursor in [None, Some(bytes(b"l"))] {
        let entries = vec![(bytes(b"k"), bytes(&[0, 255]))];
        round_trip::<ordered_scan::Answer<'_>>(&ordered_scan::Answer {
            entries,
            lists: vec![0],
            cursor,
            ..ordered_scan::Answer::default()
        });
    }
}

#[test]
fn batches_round_trip() {
    use ordered_batch::{Answer, Call, Effect, Operation, Options};
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let json = round_trip::<Call<'_>>(&Call {
        table: None,
        operations: vec![
            Operation::Get(bytes(b"a")),
            Operation::Put(bytes(b"a"), bytes(b""), Options::default()),
            Operation::Put(
                bytes(b"a"),
                bytes(b"b"),
                Options {
                    if_absent: true,
                    ttl_ms: Some(9),
                    ..Options::default()
                },
            ),
            Operation::Remove(
                bytes(b"a"),
                Options {
                    if_version: Some(7),
                    ..Options::default()
                },
            ),
            Operation::Increment(bytes(b"a"), -3, Options::default()),
            Operation::Expire(
                bytes(b"a"),
                Options {
                    persist: true,
                    ..Options::default()
                },
            ),
            Operation::Concatenate(bytes(b"a"), bytes(b"b")),
            Operation::Append(bytes(b"l"), vec![bytes(b"c"), bytes(b"")], Options::default()),
            Operation::Append(
                bytes(b"l"),
                vec![bytes(b"c")],
                Options {
                    keep: Some(9),
                    ttl_ms: Some(1),
                    ..Options::default()
                },
            ),
            Operation::Items(bytes(b"l"), 0, -1),
            Operation::Trim(bytes(b"l"), -2, 3),
            Operation::IncrementDecimal(bytes(b"a"), bytes(b"1")),
            Operation::Inspect(bytes(b"l")),
            Operation::Put(
                bytes(b"a"),
                bytes(b"b"),
                Options {
                    if_present: true,
                    keep_ttl: true,
                    ..Options::default()
                },
            ),
        ],
    });
    assert_eq!(
        json,
        r#"{"operations":[["get",[97]],["put",[97],[]],["put",[97],[98],{"if_absent":true,"ttl_ms":9}],["remove",[97],{"if_version":7}],["increment",[97],-3],["expire",[97],{"persist":true}],["concatenate",[97],[98]],["append",[108],[[99],[]]],["append",[108],[[99]],{"ttl_ms":1,"keep":9}],["items",[108],0,-1],["trim",[108],-2,3],["increment_decimal",[97],[49]],["inspect",[108]],["put",[97],[98],{"if_present":true,"keep_ttl":true}]]}"#
    );
    let json = round_trip::<Answer<'_>>(&Answer {
        results: vec![
            Effect::Value(None),
            Effect::Value(Some(bytes(b"b"))),
            Effect::Value(Some(bytes(b""))),
            Effect::Number(i64::MIN),
            Effect::Number(7),
            Effect::WasThere(true),
            Effect::Items(ordered_items::Items {
                items: vec![bytes(b""), bytes(b"c")],
            }),
            Effect::Items(ordered_items::Items { items: vec![] }),
            Effect::Inspected(ordered_inspect::Inspected {
                kind: "list".into(),
                version: 7,
                ttl_ms: None,
                bytes: 1,
                count: Some(2),
            }),
        ],
        durability: "synced".into(),
        lag_records: Some(3),
        lag_ms: Some(20),
    });
    assert_eq!(
        json,
        r#"{"results":[null,[98],[],-9223372036854775808,7,true,{"items":[[],[99]]},{"items":[]},{"kind":"list","version":7,"bytes":1,"count":2}],"durability":"synced","lag_records":3,"lag_ms":20}"#
    );
}

#[test]
fn operations_of_batches_are_checked() {
    use ordered_batch::Call;
    for (operation, expected) in [
        (
            r#"["drop", "a"]"#,
            r#"key "operations[0]" is "drop" with 2 items; expected ["get", key]"#,
        ),
        (r#"["get"]"#, r#""get" with 1 items"#),
        ("[]", "an empty array"),
        (
            r#"["increment", "a", 1.5]"#,
            "is a floating-point number; expected a whole number",
        ),
        (
            r#"["increment", "a", 9223372036854775808]"#,
            "of 64 bits, with its sign",
        ),
        (
            r#"["remove", "a", {"if_absent": true}]"#,
            "options that do not go with it",
        ),
        (
            r#"["increment", "a", 1, {"if_version": 1}]"#,
            "options that do not go with it",
        ),
        (
            r#"["put", "a", "b", {"persist": true}]"#,
            "options that do not go with it",
        ),
        (r#"["expire", "a", {}]"#, "options that do not go with it"),
        (
            r#"["put", "a", "b", {"ttl_ms": 1, "keep_ttl": true}]"#,
            "options that do not go with it",
        ),
        (
            r#"["append", "a", ["b"], {"if_absent": true}]"#,
            "options that do not go with it",
        ),
        (r#"["append", "a", "b"]"#, "expected an array"),
        (r#"["items", "a", 0]"#, r#""items" with 3 items"#),
        (
            r#"["expire", "a", {"ttl_ms": 1, "persist": true}]"#,
            "options that do not go with it",
        ),
        (r#"["put", "a", "b", {"ttl": 1}]"#, "operations[0].ttl"),
    ] {
        check::<Call<'_>>(&format!(r#"{{"operations": [{operation}]}}"#), expected);
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

/// The documentation names every method, and every key with its words: these two tables are its own. Its text has the maps that
/// stand under a key, with all of theirs.
#[test]
fn the_documentation_has_every_method_and_key() {
    let mut methods = "| method | in | out |\n|---|---|---|\n".to_owned();
    let mut keys = "| method | key | what it is |\n|---|---|---|\n".to_owned();
    let mut maps = Vec::new();
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
                maps.extend(key.map_notation().map(|map| (name, key.name, map)));
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
    let words: Vec<&str> = page.split_whitespace().collect();
    let (words, mut missing) = (words.join(" "), Vec::new());
    for (method, key, map) in maps {
        if !words.contains(&map) {
            missing.push(format!("{method}, {key}: {map}"));
        }
    }
    assert!(
        missing.is_empty(),
        "docs/methods.md lacks maps:\n{}",
        missing.join("\n")
    );
}
