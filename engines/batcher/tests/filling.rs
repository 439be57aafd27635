//! With `batch_delay_us_max`, instance threads wait for batches to fill while arrivals are steady, and every request is answered.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Answers, GateModel, check_answer, request};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn batches_fill_while_arrivals_are_steady() {
    let (model, mut gate) = GateModel::held();
    let options = BatcherOptions {
        instances: 2,
        batch_size_max: 4,
        batch_delay_us_max: 200_000,
        inline_us_max: 0,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("gate", Arc::new(model), options).expect("it starts");
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut waiting: Vec<(f32, Answers)> = Vec::new();
    let mut sent = 0u16;
    while batcher.stats().filled < 3 {
        assert!(Instant::now() < give_up, "{:?}", batcher.stats());
        // A call a millisecond, each of a source of its own; runs take a millisecond and more.
        thread::sleep(Duration::from_millis(1));
        let value = f32::from(sent % 500);
        let (mut request, answers) = request(&[value]);
        request.source = sent.into();
        gate::accept(&batcher, request);
        waiting.push((value, answers));
        sent += 1;
        for _ in gate.all_entered() {
            gate.release_one();
        }
    }
    gate.open();
    for (value, answers) in &waiting {
        check_answer(answers, &[*value]);
    }
    let stats = batcher.stats();
    assert!(
        stats.delays >= stats.filled && stats.delayed_us_sum > 0,
        "{stats:?}"
    );
    assert_eq!((stats.answered, stats.accepted), (sent.into(), sent.into()));
}

#[test]
fn a_time_beyond_ten_seconds_is_refused() {
    let options = BatcherOptions {
        batch_delay_us_max: 10_000_001,
        ..BatcherOptions::default()
    };
    let problem = Batcher::start("gate", Arc::new(GateModel::free().0), options).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "models.gate.batch_delay_us_max is 10000001; expected at most 10000000 (ten seconds)"
    );
}
