//! What goes wrong stays where it went wrong: a bad item, a panic, a NaN, a receiver
//! that panics, a model that cannot start.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)]

mod gate;

use gate::{
    Answers, BOMB, CRASH, Gate, GateModel, NAN, POISON, accept, check_answer, check_error, request, start,
    submit,
};
use millpond_backends_interface::{Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions, Error, FailureCause};
use millpond_tensor::{ElementType, Tensor};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Three requests in one batch, the second of them `bad`: it fails with `words`, alone.
fn check_fails_alone(bad: f32, words: &str, expected_runs: &[&[f32]]) {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let before = submit(&batcher, &[2.0, 3.0]);
    let failing = submit(&batcher, &[4.0, bad]);
    let after = submit(&batcher, &[5.0]);
    gate.open();
    check_answer(&first, &[1.0]);
    check_answer(&before, &[2.0, 3.0]);
    check_error(&failing, words);
    check_answer(&after, &[5.0]);
    let runs = gate.all_entered();
    assert_eq!(runs.len(), expected_runs.len(), "{runs:?}");
    for (run, expected) in runs.iter().zip(expected_runs) {
        assert_eq!(format!("{run:?}"), format!("{expected:?}"));
    }
    check_answer(&submit(&batcher, &[6.0]), &[6.0]);
    let stats = batcher.stats();
    assert_eq!((stats.answered, stats.failed), (4, 1));
}

#[test]
fn a_bad_item_fails_alone() {
    let together: &[f32] = &[2.0, 3.0, 4.0, POISON, 5.0];
    check_fails_alone(
        POISON,
        "model `gate` failed: poison",
        &[together, &[2.0, 3.0], &[4.0, POISON], &[5.0]],
    );
}

#[test]
fn an_item_that_panics_fails_alone() {
    let together: &[f32] = &[2.0, 3.0, 4.0, BOMB, 5.0];
    check_fails_alone(
        BOMB,
        "it panicked: bomb",
        &[together, &[2.0, 3.0], &[4.0, BOMB], &[5.0]],
    );
}

#[test]
fn an_output_that_is_not_finite_fails_alone_and_is_named() {
    // The run itself succeeds, so nothing runs again.
    check_fails_alone(
        NAN,
        "output `y` is NaN at element 1",
        &[&[2.0, 3.0, 4.0, NAN, 5.0]],
    );
}

/// A run is held while requests of these rows come; what their failures have as cause, and that of one that comes later.
fn causes_of_loss(
    model: impl Fn() -> (GateModel, Gate),
    rows: &[&[f32]],
) -> (Vec<FailureCause>, FailureCause) {
    let (model, mut gate) = model();
    let batcher = start(model, 1, 8, 8);
    let first = submit_row(&batcher, &[1.0]);
    gate.entered();
    let together: Vec<_> = rows.iter().map(|row| submit_row(&batcher, row)).collect();
    gate.open();
    assert!(first.recv().unwrap().is_ok());
    let causes = together.iter().map(cause).collect();
    let later = cause(&submit_row(&batcher, &[4.0]));
    let stats = batcher.stats();
    assert_eq!((stats.answered, stats.failed), (1, 1 + rows.len() as u64));
    (causes, later)
}

/// A request of one row of such values.
fn submit_row(batcher: &Batcher, row: &[f32]) -> Answers {
    let (mut request, answers) = request(row);
    request.inputs = vec![Tensor::new(vec![1, row.len()], row.to_vec()).unwrap()];
    request.rows = 1;
    accept(batcher, request);
    answers
}

fn signature(batched: bool) -> Signature {
    let port = |name: &str| Port {
        name: name.into(),
        element_type: ElementType::F32,
        shape: vec![if batched { None } else { Some(1) }, None],
    };
    Signature {
        inputs: vec![port("x")],
        outputs: vec![port("y")],
        batched,
    }
}

/// Nobody knows which of them ended the process, so none is told to ask again; who was no part of that run is.
#[test]
fn requests_whose_shared_run_ended_the_process_failed_by_that() {
    use FailureCause::{Absent, Crash};
    let joined = || {
        let (model, gate) = GateModel::held();
        (model.with_signature(signature(true)), gate)
    };
    let (causes, later) = causes_of_loss(joined, &[&[2.0], &[CRASH], &[3.0]]);
    assert_eq!((causes, later), (vec![Crash; 3], Absent));
    // Rows of another length have a run of their own.
    let (causes, later) = causes_of_loss(joined, &[&[CRASH, 0.0], &[2.0, 0.0], &[3.0]]);
    assert_eq!((causes, later), (vec![Crash, Crash, Absent], Absent));
    let apart = || {
        let (mut model, gate) = GateModel::held();
        model.takes_requests = true;
        (model.with_signature(signature(false)), gate)
    };
    let (causes, later) = causes_of_loss(apart, &[&[2.0], &[CRASH], &[3.0]]);
    assert_eq!((causes, later), (vec![Crash; 3], Absent));
}

fn cause(answers: &Answers) -> FailureCause {
    match answers.recv().unwrap() {
        Err(Error::ModelFailed { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// So many requests of one row in one batch, of which these are bad: they fail, the others do not. How many runs that took.
fn runs_of(requests: usize, bad: &[usize]) -> usize {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, requests, requests);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let value = |number: usize| {
        if bad.contains(&number) {
            POISON
        } else {
            number as f32
        }
    };
    let answers: Vec<_> = (0..requests)
        .map(|number| submit(&batcher, &[value(number)]))
        .collect();
    gate.open();
    check_answer(&first, &[1.0]);
    for (number, answers) in answers.iter().enumerate() {
        match bad.contains(&number) {
            true => check_error(answers, "model `gate` failed: poison"),
            false => drop(check_answer(answers, &[value(number)])),
        }
    }
    let stats = batcher.stats();
    assert_eq!(
        (stats.answered, stats.failed),
        (1 + (requests - bad.len()) as u64, bad.len() as u64)
    );
    gate.all_entered().len()
}

#[test]
fn one_bad_item_of_many_is_found_by_halves() {
    for bad in 0..64 {
        // All, two for each of four halvings at most, and four one by one.
        let runs = runs_of(64, &[bad]);
        assert!(runs <= 1 + 2 * 4 + 4, "{bad}: {runs}");
    }
    let all: Vec<usize> = (0..64).collect();
    assert!(runs_of(64, &all) < 2 * 64);
    assert!(runs_of(64, &[0, 63]) <= 2 * 13);
    for requests in 2..12 {
        runs_of(requests, &[requests - 1]);
        runs_of(requests, &[0, requests / 2]);
    }
}

#[test]
fn the_instance_is_built_again_after_a_panic() {
    let (model, _gate) = GateModel::free();
    let model = Arc::new(model);
    let counted: Arc<dyn Model> = model.clone();
    let batcher = Batcher::start("gate", counted, BatcherOptions::default()).unwrap();
    assert_eq!(model.instances.load(Ordering::SeqCst), 1);
    check_error(&submit(&batcher, &[BOMB]), "it panicked: bomb");
    check_answer(&submit(&batcher, &[1.0]), &[1.0]);
    assert_eq!(model.instances.load(Ordering::SeqCst), 2);
    assert_eq!(batcher.stats().panics, 1);
}

#[test]
fn each_failed_request_is_counted_by_one_cause() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 1, 8, 8);
    for value in [POISON, POISON, BOMB, NAN, 1.0] {
        drop(submit(&batcher, &[value]).recv().unwrap());
    }
    // The end of a run is counted behind its answers.
    while batcher.stats().busy > 0 {
        std::thread::yield_now();
    }
    batcher.begin_stop();
    assert!(batcher.submit(request(&[1.0]).0).is_err());
    let stats = batcher.stats();
    let found = [
        stats.failed_backend,
        stats.failed_panic,
        stats.failed_not_finite,
        stats.stopping,
    ];
    assert_eq!(found, [2, 1, 1, 1], "{stats:?}");
    assert_eq!((stats.answered, stats.failed, stats.refused), (1, 4, 1));
    // A run that panics, fails or gives a NaN is a run; those that gave outputs are timed behind it.
    assert_eq!(
        (
            stats.batch_rows.count(),
            stats.compute.count(),
            stats.post.count()
        ),
        (5, 5, 2)
    );
    // What failed by itself never was a batch of several.
    assert_eq!(stats.pre.count(), 0);
}

#[test]
fn an_instance_that_cannot_be_built_again_fails_requests_and_not_the_process() {
    let (mut model, _gate) = GateModel::free();
    model.instances_max = 1;
    let batcher = start(model, 1, 8, 8);
    check_error(&submit(&batcher, &[BOMB]), "it panicked: bomb");
    check_error(&submit(&batcher, &[1.0]), "no memory for another instance");
    check_error(&submit(&batcher, &[2.0]), "no memory for another instance");
    batcher.stop();
}

#[test]
fn a_receiver_that_panics_costs_only_itself() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let (mut rude, _) = request(&[2.0]);
    rude.done = Box::new(|_| panic!("not today"));
    accept(&batcher, rude);
    let polite = submit(&batcher, &[3.0]);
    gate.open();
    check_answer(&first, &[1.0]);
    assert_eq!(check_answer(&polite, &[3.0]).timing.batch_requests, 2);
    check_answer(&submit(&batcher, &[4.0]), &[4.0]);
}

#[test]
fn rows_that_do_not_agree_fail_alone() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let (mut wrong, failing) = request(&[2.0, 3.0]);
    wrong.rows = 1;
    accept(&batcher, wrong);
    let mate = submit(&batcher, &[4.0]);
    gate.open();
    check_answer(&first, &[1.0]);
    check_error(&failing, "does not have the 1 rows of its request");
    check_answer(&mate, &[4.0]);
}

fn check_refused(model: GateModel, options: BatcherOptions, words: &str) {
    let error = Batcher::start("gate", Arc::new(model), options)
        .unwrap_err()
        .to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let (model, options) = (|| GateModel::free().0, BatcherOptions::default);
    check_refused(
        model(),
        BatcherOptions {
            instances: 0,
            ..options()
        },
        "models.gate.instances is 0; expected at least 1",
    );
    check_refused(
        model(),
        BatcherOptions {
            instances: 1_000_000_000,
            ..options()
        },
        "models.gate.instances is 1000000000; expected at most 1024",
    );
    check_refused(
        model(),
        BatcherOptions {
            batch_size_max: 0,
            ..options()
        },
        "models.gate.batch_size_max is 0; expected at least 1",
    );
    check_refused(
        model(),
        BatcherOptions {
            cpus: vec![1_000_000],
            ..options()
        },
        "instance 0 cannot start: cpu 1000000",
    );
    let mut short = model();
    short.instances_max = 2;
    check_refused(
        short,
        BatcherOptions {
            instances: 3,
            ..options()
        },
        "cannot start: the model failed: no memory for another instance",
    );
}

/// A run that never ends holds up no stop: it is given up, and dropping the batcher waits no more either.
#[test]
fn a_run_that_does_not_end_is_not_waited_for_beyond_the_limit() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 2, 8, 8);
    let stuck = submit(&batcher, &[1.0]);
    gate.entered();
    assert!(batcher.is_whole());
    assert!(!batcher.stop_by(Instant::now() + Duration::from_millis(20)));
    drop(batcher);
    gate.open();
    check_answer(&stuck, &[1.0]);
}

#[test]
fn a_stop_in_time_finishes_what_was_accepted() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 2, 8, 8);
    let accepted = submit(&batcher, &[1.0]);
    assert!(batcher.stop_by(Instant::now() + Duration::from_secs(60)));
    assert!(batcher.is_whole(), "its threads ended because they were told to");
    check_answer(&accepted, &[1.0]);
}
