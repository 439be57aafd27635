//! What is read, what is refused and in which words, in both encodings.
#![allow(clippy::unwrap_used)]

use super::reader::{CUT, EXTENSION, KEY, KEY_NOT_UTF8, RESERVED};
use super::*;
use proptest::prelude::*;

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

fn problem(payload: &[u8]) -> String {
    let error = decode_map(Encoding::Msgpack, payload).unwrap_err();
    error.to_string()
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let table: [(&[u8], usize, &str); 17] = [
        (b"\x81", 1, CUT),
        (b"\xde\x00", 0, CUT),
        (b"\x81\xa2a", 1, CUT),
        (b"\x81\xa1a", 3, CUT),
        (b"\x81\xa1a\xa3ab", 3, CUT),
        (b"\x81\xa1a\xcf\0\0\0", 3, CUT),
        (b"\x81\xa1a\xc6\xff\xff\xff\xff", 3, CUT),
        (b"\x81\xa1a\x93\x01\x02", 6, CUT),
        (b"\x82\xa1a\x01\xa1b\xc1", 6, RESERVED),
        (b"\x81\xc1\x01", 1, RESERVED),
        (b"\x81\xa1a\x92\x01\xd4\x01\x02", 5, EXTENSION),
        (b"\x81\xa1a\xc7\x00\x01", 3, EXTENSION),
        (b"\x81\x01\x01", 1, KEY),
        (b"\x81\xc0\x01", 1, KEY),
        (b"\x81\xc4\x01a\x01", 1, KEY),
        (b"\x81\xa1\xff\x01", 1, KEY_NOT_UTF8),
        (b"\x81\xa1a\x81\xd9\x02a\xff\x01", 4, KEY_NOT_UTF8),
    ];
    for (payload, at, what) in table {
        let expected = format!("the payload is not valid msgpack: at byte {at}: {what}");
        assert_eq!(problem(payload), expected, "{payload:02x?}");
    }
}

#[test]
fn limits_and_twins_keep_their_own_words() {
    let deep = [&b"\x81\xa1a"[..], &[0x91; 100]].concat();
    assert!(problem(&deep).contains("nested more than 64 deep"));
    assert!(problem(b"\x81\xa1a\xdd\xff\xff\xff\xff").contains("values in one payload"));
    assert!(problem(b"\x82\xa1a\x01\xa1a\x01").contains("occurs twice"));
}

/// Whether a payload is one whole map, told without reading what is in it.
fn skipped(encoding: Encoding, payload: &[u8]) -> Read<()> {
    let payload = Payload::new(encoding, payload)?;
    Reserved::of(&payload).map(drop)
}

#[test]
fn each_value_takes_the_bytes_that_its_tag_says() {
    for tag in 0..=u8::MAX {
        let size = match tag {
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => None,
            0xcc | 0xd0 | 0xc4 | 0xd9 => Some(1),
            0xcd | 0xd1 | 0xc5 | 0xda | 0xdc | 0xde => Some(2),
            0xca | 0xce | 0xd2 | 0xc6 | 0xdb | 0xdd | 0xdf => Some(4),
            0xcb | 0xcf | 0xd3 => Some(8),
            0x80..=0x8f => Some(2 * usize::from(tag & 0x0f)),
            0x90..=0x9f => Some(usize::from(tag & 0x0f)),
            0xa0..=0xbf => Some(usize::from(tag & 0x1f)),
            _ => Some(0),
        };
        for given in 0..40 {
            // As keys of a map and its values they are texts without bytes, as a length they are none.
            let filler = if tag & 0xf0 == 0x80 { 0xa0 } else { 0 };
            let payload = [&b"\x81\xa1a"[..], &[tag], &vec![filler; given]].concat();
            let is_whole = skipped(Encoding::Msgpack, &payload).is_ok();
            assert_eq!(is_whole, size == Some(given), "{payload:02x?}");
        }
    }
}

#[test]
fn what_is_no_whole_map_is_not_skipped() {
    let deep = [&b"\x81\xa1a"[..], &[0x91; 100_000], b"\xc0"].concat();
    let deep_json = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (encoding, payload) in [
        (Encoding::Msgpack, &b""[..]),
        (Encoding::Msgpack, b"\x93\x01\x02\x03"),
        (Encoding::Msgpack, b"\x80\x80"),
        (Encoding::Msgpack, b"\x81\xa1a"),
        (Encoding::Msgpack, b"\x81\x01\x01"),
        (Encoding::Msgpack, b"\x81\xa1\xff\x01"),
        (Encoding::Msgpack, b"\x81\xa1a\xdd\xff\xff\xff\xff"),
        (Encoding::Msgpack, b"\x81\xa1a\xc6\xff\xff\xff\xff"),
        (Encoding::Msgpack, &deep),
        (Encoding::Json, b""),
        (Encoding::Json, b"[1]"),
        (Encoding::Json, b"{} x"),
        (Encoding::Json, b"{\"a\":nan}"),
        (Encoding::Json, b"{\"a\":\"\xff\"}"),
        (Encoding::Json, b"{\"a\":1e999}"),
        (Encoding::Json, b"{\"a\":\"\\ud800\"}"),
        (Encoding::Json, deep_json.as_bytes()),
    ] {
        assert!(skipped(encoding, payload).is_err(), "{payload:02x?}");
    }
}

#[test]
fn values_are_lent_from_the_input() {
    let payload = b"\x86\xa1a\x07\xa1b\xcd\x01\x02\xa1c\xd0\x09\xa1d\xa2hi\xa1e\xff\xa1f\xa2\xc3\x28";
    let (mut reader, mut seen) = (Reader::new(Encoding::Msgpack, payload), Vec::new());
    let read = reader.map("a map", |reader, key| {
        seen.push((key[0] as char, reader.token()?));
        Ok(())
    });
    read.and_then(|()| reader.end()).unwrap();
    let expected = [
        ('a', Token::UInt(7)),
        ('b', Token::UInt(258)),
        ('c', Token::UInt(9)),
        ('d', Token::Text("hi")),
        ('e', Token::Int(-1)),
        ('f', Token::Bytes(b"\xc3\x28")),
    ];
    assert_eq!(seen, expected);
}

/// Reads `{"k": …}` with `read`.
fn k<T>(encoding: Encoding, bytes: &[u8], read: impl Fn(&mut Reader<'_>) -> Read<T>) -> Result<T, String> {
    let mut found = None;
    let payload = Payload::new(encoding, bytes).map_err(|error| error.to_string())?;
    payload
        .read(|reader| {
            reader.map("a map", |reader, key| match key {
                b"k" => read(reader)
                    .map(|value| found = Some(value))
                    .map_err(|error| error.under("k")),
                _ => reader.skip(),
            })
        })
        .map_err(|error| error.to_string())?;
    Ok(found.unwrap())
}

#[test]
fn blocks_have_three_forms_and_base64_may_be_said_behind_them() {
    let numbers = |json: &str| {
        k(Encoding::Json, json.as_bytes(), |reader| {
            reader.numbers::<u64>(false)
        })
    };
    for json in [
        r#"{"k": [1, 258]}"#,
        r#"{"base64": true, "k": "AQAAAAAAAAACAQAAAAAAAA=="}"#,
        r#"{"k": "AQAAAAAAAAACAQAAAAAAAA==", "base64": true}"#,
    ] {
        assert_eq!(numbers(json).unwrap(), [1, 258]);
    }
    let problem = |json: &str| numbers(json).unwrap_err();
    assert!(
        problem(r#"{"k": "AQAAAAAAAAA=", "base64": false}"#)
            .contains("key \"k\" is text; expected u64 values")
    );
    assert!(problem(r#"{"k": "!", "base64": true}"#).contains("key \"k\" is bad base64"));
    assert_eq!(
        problem(r#"{"k": [1, -2]}"#),
        "key \"k[1]\" is a negative integer; expected one u64; for -2 send 18446744073709551614"
    );
    let block = |bytes: &[u8]| {
        let payload = [&b"\x81\xa1k\xc4"[..], &[bytes.len() as u8], bytes].concat();
        k(Encoding::Msgpack, &payload, |reader| reader.numbers::<u64>(false))
    };
    assert_eq!(block(&[1, 0, 0, 0, 0, 0, 0, 0]).unwrap(), [1]);
    assert!(block(&[1, 0]).unwrap_err().contains("key \"k\" is 2 bytes"));
    let bytes = |json: &str| k(Encoding::Json, json.as_bytes(), |r| Ok(r.bytes()?.into_owned())).unwrap();
    assert_eq!(bytes(r#"{"k": "ab"}"#), b"ab");
    assert_eq!(bytes(r#"{"k": [1, 255]}"#), [1, 255]);
    assert_eq!(bytes(r#"{"k": "aGk=", "base64": true}"#), b"hi");
}

/// The strings under `k`.
fn strings(encoding: Encoding, payload: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    k(encoding, payload, |reader| {
        let mut strings = Vec::new();
        reader.strings(&mut |string| strings.push(string.to_vec()))?;
        Ok(strings)
    })
}

#[test]
fn strings_are_text_or_bytes_in_arrays_of_arrays() {
    for (json, expected) in [
        (
            r#"{"k": ["a", "", "\u00e9"]}"#,
            &[&b"a"[..], b"", b"\xc3\xa9"][..],
        ),
        (
            r#"{"k": [["a", [1, 255]], [[0], "b"]]}"#,
            &[b"a", b"\x01\xff", b"\0", b"b"],
        ),
        (r#"{"k": []}"#, &[]),
        (r#"{"k": [[], ["a"]]}"#, &[b"a"]),
        (r#"{"k": ["aGk=", [104]], "base64": true}"#, &[b"hi", b"h"]),
    ] {
        assert_eq!(
            strings(Encoding::Json, json.as_bytes()).unwrap(),
            expected,
            "{json}"
        );
    }
    let mixed = b"\x81\xa1k\x93\xa1a\xc4\x01\xff\xa1\xff";
    assert_eq!(
        strings(Encoding::Msgpack, mixed).unwrap(),
        [&b"a"[..], b"\xff", b"\xff"]
    );
    for (json, expected) in [
        (r#"{"k": "a"}"#, "key \"k\" is text; expected an array of strings"),
        (
            r#"{"k": [["a"], [null]]}"#,
            "key \"k[1]\" is null; expected one string",
        ),
        (
            r#"{"k": ["a", ["b", 1]]}"#,
            "key \"k[2]\" is an integer; expected one string",
        ),
        (
            r#"{"k": ["a", [1, "b"]]}"#,
            "key \"k[1][1]\" is text; expected one u8",
        ),
        (
            r#"{"k": ["a", [256]]}"#,
            "key \"k[1][0]\" is an integer; expected one u8",
        ),
        (
            r#"{"k": ["aGk=", "!"], "base64": true}"#,
            "key \"k[1]\" is bad base64",
        ),
    ] {
        let problem = strings(Encoding::Json, json.as_bytes()).unwrap_err();
        assert!(problem.contains(expected), "{json}: {problem}");
    }
}

#[test]
fn no_more_strings_are_read_than_a_payload_may_hold() {
    let most = VALUES_MAX - 2;
    let payload = |announced: u32, given: usize| {
        [
            &b"\x81\xa1k\xdd"[..],
            &announced.to_be_bytes(),
            &vec![0xa0; given],
        ]
        .concat()
    };
    let read = |announced: usize, given| strings(Encoding::Msgpack, &payload(announced as u32, given));
    assert_eq!(read(most, most).unwrap().len(), most);
    for (announced, given) in [(most + 1, most + 1), (u32::MAX as usize, 3)] {
        assert!(
            read(announced, given)
                .unwrap_err()
                .contains("values in one payload")
        );
    }
    assert!(read(most, 3).unwrap_err().contains("ends inside a value"));
}

#[test]
fn what_a_key_holds_matters_in_a_whole_payload_only() {
    let text = |bytes: &[u8]| k(Encoding::Msgpack, bytes, |reader| Ok(reader.text()?.to_owned()));
    assert!(
        text(b"\x81\xa1k\x01")
            .unwrap_err()
            .contains("key \"k\" is an integer")
    );
    assert!(text(b"\x82\xa1k\x01\xa1l").unwrap_err().contains("at byte 6: "));
    assert!(
        text(b"\x81\xa1k\x01\x01")
            .unwrap_err()
            .contains("more bytes follow")
    );
    assert!(text(b"\x01").unwrap_err().contains("root is an integer"));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let _ = decode_map(encoding, &bytes);
        }
    }

    /// Maps of any bytes: what decoding refuses has a place or is refused by a rule of ours, and what is skipped decodes, but
    /// that skipping does not look for keys that occur twice.
    #[test]
    fn skipping_agrees_with_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let payload = [&b"\x82\xa1a"[..], &bytes].concat();
        let (decoded, skipped) = (decode_map(Encoding::Msgpack, &payload), skipped(Encoding::Msgpack, &payload));
        match decoded {
            Err(error) => {
                let text = error.to_string();
                let ours = ["at byte ", "nested more", "values in one payload", "occurs twice", "more bytes"];
                prop_assert!(ours.iter().any(|words| text.contains(words)), "{text}");
                prop_assert!(text.contains("occurs twice") || skipped == Err(error));
            }
            Ok(_) => prop_assert!(skipped.is_ok()),
        }
    }

    /// JSON holds as much when it has become msgpack.
    #[test]
    fn json_says_the_same_as_msgpack(text in "[\\[\\]{}:,\"a0-9.eE+\\\\ -]{0,40}") {
        let json = format!("{{\"a\":{text}}}");
        if let Ok(map) = decode_map(Encoding::Json, json.as_bytes()) {
            let mut bytes = Vec::new();
            Encoder::new(&mut bytes, Encoding::Msgpack, false).value(&Value::Map(map.clone()));
            prop_assert_eq!(decode_map(Encoding::Msgpack, &bytes), Ok(map));
        }
    }
}

proptest! {
    #[test]
    fn a_key_is_there_or_not_whatever_stands_before_it(
        keys in prop::collection::vec("[a-cé]{1,2}", 0..18),
        kinds in prop::collection::vec(0..8_u8, 18),
        lens in prop::collection::vec(prop::sample::select(&[0_usize, 1, 31, 32, 255, 256, 70_000][..]), 18),
        name in "[a-cé]{1,2}",
    ) {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes, Encoding::Msgpack, false).map(|out| {
            for ((key, kind), len) in keys.iter().zip(&kinds).zip(&lens) {
                out.key(key);
                match kind {
                    0 => out.nil(),
                    1 => out.uint(*len as u64),
                    2 => out.f64(0.5),
                    3 => out.text(&"t".repeat(*len)),
                    4 => out.bytes(&vec![7; *len]),
                    5 => out.array(|out| out.bool(true)),
                    6 => out.map(|out| (out.key(&name), out.int(-200)).1),
                    _ => out.int(-(*len as i64)),
                }
            }
        });
        let has = |bytes: &[u8]| Payload::new(Encoding::Msgpack, bytes).unwrap().reader().has(&name).ok();
        let first = keys.iter().position(|key| *key == name);
        prop_assert_eq!(has(&bytes), Some(first.is_some()));
        let step = (bytes.len() / 200).max(1);
        for len in (0..bytes.len()).step_by(step) {
            // What is cut has the key, or is not read.
            prop_assert_ne!(has(&bytes[..len]), Some(false), "cut at {}", len);
        }
    }
}
