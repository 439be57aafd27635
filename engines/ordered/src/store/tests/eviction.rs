//! Evictions in groups, on disks that fail, and where a store is opened with more than it may hold.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::bed::*;
use super::*;
use crate::{Eviction, Put};
use millpond_wal::faults::failing::Plan;

/// What `one("a", "1")` takes.
const ENTRY: u64 = 48 + 2;

fn evicting(entries: u64) -> Options {
    Options {
        memory_bytes_max: Some(entries * ENTRY),
        eviction: Eviction::OldestWrite,
        ..Options::default()
    }
}

fn keys(store: &Store) -> String {
    let found = contents(store);
    found
        .iter()
        .map(|entry| entry.split('=').next().unwrap())
        .collect()
}

#[test]
fn writes_of_a_group_see_what_gave_way_to_those_before() {
    let bed = Bed::new(evicting(8));
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        bed.store.write_wait(one(key, "1")).unwrap();
    }
    bed.hold_with(0, one("h", "1"));
    // Version 9 removes "a", 10 puts "i"; then "a" is absent, and 11 removes "b" for it.
    bed.write(1, one("i", "1")).unwrap();
    bed.write(2, if_version("a", "2", 1)).unwrap();
    bed.write(3, if_absent("a", "3")).unwrap();
    let writes = bed.disk.counts().writes;
    bed.disk.open_gate();
    let expected = ["0: [8]", "1: [10]", "2: conflict 0", "3: [12]"];
    assert_eq!(words(&bed.collect(4)), expected);
    assert_eq!(bed.disk.counts().writes - writes, 1, "it was one group");
    assert_eq!(keys(&bed.store), "acdefghi");
    assert_eq!(bed.store.evicted(), 2);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((keys(&store).as_str(), recovery.records), ("acdefghi", 12));
}

#[test]
fn a_group_with_more_than_the_store_may_hold_is_written_in_parts() {
    let bed = Bed::new(evicting(8));
    bed.hold_with(0, one("first", "1"));
    for number in 1..=100 {
        bed.write(number, one(&format!("{number:03}"), "")).unwrap();
    }
    bed.disk.open_gate();
    let answers = bed.collect(101);
    let failed = answers.iter().filter(|(_, answer)| answer.is_err());
    assert_eq!(failed.count(), 0, "{:?}", words(&answers));
    assert!(bed.store.get(b"100").is_some() && bed.store.entry_bytes() <= 8 * ENTRY);
}

#[test]
fn a_store_that_holds_nothing_refuses_and_goes_on() {
    for memory_bytes_max in [1, 3, 49] {
        let bed = Bed::new(Options {
            memory_bytes_max: Some(memory_bytes_max),
            ..evicting(0)
        });
        for number in 0..2 {
            bed.write(number, one("a", "1")).unwrap();
            match bed.answers.recv_timeout(Duration::from_secs(60)) {
                Ok((_, answer)) => assert!(matches!(answer, Err(WriteError::Full { .. })), "{answer:?}"),
                Err(_) => {
                    // A log thread that never ends is not waited for.
                    std::mem::forget(bed);
                    panic!("no answer with {memory_bytes_max}");
                }
            }
        }
    }
}

#[test]
fn a_write_is_accepted_whatever_its_group_has_written() {
    let bed = Bed::new(evicting(8));
    bed.hold_with(0, one("h", "1"));
    bed.write(1, one("i", "1")).unwrap();
    // It takes all that the store may hold: "i" has to go too.
    let all = "v".repeat((8 * ENTRY) as usize - 49);
    bed.write(2, if_absent("z", &all)).unwrap();
    bed.write(3, if_absent("z", "2")).unwrap();
    bed.disk.open_gate();
    // Versions 3 and 4 remove the others.
    let expected = ["0: [1]", "1: [2]", "2: [5]", "3: conflict 5"];
    assert_eq!(words(&bed.collect(4)), expected);
    assert_eq!((keys(&bed.store).as_str(), bed.store.evicted()), ("z", 2));
}

#[test]
fn a_write_that_needs_many_victims_is_made_by_the_stores_own_thread() {
    let store = Store::in_memory(Options {
        memory_bytes_max: Some(1 << 20),
        eviction: Eviction::OldestWrite,
        ..Options::default()
    });
    let many = |from: u32, count: u32| Put {
        entries: (from..from + count)
            .map(|key| (key.to_be_bytes().to_vec(), Vec::new()))
            .collect(),
        ..Put::default()
    };
    let made_here = |put: Put| {
        let (sender, receiver) = sync_channel(1);
        let done = move |result: Result<Written, WriteError>| {
            result.unwrap();
            sender.send(std::thread::current().id()).unwrap();
        };
        store.write(put, Box::new(done)).unwrap();
        receiver.recv().unwrap() == std::thread::current().id()
    };
    // 52 bytes each: six times as many fit.
    for turn in 0..6 {
        assert!(made_here(many(turn * 3000, 3000)), "{turn}");
    }
    assert_eq!(store.evicted(), 0);
    // It is as small as those before, but may lack more than 64 KiB.
    assert!(!made_here(many(18_000, 3000)));
    assert!(store.evicted() > 800);
}

#[test]
fn what_was_to_give_way_stays_where_the_log_fails() {
    for durability in [Durability::Logged, Durability::Synced] {
        let bed = Bed::new(Options {
            durability,
            ..evicting(3)
        });
        for key in ["a", "b", "c"] {
            bed.store.write_wait(one(key, "1")).unwrap();
        }
        let before = contents(&bed.store);
        let record = put_record_bytes(&one("d", "1"));
        for left in 0..2 * record {
            bed.disk.plan(Plan {
                bytes_left: Some(left),
                ..Plan::default()
            });
            let answer = bed.store.write_wait(one("d", "1"));
            assert_eq!(word(&answer), "storage", "{left}");
            assert_eq!((contents(&bed.store), bed.store.evicted()), (before.clone(), 0));
        }
        bed.disk.plan(Plan::default());
        assert_eq!(bed.store.write_wait(one("d", "1")).unwrap().versions, [5]);
        assert_eq!((keys(&bed.store).as_str(), bed.store.evicted()), ("bcd", 1));
        let (closed, store, recovery, _parent) = bed.reopen();
        closed.unwrap();
        assert_eq!((keys(&store).as_str(), recovery.torn_tail), ("bcd", None));
    }
}

#[test]
fn nothing_gives_way_to_a_write_before_it_is_synced() {
    let bed = Bed::new(evicting(2));
    bed.store.write_wait(one("a", "1")).unwrap();
    bed.store.write_wait(one("b", "1")).unwrap();
    bed.hold_with(0, one("c", "1"));
    assert_eq!((keys(&bed.store).as_str(), bed.store.evicted()), ("ab", 0));
    bed.disk.open_gate();
    assert_eq!(words(&bed.collect(1)), ["0: [4]"]);
    assert_eq!((keys(&bed.store).as_str(), bed.store.evicted()), ("bc", 1));
}

#[test]
fn a_store_that_holds_more_than_it_may_is_brought_to_the_limit() {
    let bed = Bed::new(Options::default());
    let entries = (0..5000u32).map(|key| (format!("{key:04}").into_bytes(), vec![b'v']));
    for entries in entries.collect::<Vec<_>>().chunks(100) {
        let entries = entries.to_vec();
        bed.store
            .write_wait(Put {
                entries,
                ..Put::default()
            })
            .unwrap();
    }
    let Bed { parent, store, .. } = bed;
    store.close().unwrap();
    let dir = parent.path().join("store");
    let max = 1000 * (ENTRY + 3);
    let limited = Options {
        memory_bytes_max: Some(max),
        eviction: Eviction::OldestWrite,
        ..Options::default()
    };
    let (store, recovery) = Store::open(&dir, limited.clone()).unwrap();
    assert_eq!(recovery.keys, 5000);
    // One that does not grow it is taken meanwhile, and wakes nobody who sleeps.
    store.write_wait(one("0000", "w")).unwrap();
    // One that does makes room for itself.
    store.write_wait(one("new", "w")).unwrap();
    assert!(store.entry_bytes() <= 5000 * (ENTRY + 3));
    wait_until("it is brought to the limit", || store.len() == 1000);
    assert_eq!(store.evicted(), 4001);
    assert!(store.entry_bytes() <= max);
    let newest = ["0000", "new"].map(|key| store.get(key.as_bytes()).map(|found| found.value));
    assert_eq!(newest, [Some(b"w".to_vec()), Some(b"w".to_vec())]);
    let left = contents(&store);
    store.close().unwrap();
    // By the log.
    let (store, _) = Store::open(&dir, Options::default()).unwrap();
    assert_eq!(contents(&store), left);
    store.close().unwrap();
    // Where nothing may go nothing does, and what grows it is refused.
    let soonest = Options {
        memory_bytes_max: Some(max - 1),
        eviction: Eviction::SoonestExpiry,
        ..limited
    };
    let (store, _) = Store::open(&dir, soonest).unwrap();
    let refused = store.write_wait(one("more", "1")).unwrap_err();
    assert!(matches!(refused, WriteError::Full { .. }), "{refused}");
    assert_eq!(contents(&store), left);
}
