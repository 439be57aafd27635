//! Checkpoints on disks that fail, and beside writers.
//!
//! Invariants under test: a checkpoint and the log behind it are what the whole log was; one that fails changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::bed::*;
use super::*;
use crate::{Batch, Operation, Put};
use millpond_wal::faults::failing::Plan;

fn names(bed: &Bed) -> Vec<String> {
    let entries = std::fs::read_dir(bed.dir()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lock" && name != "open")
        .collect();
    names.sort();
    names
}

fn removal(key: &str) -> Batch {
    Batch {
        operations: vec![Operation::Remove {
            key: key.into(),
            if_version: None,
        }],
        read_bytes_max: 0,
    }
}

#[test]
fn a_checkpoint_stands_in_place_of_the_log_before_it() {
    for durability in [Durability::Synced, Durability::Logged] {
        let bed = Bed::new(Options {
            durability,
            segment_bytes_max: 200,
            ..Options::default()
        });
        for at in 0..20 {
            bed.store
                .write_wait(one(&format!("k{:02}", at % 15), "value"))
                .unwrap();
        }
        bed.store.write_wait(removal("k03")).unwrap();
        let expiring = Put {
            ttl_ms: Some(1_000_000),
            ..one("k04", "for a while")
        };
        bed.store.write_wait(expiring).unwrap();
        assert!(names(&bed).len() > 3, "{:?}", names(&bed));
        let checkpoint = bed.store.checkpoint().unwrap();
        let found = (checkpoint.sequence, checkpoint.last_sequence, checkpoint.entries);
        assert_eq!(found, (23, 22, 14));
        assert_eq!(
            names(&bed),
            [
                "checkpoint-00000000000000000023.mpc",
                "log-00000000000000000023.mpl"
            ]
        );
        bed.store.write_wait(removal("k05")).unwrap();
        bed.store.write_wait(one("k06", "later")).unwrap();
        let expected = contents(&bed.store);
        let expires_ms = bed.store.get(b"k04").unwrap().expires_ms;
        let bytes = bed.store.entry_bytes();
        let (_, store, recovery, parent) = bed.reopen();
        assert_eq!(contents(&store), expected);
        assert_eq!(store.get(b"k04").unwrap().expires_ms, expires_ms);
        assert_eq!((store.entry_bytes(), store.handle.index.expiring()), (bytes, 1));
        assert_eq!((recovery.records, recovery.segments), (2, 1));
        let checkpoint = recovery.checkpoint.unwrap();
        assert_eq!((checkpoint.sequence, checkpoint.entries), (23, 14));
        // The next versions follow from the log's, and so they do where nothing was written behind a checkpoint.
        assert_eq!(store.write_wait(one("k07", "w")).unwrap().versions, [25]);
        store.checkpoint().unwrap();
        let expected = contents(&store);
        store.close().unwrap();
        let (store, recovery) = Store::open(&parent.path().join("store"), Options::default()).unwrap();
        assert_eq!((contents(&store), recovery.records), (expected, 0));
        assert_eq!(store.write_wait(one("k08", "w")).unwrap().versions, [26]);
    }
}

#[test]
fn a_checkpoint_that_fails_changes_nothing() {
    let plans = [
        (
            "create the checkpoint",
            Plan {
                fail_create: true,
                ..Plan::default()
            },
        ),
        (
            "write the checkpoint",
            Plan {
                bytes_left: Some(0),
                ..Plan::default()
            },
        ),
        (
            "write the checkpoint",
            Plan {
                bytes_left: Some(70),
                ..Plan::default()
            },
        ),
        (
            "sync the checkpoint",
            Plan {
                fail_sync: true,
                ..Plan::default()
            },
        ),
        (
            "give the checkpoint its name",
            Plan {
                fail_rename: true,
                ..Plan::default()
            },
        ),
    ];
    for (action, plan) in plans {
        let bed = Bed::new(Options::default());
        bed.store.write_wait(one("a", "1")).unwrap();
        bed.disk.plan(Plan {
            only: Some("checkpoint-"),
            ..plan
        });
        for _ in 0..2 {
            let error = bed.store.checkpoint().unwrap_err().to_string();
            assert!(error.contains(&format!("cannot {action}")), "{error}");
            assert!(error.contains("the log is kept whole"), "{error}");
        }
        let failing = |bed: &Bed| {
            bed.store
                .counted(|counts| counts.is_failing.load(Ordering::Relaxed).into())
        };
        assert_eq!(failing(&bed), 1.0);
        bed.store.write_wait(one("b", "2")).unwrap();
        assert_eq!(
            names(&bed),
            ["log-00000000000000000001.mpl", "log-00000000000000000002.mpl"],
            "{action}"
        );
        bed.disk.plan(Plan::default());
        bed.store.checkpoint().unwrap();
        assert_eq!(failing(&bed), 0.0);
        assert_eq!(names(&bed).len(), 2);
        let (_, store, recovery, _parent) = bed.reopen();
        assert_eq!(contents(&store), ["a=1@1", "b=2@2"]);
        assert!(recovery.checkpoint.is_some());
    }
}

#[test]
fn files_that_cannot_be_removed_go_with_the_next_checkpoint() {
    let bed = Bed::new(Options::default());
    bed.store.write_wait(one("a", "1")).unwrap();
    bed.disk.plan(Plan {
        fail_remove: true,
        only: Some("log-"),
        ..Plan::default()
    });
    bed.store.checkpoint().unwrap();
    assert_eq!(names(&bed).len(), 3);
    bed.store.write_wait(one("b", "2")).unwrap();
    bed.disk.plan(Plan::default());
    bed.store.checkpoint().unwrap();
    assert_eq!(
        names(&bed),
        [
            "checkpoint-00000000000000000003.mpc",
            "log-00000000000000000003.mpl"
        ]
    );
}

#[test]
fn a_checkpoint_is_written_when_the_log_has_grown() {
    let bed = Bed::new(Options {
        checkpoint_log_bytes: 4000,
        durability: Durability::Logged,
        ..Options::default()
    });
    let checkpoint_bytes = || {
        bed.store
            .counted(|counts| counts.bytes.load(Ordering::Relaxed) as f64)
    };
    // The log grows, and what it leaves does not.
    for _ in 0..40 {
        bed.store.write_wait(one("k", "value")).unwrap();
    }
    assert_eq!(checkpoint_bytes(), 0.0);
    let (mut writes, before) = (40, bed.disk.counts().creates);
    while bed.disk.counts().creates == before {
        bed.store.write_wait(one("k", "value")).unwrap();
        writes += 1;
    }
    let began = Instant::now();
    while checkpoint_bytes() == 0.0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it was not written");
        thread::yield_now();
    }
    // The log that it stands for counts no more: the next segment was begun once.
    let files = |end: &str| names(&bed).iter().filter(|name| name.ends_with(end)).count();
    assert_eq!((files(".mpc"), files(".mpl"), files(".unfinished")), (1, 1, 0));
    let log_bytes = bed
        .store
        .counted(|counts| counts.log_bytes.load(Ordering::Relaxed) as f64);
    assert!(log_bytes < 4000.0, "{log_bytes}");
    let ended = bed.disk.counts().creates;
    for _ in 0..10 {
        bed.store.write_wait(one("k", "value")).unwrap();
    }
    assert_eq!(bed.disk.counts().creates, ended, "a second one behind the first");
    let (_, store, recovery, _parent) = bed.reopen();
    assert_eq!(contents(&store), [format!("k=value@{}", writes + 10)]);
    assert!(recovery.records < writes, "{recovery}");
}

#[test]
fn a_store_that_is_closed_or_has_no_log_writes_no_checkpoint() {
    let bed = Bed::new(Options::default());
    let store = bed.store.clone();
    bed.store.close().unwrap();
    assert_eq!(
        store.checkpoint().unwrap_err().to_string(),
        "the checkpoint was given up: the store is closed"
    );
    let memory = Store::in_memory(Options::default());
    assert!(
        memory
            .checkpoint()
            .unwrap_err()
            .to_string()
            .contains("without a log")
    );
}

#[test]
fn a_store_that_is_closed_meanwhile_leaves_no_part_of_a_checkpoint() {
    let bed = Bed::new(Options {
        durability: Durability::Logged,
        ..Options::default()
    });
    // Large enough to be written in parts, with pauses.
    let value = "v".repeat(100_000);
    for at in 0..64 {
        bed.store.write_wait(one(&format!("k{at}"), &value)).unwrap();
    }
    let store = bed.store.clone();
    let asked = thread::spawn(move || store.checkpoint());
    while !names(&bed).iter().any(|name| name.contains("checkpoint-")) {
        thread::yield_now();
    }
    bed.store.clone().close().unwrap();
    let is_written = asked.join().unwrap().is_ok();
    let finished = names(&bed).iter().filter(|name| name.ends_with(".mpc")).count();
    let unfinished = names(&bed)
        .iter()
        .filter(|name| name.ends_with(".unfinished"))
        .count();
    assert_eq!((finished == 1, unfinished), (is_written, 0));
    let expected = contents(&bed.store);
    let (_, store, _, _parent) = bed.reopen();
    assert!(contents(&store) == expected);
}

#[test]
fn checkpoints_beside_writers_lose_and_revive_nothing() {
    let bed = Bed::new(Options {
        durability: Durability::Logged,
        segment_bytes_max: 50_000,
        ..Options::default()
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = |number: u64| {
        let (store, is_over) = (bed.store.clone(), is_over.clone());
        move || {
            let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            while !is_over.load(Ordering::Relaxed) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = |at: u64| format!("k{:03}", (random >> (at * 8)) % 700).into_bytes();
                let value = format!("{random}").repeat((random % 20) as usize).into_bytes();
                let operation = |at| match (random >> at) % 8 {
                    0 => Operation::Remove {
                        key: key(at),
                        if_version: None,
                    },
                    1 => Operation::Increment {
                        key: format!("sum{number}").into_bytes(),
                        by: 1,
                        ttl_ms: None,
                    },
                    2 | 3 => Operation::Append {
                        key: format!("list{}", (random >> at) % 40).into_bytes(),
                        items: vec![value.clone(); 1 + at as usize % 2],
                        keep: Some(1 + (random % 9) as u32),
                        ttl_ms: None,
                    },
                    4 => Operation::Trim {
                        key: format!("list{}", (random >> at) % 40).into_bytes(),
                        start: 1,
                        stop: (random % 5) as i64,
                    },
                    5 => Operation::Expire {
                        key: key(at),
                        ttl_ms: Some(2_000_000_000),
                    },
                    _ => Operation::Put {
                        key: key(at),
                        value: value.clone(),
                        if_version: None,
                        if_absent: false,
                        if_present: false,
                        keep_ttl: false,
                        ttl_ms: random.is_multiple_of(3).then_some(1_000_000_000),
                    },
                };
                let operations = (0..1 + random % 5).map(operation).collect();
                store
                    .write_wait(Batch {
                        operations,
                        read_bytes_max: 0,
                    })
                    .unwrap();
            }
        }
    };
    let writers: Vec<_> = (1..=3).map(|number| thread::spawn(writer(number))).collect();
    let mut moving = 0;
    for _ in 0..20 {
        let checkpoint = bed.store.checkpoint().unwrap();
        moving += u64::from(checkpoint.last_sequence >= checkpoint.sequence);
    }
    is_over.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let (expected, bytes) = (contents(&bed.store), bed.store.entry_bytes());
    let expiring = bed.store.handle.index.expiring();
    assert!(moving > 0, "no write came while a checkpoint was written");
    let (_, store, recovery, _parent) = bed.reopen();
    assert!(recovery.checkpoint.is_some());
    assert!(contents(&store) == expected);
    assert_eq!(
        (store.entry_bytes(), store.handle.index.expiring()),
        (bytes, expiring)
    );
}
