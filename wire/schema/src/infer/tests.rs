//! Both forms of `infer`, both ways, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod tensors;

use super::*;
use crate::Field;
use crate::payload::{Encoder, Encoding, Payload};

fn check(json: &str, expected: &str) {
    let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
    let found = match Call::decode(&payload) {
        Ok((call, _)) => format!("{call:?}"),
        Err(error) => error.to_string(),
    };
    assert!(
        found.contains(expected),
        "{found:?} does not contain {expected:?}"
    );
}

/// Writes in that encoding and reads again.
fn round_trip<F: Field>(encoding: Encoding, value: &F::Of<'_>) -> F::Of<'static> {
    let mut bytes = Vec::new();
    F::write(value, &mut Encoder::new(&mut bytes, encoding, false));
    let payload = Payload::new(encoding, &bytes).unwrap();
    F::own(F::decode(&payload).unwrap().0)
}

#[test]
fn both_forms_round_trip() {
    let data = [
        Data::F32(vec![0.5, -1.0]),
        Data::F64(vec![0.25, 9.0]),
        Data::F16([0.1, -65504.0].map(f16::from_f32).to_vec()),
        Data::Bf16([0.1, -3.0e38].map(bf16::from_f32).to_vec()),
        Data::I64(vec![-5, i64::MAX]),
        Data::I32(vec![7, -7]),
        Data::I16(vec![i16::MIN, i16::MAX]),
        Data::I8(vec![i8::MIN, i8::MAX]),
        // A float has no such number.
        Data::U64(vec![(1 << 53) + 1, u64::MAX]),
        Data::U32(vec![0, u32::MAX]),
        Data::U16(vec![0, u16::MAX]),
        Data::U8(vec![1, 255]),
        Data::Bool(vec![true, false]),
        Data::Bytes(["a\"é", ""].into_iter().collect()),
    ];
    let named = |data: Data| {
        let name = data.element_type().as_str().into();
        (name, Tensor::new(vec![1, 2], data).unwrap())
    };
    let tensors = data.into_iter().map(named).collect();
    let samples = TextRows::new(vec![vec!["u1".into(), "i\"2".into()]; 15]);
    for call in [
        Call::Tensors(Tensors {
            model: Some("m".into()),
            version: None,
            inputs: tensors,
            outputs: Vec::new(),
        }),
        Call::Samples(Samples {
            model: Some("m".into()),
            samples,
        }),
    ] {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            assert_eq!(round_trip::<Call<'_>>(encoding, &call), call);
        }
    }
}

#[test]
fn tensors_are_checked() {
    check(
        r#"{"inputs":{"x":{"shape":[2,2],"type":"f32","data":[[1,2],[3,4.5]]}}}"#,
        "F32([1.0, 2.0, 3.0, 4.5])",
    );
    check(
        r#"{"inputs":{"x":{"shape":[2,2],"type":"f32","data":[1]}}}"#,
        "\"inputs.x.data\" is 1 elements; expected as many as shape [2, 2]",
    );
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"f8","data":[1]}}}"#,
        "\"inputs.x.type\" is \"f8\"; expected \"f32\", \"f64\", \"f16\", \"bf16\", \"i64\"",
    );
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"f16","data":[0.1,-2]}}}"#,
        "F16([0.099975586, -2.0])",
    );
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"bf16","data":[0.1,-2]}}}"#,
        "Bf16([0.100097656, -2.0])",
    );
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"bf16","data":"gD8AwA=="}},"base64":true}"#,
        "Bf16([1.0, -2.0])",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"f16","data":"gD8A"}},"base64":true}"#,
        "\"inputs.x.data\" is 3 bytes; expected f16 values: bin of 2 bytes each",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"f16","data":["a"]}}}"#,
        "\"inputs.x.data[0]\" is text; expected one f16",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"i32","data":[1.5]}}}"#,
        "\"inputs.x.data[0]\" is a floating-point number",
    );
    check(
        r#"{"inputs":{"x":{"shape":[4294967295,4294967295,4294967295],"type":"u8","data":[]}}}"#,
        "0 elements",
    );
    check(
        r#"{"inputs":{"x":{"data":[["a",""],["b",[255]]],"shape":[2,2],"type":"bytes"}}}"#,
        r#"Bytes(["a", "", "b", "\xff"])"#,
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"bytes","data":["aGk="]}},"base64":true}"#,
        r#"Bytes(["hi"])"#,
    );
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"bytes","data":["a"]}}}"#,
        "\"inputs.x.data\" is 1 elements; expected as many as shape [2]",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"bytes","data":["a", 1]}}}"#,
        "\"inputs.x.data[1]\" is an integer; expected one string: text or bytes",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"bytes","data":"a"}}}"#,
        "\"inputs.x.data\" is text; expected an array of strings",
    );
    check(r#"{"inputs":{"x":[1]}}"#, "\"inputs.x\" is an array");
    check(r#"{"inputs":{},"otputs":[]}"#, "\"otputs\" is unknown");
    check("{}", "\"inputs\" is missing");
}

#[test]
fn whole_numbers_are_exact_and_within_their_type() {
    check(
        r#"{"inputs":{"x":{"shape":[2],"type":"u64","data":[18446744073709551615,9007199254740993]}}}"#,
        "U64([18446744073709551615, 9007199254740993])",
    );
    for (element_type, beyond) in [
        ("i8", "128"),
        ("i16", "-32769"),
        ("u16", "65536"),
        ("u32", "4294967296"),
        ("u64", "-1"),
    ] {
        check(
            &format!(r#"{{"inputs":{{"x":{{"shape":[1],"type":"{element_type}","data":[{beyond}]}}}}}}"#),
            &format!("integer; expected one {element_type}"),
        );
    }
}

#[test]
fn samples_are_checked() {
    check(r#"{"samples":[["a","b"],["c","d"]]}"#, "samples: [[\"a\", \"b\"]");
    check(
        r#"{"samples":[["a",1]]}"#,
        "\"samples[0][1]\" is an integer; expected text",
    );
    check(r#"{"samples":["a"]}"#, "\"samples[0]\" is text");
    check(r#"{"samples":[],"version":1}"#, "\"version\" is unknown");
}

#[test]
fn answers_round_trip() {
    let tensor = Tensor::new(vec![2, 1], vec![0.1_f32, -2.0]).unwrap();
    let outputs = Answer::Outputs(Outputs {
        model: "m".into(),
        version: 3,
        outputs: vec![("y".into(), tensor)],
    });
    let scores = Answer::Scores(Scores {
        scores: vec![0.1, -2.0, 1e-30],
    });
    for answer in [outputs, scores] {
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            assert_eq!(round_trip::<Answer<'_>>(encoding, &answer), answer);
        }
    }
}

#[test]
fn answers_that_do_not_fit_are_named() {
    for (json, expected) in [
        (
            r#"{"scores": [1, "a"]}"#,
            "key \"scores[1]\" is text; expected one f32",
        ),
        (
            r#"{"model": "m", "version": 1, "outputs": {"y": 1}}"#,
            "key \"outputs.y\" is an integer; expected a map {shape, type, data}",
        ),
    ] {
        let payload = Payload::new(Encoding::Json, json.as_bytes()).unwrap();
        let error = Answer::decode(&payload).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn elements_may_stand_before_their_type_and_be_base64() {
    check(
        r#"{"inputs":{"x":{"data":"AACAPw==","shape":[1],"type":"f32"}},"base64":true}"#,
        "F32([1.0])",
    );
    check(
        r#"{"inputs":{"x":{"data":null,"shape":[1],"type":"f32"}}}"#,
        "key \"inputs.x.data\" is missing",
    );
}
