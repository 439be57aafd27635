//! Disks that fill up, fall short, or lie: what is told, what is visible, and what is found afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::bed::*;
use super::*;
use crate::Put;
use millpond_wal::faults::failing::Plan;

fn small_segments() -> Options {
    Options {
        segment_bytes_max: 100,
        ..Options::default()
    }
}

fn fails(bed: &Bed, put: Put, expected: &str) {
    let answer = bed.store.write_wait(put);
    assert_eq!(word(&answer), expected, "{answer:?}");
}

#[test]
fn short_writes_are_continued() {
    let bed = Bed::new(Options::default());
    for write_bytes_max in 1..20 {
        bed.disk.plan(Plan {
            write_bytes_max: Some(write_bytes_max),
            ..Plan::default()
        });
        bed.store
            .write_wait(one(&format!("k{write_bytes_max:02}"), "value"))
            .unwrap();
    }
    let expected = contents(&bed.store);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((recovery.records, recovery.torn_tail), (19, None));
    assert_eq!(contents(&store), expected);
}

#[test]
fn a_disk_full_at_any_byte_undoes_the_group() {
    let bed = Bed::new(Options::default());
    bed.store.write_wait(one("a", "kept")).unwrap();
    let length = HEADER_BYTES + put_record_bytes(&one("a", "kept"));
    let record = put_record_bytes(&one("a", "lost"));
    for left in 0..record {
        bed.disk.plan(Plan {
            bytes_left: Some(left),
            ..Plan::default()
        });
        let answer = bed.store.write_wait(one("a", "lost"));
        let text = answer.unwrap_err().to_string();
        assert!(
            text.contains("log-00000000000000000001.mpl: cannot write to the segment"),
            "{text}"
        );
        assert!(text.contains("the write was undone"), "{text}");
        assert_eq!(contents(&bed.store), ["a=kept@1"]);
        assert_eq!(
            std::fs::metadata(bed.last_segment()).unwrap().len(),
            length as u64,
            "left {left}"
        );
    }
    bed.disk.plan(Plan::default());
    assert_eq!(
        bed.store
            .write_wait(if_version("a", "again", 1))
            .unwrap()
            .versions,
        [2]
    );
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((recovery.records, recovery.torn_tail), (2, None));
    assert_eq!(contents(&store), ["a=again@2"]);
}

#[test]
fn a_failed_group_undoes_what_its_conditions_saw() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "old"));
    bed.write(1, one("b", "x")).unwrap();
    bed.write(2, if_absent("b", "y")).unwrap();
    bed.write(3, if_absent("a", "z")).unwrap();
    bed.write(4, if_version("b", "w", 2)).unwrap();
    bed.disk.plan(Plan {
        bytes_left: Some(60),
        ..Plan::default()
    });
    bed.disk.open_gate();
    // 2 was refused because of 1, which never was; 3 because of what is there still.
    let expected = [
        "0: [1]",
        "1: storage",
        "2: storage",
        "3: conflict 1",
        "4: storage",
    ];
    assert_eq!(words(&bed.collect(5)), expected);
    assert_eq!(contents(&bed.store), ["a=old@1"]);
    bed.disk.plan(Plan::default());
    assert_eq!(bed.store.write_wait(if_absent("b", "y")).unwrap().versions, [2]);
    let (closed, store, ..) = bed.reopen();
    closed.unwrap();
    assert_eq!(contents(&store), ["a=old@1", "b=y@2"]);
}

#[test]
fn after_a_failed_sync_nothing_is_written_again() {
    let bed = Bed::new(Options::default());
    bed.store.write_wait(one("a", "kept")).unwrap();
    assert!(bed.store.read_only().is_none());
    bed.hold_with(1, one("b", "unknown"));
    bed.write(2, one("c", "waits")).unwrap();
    bed.disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    bed.disk.open_gate();
    assert_eq!(words(&bed.collect(2)), ["1: storage", "2: read-only"]);
    let shown = bed.store.read_only().unwrap().to_string();
    assert!(shown.contains("cannot sync the segment: injected"), "{shown}");
    // The disk may well answer again: what it dropped is dropped all the same.
    bed.disk.plan(Plan::default());
    let before = bed.disk.counts();
    let text = bed.store.write_wait(one("d", "no")).unwrap_err().to_string();
    assert!(
        text.contains("cannot sync the segment: injected; the store is read-only"),
        "{text}"
    );
    assert!(text.contains("restart to recover"), "{text}");
    assert_eq!(bed.disk.counts(), before);
    assert_eq!(contents(&bed.store), ["a=kept@1"]);
    let (closed, store, ..) = bed.reopen();
    assert!(matches!(closed, Err(Error::ReadOnly { .. })), "{closed:?}");
    assert_eq!(contents(&store), ["a=kept@1"]);
    assert_eq!(store.write_wait(one("b", "again")).unwrap().versions, [2]);
}

#[test]
fn a_write_that_cannot_be_undone_ends_writing() {
    let bed = Bed::new(Options::default());
    bed.store.write_wait(one("a", "kept")).unwrap();
    bed.disk.plan(Plan {
        bytes_left: Some(45),
        fail_truncate: true,
        ..Plan::default()
    });
    fails(&bed, one("b", "torn"), "unknown");
    fails(&bed, one("c", "no"), "read-only");
    assert_eq!(contents(&bed.store), ["a=kept@1"]);
    let (closed, store, recovery, _parent) = bed.reopen();
    let text = closed.unwrap_err().to_string();
    assert!(
        text.contains("nor cut off for good what was written of it: injected"),
        "{text}"
    );
    let torn = recovery.torn_tail.unwrap().bytes;
    assert!((41..=45).contains(&torn), "{torn}: without its zeros");
    assert_eq!(contents(&store), ["a=kept@1"]);
}

#[test]
fn what_may_be_found_after_a_restart_is_not_told_as_unwritten() {
    for fail_truncate in [false, true] {
        let bed = Bed::new(Options::default());
        bed.hold_with(1, one("a", "held"));
        bed.write(2, one("b", "waits")).unwrap();
        bed.write(3, if_absent("b", "refused")).unwrap();
        bed.disk.open_gate_once();
        bed.disk.wait_for_sync();
        bed.disk.plan(Plan {
            fail_sync: true,
            fail_truncate,
            ..Plan::default()
        });
        bed.disk.open_gate();
        // Of 3 nothing was ever written, whatever became of the put it met.
        let told = if fail_truncate { "2: unknown" } else { "2: storage" };
        assert_eq!(words(&bed.collect(3)), ["1: [1]", told, "3: storage"]);
        fails(&bed, one("c", "no"), "read-only");
        let (closed, store, ..) = bed.reopen();
        let text = closed.unwrap_err().to_string();
        assert_eq!(
            text.contains("nor cut off for good what was written of it"),
            fail_truncate
        );
        let found = if fail_truncate {
            vec!["a=held@1", "b=waits@2"]
        } else {
            vec!["a=held@1"]
        };
        assert_eq!(contents(&store), found);
    }
}

#[test]
fn a_segment_that_cannot_be_made_is_tried_again() {
    let bed = Bed::new(small_segments());
    bed.store
        .write_wait(one("a", "long enough for one segment"))
        .unwrap();
    bed.disk.plan(Plan {
        fail_create: true,
        ..Plan::default()
    });
    fails(&bed, one("b", "long enough for one segment"), "storage");
    for left in 0..HEADER_BYTES {
        bed.disk.plan(Plan {
            bytes_left: Some(left),
            ..Plan::default()
        });
        fails(&bed, one("b", "long enough for one segment"), "storage");
        assert!(bed.last_segment().ends_with("log-00000000000000000001.mpl"));
    }
    bed.disk.plan(Plan::default());
    bed.store
        .write_wait(one("b", "long enough for one segment"))
        .unwrap();
    assert!(bed.last_segment().ends_with("log-00000000000000000002.mpl"));
    let expected = contents(&bed.store);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((recovery.segments, recovery.torn_tail), (2, None));
    assert_eq!(contents(&store), expected);
}

#[test]
fn a_segment_in_doubt_ends_writing() {
    let full = Plan {
        bytes_left: Some(9),
        ..Plan::default()
    };
    for (plan, segments) in [
        (
            Plan {
                fail_remove: true,
                ..full.clone()
            },
            2,
        ),
        (
            Plan {
                fail_sync_dir: true,
                ..full
            },
            1,
        ),
        (
            Plan {
                fail_sync_dir: true,
                ..Plan::default()
            },
            2,
        ),
        (
            Plan {
                fail_sync: true,
                ..Plan::default()
            },
            1,
        ),
    ] {
        let bed = Bed::new(small_segments());
        bed.store
            .write_wait(one("a", "long enough for one segment"))
            .unwrap();
        bed.disk.plan(plan);
        fails(&bed, one("b", "long enough for one segment"), "storage");
        bed.disk.plan(Plan::default());
        fails(&bed, one("c", "d"), "read-only");
        let (closed, store, recovery, _parent) = bed.reopen();
        closed.unwrap_err();
        assert_eq!((recovery.segments, recovery.records), (segments, 1), "{recovery}");
        assert_eq!(contents(&store), ["a=long enough for one segment@1"]);
        // Whatever was left of the second segment, the log goes on.
        store.write_wait(one("b", "again")).unwrap();
        let dir = _parent.path().join("store");
        store.close().unwrap();
        let (store, recovery) = Store::open(&dir, Options::default()).unwrap();
        assert_eq!((recovery.records, recovery.torn_tail), (2, None));
        assert_eq!(store.len(), 2);
    }
}

#[test]
fn a_logged_store_reports_a_failed_sync_at_its_end() {
    let bed = Bed::new(Options {
        durability: Durability::Logged,
        ..Options::default()
    });
    bed.store.write_wait(one("a", "0")).unwrap();
    bed.disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    let text = bed.store.close().unwrap_err().to_string();
    assert!(
        text.contains("cannot sync the segment at the close: injected") && text.contains("may be lost"),
        "{text}"
    );
    assert!(
        !text.contains("read-only"),
        "nothing is written after a close: {text}"
    );
}

#[test]
fn a_dead_log_thread_leaves_nobody_without_an_answer() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "kept"));
    bed.write(1, one("b", "in the group that dies")).unwrap();
    bed.disk.plan(Plan {
        panic_on_write: true,
        ..Plan::default()
    });
    // Larger than what a group takes, so that it is still in the queue when the thread dies.
    let waiting = Put {
        entries: vec![(b"c".to_vec(), vec![0; 5 << 20])],
        ..Put::default()
    };
    bed.write(2, waiting).unwrap();
    bed.disk.open_gate();
    // Nobody knows how far the thread came with the first; the second was never looked at.
    assert_eq!(words(&bed.collect(3)), ["0: [1]", "1: unknown", "2: storage"]);
    let text = bed.store.write_wait(one("d", "no")).unwrap_err().to_string();
    assert!(text.contains("the log thread died; restart"), "{text}");
    assert_eq!(contents(&bed.store), ["a=kept@1"]);
    let (closed, store, ..) = bed.reopen();
    assert!(matches!(closed, Err(Error::LogThreadDied)));
    assert_eq!(contents(&store), ["a=kept@1"]);
}

#[test]
fn a_store_that_cannot_be_opened_says_why() {
    for plan in [
        Plan {
            fail_create: true,
            ..Plan::default()
        },
        Plan {
            fail_sync: true,
            ..Plan::default()
        },
        Plan {
            fail_sync_dir: true,
            ..Plan::default()
        },
        Plan {
            bytes_left: Some(20),
            ..Plan::default()
        },
    ] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let (disk, shared) = millpond_wal::faults::failing::FailingDisk::new();
        disk.plan(plan);
        let error = Store::open_on(shared.clone(), &dir, Options::default())
            .err()
            .unwrap();
        assert!(error.to_string().contains("store: cannot "), "{error}");
        disk.plan(Plan::default());
        // Nothing that is left behind is in the way of the next attempt.
        let (store, _) = Store::open_on(shared, &dir, Options::default()).unwrap();
        store.write_wait(one("a", "0")).unwrap();
    }
}

/// A sync that hangs holds up no stop: it is given up, and the store's drop waits no more either.
#[test]
fn a_sync_that_hangs_is_not_waited_for_beyond_the_limit() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "0"));
    bed.write(1, one("b", "1")).unwrap();
    let soon = Instant::now() + std::time::Duration::from_millis(20);
    let given_up = bed.store.close_by(soon).unwrap_err();
    assert!(matches!(given_up, Error::NotEnded), "{given_up}");
    assert!(matches!(
        bed.store.write_wait(one("late", "v")),
        Err(WriteError::Closed)
    ));
    assert!(!bed.store.has_died(), "it may still come to an end");
    let Bed {
        store, disk, answers, ..
    } = bed;
    drop(store);
    disk.open_gate();
    // The disk came back: what had been taken in is answered.
    let answered: Vec<Answer> = (0..2).map(|_| answers.recv().unwrap()).collect();
    assert_eq!(words(&answered), ["0: [1]", "1: [2]"]);
}

#[test]
fn a_store_that_ends_in_time_is_closed_in_order() {
    let bed = Bed::new(Options::default());
    bed.write(0, one("a", "0")).unwrap();
    let later = Instant::now() + std::time::Duration::from_secs(60);
    bed.store.close_by(later).unwrap();
    assert_eq!(words(&bed.collect(1)), ["0: [1]"]);
    assert!(bed.store.close_by(later).is_ok(), "it is closed already");
}

#[test]
fn a_log_thread_that_died_shows() {
    let bed = Bed::new(Options::default());
    assert!(!bed.store.has_died());
    bed.disk.plan(Plan {
        panic_on_write: true,
        ..Plan::default()
    });
    fails(&bed, one("a", "0"), "unknown");
    // The caller is answered by the unwinding; the queue is told just after it.
    while !bed.store.has_died() {
        std::thread::yield_now();
    }
}
