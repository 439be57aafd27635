//! A worker that is no program of ours, and lies: each lie is the failure of its run, and what cannot be spoken with is replaced.
#![allow(clippy::unwrap_used, missing_docs)]

use millpond_backends_interface::{Error, Instance, Model};
use millpond_backends_worker::{Launch, SHARED_BYTES_MAX};
use millpond_tensor::{Bytes, Tensor};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn launch(what: &str) -> Launch {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/liar.py");
    Launch {
        command: Box::new(move || {
            let mut command = Command::new("python3");
            command.arg(&program);
            Ok(command)
        }),
        what: what.to_owned(),
        path: "liar.py".into(),
        start_max: Duration::from_secs(60),
        run_max: Duration::from_secs(60),
        memory_bytes_max: None,
        shared_bytes_max: SHARED_BYTES_MAX,
        takes_requests: false,
    }
}

fn loaded() -> (Arc<dyn Model>, Box<dyn Instance>) {
    let model = launch("{}").load().unwrap();
    let instance = model.instance().unwrap();
    (model, instance)
}

fn inputs(words: &[&str]) -> Vec<Tensor> {
    let rows = words.len();
    let strings: Bytes = words.iter().collect();
    let numbers: Vec<f32> = (0..rows * 2).map(|at| at as f32).collect();
    vec![
        Tensor::new(vec![rows], strings).unwrap(),
        Tensor::new(vec![rows, 2], numbers).unwrap(),
    ]
}

fn outputs(words: &[&str]) -> Vec<Tensor> {
    let rows = words.len();
    let sums: Vec<f32> = (0..rows).map(|row| (4 * row + 1) as f32).collect();
    let strings: Bytes = words.iter().collect();
    vec![
        Tensor::new(vec![rows, 1], sums).unwrap(),
        Tensor::new(vec![rows], strings).unwrap(),
    ]
}

#[test]
fn a_worker_in_another_language_is_understood() {
    let (model, mut instance) = loaded();
    assert_eq!(model.signature().outputs[1].to_string(), "echo: bytes[N]");
    let long = "long".repeat(30_000);
    for words in [&["a", "", "bcd"][..], &[long.as_str(), "x"], &["y"]] {
        assert_eq!(instance.run(inputs(words)).unwrap(), outputs(words));
    }
}

#[test]
fn a_lie_about_outputs_is_the_failure_of_its_run() {
    let (_model, mut instance) = loaded();
    let mut check = |lie: &str, words: &str| {
        let failed = instance.run(inputs(&[lie])).unwrap_err().to_string();
        assert!(failed.contains(words), "{lie}: {failed}");
        assert!(!failed.contains("started again"), "{lie}: {failed}");
        assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    };
    check("few", "it gave 1 outputs, 2 expected");
    check("many", "it gave 3 outputs, 2 expected");
    check("type", "output `sums` has type 2, and its signature says f32 (1)");
    check(
        "shape",
        "output `sums` has shape [2, 1], and its signature says sums: f32[N, 1] with 1 rows",
    );
    check("rank", "output `sums` has shape []");
    check(
        "huge",
        "output `sums` has shape [9223372036854775808, 9223372036854775808]",
    );
    check(
        "beyond",
        "output `sums` has 4 bytes from 1099511627776 on, in memory of 65536 bytes",
    );
    check("wraps", "output `sums` has 4 bytes from 18446744073709551614 on");
    check(
        "short",
        "output `sums` has 2 bytes, which are not 1 elements of f32",
    );
    check(
        "ends",
        "output `echo` has a string 0 from byte 0 to 18446744073709551615 of 4",
    );
    check("shares", "it gave two outputs that share memory at byte 0");
    check("raise", "the model failed: it raised an error");
}

#[test]
fn a_worker_that_cannot_be_spoken_with_is_replaced() {
    let (_model, mut instance) = loaded();
    let mut check = |lie: &str, words: &str| {
        let failed = instance.run(inputs(&[lie])).unwrap_err().to_string();
        assert!(failed.contains(words), "{lie}: {failed}");
        assert!(failed.contains("it is started again"), "{lie}: {failed}");
        assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    };
    check("other", "said the outputs of a run that is not this one");
    check("nonsense", "said what is no message: a message is cut short");
    check("long", "said what is no message: a message of 100000 bytes");
    check(
        "needs",
        "wants 4611686018427387904 bytes for its outputs, and 1073741824 are the most",
    );
    check("twice", "said that it needs memory, out of turn");
    check("ready", "said that it is ready");
    check("closes", "closed its channel");
}

#[test]
fn a_worker_that_left_between_two_runs_costs_none_of_them() {
    let (_model, mut instance) = loaded();
    for words in [&["leaves"][..], &["x"]] {
        assert_eq!(instance.run(inputs(words)).unwrap(), outputs(words));
    }
}

#[test]
fn a_worker_that_lies_while_it_loads_is_not_a_model() {
    let check = |lie: &str, words: &str| {
        let refused = launch(&format!(r#"{{"lie": "{lie}"}}"#)).load().err().unwrap();
        let refused = refused.to_string();
        assert!(
            refused.contains(words) && refused.contains("liar.py"),
            "{refused}"
        );
    };
    check(
        "version",
        "speaks version 1 of the protocol, and this server version 2",
    );
    check("failed", "it could not");
    check("signature", "first dimension of output `sums` is not free");
    check("answer", "said the outputs of a run that is not this one");
    let silent = Launch {
        start_max: Duration::from_millis(300),
        ..launch(r#"{"lie": "silent"}"#)
    };
    let refused = silent.load().err().unwrap().to_string();
    assert!(refused.contains("it had not loaded after 300 ms"), "{refused}");
    let huge = launch(&"x".repeat(100_000)).load().err().unwrap().to_string();
    assert!(huge.contains("a message of 100016 bytes"), "{huge}");
}

/// These tests have no log.
#[test]
fn the_place_of_what_a_worker_wrote_is_said_where_it_wrote_something() {
    let refused = |script: &'static str| {
        let launch = Launch {
            command: Box::new(move || {
                let mut command = Command::new("sh");
                command.args(["-c", script]);
                Ok(command)
            }),
            ..launch("{}")
        };
        launch.load().err().unwrap().to_string()
    };
    let ended = "its worker process ended (exit status: 3) while it loaded; ";
    let wrote = refused("echo no weights >&2; exit 3");
    assert!(
        wrote.ends_with(&format!("{ended}see what it wrote to standard error")),
        "{wrote}"
    );
    let silent = refused("exit 3");
    assert!(
        silent.ends_with(&format!("{ended}it wrote nothing else")),
        "{silent}"
    );
}

#[test]
fn a_worker_with_another_signature_than_before_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let model = launch(&format!(r#"{{"lie": "file", "path": {seen:?}}}"#))
        .load()
        .unwrap();
    let mut instance = model.instance().unwrap();
    assert!(instance.run(inputs(&["nonsense"])).is_err());
    let deadline = Some(Instant::now() + Duration::from_secs(60));
    let refused = instance.run_by(inputs(&["x"]), deadline).unwrap_err();
    assert!(
        matches!(&refused, Error::Lost { problem, .. } if problem.contains("another signature than before; load the model again")),
        "{refused}"
    );
}

#[test]
fn a_worker_that_does_not_load_again_is_started_ever_more_slowly() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let model = launch(&format!(r#"{{"lie": "once", "path": {seen:?}}}"#))
        .load()
        .unwrap();
    let mut instance = model.instance().unwrap();
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    assert!(instance.run(inputs(&["nonsense"])).is_err());
    let within = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
    for _ in 0..4 {
        let failed = instance
            .run_by(inputs(&["x"]), within(60))
            .unwrap_err()
            .to_string();
        assert!(
            failed.contains("ended (exit status: 4) while it loaded"),
            "{failed}"
        );
    }
    let refused = instance
        .run_by(inputs(&["x"]), within(0))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("has failed 5 times in a row and is started again in"),
        "{refused}"
    );
}
