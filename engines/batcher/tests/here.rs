//! A caller runs its own request where an instance is idle: on its thread, in an instance's place, and answered like others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)]

mod gate;

use gate::{BOMB, GateModel, check_answer, request, start, submit};
use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions, Error as InferError, Rejected};
use millpond_tensor::{ElementType, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const FOREVER: Duration = Duration::from_secs(60);

#[test]
fn a_caller_alone_runs_on_its_own_thread_and_no_instance_wakes() {
    let (model, gate) = GateModel::free();
    let batcher = start(model, 1, 8, 8);
    let own = thread::current().name().unwrap().to_owned();
    for number in 0..100 {
        let (request, answers) = request(&[number as f32]);
        assert!(batcher.run_here(request).unwrap(), "{number}");
        check_answer(&answers, &[number as f32]);
        assert_eq!(gate.runs.recv().unwrap().thread, own);
    }
    let stats = batcher.stats();
    assert_eq!(
        (stats.accepted, stats.answered, stats.batches, stats.wakes),
        (100, 100, 100, 0)
    );
    assert_eq!((stats.busy, stats.queued), (0, 0));
    batcher.stop();
}

#[test]
fn what_comes_meanwhile_waits_and_an_instance_is_called_for_it() {
    let (model, gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    thread::scope(|scope| {
        let here = scope.spawn(|| {
            let (request, answers) = request(&[1.0]);
            assert!(batcher.run_here(request).unwrap());
            check_answer(&answers, &[1.0]);
        });
        assert_eq!(gate.entered(), [1.0]);
        assert_eq!(batcher.stats().busy, 1);
        // The one place is taken: neither a caller nor an instance runs beside it.
        let (second, second_answers) = request(&[2.0]);
        assert!(!batcher.run_here(second).unwrap());
        let third = submit(&batcher, &[3.0]);
        assert_eq!(batcher.stats().queued, 2);
        gate.release_one();
        here.join().unwrap();
        let mut batch = gate.entered();
        batch.sort_by(f32::total_cmp);
        assert_eq!(batch, [2.0, 3.0]);
        gate.release_one();
        check_answer(&second_answers, &[2.0]);
        check_answer(&third, &[3.0]);
    });
    batcher.stop();
}

#[test]
fn deadlines_departures_and_chunks_are_the_same_here() {
    let (model, gate) = GateModel::free();
    let batcher = start(model, 1, 4, 8);
    let (mut late, late_answers) = request(&[1.0]);
    late.deadline = Some(Instant::now());
    assert!(batcher.run_here(late).unwrap());
    assert!(matches!(
        late_answers.recv().unwrap(),
        Err(InferError::DeadlinePassed { .. })
    ));
    let (left, left_answers) = request(&[1.0]);
    left.gone.store(true, Ordering::Release);
    assert!(batcher.run_here(left).unwrap());
    assert!(matches!(
        left_answers.recv().unwrap(),
        Err(InferError::ClientGone { .. })
    ));
    assert!(gate.all_entered().is_empty());
    // More rows than a run takes.
    let values: Vec<f32> = (0..10).map(|value| value as f32).collect();
    let (chunks, answers) = request(&values);
    assert!(batcher.run_here(chunks).unwrap());
    check_answer(&answers, &values);
    assert_eq!(gate.all_entered().len(), 3);
    batcher.begin_stop();
    let (refused, _) = request(&[1.0]);
    assert!(matches!(batcher.run_here(refused), Err((Rejected::Stopping, _))));
    batcher.stop();
}

#[test]
fn work_whose_deadline_has_passed_is_not_done() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 1, 1, 8);
    let passed = Some(Instant::now());
    let worked = batcher.work_here(1, 0, passed, || -> Result<(), String> {
        panic!("it is not worth it")
    });
    let worked = worked.unwrap().unwrap();
    assert!(matches!(worked.result, Err(InferError::DeadlinePassed { .. })));
    let stats = batcher.stats();
    assert_eq!((stats.expired, stats.failed, stats.busy), (1, 0, 0));
    batcher.stop();
}

#[test]
fn a_panic_costs_its_request_and_the_place_is_free_again() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 1, 4, 8);
    for value in [BOMB, 1.0, BOMB, 2.0] {
        let (request, answers) = request(&[value]);
        assert!(batcher.run_here(request).unwrap());
        assert_eq!(answers.recv().unwrap().is_ok(), value != BOMB);
    }
    let (mut request, _) = request(&[1.0]);
    request.done = Box::new(|_| panic!("the receiver's own"));
    assert!(batcher.run_here(request).unwrap());
    assert_eq!((batcher.stats().busy, batcher.stats().panics), (0, 2));
    check_answer(&submit(&batcher, &[3.0]), &[3.0]);
    batcher.stop();
}

#[test]
fn where_no_further_instance_can_be_made_the_models_own_threads_run_it() {
    let (mut model, gate) = GateModel::free();
    model.instances_max = 1;
    let batcher = start(model, 1, 4, 8);
    for number in 0..3 {
        let (request, answers) = request(&[number as f32]);
        assert!(!batcher.run_here(request).unwrap());
        check_answer(&answers, &[number as f32]);
        assert_eq!(gate.runs.recv().unwrap().thread, "infer-gate-0");
    }
    batcher.stop();
}

/// A model that counts how many run at once; `y` is `x`.
struct Counting {
    signature: Signature,
    runs_inline: bool,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

struct CountingInstance {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Counting {
    fn new(runs_inline: bool) -> Counting {
        let port = |name: &str| Port {
            name: name.into(),
            element_type: ElementType::F32,
            shape: vec![None, Some(1)],
        };
        Counting {
            signature: Signature {
                inputs: vec![port("x")],
                outputs: vec![port("y")],
                batched: true,
            },
            runs_inline,
            running: Arc::default(),
            most: Arc::default(),
        }
    }
}

impl Model for Counting {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(CountingInstance {
            running: Arc::clone(&self.running),
            most: Arc::clone(&self.most),
        }))
    }

    fn runs_inline(&self) -> bool {
        self.runs_inline
    }
}

impl Instance for CountingInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let rows = inputs[0].rows() as u32;
        // Some runs are long enough for waits for callers to pay.
        match rows % 3 {
            0 => thread::sleep(Duration::from_micros(200)),
            1 => thread::yield_now(),
            _ => {}
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        if inputs[0].f32().unwrap().contains(&BOMB) {
            panic!("a bomb");
        }
        Ok(inputs)
    }
}

#[test]
fn limits_on_bytes_hold_here_too() {
    let options = BatcherOptions {
        queue_bytes_max: 100,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("model", Arc::new(Counting::new(true)), options).unwrap();
    for (bytes, is_let_in) in [(90, true), (97, false), (96, true)] {
        let (mut request, _answers) = request(&[1.0]);
        request.kept_bytes = bytes;
        let visited = batcher.run_here(request);
        assert_eq!(visited.is_ok(), is_let_in, "{bytes}");
        assert!(is_let_in || matches!(visited, Err((Rejected::TooManyBytes { bytes: 101, .. }, _))));
    }
    assert_eq!(batcher.stats().queue_bytes, 1);
    batcher.stop();
}

#[test]
fn a_model_that_does_not_bear_it_is_run_by_its_own_threads() {
    let model = Arc::new(Counting::new(false));
    let batcher = Batcher::start("model", model, BatcherOptions::default()).unwrap();
    let (request, answers) = request(&[1.0]);
    assert!(!batcher.run_here(request).unwrap());
    assert!(answers.recv().unwrap().is_ok());
    batcher.stop();
}

/// Callers that run their own requests beside others that hand them over, warm-ups, panics and short deadlines: every request is answered,
/// no more runs go on at a time than there are instances, and a stop ends. Says how many requests their callers ran, of all that were answered.
fn hammer(instances: usize, callers: usize, rounds: u64) -> (usize, usize) {
    let model = Arc::new(Counting::new(true));
    let (running, most) = (Arc::clone(&model.running), Arc::clone(&model.most));
    let options = BatcherOptions {
        instances,
        batch_size_max: 4,
        queue_max: 64,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("model", model, options).unwrap();
    let is_over = AtomicBool::new(false);
    let (here, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                batcher.warm_up(&[1]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let each: Vec<_> = (0..callers as u64)
            .map(|caller| {
                let (batcher, here, answered) = (&batcher, &here, &answered);
                scope.spawn(move || {
                    let mut number = caller * 7919 + 1;
                    for _ in 0..rounds {
                        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let dice = (number >> 33) % 100;
                        let value = if (number >> 40) % 256 == 0 {
                            BOMB
                        } else {
                            dice as f32
                        };
                        let (mut request, answers) = request(&vec![value; 1 + (number >> 50) as usize % 3]);
                        request.source = caller;
                        if dice > 95 {
                            request.deadline = Some(Instant::now() + Duration::from_micros(300));
                        }
                        let accepted = match dice % 4 {
                            0 => batcher.submit(request).map(|()| false),
                            _ => batcher.run_here(request),
                        };
                        if let Ok(was_here) = accepted {
                            here.fetch_add(usize::from(was_here), Ordering::Relaxed);
                            answers
                                .recv_timeout(FOREVER)
                                .expect("every request is answered")
                                .ok();
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        each.into_iter().for_each(|caller| caller.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let most = most.load(Ordering::SeqCst);
    assert!(
        (1..=instances).contains(&most),
        "{most} at a time on {instances} instances"
    );
    let stats = batcher.stats();
    assert_eq!((stats.queued, running.load(Ordering::SeqCst)), (0, 0));
    assert!(batcher.stop_by(Instant::now() + FOREVER));
    (here.load(Ordering::Relaxed), answered.load(Ordering::Relaxed))
}

#[test]
fn nobody_is_forgotten_and_no_more_run_than_there_are_instances() {
    let loads = [(1, 2), (1, 5), (2, 3), (2, 6), (3, 8)];
    let runs = loads.map(|(instances, callers)| hammer(instances, callers, 300));
    // Of one load the instances' own threads may happen to run all.
    let sum = |of: fn(&(usize, usize)) -> usize| runs.iter().map(of).sum::<usize>();
    let (here, answered) = (sum(|run| run.0), sum(|run| run.1));
    assert!(here > 0 && answered > here, "{here} of {answered}");
}

/// A stop while callers run finds its way to instances that sleep because their places are taken.
#[test]
fn a_stop_waits_for_the_callers_that_run_and_ends() {
    for _ in 0..20 {
        let (model, gate) = GateModel::held();
        let batcher = start(model, 2, 1, 8);
        thread::scope(|scope| {
            for value in [1.0, 2.0] {
                let batcher = &batcher;
                scope.spawn(move || {
                    let (request, answers) = request(&[value]);
                    assert!(batcher.run_here(request).unwrap());
                    check_answer(&answers, &[value]);
                });
                gate.entered();
            }
            let waits = submit(&batcher, &[3.0]);
            batcher.begin_stop();
            (0..3).for_each(|_| gate.release_one());
            check_answer(&waits, &[3.0]);
            assert!(batcher.stop_by(Instant::now() + FOREVER));
        });
    }
}
