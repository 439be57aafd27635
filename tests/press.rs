//! `millpond press run` and `millpond call` against a running server.

use crate::harness::{Millpond, r1_folder};
use std::process::Command;

const SCENARIO: &str = r#"
[scenario]
name = "black-box"
title = "R1's request, a short run"
[target]
protocol = "PROTOCOL"
address = "ADDRESS"
method = "infer"
[requests]
generate = { seed = 1, distinct = 200, samples = 15, ids = 100 }
[load]
connections = [4]
requests_per_connection = 50
"#;

fn millpond(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn one_call_prints_its_answer() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let done = millpond(&[
        "call",
        "infer",
        "{\"samples\": [[\"v1\", \"v2\"]]}",
        "--addr",
        &server.addr,
    ]);
    let answer: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(answer["scores"].as_array().unwrap().len(), 1);
    let refused = millpond(&["call", "nope", "{}", "--addr", &server.addr]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && said.contains("20004"),
        "{said}"
    );
    let absent = millpond(&["call", "*ping", "--addr", "127.0.0.1:1"]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(
        absent.status.code() == Some(1) && said.contains("127.0.0.1:1"),
        "{said}"
    );
}
