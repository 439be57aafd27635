//! `run_ms_max`: runs that last longer are ended, at the start as well, and the instance goes on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;

use installed::{is_there, load};
use millpond_tensor::Tensor;
use std::time::{Duration, Instant};

fn column(values: &[f32]) -> Vec<Tensor> {
    vec![Tensor::new(vec![values.len(), 1], values.to_vec()).unwrap()]
}

#[test]
fn a_run_that_lasts_too_long_is_ended() {
    if !is_there("a_run_that_lasts_too_long_is_ended") {
        return;
    }
    let model = load("turns.onnx", "run_ms_max = 50").unwrap();
    assert!(model.signature().batched);
    let mut instances = [model.instance().unwrap(), model.instance().unwrap()];
    for round in 0..3 {
        for instance in &mut instances {
            let outputs = instance.run(column(&[3.0, 1.0])).unwrap();
            assert_eq!(outputs[0].f32(), Some([6.0, 4.0].as_slice()), "{round}");
            // A day of turns, or so.
            let began = Instant::now();
            let error = instance.run(column(&[1e12])).unwrap_err().to_string();
            assert!(
                error.contains("longer than run_ms_max (50 ms) and was ended; raise run_ms_max"),
                "{error}"
            );
            assert!(began.elapsed() < Duration::from_secs(60));
            assert!(!model.is_overdue(), "it has ended");
        }
    }
}

#[test]
fn a_trial_that_does_not_end_is_refused() {
    if !is_there("a_trial_that_does_not_end_is_refused") {
        return;
    }
    let error = load("endless.onnx", "run_ms_max = 50")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("endless.onnx: a trial with zeros does not end")
            && error.contains("run_ms_max (50 ms)"),
        "{error}"
    );
}

#[test]
fn without_the_key_runs_last_as_long_as_they_do() {
    if !is_there("without_the_key_runs_last_as_long_as_they_do") {
        return;
    }
    let model = load("turns.onnx", "").unwrap();
    let mut instance = model.instance().unwrap();
    let outputs = instance.run(column(&[200_000.0])).unwrap();
    assert_eq!(outputs[0].f32(), Some([400_000.0].as_slice()));
}
