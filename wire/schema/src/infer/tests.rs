//! Both forms of `infer`, both ways, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::frame::{Encoding, decode_map};

fn check(json: &str, expected: &str) {
    let found = match Call::decode(decode_map(Encoding::Json, json.as_bytes()).unwrap()) {
        Ok((call, _)) => format!("{:?}", call.inputs),
        Err(error) => error.to_string(),
    };
    assert!(
        found.contains(expected),
        "{found:?} does not contain {expected:?}"
    );
}

#[test]
fn both_forms_round_trip() {
    let data = [
        Data::F32(vec![0.5, -1.0]),
        Data::F64(vec![0.25, 9.0]),
        Data::I64(vec![-5, i64::MAX]),
        Data::I32(vec![7, -7]),
        Data::U8(vec![1, 255]),
        Data::Bool(vec![true, false]),
    ];
    let names = ["a", "b", "c", "d", "e", "f"];
    let tensors = data
        .into_iter()
        .zip(names)
        .map(|(data, name)| (name.into(), Tensor::new(vec![1, 2], data).unwrap()))
        .collect();
    let samples = vec![vec!["u1".into(), "i\"2".into()]; 15];
    for inputs in [Inputs::Tensors(tensors), Inputs::Samples(samples)] {
        let call = Call {
            model: Some("m".into()),
            version: None,
            inputs,
            outputs: Vec::new(),
            base64: false,
        };
        for encoding in [Encoding::Msgpack, Encoding::Json] {
            let mut bytes = Vec::new();
            call.encode(&mut Encoder::new(&mut bytes, encoding, false));
            assert_eq!(
                Call::decode(decode_map(encoding, &bytes).unwrap()).unwrap().0,
                call
            );
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
        r#"{"inputs":{"x":{"shape":[2],"type":"f16","data":[1]}}}"#,
        "\"inputs.x.type\" is \"f16\"",
    );
    check(
        r#"{"inputs":{"x":{"shape":[1],"type":"i32","data":[1.5]}}}"#,
        "\"inputs.x.data[0]\" is a floating-point number",
    );
    check(
        r#"{"inputs":{"x":{"shape":[4294967295,4294967295,4294967295],"type":"u8","data":[]}}}"#,
        "0 elements",
    );
    check(r#"{"inputs":{"x":[1]}}"#, "\"inputs.x\" is an array");
    check(r#"{"inputs":{},"otputs":[]}"#, "\"otputs\" is unknown");
    check("{}", "\"inputs\" is missing");
}

#[test]
fn samples_are_checked() {
    check(r#"{"samples":[["a","b"],["c","d"]]}"#, "Samples([[\"a\", \"b\"]");
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
    let scores = [0.1, -2.0, 1e-30];
    for encoding in [Encoding::Msgpack, Encoding::Json] {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes, encoding, false);
        encode_answer(&mut out, "m", 3, [("y", &tensor)].into_iter());
        let found = Answer::decode(decode_map(encoding, &bytes).unwrap()).unwrap();
        let outputs = vec![("y".to_owned(), tensor.clone())];
        assert_eq!(
            found,
            Answer {
                model: "m".to_owned(),
                version: 3,
                outputs
            }
        );
        bytes.clear();
        encode_scores(&mut Encoder::new(&mut bytes, encoding, false), &scores);
        assert_eq!(
            decode_scores(decode_map(encoding, &bytes).unwrap()).unwrap(),
            scores
        );
    }
}

#[test]
fn answers_that_do_not_fit_are_named() {
    let error = decode_scores(decode_map(Encoding::Json, br#"{"scores": [1, "a"]}"#).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "key \"scores[1]\" is text; expected one f32");
    let json = br#"{"model": "m", "outputs": {"y": 1}}"#;
    let error = Answer::decode(decode_map(Encoding::Json, json).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key \"outputs.y\" is an integer; expected a map {shape, type, data}"
    );
}
