//! A log that is synced at an interval: how often, what a loss of power leaves, and what a sync that fails does.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use millpond_wal::faults::failing::Plan;
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::{Change, End, Survival, lay_out};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::bed::*;
use super::*;
use crate::change::Changed;
use crate::record::Accepted;

const EVERY: Duration = Duration::from_millis(100);

fn accepted(first_version: u64) -> Accepted {
    let change = Changed::put(b"k".to_vec(), b"v".to_vec(), 0);
    Accepted::new(vec![change], (first_version, 0), Vec::new())
}

/// How many syncs there were since it was asked last.
fn syncs(recording: &Recording<()>) -> usize {
    let is_sync = |event: &Event<()>| matches!(event, Event::Disk(Change::Sync { .. }));
    recording
        .take_events()
        .iter()
        .filter(|event| is_sync(event))
        .count()
}

#[test]
fn it_is_synced_once_an_interval_while_it_is_written_and_not_else() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let mut rng = StdRng::seed_from_u64(1);
    std::fs::create_dir(&dir).unwrap();
    let recording = Recording::<()>::new(&dir, Survival::default(), StdRng::seed_from_u64(2));
    let begun = millpond_wal::read(&FORMAT, &dir, &mut |_, version| Ok(version)).unwrap();
    sync_folders(&FORMAT, &*recording.disk(), &dir).unwrap();
    let disk = recording.disk();
    let mut log = Log::open(&FORMAT, disk, &dir, Durability::Logged, 1 << 20, &begun).unwrap();
    log.sync_every(Some(EVERY));
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    syncs(&recording);
    assert_eq!(log.keep_pace(at(0)), None, "nothing was written");
    for written in 0..10 {
        assert!(log.append(&[&accepted(written + 1)]).is_ok());
        let due_in = log.keep_pace(at(1000 + written));
        assert_eq!(due_in, Some(EVERY - Duration::from_millis(written)));
    }
    assert_eq!(syncs(&recording), 0);
    let left_of = |recording: &Recording<()>, rng: &mut StdRng| {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        lay_out(&recording.survival().left(End::PowerCut, rng), &dir);
        let read = millpond_wal::read(&FORMAT, &dir, &mut |_, version| Ok(version + 1));
        read.unwrap().records
    };
    assert_eq!(left_of(&recording, &mut rng), 0);
    assert_eq!(log.keep_pace(at(1100)), None);
    log.wait_for_sync();
    assert_eq!(syncs(&recording), 1);
    assert_eq!(left_of(&recording, &mut rng), 10);
    assert_eq!(log.keep_pace(at(9000)), None);
    assert!(log.append(&[&accepted(11)]).is_ok());
    assert_eq!(log.keep_pace(at(9000)), Some(EVERY));
    assert_eq!(syncs(&recording), 0);
    log.finish().unwrap();
    assert_eq!(syncs(&recording), 1);
}

#[test]
fn it_is_synced_before_its_interval_is_over_where_much_was_written() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    std::fs::create_dir(&dir).unwrap();
    let recording = Recording::<()>::new(&dir, Survival::default(), StdRng::seed_from_u64(2));
    let begun = millpond_wal::read(&FORMAT, &dir, &mut |_, version| Ok(version)).unwrap();
    sync_folders(&FORMAT, &*recording.disk(), &dir).unwrap();
    let disk = recording.disk();
    let mut log = Log::open(&FORMAT, disk, &dir, Durability::Logged, 64 << 20, &begun).unwrap();
    log.sync_every(Some(EVERY));
    let now = Instant::now();
    syncs(&recording);
    let large = |first_version| {
        let change = Changed::put(b"k".to_vec(), vec![1; 1 << 20], 0);
        Accepted::new(vec![change], (first_version, 0), Vec::new())
    };
    for round in 0..3 {
        assert!(log.append(&[&large(2 * round + 1)]).is_ok());
        assert_eq!(log.keep_pace(now), Some(EVERY));
        assert!(log.append(&[&large(2 * round + 2)]).is_ok());
        assert_eq!(log.keep_pace(now), None, "it is being synced");
        log.wait_for_sync();
        assert_eq!(syncs(&recording), 1);
    }
    log.finish().unwrap();
}

fn paced() -> Options {
    Options {
        durability: Durability::Logged,
        sync_every: Some(Duration::from_millis(1)),
        ..Options::default()
    }
}

#[test]
fn a_put_is_answered_while_its_sync_still_waits() {
    let bed = Bed::new(paced());
    bed.disk.shut_gate();
    let answer = bed.store.write_wait(one("a", "1")).unwrap();
    assert_eq!(answer.durability, Durability::Logged);
    bed.disk.wait_for_sync();
    bed.disk.open_gate();
    let (closed, store, _, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!(contents(&store), ["a=1@1"]);
}

#[test]
fn puts_are_written_while_a_sync_goes_on_and_a_close_waits_for_it() {
    let bed = Bed::new(paced());
    bed.disk.shut_gate();
    bed.store.write_wait(one("a", "1")).unwrap();
    bed.disk.wait_for_sync();
    // The second has no sync of its own while the first goes on.
    bed.store.write_wait(one("b", "2")).unwrap();
    let store = bed.store.clone();
    let closing = std::thread::spawn(move || store.close());
    assert!(!closing.is_finished());
    bed.disk.open_gate();
    closing.join().unwrap().unwrap();
    let (_, store, _, _parent) = bed.reopen();
    assert_eq!(contents(&store), ["a=1@1", "b=2@2"]);
}

#[test]
fn a_sync_that_fails_between_puts_ends_writing() {
    let bed = Bed::new(paced());
    bed.disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    bed.store.write_wait(one("a", "1")).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while bed.store.read_only().is_none() {
        assert!(Instant::now() < until, "no sync was tried");
        std::thread::yield_now();
    }
    assert_eq!(word(&bed.store.write_wait(one("b", "2"))), "read-only");
    assert_eq!(contents(&bed.store), ["a=1@1"]);
    let (closed, store, _, _parent) = bed.reopen();
    assert!(matches!(closed, Err(Error::ReadOnly { .. })), "{closed:?}");
    assert_eq!(contents(&store), ["a=1@1"]);
}
