//! Removal of what has expired on a disk that is full, and once it has space again.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bed::*;
use super::*;
use crate::Put;
use millpond_wal::faults::failing::Plan;

const HOUR: u64 = 3_600_000;

fn is_failing(bed: &Bed) -> bool {
    let counts = &bed.store.handle.meet.as_ref().unwrap().counts;
    counts.is_sweep_failing.load(Ordering::Relaxed)
}

fn put_all(bed: &Bed, ttl_ms: Option<u64>) {
    let entries = (0..3000u32).map(|key| (key.to_be_bytes().to_vec(), Vec::new()));
    let put = Put {
        entries: entries.collect(),
        ttl_ms,
        ..Put::default()
    };
    bed.store.write_wait(put).unwrap();
}

fn with_expired(bed: &Bed) {
    put_all(bed, Some(HOUR));
}

/// All of them expire, and the disk has no space for their removals.
fn expire_on_a_full_disk(bed: &Bed) {
    with_expired(bed);
    bed.disk.plan(Plan {
        bytes_left: Some(0),
        ..Plan::default()
    });
    bed.store.handle.index.clock().skip(2 * HOUR);
    wait_until("it is told", || is_failing(bed));
}

#[test]
fn a_full_disk_shows_and_what_expired_goes_when_there_is_space() {
    let bed = Bed::new(Options::default());
    expire_on_a_full_disk(&bed);
    assert_eq!(bed.store.len(), 3000);
    // It is tried again a second later, and not all the time.
    let before = bed.disk.counts();
    std::thread::sleep(Duration::from_millis(50));
    assert!(bed.disk.counts().truncates - before.truncates <= 1);
    bed.disk.plan(Plan::default());
    wait_until("it goes on", || bed.store.is_empty());
    assert!(!is_failing(&bed));
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((store.len(), recovery.keys, recovery.torn_tail), (0, 0, None));
}

#[test]
fn a_log_that_is_read_only_is_left_alone() {
    let bed = Bed::new(Options::default());
    with_expired(&bed);
    bed.disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    bed.store.handle.index.clock().skip(2 * HOUR);
    wait_until("the sync of the removals fails", || {
        bed.store.read_only().is_some()
    });
    bed.disk.plan(Plan::default());
    wait_until("it is told", || is_failing(&bed));
    let before = bed.disk.counts();
    let refused = bed.store.write_wait(one("a", "1"));
    assert_eq!(word(&refused), "read-only");
    // They would be tried again by then.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(is_failing(&bed));
    assert_eq!((bed.disk.counts(), bed.store.len()), (before, 3000));
}

#[test]
fn what_expires_behind_a_failure_of_the_log_shows_too() {
    let bed = Bed::new(Options::default());
    with_expired(&bed);
    bed.disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    let failed = bed.store.write_wait(one("a", "1"));
    assert!(failed.is_err() && bed.store.read_only().is_some());
    assert!(!is_failing(&bed), "nothing has expired");
    bed.store.handle.index.clock().skip(2 * HOUR);
    wait_until("it is told", || is_failing(&bed));
    assert_eq!(bed.store.len(), 3000);
}

#[test]
fn a_failure_ends_where_nothing_is_left_to_remove() {
    let bed = Bed::new(Options::default());
    expire_on_a_full_disk(&bed);
    bed.disk.plan(Plan::default());
    // Before it is tried again, mostly: none of them expires any more.
    put_all(&bed, None);
    wait_until("it has ended", || !is_failing(&bed));
    assert_eq!(bed.store.len(), 3000);
}
