//! A worker that takes several requests a run: each has a result of its own, and a lie about them is the failure of the run.
#![allow(clippy::unwrap_used, missing_docs)]

use millpond_backends_interface::Instance;
use millpond_backends_worker::{Launch, SHARED_BYTES_MAX, requests_max};
use millpond_tensor::{Bytes, Tensor};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn instance() -> (Box<dyn Instance>, usize) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests.py");
    let launch = Launch {
        command: Box::new(move || {
            let mut command = Command::new("python3");
            command.arg(&program);
            Ok(command)
        }),
        what: "{}".to_owned(),
        path: "requests.py".into(),
        start_max: Duration::from_secs(60),
        run_max: Duration::from_secs(60),
        memory_bytes_max: None,
        shared_bytes_max: SHARED_BYTES_MAX,
        takes_requests: true,
    };
    let model = launch.load().unwrap();
    assert!(model.takes_requests() && !model.signature().batched);
    let instance = model.instance().unwrap();
    (instance, requests_max(model.signature()))
}

fn request(word: &str) -> Vec<Tensor> {
    let word: Bytes = [word].into_iter().collect();
    vec![Tensor::new(Vec::new(), word).unwrap()]
}

fn check(instance: &mut dyn Instance, words: &[&str], expected: &[Result<&str, &str>]) {
    let requests = words.iter().map(|word| request(word)).collect();
    let results = instance.run_requests(requests, None);
    assert_eq!(results.len(), expected.len(), "{results:?}");
    for (result, expected) in results.into_iter().zip(expected) {
        match (result, expected) {
            (Ok(outputs), Ok(word)) => assert_eq!(outputs, request(word)),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, expected) => panic!("{words:?}: expected {expected:?}, found {found:?}"),
        }
    }
}

/// Several requests whose run fails: nothing but the reason.
fn check_failed(instance: &mut dyn Instance, words: &[&str]) {
    let requests = words.iter().map(|word| request(word)).collect();
    let results = instance.run_requests(requests, None);
    assert!(
        results.len() == 1 && results[0].is_err(),
        "{words:?}: {results:?}"
    );
}

#[test]
fn each_request_has_a_result_of_its_own() {
    let (mut instance, _) = instance();
    let long = "long".repeat(1000);
    check(&mut *instance, &["a", "", &long], &[Ok("a"), Ok(""), Ok(&long)]);
    check(
        &mut *instance,
        &["a", "not this", "b"],
        &[Ok("a"), Err("the model failed: not this"), Ok("b")],
    );
    assert_eq!(instance.run(request("alone")).unwrap(), request("alone"));
    let failed = instance.run(request("no")).unwrap_err();
    assert_eq!(failed.to_string(), "the model failed: no");
}

#[test]
fn as_many_requests_as_a_message_names_share_a_run() {
    let (mut instance, most) = instance();
    let words = vec!["w"; most];
    check(&mut *instance, &words, &vec![Ok("w"); most]);
    // One more is named by no message.
    check_failed(&mut *instance, &vec!["w"; most + 1]);
}

#[test]
fn a_run_that_fails_as_a_whole_has_an_error_alone() {
    let (mut instance, _) = instance();
    for lie in ["raise", "few", "shares", "outcome", "answer"] {
        check_failed(&mut *instance, &["a", lie]);
        check(&mut *instance, &["a"], &[Ok("a")]);
    }
    let failed = instance.run(request("few")).unwrap_err().to_string();
    assert!(failed.contains("it gave 0 results for 1 requests"), "{failed}");
}

#[test]
fn a_lie_about_one_result_is_that_results() {
    let (mut instance, _) = instance();
    let few = Err("it gave 0 outputs, 1 expected");
    check(&mut *instance, &["nothing", "a"], &[few, few]);
    let none = Err("it gave 0 reasons for a failure");
    check(&mut *instance, &["no reason"], &[none]);
    check(
        &mut *instance,
        &["no text"],
        &[Err("its reason for a failure is no text")],
    );
    check(
        &mut *instance,
        &["no place"],
        &[Err("its reason for a failure has 9 bytes from 1099511627776 on")],
    );
}
