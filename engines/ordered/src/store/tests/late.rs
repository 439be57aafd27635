//! Writes that would be answered behind their deadlines.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::bed::*;
use super::*;

/// Hands in a write that is to be answered so long from now on; what it is refused with.
fn write_by(bed: &Bed, key: &str, long: Duration) -> Option<WriteError> {
    let now = Instant::now();
    let deadline = Deadline { now, at: now + long };
    let answered = bed
        .store
        .write_later(one(key, "1"), Box::new(|_| ()), Some(deadline));
    answered.err().map(|busy| *busy.error)
}

#[test]
fn a_write_that_would_come_too_late_leaves_nothing() {
    let hour = Duration::from_secs(3600);
    let bed = Bed::new(Options::default());
    // Where nothing waits, or nothing was measured, it is taken whatever its deadline.
    assert!(write_by(&bed, "a", Duration::ZERO).is_none());
    for _ in 0..3 {
        bed.store.write_wait(one("b", "1")).unwrap();
    }
    bed.hold_with(0, one("c", "1"));
    bed.write(1, one("d", "1")).unwrap();
    match write_by(&bed, "late", Duration::ZERO) {
        Some(WriteError::TooLate { wait_us, left_us: 0 }) => assert!(wait_us > 0),
        other => panic!("{other:?}"),
    }
    assert!(write_by(&bed, "in-time", hour).is_none());
    bed.write(2, one("e", "1")).unwrap();
    bed.disk.open_gate();
    assert!(bed.collect(3).iter().all(|(_, answer)| answer.is_ok()));
    let (closed, store, ..) = bed.reopen();
    closed.unwrap();
    let found = contents(&store).join(" ");
    assert!(found.contains("in-time=1") && !found.contains("late"), "{found}");
}

#[test]
fn a_store_without_a_log_makes_small_writes_whatever_their_deadline_unless_others_wait() {
    let store = Store::in_memory(Options::default());
    let large = || one("large", &"v".repeat(100 << 10));
    // What it takes is measured.
    for _ in 0..3 {
        store.write_wait(large()).unwrap();
    }
    let small = |key: &str| {
        let now = Instant::now();
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = Box::new(move |result: Result<Written, WriteError>| {
            result.unwrap();
            sender.send(std::thread::current().id()).unwrap();
        });
        let taken = store.write_later(one(key, "1"), done, Some(Deadline { now, at: now }));
        taken.map(|_| receiver.recv().unwrap() == std::thread::current().id())
    };
    // One large write is in its callback until it is told to go on, and another one waits behind it.
    let (begun, has_begun) = mpsc::sync_channel(1);
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(1);
    let held = move |_: Result<Written, WriteError>| {
        begun.send(()).unwrap();
        let _ = may_go_on.recv();
    };
    store.write(large(), Box::new(held)).unwrap();
    has_begun.recv().unwrap();
    store.write(large(), Box::new(|_| ())).unwrap();
    let busy = small("late").unwrap_err();
    assert!(
        matches!(*busy.error, WriteError::TooLate { left_us: 0, .. }),
        "{busy:?}"
    );
    assert!(store.get(b"late").is_none());
    go_on.send(()).unwrap();
    wait_until("the queue is empty", || {
        small("a").is_ok_and(|is_made_here| is_made_here)
    });
}
