//! Requests that the thread which brings them runs itself, at the end of its turn.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{Answers, BOMB, Gate, GateModel, HEAVY, IDLE, POISON, check_answer, check_error, request, submit};
use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions, Rejected, Sweep};
use millpond_tensor::ElementType;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// So long that no run of these tests takes it.
const LONG_US: u64 = 600_000_000;

fn start(model: impl Model + 'static, options: BatcherOptions) -> Arc<Batcher> {
    Arc::new(Batcher::start("gate", Arc::new(model), options).unwrap())
}

fn options(inline_us_max: u64) -> BatcherOptions {
    BatcherOptions {
        inline_us_max,
        batch_size_max: 4,
        queue_max: 1,
        ..BatcherOptions::default()
    }
}

/// Has an instance run one row, and come back for the next.
fn measure(batcher: &Batcher, gate: &Gate) {
    check_answer(&submit(batcher, &[0.0]), &[0.0]);
    while batcher.stats().busy > 0 {
        std::thread::yield_now();
    }
    gate.all_entered();
    batcher.forget_counts();
}

/// A measured model whose runs are not held.
fn measured(inline_us_max: u64) -> (Arc<Batcher>, Gate) {
    let (model, gate) = GateModel::free();
    let batcher = start(model, options(inline_us_max));
    measure(&batcher, &gate);
    (batcher, gate)
}

fn gather(sweep: &mut Sweep, batcher: &Arc<Batcher>, values: &[f32]) -> Answers {
    let (request, answers) = request(values);
    sweep.submit(batcher, request).map_err(|(why, _)| why).unwrap();
    answers
}

#[test]
fn a_turns_requests_run_together_on_its_thread_and_without_a_hop() {
    let (batcher, gate) = measured(LONG_US);
    let wakes = batcher.stats().wakes;
    let mut sweep = Sweep::default();
    for _ in 0..3 {
        let first = gather(&mut sweep, &batcher, &[1.0, 2.0]);
        let second = gather(&mut sweep, &batcher, &[3.0]);
        assert!(first.try_recv().is_err() && !sweep.is_empty());
        sweep.run();
        assert!(sweep.is_empty());
        assert_eq!(check_answer(&first, &[1.0, 2.0]).timing.batch_rows, 3);
        assert_eq!(check_answer(&second, &[3.0]).timing.batch_requests, 2);
        let run = gate.runs.try_recv().unwrap();
        assert_eq!(run.values, [1.0, 2.0, 3.0]);
        assert_eq!(Some(run.thread.as_str()), std::thread::current().name());
    }
    let stats = batcher.stats();
    assert_eq!(
        (stats.accepted, stats.answered, stats.batches, stats.rows),
        (6, 6, 3, 9)
    );
    assert_eq!(stats.wakes, wakes);
}

#[test]
fn what_is_not_measured_or_takes_too_long_runs_on_an_instance() {
    let check = |batcher: &Arc<Batcher>, gate: &Gate| {
        let mut sweep = Sweep::default();
        let answers = gather(&mut sweep, batcher, &[1.0]);
        assert!(sweep.is_empty());
        check_answer(&answers, &[1.0]);
        assert_eq!(gate.runs.recv().unwrap().thread, "infer-gate-0");
    };
    let (model, gate) = GateModel::free();
    check(&start(model, options(LONG_US)), &gate);
    let (batcher, gate) = measured(0);
    check(&batcher, &gate);

    let (model, gate) = GateModel::held();
    let batcher = start(model, options(1000));
    let slow = submit(&batcher, &[0.0]);
    gate.entered();
    std::thread::sleep(std::time::Duration::from_millis(2));
    gate.release_one();
    check_answer(&slow, &[0.0]);
    gate.release_one();
    check(&batcher, &gate);
}

#[test]
fn a_model_whose_callers_choose_sizes_beside_the_batch_runs_on_an_instance() {
    let check = |batched, shape: &[Option<usize>], is_inline| {
        let port = |name: &str| Port {
            name: name.into(),
            element_type: ElementType::F32,
            shape: shape.to_vec(),
        };
        let (model, gate) = GateModel::free();
        let signature = Signature {
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            batched,
        };
        let batcher = start(model.with_signature(signature), options(LONG_US));
        measure(&batcher, &gate);
        let mut sweep = Sweep::default();
        let answers = gather(&mut sweep, &batcher, &[1.0]);
        assert_eq!(!sweep.is_empty(), is_inline, "{shape:?}");
        sweep.run();
        check_answer(&answers, &[1.0]);
    };
    check(true, &[None, Some(1)], true);
    check(true, &[None, None], false);
    check(false, &[Some(1), Some(1)], true);
    check(false, &[None, Some(1)], false);
}

#[test]
fn a_run_takes_no_more_rows_than_a_batch_and_larger_requests_in_chunks() {
    let (batcher, gate) = measured(LONG_US);
    let mut sweep = Sweep::default();
    let rows: [&[f32]; 4] = [&[1.0, 2.0, 3.0], &[4.0, 5.0], &[6.0, 7.0], &[8.0; 6]];
    let answers = rows.map(|values| gather(&mut sweep, &batcher, values));
    sweep.run();
    for (answers, values) in answers.iter().zip(rows) {
        check_answer(answers, values);
    }
    let runs: [&[f32]; 4] = [&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0, 7.0], &[8.0; 4], &[8.0; 2]];
    assert_eq!(gate.all_entered(), runs);
}

#[test]
fn a_panic_fails_its_request_alone_and_the_next_turn_runs() {
    let (model, gate) = GateModel::free();
    // Both that fail together may wait for the instance.
    let options = BatcherOptions {
        queue_max: 2,
        ..options(LONG_US)
    };
    let batcher = start(model, options);
    measure(&batcher, &gate);
    let mut sweep = Sweep::default();
    for _ in 0..2 {
        let good = gather(&mut sweep, &batcher, &[1.0]);
        let bad = gather(&mut sweep, &batcher, &[BOMB]);
        assert!(!sweep.is_empty());
        sweep.run();
        check_answer(&good, &[1.0]);
        check_error(&bad, "it panicked: bomb");
    }
    let stats = batcher.stats();
    assert_eq!((stats.accepted, stats.answered, stats.failed), (4, 2, 2));
    // Together, and on an instance together once more or not, and alone.
    assert!((4..=6).contains(&stats.panics), "{}", stats.panics);
}

/// Requests that go the way of instances until the next one waits for the end of the turn, and is answered there.
fn until_inline(batcher: &Arc<Batcher>) -> bool {
    let mut sweep = Sweep::default();
    (0..1000).any(|_| {
        let answers = gather(&mut sweep, batcher, &[1.0]);
        let is_inline = !sweep.is_empty();
        sweep.run();
        check_answer(&answers, &[1.0]);
        is_inline
    })
}

/// Has the thread itself run this together, when it has forgotten what took long.
fn sweep_together<const N: usize>(batcher: &Arc<Batcher>, rows: [&[f32]; N]) -> [Answers; N] {
    let mut sweep = Sweep::default();
    loop {
        (0..64).for_each(|_| assert!(until_inline(batcher)));
        let before = batcher.stats().wakes;
        let answers = rows.map(|values| gather(&mut sweep, batcher, values));
        let together = batcher.stats().wakes == before;
        sweep.run();
        if together {
            return answers;
        }
        answers.iter().for_each(|answers| drop(answers.recv()));
    }
}

#[test]
fn what_fails_together_runs_on_an_instance_and_tells_nothing_of_the_model() {
    let (batcher, gate) = measured(2000);
    for bad in [POISON, BOMB] {
        let [good, failed] = sweep_together(&batcher, [&[1.0], &[bad, HEAVY]]);
        check_answer(&good, &[1.0]);
        assert!(failed.recv().unwrap().is_err());
        let inline = std::thread::current();
        let runs = gate.runs.try_iter().filter(|run| run.values.contains(&bad));
        let swept = runs.filter(|run| Some(run.thread.as_str()) == inline.name());
        assert_eq!(swept.count(), 1);
        assert!(until_inline(&batcher), "it was no measure of the model");
    }
    let [failed] = sweep_together(&batcher, [&[POISON, HEAVY]]);
    assert!(failed.recv().unwrap().is_err());
    assert!(until_inline(&batcher));
}

#[test]
fn a_run_that_used_ten_times_the_budget_sends_its_model_back_and_no_other() {
    let (batcher, _gate) = measured(2000);
    for _ in 0..2 {
        let [idle] = sweep_together(&batcher, [&[IDLE]]);
        check_answer(&idle, &[IDLE]);
        assert!(until_inline(&batcher), "its thread was off the processor");
    }
    let [heavy] = sweep_together(&batcher, [&[HEAVY]]);
    check_answer(&heavy, &[HEAVY]);
    assert!(!until_inline(&batcher));
}

#[test]
fn nothing_overtakes_what_waits_and_a_full_queue_refuses() {
    let (model, gate) = GateModel::held();
    let batcher = start(model, options(LONG_US));
    gate.release_one();
    measure(&batcher, &gate);
    let running = submit(&batcher, &[1.0]);
    gate.entered();
    // The instance is busy, and nothing waits for it.
    let mut sweep = Sweep::default();
    let swept = gather(&mut sweep, &batcher, &[2.0]);
    assert!(!sweep.is_empty());
    let waiting = submit(&batcher, &[3.0]);
    let (late, _) = request(&[4.0]);
    let full = Rejected::QueueFull {
        queued: 1,
        queue_max: 1,
    };
    assert_eq!(sweep.submit(&batcher, late).unwrap_err().0, full);
    (0..3).for_each(|_| gate.release_one());
    sweep.run();
    check_answer(&swept, &[2.0]);
    check_answer(&running, &[1.0]);
    check_answer(&waiting, &[3.0]);
}

#[test]
fn what_nobody_waits_for_any_more_does_not_run() {
    let (batcher, gate) = measured(LONG_US);
    let mut sweep = Sweep::default();
    let (left, gone) = request(&[1.0]);
    let flag = Arc::clone(&left.gone);
    sweep.submit(&batcher, left).map_err(|(why, _)| why).unwrap();
    let (mut late, passed) = request(&[2.0]);
    late.deadline = Some(Instant::now());
    sweep.submit(&batcher, late).map_err(|(why, _)| why).unwrap();
    let good = gather(&mut sweep, &batcher, &[3.0]);
    flag.store(true, Ordering::Release);
    sweep.run();
    check_error(&gone, "went away before it ran");
    check_error(&passed, "the deadline passed");
    check_answer(&good, &[3.0]);
    assert_eq!(gate.all_entered(), [[3.0]]);
    let stats = batcher.stats();
    assert_eq!((stats.abandoned, stats.expired, stats.answered), (1, 1, 1));
}

#[test]
fn what_waits_for_the_end_of_a_turn_counts_among_the_bytes() {
    let (model, gate) = GateModel::free();
    let options = BatcherOptions {
        queue_bytes_max: 8,
        ..options(LONG_US)
    };
    let batcher = start(model, options);
    measure(&batcher, &gate);
    let mut sweep = Sweep::default();
    for _ in 0..2 {
        let good = gather(&mut sweep, &batcher, &[1.0, 2.0]);
        let full = Rejected::BytesFull {
            held: 8,
            bytes: 4,
            queue_bytes_max: 8,
        };
        assert_eq!(sweep.submit(&batcher, request(&[3.0]).0).unwrap_err().0, full);
        sweep.run();
        check_answer(&good, &[1.0, 2.0]);
    }
}

/// A model that counts its instances.
struct Counted(GateModel, Arc<AtomicUsize>);

impl Model for Counted {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.instance()
    }
}

#[test]
fn threads_that_come_and_go_leave_no_instances_behind() {
    let (model, gate) = GateModel::free();
    let made = Arc::new(AtomicUsize::new(0));
    let batcher = start(Counted(model, Arc::clone(&made)), options(LONG_US));
    measure(&batcher, &gate);
    let before = made.load(Ordering::Relaxed);
    for _ in 0..3 {
        let batcher = Arc::clone(&batcher);
        let turn = std::thread::spawn(move || {
            let mut sweep = Sweep::default();
            let answers = gather(&mut sweep, &batcher, &[1.0]);
            assert!(!sweep.is_empty());
            sweep.run();
            check_answer(&answers, &[1.0]);
        });
        turn.join().unwrap();
    }
    assert_eq!(made.load(Ordering::Relaxed) - before, 1);
}

/// A model whose signature panics when it is told to: what runs around a run asks for it.
struct Faulty(GateModel, Arc<AtomicBool>);

impl Model for Faulty {
    fn signature(&self) -> &Signature {
        assert!(!self.1.load(Ordering::Relaxed), "no signature");
        self.0.signature()
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        self.0.instance()
    }
}

#[test]
fn a_panic_outside_of_a_run_gives_the_bytes_of_all_models_back() {
    let options = BatcherOptions {
        queue_bytes_max: 4,
        ..options(LONG_US)
    };
    let panics = Arc::new(AtomicBool::new(false));
    let batchers = [(), ()].map(|()| {
        let (model, gate) = GateModel::free();
        let faulty = Faulty(model, Arc::clone(&panics));
        let batcher = Arc::new(Batcher::start("gate", Arc::new(faulty), options.clone()).unwrap());
        measure(&batcher, &gate);
        batcher
    });
    let mut sweep = Sweep::default();
    let lost = batchers
        .each_ref()
        .map(|batcher| gather(&mut sweep, batcher, &[1.0]));
    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| sweep.run())).is_err());
    assert!(lost.iter().all(|answers| answers.recv().is_err()));
    panics.store(false, Ordering::Relaxed);
    let answers = batchers
        .each_ref()
        .map(|batcher| gather(&mut sweep, batcher, &[1.0]));
    sweep.run();
    for answers in &answers {
        check_answer(answers, &[1.0]);
    }
}

#[test]
fn without_an_instance_of_its_own_a_thread_hands_its_requests_over() {
    let (mut model, gate) = GateModel::free();
    model.instances_max = 1;
    let batcher = start(model, options(LONG_US));
    measure(&batcher, &gate);
    let mut sweep = Sweep::default();
    let answers = gather(&mut sweep, &batcher, &[1.0]);
    sweep.run();
    check_answer(&answers, &[1.0]);
    assert_eq!(gate.runs.recv().unwrap().thread, "infer-gate-0");
    let _answers = gather(&mut sweep, &batcher, &[2.0]);
    assert!(sweep.is_empty(), "it is not tried again");
}

#[test]
fn what_was_gathered_is_answered_while_the_model_stops() {
    let (batcher, _gate) = measured(LONG_US);
    let mut sweep = Sweep::default();
    let answers = gather(&mut sweep, &batcher, &[1.0]);
    batcher.begin_stop();
    let refused = sweep.submit(&batcher, request(&[2.0]).0);
    assert_eq!(refused.unwrap_err().0, Rejected::Stopping);
    sweep.run();
    check_answer(&answers, &[1.0]);
}

/// A model that no net thread may run itself.
struct OnItsOwnThreads(GateModel);

impl Model for OnItsOwnThreads {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        self.0.instance()
    }

    fn runs_inline(&self) -> bool {
        false
    }
}

#[test]
fn a_model_that_does_not_run_inline_runs_on_an_instance() {
    let (model, gate) = GateModel::free();
    let batcher = start(OnItsOwnThreads(model), options(LONG_US));
    measure(&batcher, &gate);
    let mut sweep = Sweep::default();
    let answers = gather(&mut sweep, &batcher, &[1.0]);
    assert!(sweep.is_empty());
    check_answer(&answers, &[1.0]);
}
