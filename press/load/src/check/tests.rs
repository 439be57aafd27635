//! Right answers and wrong ones, rule by rule.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use millpond_wire_payload::{Encoder, Encoding};
use std::io::Write;

fn set(text: &str) -> RequestSet {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    RequestSet::load(file.path()).unwrap()
}

fn checker() -> Checker {
    let rules = Rules {
        length_of: Some("items".into()),
        ..Rules::default()
    };
    let requests = set("{\"user\":{\"items\":[1]},\"items\":[1,2]}\n{\"items\":[1]}");
    let expected = set("{\"scores\":[0.5,0.25]}\n{\"scores\":[1]}");
    Checker::new(&rules, Some(&requests), Some(&expected), 2).unwrap()
}

fn verdict(index: usize, answer: &str) -> Result<(), Wrong> {
    checker().check(index, Answer::Json(answer.as_bytes()), &mut vec![9.0])
}

#[test]
fn right_answers_pass() {
    assert_eq!(verdict(0, r#"{"scores":[0.5,0.25]}"#), Ok(()));
    assert_eq!(
        verdict(
            0,
            r#"{"model":{"scores":[]}, "scores" : [0.50005, 2.5e-1], "x":null}"#
        ),
        Ok(())
    );
    assert_eq!(verdict(1, r#"{"scores":[1.0]}"#), Ok(()));
}

#[test]
fn wrong_answers_say_what_is_wrong() {
    assert_eq!(
        verdict(0, r#"{"scores":[0.5]}"#),
        Err(Wrong::Count {
            expected: 2,
            found: 1
        })
    );
    assert_eq!(verdict(0, r#"{"score":[0.5,0.25]}"#), Err(Wrong::NoField));
    assert_eq!(
        verdict(0, r#"{"scores":[0.5,1.25]}"#),
        Err(Wrong::Range { at: 1, value: 1.25 })
    );
    assert_eq!(
        verdict(0, r#"{"scores":[-0.1,0.2]}"#),
        Err(Wrong::Range { at: 0, value: -0.1 })
    );
    assert_eq!(
        verdict(0, r#"{"scores":[0.5,0.2]}"#),
        Err(Wrong::Differs {
            at: 1,
            expected: 0.25,
            found: 0.2
        })
    );
    for bad in [
        "",
        "[]",
        "null",
        r#"{"scores":[null,1]}"#,
        r#"{"scores":["0.5",1]}"#,
        r#"{"scores":0.5}"#,
        r#"{"scores":[0.5,0.25]"#,
        r#"{"scores":[0.5,0.25]}x"#,
        r#"{"scores":[0.5,0.25],"scores":[0.5,0.25]}"#,
        r#"{"scores":[1e999,0.25]}"#,
    ] {
        let verdict = verdict(0, bad);
        assert!(
            matches!(verdict, Err(Wrong::Unreadable(_) | Wrong::Range { .. })),
            "{bad}: {verdict:?}"
        );
    }
}

#[test]
fn msgpack_is_read_alike() {
    let check = |scores: &[f32]| {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes, Encoding::Msgpack, false).map(|out| {
            out.key("scores");
            out.items(scores.iter(), |out, score| out.f32(*score));
        });
        checker().check(0, Answer::Msgpack(&bytes), &mut Vec::new())
    };
    assert_eq!(check(&[0.5, 0.25]), Ok(()));
    assert!(matches!(check(&[0.5, f32::NAN]), Err(Wrong::Range { at: 1, .. })));
    assert!(matches!(check(&[0.5]), Err(Wrong::Count { .. })));
    let cut = checker().check(0, Answer::Msgpack(&[0x81, 0xa6]), &mut Vec::new());
    assert!(matches!(cut, Err(Wrong::Unreadable(_))));
    // Whatever is looked at, an answer is one map and nothing behind it.
    let plain = Checker::new(&Rules::default(), None, None, 1).unwrap();
    let check = |bytes: &[u8]| plain.check(0, Answer::Msgpack(bytes), &mut Vec::new());
    assert_eq!(check(&[0x80]), Ok(()));
    for bad in [&[0x80, 0x80][..], &[0x81], &[0x90], &[]] {
        assert!(matches!(check(bad), Err(Wrong::Unreadable(_))), "{bad:?}");
    }
}

#[test]
fn a_field_may_lie_in_maps_and_hold_tensors() {
    let rules = Rules {
        field: Some("outputs.y".into()),
        max: 255.0,
        ..Rules::default()
    };
    let checker = Checker::new(&rules, None, Some(&set("{\"outputs\":{\"y\":[1,0,3]}}")), 1).unwrap();
    let check = |y: &str| {
        let answer = format!("{{\"skipped\":[],\"outputs\":{{\"x\":1,\"y\":{y}}}}}");
        checker.check(0, Answer::Json(answer.as_bytes()), &mut Vec::new())
    };
    let tensor = |of: &str, data: &str| format!("{{\"shape\":[3],\"type\":\"{of}\",\"data\":{data}}}");
    assert_eq!(check("[1, 0, 3]"), Ok(()));
    assert_eq!(check(&tensor("u8", "[1,0,3]")), Ok(()));
    assert_eq!(check(&tensor("f16", "[1,0,3]")), Ok(()));
    let item = "{\"shape\":[1],\"type\":\"f32\",\"data\":[3]}";
    let two = "{\"shape\":[2],\"type\":\"bool\",\"data\":[true,false]}";
    assert_eq!(check(&format!("[{two},{item}]")), Ok(()));
    assert!(matches!(
        check(&tensor("f32", "[1,0,4]")),
        Err(Wrong::Differs { at: 2, .. })
    ));
    for bad in [
        tensor("bytes", "[\"a\",\"b\",\"c\"]"),
        "\"text\"".into(),
        tensor("u8", "[1]"),
    ] {
        assert!(matches!(check(&bad), Err(Wrong::Unreadable(_))), "{bad}");
    }
    let flat = checker.check(0, Answer::Json(b"{\"y\":[1,0,3]}"), &mut Vec::new());
    assert_eq!(flat, Err(Wrong::NoField));
}

#[test]
fn bytes_must_stay_the_same_and_hold_a_text() {
    let rules = Rules {
        same: true,
        contains: Some("ok".into()),
        ..Rules::default()
    };
    let checker = Checker::new(&rules, None, None, 2).unwrap();
    let check = |index, bytes: &[u8]| checker.check(index, Answer::Bytes(bytes), &mut Vec::new());
    assert_eq!(check(0, b"ok, eight bytes and more"), Ok(()));
    assert_eq!(check(0, b"ok, eight bytes and more"), Ok(()));
    assert_eq!(check(0, b"ok, eight bytes and mors"), Err(Wrong::Changed));
    assert_eq!(check(1, b"ok"), Ok(()));
    assert_eq!(check(1, b""), Err(Wrong::Lacks("ok".into())));
    let rules = Rules {
        same: true,
        ..Rules::default()
    };
    let checker = Checker::new(&rules, None, None, 1).unwrap();
    let check = |values: &[f32]| checker.check(0, Answer::Floats(values), &mut Vec::new());
    assert_eq!(check(&[0.5, 1.0]), Ok(()));
    assert_eq!(check(&[0.5, 1.0]), Ok(()));
    assert_eq!(check(&[0.5, 1.5]), Err(Wrong::Changed));
}

#[test]
fn requests_that_cannot_be_checked_are_refused() {
    let rules = Rules {
        length_of: Some("items".into()),
        ..Rules::default()
    };
    let said =
        Checker::new(&rules, Some(&set("{\"items\":[]}\n{\"items\":3}")), None, 2).expect_err("refused");
    assert!(said.contains("request 2 has no array `items`"), "{said}");
    let said = Checker::new(&Rules::default(), None, Some(&set("{\"x\":1}")), 1).expect_err("refused");
    assert!(said.contains("answer 1: the answer has no field"), "{said}");
}
