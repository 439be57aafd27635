//! `millpond call`: the ways to reach a server, calls without an answer, and options that do not go together.

use crate::harness::{Millpond, r1_folder};
use serde_json::{Value, json};
use std::process::Output;
use std::time::{Duration, Instant};

fn call(arguments: &[&str]) -> Output {
    crate::harness::millpond()
        .arg("call")
        .args(arguments)
        .output()
        .unwrap()
}

/// What a call that succeeds prints.
fn answer(arguments: &[&str]) -> Value {
    let done = call(arguments);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_server_is_reached_over_a_unix_socket_and_at_one_of_several_addresses() {
    let folder = r1_folder();
    let socket = format!("unix:{}", folder.path().join("millpond.sock").display());
    let server = Millpond::start(folder.path(), &[&format!("server.listen_also=[\"{socket}\"]")]);
    let away = format!("unix:{}", folder.path().join("absent.sock").display());
    for addr in [
        socket.clone(),
        format!("{away},{}", server.addr),
        format!("{away}, {socket}"),
    ] {
        let ping = answer(&["*ping", "--addr", &addr]);
        assert!(ping["ts"].is_u64(), "{addr}: {ping}");
    }
    let done = call(&["*ping", "--addr", &away]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains(&away), "{said}");
}

#[test]
fn a_call_without_an_answer_prints_nothing_and_runs() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let done = call(&[
        "ordered.put",
        r#"{"entries": [["k", "v"]]}"#,
        "--oneway",
        "--addr",
        &server.addr,
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
    // Nothing says when it has run: look until it has.
    let begun = Instant::now();
    loop {
        let found = answer(&["ordered.get", r#"{"keys": ["k"]}"#, "--addr", &server.addr]);
        if found["values"] == json!(["v"]) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found}");
    }
}

#[test]
fn a_payload_is_read_from_a_file_or_standard_input() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let payload = r#"{"samples": [["v1", "v2"]]}"#;
    let file = folder.path().join("request.json");
    std::fs::write(&file, payload).unwrap();
    let given = answer(&["infer", payload, "--addr", &server.addr]);
    let read = answer(&["infer", &format!("@{}", file.display()), "--addr", &server.addr]);
    assert_eq!(read["scores"], given["scores"]);
    let mut piped = crate::harness::millpond();
    piped.args(["call", "infer", "-", "--addr", &server.addr]);
    piped.stdin(std::fs::File::open(&file).unwrap());
    let piped: Value = serde_json::from_slice(&piped.output().unwrap().stdout).unwrap();
    assert_eq!(piped["scores"], given["scores"]);
    let absent = call(&["infer", "@absent.json", "--addr", &server.addr]);
    let said = String::from_utf8_lossy(&absent.stderr);
    assert!(
        absent.status.code() == Some(1) && said.contains("cannot read absent.json"),
        "{said}"
    );
}

#[test]
fn tls_options_that_do_not_go_together_are_named() {
    let folder = r1_folder();
    let absent = folder.path().join("ca.pem").display().to_string();
    for (arguments, code, expected) in [
        (&["--addr", "tls://localhost:1"][..], 1, "--tls-ca"),
        (&["--addr", "localhost:1", "--tls-ca", &absent], 1, "tls://"),
        (&["--addr", "tls://localhost:1", "--tls-ca", &absent], 1, &absent),
        (&["--tls-cert", "a.pem", "--tls-ca", "b.pem"], 2, "--tls-key"),
        (&["--tls-key", "a.pem"], 2, "--tls-cert"),
        (&["--tls-name", "a"], 2, "--tls-ca"),
        (&["--oneway", "--raw"], 2, "--raw"),
        (&["--addr", "localhost"], 1, "HOST:PORT"),
    ] {
        let done = call(&[&["*ping"], arguments].concat());
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.code() == Some(code) && said.contains(expected),
            "{arguments:?}: {said}"
        );
    }
}
