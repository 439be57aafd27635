//! When an instance begins to wait for callers that it has just answered, and what ends that.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Bench, MS};
use crate::batcher::state::*;
use std::sync::atomic::Ordering;

/// A queue whose runs take two milliseconds, and that knows sources 1 and 2 to come back after a tenth of one.
fn bench(instances: usize, batch_size_max: usize, queue_max: usize) -> Bench {
    knowing(Bench::new(instances, batch_size_max, queue_max), 1..3)
}

/// The same for other sources.
fn knowing(mut bench: Bench, sources: std::ops::Range<u64>) -> Bench {
    for source in sources.flat_map(|source| [source; 6]) {
        bench.submit(source, None).unwrap();
        assert_eq!(bench.next(0), [source]);
        bench.now += 2 * MS;
        assert_eq!(bench.next(0), [0; 0]);
        bench.now += MS / 10;
    }
    bench
}

/// Source 1 was just answered by instance 0 and source 2 waits, with so much time left.
fn one_waits(bench: &mut Bench, left: Option<Duration>) {
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    bench.now += 2 * MS;
    bench.submit(2, left).unwrap();
}

fn held_until(bench: &mut Bench) -> Option<Instant> {
    match bench.act(0) {
        Act::Hold(until) => Some(until),
        _ => None,
    }
}

#[test]
fn a_full_batch_starts_at_once() {
    let mut bench = bench(1, 2, 8);
    one_waits(&mut bench, None);
    let until = held_until(&mut bench).unwrap();
    assert!(
        until > bench.now + MS / 10 && until < bench.now + MS,
        "{:?}",
        until - bench.now
    );
    assert_eq!(bench.state.occupancy().busy, 0);
    bench.now += MS / 10;
    assert_eq!(held_until(&mut bench), Some(until), "nothing happened");
    let accepted = bench.submit(1, None).unwrap();
    assert!(accepted.ends_hold && !accepted.call);
    assert_eq!(bench.next(0), [2, 1]);
    let counts = bench.state.occupancy().counts;
    assert_eq!((counts.holds, counts.held, counts.joined_rows), (1, MS / 10, 1));
}

#[test]
fn a_wait_for_nobody_ends() {
    let mut bench = bench(1, 4, 8);
    one_waits(&mut bench, None);
    bench.now = held_until(&mut bench).unwrap();
    assert_eq!(bench.next(0), [2]);
}

#[test]
fn with_nobody_left_to_come_the_run_starts() {
    let mut bench = bench(1, 4, 8);
    one_waits(&mut bench, None);
    held_until(&mut bench).unwrap();
    assert!(
        bench.submit(1, None).unwrap().ends_hold,
        "of four rows two are there, and both sources"
    );
    assert_eq!(bench.next(0), [2, 1]);
}

#[test]
fn a_request_that_meets_an_idle_instance_waits_for_those_that_are_due() {
    let mut bench = bench(1, 4, 8);
    one_waits(&mut bench, None);
    held_until(&mut bench).unwrap();
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [2, 1]);
    bench.now += 2 * MS;
    assert_eq!(bench.next(0), [0; 0]);
    bench.now += MS / 20;
    assert!(bench.submit(2, None).unwrap().call);
    assert!(held_until(&mut bench).is_some());
    assert!(bench.submit(1, None).unwrap().ends_hold);
    assert_eq!(bench.next(0), [2, 1]);
}

#[test]
fn deadlines_bound_the_wait() {
    for (left, is_held) in [
        (None, true),
        (Some(10 * MS), true),
        (Some(2 * MS + MS / 4), false),
    ] {
        let mut bench = bench(1, 4, 8);
        one_waits(&mut bench, left);
        assert_eq!(held_until(&mut bench).is_some(), is_held, "{left:?}");
    }
    // One that is in a hurry joins, and ends the wait.
    let mut bench = bench(1, 8, 8);
    one_waits(&mut bench, None);
    held_until(&mut bench).unwrap();
    assert!(bench.submit(3, Some(2 * MS)).unwrap().ends_hold);
    assert_eq!(bench.next(0), [2, 3]);
}

#[test]
fn callers_that_have_gone_hold_no_wait() {
    let mut before = bench(1, 4, 8);
    one_waits(&mut before, None);
    let goes = |bench: &Bench| {
        let gone = &bench.state.waiting.front().unwrap().request.gone;
        gone.store(true, Ordering::Release);
    };
    goes(&before);
    assert!(matches!(before.act(0), Act::Serve { .. }));
    assert_eq!((before.cut.batch.len(), before.cut.dropped.len()), (0, 1));
    // It goes during the wait: the next one to come finds an instance that waits for the others' sake alone.
    let mut during = bench(1, 4, 8);
    one_waits(&mut during, None);
    let until = held_until(&mut during).unwrap();
    goes(&during);
    during.now = until;
    assert!(matches!(during.act(0), Act::Serve { .. }));
    assert_eq!((during.cut.batch.len(), during.cut.dropped.len()), (0, 1));
}

#[test]
fn a_stop_ends_the_wait() {
    let mut bench = bench(1, 4, 8);
    one_waits(&mut bench, None);
    held_until(&mut bench).unwrap();
    bench.state.stopping = true;
    assert_eq!(bench.next(0), [2]);
}

#[test]
fn another_instance_that_becomes_free_takes_what_waits() {
    let mut bench = bench(2, 4, 8);
    // Both run; the second began later.
    bench.submit(1, None).unwrap();
    assert_eq!(bench.next(0), [1]);
    bench.now += MS;
    bench.submit(3, None).unwrap();
    assert_eq!(bench.next(1), [3]);
    bench.now += MS;
    bench.submit(2, None).unwrap();
    held_until(&mut bench).unwrap();
    assert_eq!(bench.state.idle, 0);
    bench.now += MS / 20;
    assert_eq!(bench.next(1), [2]);
    assert!(
        !bench.state.holds(0.into()) && bench.state.idle == 1,
        "the first one is idle now"
    );
    assert!(bench.submit(1, None).unwrap().call);
    assert_eq!(bench.next(0), [1]);
}

#[test]
fn nobody_waits_while_an_instance_is_idle_or_about_to_be_free() {
    let mut bench = bench(2, 4, 8);
    one_waits(&mut bench, None);
    assert_eq!(bench.next(0), [2], "the other one is idle, or has been called");
}

#[test]
fn who_joins_gives_nobody_s_place_up_and_is_not_refused() {
    let mut bench = bench(1, 3, 1);
    one_waits(&mut bench, None);
    held_until(&mut bench).unwrap();
    let accepted = bench.submit(4, Some(MS)).unwrap();
    assert!(accepted.evicted.is_none() && accepted.ends_hold);
    assert_eq!(bench.next(0), [2, 4]);
}

/// Each of many sources has always come back soon, and is not seen again once it has been waited for.
#[test]
fn where_nobody_comes_nobody_is_waited_for_until_callers_come_again() {
    const OTHERS: u64 = 1000;
    let mut bench = knowing(Bench::new(1, 4, 8), 0..100);
    // Whether `source` is waited for when it was just answered; it comes back or does not.
    let mut waited_for = |source: u64, comes: bool| {
        bench.submit(source, None).unwrap();
        assert_eq!(bench.next(0), [source]);
        bench.now += 2 * MS;
        bench.submit(OTHERS + source, None).unwrap();
        let until = held_until(&mut bench);
        if comes {
            bench.now += MS / 10;
            bench.submit(source, None).unwrap();
        }
        if let Some(until) = until {
            bench.now = bench.now.max(until);
            assert_eq!(bench.next(0)[0], OTHERS + source);
        }
        // What is left runs, and nobody calls for a while.
        while bench.state.idle == 0 {
            bench.now += 5 * MS;
            bench.act(0);
        }
        bench.now += 5 * MS;
        until.is_some()
    };
    let in_vain = (0..40).filter(|source| waited_for(*source, false)).count();
    assert!((2..12).contains(&in_vain), "{in_vain} times");
    assert!(!waited_for(40, false));
    let again = (41..100).position(|source| waited_for(source, true)).unwrap();
    assert!((4..32).contains(&again), "{again}");
}

/// Callers that are back before the instance has looked are there, and nobody else is due.
#[test]
fn nobody_is_waited_for_who_is_there_already() {
    let mut bench = bench(1, 4, 64);
    bench.submit(1, None).unwrap();
    bench.submit(2, None).unwrap();
    for turn in 0..6 {
        assert_eq!(bench.next(0).len(), 2, "{turn}");
        bench.now += 2 * MS;
        bench.cut.answered_from = Some(bench.now);
        bench.submit(1, None).unwrap();
        bench.submit(2, None).unwrap();
        bench.now += MS / 20;
    }
    assert_eq!(bench.state.occupancy().counts.holds, 0);
}

/// One of two callers of a connection is back, and the other is not.
#[test]
fn a_caller_that_is_back_stands_for_itself_alone() {
    let mut bench = knowing(Bench::new(1, 4, 64), 7..8);
    bench.submit(8, None).unwrap();
    assert_eq!(bench.next(0), [8]);
    bench.submit(7, None).unwrap();
    bench.submit(7, None).unwrap();
    bench.now += 2 * MS;
    assert_eq!(bench.next(0), [7, 7]);
    bench.now += 2 * MS;
    bench.cut.answered_from = Some(bench.now);
    bench.submit(7, None).unwrap();
    bench.now += MS / 20;
    assert!(held_until(&mut bench).is_some());
    bench.submit(7, None).unwrap();
    assert_eq!(bench.next(0), [7, 7]);
}
