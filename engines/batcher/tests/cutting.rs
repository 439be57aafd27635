//! Who runs with whom: idle instances start at once, busy ones cut from what waits,
//! the queue is bounded, and what is not worth running is not run. No test looks at a
//! clock; a gate in the model decides when a run ends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod gate;

use gate::{GateModel, accept, check_answer, check_error, refuse, request, start, submit, submit_until};
use millpond_engines_batcher::{Error, Rejected, Stats};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn the_first_request_runs_at_once_and_alone() {
    let (model, gate) = GateModel::held();
    let batcher = start(model, 1, 8, 4);
    let first = submit(&batcher, &[1.0, 2.0]);
    assert_eq!(gate.entered(), [1.0, 2.0]);
    gate.release_one();
    let answer = check_answer(&first, &[1.0, 2.0]);
    assert_eq!((answer.timing.batch_rows, answer.timing.batch_requests), (2, 1));
}

#[test]
fn requests_that_arrive_meanwhile_are_cut_together() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 4, 100);
    let first = submit(&batcher, &[0.0]);
    assert_eq!(gate.entered(), [0.0]);
    let waiting: Vec<(Vec<f32>, gate::Answers)> = [
        vec![1.0],
        vec![2.0, 3.0],
        vec![4.0],
        vec![5.0, 6.0, 7.0],
        vec![8.0, 9.0],
    ]
    .into_iter()
    .map(|values| (values.clone(), submit(&batcher, &values)))
    .collect();
    assert_eq!(batcher.stats().queued, 5);
    gate.open();
    check_answer(&first, &[0.0]);
    let mates: Vec<(usize, usize)> = waiting
        .iter()
        .map(|(values, answers)| {
            let answer = check_answer(answers, values);
            (answer.timing.batch_rows, answer.timing.batch_requests)
        })
        .collect();
    // First come, first served: 1 + 2 + 1 rows are full; 3 and 2 do not fit together.
    assert_eq!(mates, [(4, 3), (4, 3), (4, 3), (3, 1), (2, 1)]);
    let runs = gate.all_entered();
    assert_eq!(
        runs,
        [vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0], vec![8.0, 9.0]]
    );
}

#[test]
fn only_an_idle_instance_is_woken() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 4, 100);
    let mut all = vec![submit(&batcher, &[0.0])];
    gate.entered();
    assert_eq!(batcher.stats().wakes, 1);
    all.extend((0..20).map(|_| submit(&batcher, &[0.0])));
    assert_eq!(batcher.stats().wakes, 1);
    gate.open();
    for answers in &all {
        check_answer(answers, &[0.0]);
    }
    assert_eq!(batcher.stats().wakes, 1);
}

/// Neither run is let go before both have begun; many times, because who wakes first is chance.
#[test]
fn instances_run_side_by_side() {
    for _ in 0..100 {
        let (model, gate) = GateModel::held();
        let batcher = start(model, 2, 8, 0);
        let all = [submit(&batcher, &[1.0]), submit(&batcher, &[2.0])];
        let mut runs = [gate.runs.recv().unwrap(), gate.runs.recv().unwrap()];
        runs.sort_by(|a, b| a.thread.cmp(&b.thread));
        assert_eq!(
            [&*runs[0].thread, &*runs[1].thread],
            ["infer-gate-0", "infer-gate-1"]
        );
        let stats = batcher.stats();
        assert_eq!((stats.busy, stats.wakes), (2, 2));
        gate.release_one();
        gate.release_one();
        check_answer(&all[0], &[1.0]);
        check_answer(&all[1], &[2.0]);
    }
}

#[test]
fn the_queue_refuses_at_its_bound() {
    for queue_max in [0, 1, 3] {
        let (model, mut gate) = GateModel::held();
        let batcher = start(model, 1, 8, queue_max);
        let mut all = vec![submit(&batcher, &[1.0])];
        gate.entered();
        all.extend((0..queue_max).map(|_| submit(&batcher, &[1.0])));
        let (rejected, returned) = refuse(&batcher, &[9.0]);
        assert_eq!(
            rejected,
            Rejected::QueueFull {
                queued: queue_max,
                queue_max
            }
        );
        assert_eq!(returned.inputs[0].f32(), Some(&[9.0][..]));
        gate.open();
        for answers in &all {
            check_answer(answers, &[1.0]);
        }
        assert_eq!(batcher.stats().refused, 1);
    }
}

#[test]
fn a_request_whose_deadline_passed_is_not_run() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let late = submit_until(&batcher, &[2.0], Instant::now());
    let early = submit_until(&batcher, &[3.0], Instant::now() + Duration::from_secs(3600));
    gate.open();
    check_answer(&first, &[1.0]);
    check_error(&late, "the deadline passed");
    check_answer(&early, &[3.0]);
    assert_eq!(gate.all_entered(), [vec![3.0]]);
    // An idle instance does not run it either.
    check_error(&submit_until(&batcher, &[4.0], Instant::now()), "model `gate`");
    assert_eq!(gate.all_entered(), Vec::<Vec<f32>>::new());
    assert_eq!(batcher.stats().expired, 2);
}

#[test]
fn a_request_whose_client_left_is_not_run() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let (leaving, left) = request(&[2.0]);
    let gone = Arc::clone(&leaving.gone);
    accept(&batcher, leaving);
    let stays = submit(&batcher, &[3.0]);
    gone.store(true, Ordering::Release);
    gate.open();
    check_answer(&first, &[1.0]);
    check_error(&left, "went away");
    check_answer(&stays, &[3.0]);
    assert_eq!(gate.all_entered(), [vec![3.0]]);
    assert_eq!(batcher.stats().abandoned, 1);
}

#[test]
fn dropped_requests_take_no_room_in_a_batch() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 2, 8);
    let first = submit(&batcher, &[1.0]);
    gate.entered();
    let one = submit(&batcher, &[2.0]);
    let late = submit_until(&batcher, &[3.0, 3.0], Instant::now());
    let other = submit(&batcher, &[4.0]);
    gate.open();
    check_answer(&first, &[1.0]);
    check_error(&late, "the deadline passed");
    assert_eq!(check_answer(&one, &[2.0]).timing.batch_requests, 2);
    check_answer(&other, &[4.0]);
    assert_eq!(gate.all_entered(), [vec![2.0, 4.0]]);
}

#[test]
fn a_request_larger_than_a_batch_runs_in_chunks() {
    let (model, gate) = GateModel::free();
    let batcher = start(model, 1, 4, 8);
    let values: Vec<f32> = (0..10u8).map(f32::from).collect();
    let answer = check_answer(&submit(&batcher, &values), &values);
    assert_eq!((answer.timing.batch_rows, answer.timing.batch_requests), (10, 1));
    assert_eq!(
        gate.all_entered(),
        [values[..4].to_vec(), values[4..8].to_vec(), values[8..].to_vec()]
    );
    let stats = batcher.stats();
    assert_eq!((stats.batches, stats.rows, stats.answered), (3, 10, 1));
}

/// Whoever left, or has no more time, costs the model the chunk that runs and none of those behind it.
#[test]
fn chunks_end_with_what_they_are_worth() {
    let (model, gate) = GateModel::held();
    let batcher = start(model, 1, 4, 8);
    let values: Vec<f32> = (0..10u8).map(f32::from).collect();
    let (asked, answers) = request(&values);
    let gone = Arc::clone(&asked.gone);
    accept(&batcher, asked);
    assert_eq!(gate.entered(), values[..4]);
    gone.store(true, Ordering::Release);
    gate.release_one();
    assert!(matches!(answers.recv().unwrap(), Err(Error::ClientGone { .. })));
    let deadline = Instant::now() + Duration::from_millis(200);
    let answers = submit_until(&batcher, &values, deadline);
    assert_eq!(gate.entered(), values[..4]);
    thread::sleep(deadline.saturating_duration_since(Instant::now()));
    gate.release_one();
    assert!(matches!(
        answers.recv().unwrap(),
        Err(Error::DeadlinePassed { .. })
    ));
    let stats = batcher.stats();
    assert_eq!(
        (stats.batches, stats.abandoned, stats.expired, stats.failed),
        (2, 1, 1, 0)
    );
}

#[test]
fn a_single_request_is_passed_through_without_a_copy() {
    let (model, gate) = GateModel::free();
    let batcher = start(model, 1, 4, 8);
    let (request, answers) = request(&[1.0, 2.0]);
    let address = request.inputs[0].f32().unwrap().as_ptr() as usize;
    accept(&batcher, request);
    check_answer(&answers, &[1.0, 2.0]);
    assert_eq!(gate.runs.recv().unwrap().address, address);
}

#[test]
fn stopping_finishes_what_was_accepted() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 2, 2, 100);
    let all: Vec<gate::Answers> = (0..20).map(|_| submit(&batcher, &[5.0])).collect();
    let stopper = std::thread::spawn(move || batcher.stop());
    gate.entered();
    gate.open();
    stopper.join().unwrap();
    for answers in &all {
        // Already there: stop came back only after the last of them.
        assert!(answers.try_recv().unwrap().is_ok());
    }
}

#[test]
fn the_counters_add_up() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 8, 2);
    let running = submit(&batcher, &[1.0]);
    gate.entered();
    let waiting = [submit(&batcher, &[2.0]), submit(&batcher, &[gate::NAN])];
    refuse(&batcher, &[3.0]);
    let busy = batcher.stats();
    assert_eq!(
        (busy.queued, busy.busy, busy.accepted, busy.refused),
        (2, 1, 3, 1)
    );
    gate.open();
    check_answer(&running, &[1.0]);
    check_answer(&waiting[0], &[2.0]);
    check_error(&waiting[1], "NaN");
    let Stats {
        accepted,
        answered,
        failed,
        expired,
        abandoned,
        batches,
        rows,
        panics,
        ..
    } = batcher.stats();
    assert_eq!((accepted, answered, failed, expired, abandoned), (3, 2, 1, 0, 0));
    assert_eq!((batches, rows, panics), (2, 3, 0));
}

/// Two callers that each wait for their answer: the runs that the model's time alone would keep apart become one, by an instance that
/// waits for the caller that it has just answered. However threads are scheduled it happens sooner or later.
#[test]
fn callers_that_were_just_answered_are_waited_for() {
    let (model, _gate) = GateModel::free();
    let batcher = start(model, 1, 8, 100);
    std::thread::scope(|scope| {
        for source in 0..2 {
            let batcher = &batcher;
            scope.spawn(move || {
                while batcher.stats().joined_rows < 3 {
                    let (mut request, answers) = request(&[gate::IDLE]);
                    request.source = source;
                    accept(batcher, request);
                    check_answer(&answers, &[gate::IDLE]);
                }
            });
        }
    });
    let stats = batcher.stats();
    assert_eq!(stats.accepted, stats.answered);
    assert!(stats.holds > 0 && stats.batches < stats.answered, "{stats:?}");
    batcher.forget_counts();
    assert_eq!((batcher.stats().holds, batcher.stats().joined_rows), (0, 0));
    batcher.stop();
}

/// What may end a run that hangs: the moment at which the last of its callers has given up.
#[test]
fn a_run_is_given_the_latest_deadline_of_its_callers() {
    let (model, mut gate) = GateModel::held();
    let batcher = start(model, 1, 4, 100);
    let first = submit(&batcher, &[0.0]);
    assert_eq!(gate.entered(), [0.0]);
    let after = |seconds: u64| Instant::now() + Duration::from_secs(3600 + seconds);
    let (near, far) = (after(0), after(60));
    let mut waiting = vec![(vec![1.0], submit_until(&batcher, &[1.0], near))];
    waiting.push((vec![2.0], submit_until(&batcher, &[2.0], far)));
    waiting.push((vec![3.0, 4.0], submit_until(&batcher, &[3.0, 4.0], near)));
    // These fill a run of their own, and one of them waits for ever.
    waiting.push((
        vec![5.0, 6.0, 7.0],
        submit_until(&batcher, &[5.0, 6.0, 7.0], near),
    ));
    waiting.push((vec![8.0], submit(&batcher, &[8.0])));
    // This one runs in chunks.
    let long: Vec<f32> = (10..16).map(|value| value as f32).collect();
    waiting.push((long.clone(), submit_until(&batcher, &long, near)));
    gate.open();
    check_answer(&first, &[0.0]);
    for (values, answers) in &waiting {
        check_answer(answers, values);
    }
    let deadlines: Vec<_> = gate.runs.try_iter().map(|run| run.deadline).collect();
    assert_eq!(deadlines, [Some(far), None, Some(near), Some(near)]);
}
