//! Group commit: what is written together, what is visible when, and who is told what.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bed::*;
use super::*;

fn logged() -> Options {
    Options {
        durability: Durability::Logged,
        ..Options::default()
    }
}

#[test]
fn all_that_waits_is_one_write_and_one_sync() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("first", "1"));
    for i in 1..=500 {
        bed.write(i, one(&format!("k{i:03}"), "v")).unwrap();
    }
    let before = bed.disk.counts();
    bed.disk.open_gate();
    let answers = bed.collect(501);
    let after = bed.disk.counts();
    // The sync of the first put was not counted yet: it stood at the gate.
    assert_eq!(after.syncs - before.syncs, 2);
    assert_eq!(after.writes - before.writes, 1);
    let order: Vec<usize> = answers.iter().map(|(number, _)| *number).collect();
    assert_eq!(order, (0..=500).collect::<Vec<_>>());
    assert!(
        answers
            .iter()
            .all(|(_, answer)| answer.as_ref().unwrap().durability == Durability::Synced)
    );
    assert_eq!(bed.store.len(), 501);
}

#[test]
fn syncs_never_exceed_puts_however_threads_interleave() {
    let bed = Bed::new(Options::default());
    let created = bed.disk.counts().syncs;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &bed.store;
            scope.spawn(move || {
                for i in 0..25 {
                    store.write_wait(one(&format!("{thread}/{i}"), "v")).unwrap();
                }
            });
        }
    });
    let syncs = bed.disk.counts().syncs - created;
    assert!((1..=100).contains(&syncs), "{syncs} syncs for 100 puts");
    assert_eq!(bed.store.len(), 100);
}

#[test]
fn a_logged_store_syncs_only_segment_ends() {
    let bed = Bed::new(logged());
    let created = bed.disk.counts().syncs;
    for i in 0..20 {
        bed.store.write_wait(one(&format!("{i}"), "v")).unwrap();
    }
    assert_eq!(bed.disk.counts().syncs, created);
    let disk = bed.disk.clone();
    bed.store.close().unwrap();
    assert_eq!(disk.counts().syncs, created + 1);
}

#[test]
fn nothing_is_visible_before_it_is_synced() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("k", "v"));
    assert_eq!(bed.store.get(b"k"), None);
    assert_eq!(bed.store.len(), 0);
    bed.answers.try_recv().unwrap_err();
    bed.disk.open_gate();
    assert_eq!(words(&bed.collect(1)), ["0: [1]"]);
    assert_eq!(contents(&bed.store), ["k=v@1"]);
}

#[test]
fn conditions_see_earlier_puts_of_their_group() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "old"));
    let mut both = if_absent("new", "x");
    both.entries.push((b"a".to_vec(), b"x".to_vec()));
    let group = [
        if_absent("a", "no"),
        if_version("a", "two", 1),
        if_version("a", "no", 1),
        if_version("a", "three", 2),
        if_absent("b", "four"),
        if_absent("b", "no"),
        both,
        if_version("c", "five", 0),
        one("a", "six"),
    ];
    for (i, put) in group.into_iter().enumerate() {
        bed.write(i + 1, put).unwrap();
    }
    bed.disk.open_gate();
    let expected = [
        "0: [1]",
        "1: conflict 1",
        "2: [2]",
        "3: conflict 2",
        "4: [3]",
        "5: [4]",
        "6: conflict 4",
        "7: conflict 3",
        "8: [5]",
        "9: [6]",
    ];
    assert_eq!(words(&bed.collect(10)), expected);
    let expected = ["a=six@6", "b=four@4", "c=five@5"];
    assert_eq!(contents(&bed.store), expected);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!(recovery.records, 6);
    assert_eq!(contents(&store), expected);
}

#[test]
fn a_full_queue_hands_put_and_done_back() {
    let bed = Bed::new(Options {
        queue_max: 2,
        ..Options::default()
    });
    bed.hold_with(0, one("a", "0"));
    bed.write(1, one("b", "1")).unwrap();
    bed.write(2, one("c", "2")).unwrap();
    let Busy { write, done, .. } = bed.write(3, one("d", "3")).unwrap_err();
    assert_eq!(write, Write::Put(one("d", "3")));
    bed.answers.try_recv().unwrap_err();
    bed.disk.open_gate();
    assert_eq!(words(&bed.collect(3)), ["0: [1]", "1: [2]", "2: [3]"]);
    bed.store.write(write, done).unwrap();
    assert_eq!(words(&bed.collect(1)), ["3: [4]"]);
}

#[test]
fn put_wait_waits_for_room() {
    let bed = Bed::new(Options {
        queue_max: 1,
        ..Options::default()
    });
    bed.hold_with(0, one("a", "0"));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8)
            .map(|i| {
                let store = &bed.store;
                scope.spawn(move || store.write_wait(one(&format!("w{i}"), "v")))
            })
            .collect();
        bed.disk.open_gate();
        for thread in waiting {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!(bed.store.len(), 9);
}

#[test]
fn close_finishes_what_was_taken_in() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "0"));
    for i in 1..10 {
        bed.write(i, one(&format!("k{i}"), "v")).unwrap();
    }
    let clone = bed.store.clone();
    let closing = std::thread::spawn(move || clone.close());
    // From the close on, puts are refused on the spot; those before it still wait for the disk.
    while !refuses_at_once(&bed.store) {
        std::thread::yield_now();
    }
    assert_eq!(bed.store.len(), 0);
    bed.disk.open_gate();
    closing.join().unwrap().unwrap();
    assert_eq!(words(&bed.collect(10)).last().unwrap(), "9: [10]");
    assert_eq!(bed.store.len(), 10);
    assert!(matches!(
        bed.store.write_wait(one("late", "v")),
        Err(WriteError::Closed)
    ));
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((recovery.records, store.len()), (10, 10));
}

/// Tries a put that can never be written, to see whether the store is closed without waiting for it.
fn refuses_at_once(store: &Store) -> bool {
    let (sender, receiver) = mpsc::sync_channel(1);
    let done = move |result: Result<Written, WriteError>| drop(sender.send(result));
    let _ = store.write(if_version("a", "never", u64::MAX), Box::new(done));
    matches!(receiver.try_recv(), Ok(Err(WriteError::Closed)))
}

#[test]
fn a_done_may_use_the_store() {
    let bed = Bed::new(Options::default());
    let store = bed.store.clone();
    let (sender, receiver) = mpsc::sync_channel(1);
    let done = move |result: Result<Written, WriteError>| {
        result.unwrap();
        // None of these would return if a lock were held around the call.
        assert_eq!(store.len(), 1);
        assert_eq!(&*store.get(b"a").unwrap().value, b"0");
        let next = Box::new(move |result| sender.send(result).unwrap());
        store.write(one("b", "1"), next).unwrap();
    };
    bed.store.write(one("a", "0"), Box::new(done)).unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap().versions, [2]);
}

#[test]
fn a_panic_in_a_done_stays_there() {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "0"));
    bed.store
        .write(one("b", "1"), Box::new(|_| panic!("a caller's own fault")))
        .unwrap();
    bed.write(2, one("c", "2")).unwrap();
    bed.disk.open_gate();
    assert_eq!(words(&bed.collect(2)), ["0: [1]", "2: [3]"]);
    assert_eq!(bed.store.write_wait(one("d", "3")).unwrap().versions, [4]);
}

#[test]
fn the_last_store_may_be_dropped_or_closed_within_a_done() {
    for close in [false, true] {
        let Bed { parent, store, .. } = Bed::new(Options::default());
        let calls = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = mpsc::sync_channel::<()>(1);
        let (kept, counted) = (store.clone(), calls.clone());
        let done = move |result: Result<Written, WriteError>| {
            // Wait until the other handle is gone.
            let _ = receiver.recv();
            result.unwrap();
            if close {
                kept.close().unwrap()
            } else {
                drop(kept)
            }
            // A thread that waits for itself does not come here.
            counted.fetch_add(1, Ordering::Relaxed);
        };
        store.write(one("a", "0"), Box::new(done)).unwrap();
        drop(store);
        sender.send(()).unwrap();
        let dir = parent.path().join("store");
        let (store, _) = loop {
            match Store::open(&dir, Options::default()) {
                Err(Error::Locked { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(contents(&store), ["a=0@1"]);
    }
}

/// Writes a put, then a group of three; `damage` changes the segment's bytes, given where each record begins.
fn damaged_group(damage: impl Fn(&mut Vec<u8>, [usize; 4])) -> Result<(Vec<String>, Recovery), Error> {
    let bed = Bed::new(Options::default());
    bed.hold_with(0, one("a", "0"));
    for (i, key) in ["b", "c", "d"].into_iter().enumerate() {
        bed.write(i + 1, one(key, "1")).unwrap();
    }
    bed.disk.open_gate();
    bed.collect(4);
    let Bed { parent, store, .. } = bed;
    store.close().unwrap();
    let dir = parent.path().join("store");
    let file = millpond_wal::segment_path(&dir, 1);
    let mut bytes = std::fs::read(&file).unwrap();
    let record = put_record_bytes(&one("a", "0"));
    damage(&mut bytes, [0, 1, 2, 3].map(|i| HEADER_BYTES + i * record));
    std::fs::write(&file, bytes).unwrap();
    let (store, recovery) = Store::open(&dir, Options::default())?;
    Ok((contents(&store), recovery))
}

#[test]
fn a_group_torn_at_its_front_is_cut_whole() {
    // The loss of power may keep the later pages of one write and drop the earlier ones.
    for (hole, dropped) in [(1, 2), (2, 1), (3, 0)] {
        let torn = damaged_group(|bytes, at| bytes[at[hole]..at[hole] + 20].fill(0));
        let (found, recovery) = torn.unwrap();
        assert_eq!(found, &["a=0@1", "b=1@2", "c=1@3"][..hole]);
        let torn = recovery.torn_tail.unwrap();
        assert_eq!((torn.records, torn.bytes as usize), (dropped, (4 - hole) * 50));
        let told = torn
            .to_string()
            .contains("readable records of the same unfinished write");
        assert_eq!(told, dropped > 0);
    }
}

#[test]
fn a_hole_before_a_later_group_is_damage() {
    let damaged = damaged_group(|bytes, at| bytes[at[0]..at[0] + 20].fill(0));
    assert!(
        matches!(damaged, Err(Error::Damaged { offset: 64, .. })),
        "{damaged:?}"
    );
    // A sound record with the wrong number behind the hole is no tail either.
    let damaged = damaged_group(|bytes, at| {
        let first = bytes[at[0]..at[1]].to_vec();
        bytes[at[2]..at[3]].fill(0);
        bytes[at[3]..].copy_from_slice(&first);
    });
    assert!(
        matches!(damaged, Err(Error::Damaged { offset: 164, .. })),
        "{damaged:?}"
    );
}
