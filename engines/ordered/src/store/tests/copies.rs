//! A copy of a leader's store on disks that record all that is done, and every moment of that as a crash; and holds that end.
//!
//! Invariant under test: a follower's folder opens to what it had or to the copy, never to anything between, whatever the moment.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc::sync_channel;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::bed::{contents, one, ship, wait_until};
use super::traces::scratch;
use super::*;
use crate::{CopyAsk, CopyError, Piece, Position, Took, Wanted};
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::{End, Survival, lay_out};

fn options(follows: bool) -> Options {
    Options {
        durability: Durability::Synced,
        segment_bytes_max: 300,
        follows: follows.then(|| "a:1".to_owned()),
        ..Options::default()
    }
}

fn ask(leader: &Store, position: Position, wanted: Wanted) -> Result<Piece, CopyError> {
    let (sender, receiver) = sync_channel(1);
    let ask = CopyAsk {
        follower: "b".into(),
        position,
        wanted,
        bytes_max: 90,
    };
    leader.copy(ask, Box::new(move |answer| sender.send(answer).unwrap()));
    receiver.recv().unwrap()
}

/// Takes a copy whole, or says what failed. The leader is written to meanwhile.
fn take(leader: &Store, follower: &Store, writes: usize) -> Result<(), String> {
    let mut incoming = follower.take_copy().map_err(|error| error.to_string())?;
    let mut left = writes;
    loop {
        let piece = ask(leader, follower.position().unwrap(), incoming.wanted()).unwrap();
        match incoming.take(&piece).map_err(|error| error.to_string())? {
            Took::Whole => break,
            Took::Nothing | Took::Part => {}
        }
        if left > 0 {
            left -= 1;
            leader.write_wait(one(&format!("late{left}"), "v")).unwrap();
        }
        std::thread::yield_now();
    }
    let installed = incoming.install();
    installed.map(drop).map_err(|error| error.to_string())
}

/// A leader whose log begins behind what its follower has.
fn leader(dir: &Path) -> Store {
    let (leader, _) = Store::open_on(Arc::new(RealDisk), dir, options(false)).unwrap();
    for at in 0..12 {
        leader.write_wait(one(&format!("k{at}"), "a value")).unwrap();
    }
    leader
}

/// Has the follower take everything that its leader has.
fn follow(leader: &Store, follower: &Store) {
    let last = leader.last_sequence();
    while follower.last_sequence() < last {
        ship(leader, follower, 1 << 20).unwrap();
    }
}

/// Leaves the follower behind: what it has is written over and removed, and the log is gone.
fn leave_behind(leader: &Store) {
    for at in 0..6 {
        leader.write_wait(one(&format!("k{at}"), "another")).unwrap();
    }
    let removed = |key: &[u8]| crate::Operation::Remove {
        key: key.to_vec(),
        if_version: None,
    };
    leader
        .write_wait(crate::Batch::of(vec![removed(b"k7"), removed(b"k11")]))
        .unwrap();
    leader.checkpoint().unwrap();
    wait_until("the last record is known", || leader.last_sequence() == 19);
}

#[test]
fn a_crash_at_any_moment_of_a_copy_leaves_what_there_was_or_the_copy() {
    for (seed, has_records) in [(1, true), (2, false), (3, true)] {
        let parent = scratch();
        let leader = leader(&parent.path().join("a"));
        let dir = parent.path().join("b");
        let recording = Recording::<()>::new(&dir, Survival::default(), StdRng::seed_from_u64(seed));
        let (follower, _) = Store::open_on(recording.disk(), &dir, options(true)).unwrap();
        if has_records {
            wait_until("the last record is known", || leader.last_sequence() == 12);
            follow(&leader, &follower);
            if seed == 3 {
                follower.checkpoint().unwrap();
            }
        }
        leave_behind(&leader);
        let before = contents(&follower);
        let mut survival = recording.survival();
        recording.take_events();
        take(&leader, &follower, 2).unwrap();
        let after = contents(&follower);
        assert_ne!(before, after);
        let events = recording.take_events();
        let (mut found_before, mut found_after, mut refusals) = (0, 0, 0);
        let mut rng = StdRng::seed_from_u64(seed);
        for at in 0..=events.len() {
            for end in [End::Killed, End::PowerCut, End::Torn, End::Torn] {
                let left = survival.left(end, &mut rng);
                let crashed = scratch();
                let dir = crashed.path().join("b");
                lay_out(&left, &dir);
                // What is half installed no tool reads.
                let verified = crate::offline::verify(&dir, &mut |_| ());
                if dir.join("installing").exists() {
                    let refused = verified.unwrap_err().to_string();
                    assert!(refused.contains("start the server"), "{refused}");
                    refusals += 1;
                }
                let opened = Store::open_on(Arc::new(RealDisk), &dir, options(true));
                let (store, _) = opened.unwrap_or_else(|error| panic!("event {at} {end:?}: {error}"));
                let found = contents(&store);
                assert!(found == before || found == after, "event {at} {end:?}: {found:?}");
                match found == before {
                    true => found_before += 1,
                    false => found_after += 1,
                }
                // It goes on: with a copy, or with the records behind it.
                if end == End::PowerCut {
                    if found == before {
                        take(&leader, &store, 0).unwrap();
                    }
                    follow(&leader, &store);
                    assert_eq!(contents(&store), contents(&leader));
                    store.close().unwrap();
                    let (store, _) = Store::open_on(Arc::new(RealDisk), &dir, options(true)).unwrap();
                    assert_eq!(contents(&store), contents(&leader), "event {at}, opened again");
                }
            }
            match events.get(at) {
                Some(Event::Disk(change)) => survival.apply(change),
                Some(Event::Note(())) | None => {}
            }
        }
        assert!(refusals > 4, "{refusals}");
        assert!(
            found_before > 20 && found_after > 4,
            "{found_before} {found_after}"
        );
        // What was acknowledged by the end is there, whatever comes.
        let left = survival.left(End::PowerCut, &mut rng);
        let crashed = scratch();
        lay_out(&left, &crashed.path().join("b"));
        let opened = Store::open_on(Arc::new(RealDisk), &crashed.path().join("b"), options(true));
        assert_eq!(contents(&opened.unwrap().0), after);
    }
}

#[test]
fn a_disk_that_fails_leaves_what_there_was_or_a_store_that_reads_no_more() {
    let (mut refused, mut stuck) = (0, 0);
    for seed in 0..60 {
        let parent = scratch();
        let leader = leader(&parent.path().join("a"));
        let dir = parent.path().join("b");
        let recording = Recording::<()>::new(&dir, Survival::default(), StdRng::seed_from_u64(seed));
        let (follower, _) = Store::open_on(recording.disk(), &dir, options(true)).unwrap();
        wait_until("the last record is known", || leader.last_sequence() == 12);
        follow(&leader, &follower);
        leave_behind(&leader);
        let before = contents(&follower);
        recording.fail(6);
        let taken = take(&leader, &follower, 0);
        recording.fail(0);
        if taken.is_err() && follower.read_whole(|_| ()).is_ok() {
            refused += 1;
            assert_eq!(contents(&follower), before);
            // The next attempt comes to its end, unless the log itself has failed.
            if follower.read_only().is_none() {
                take(&leader, &follower, 0).unwrap();
            }
        } else if taken.is_err() {
            stuck += 1;
            assert!(follower.read_only().is_some());
        }
        let _ = follower.close();
        let (follower, _) = Store::open_on(Arc::new(RealDisk), &dir, options(true)).unwrap();
        let found = contents(&follower);
        assert!(
            found == before || found == contents(&leader),
            "seed {seed}: {found:?}"
        );
        if taken.is_ok() {
            assert_eq!(found, contents(&leader), "seed {seed}");
        }
    }
    assert!(refused > 5 && stuck > 2, "{refused} {stuck}");
}

#[test]
fn a_hold_ends_and_what_was_held_goes_with_the_next_checkpoint() {
    let parent = scratch();
    let leader = leader(&parent.path().join("a"));
    let (follower, _) = Store::open_on(Arc::new(RealDisk), &parent.path().join("b"), options(true)).unwrap();
    leave_behind(&leader);
    let mut incoming = follower.take_copy().unwrap();
    let has = follower.position().unwrap();
    for _ in 0..2 {
        let piece = ask(&leader, has, incoming.wanted()).unwrap();
        assert_eq!(incoming.take(&piece).unwrap(), Took::Part);
    }
    assert_eq!(leader.copies_given(), 1);
    let holds = &leader.handle.meet.as_ref().unwrap().holds;
    holds.end_all();
    leader.write_wait(one("more", "v")).unwrap();
    leader.checkpoint().unwrap();
    assert_eq!(leader.copies_given(), 0);
    let gone = ask(&leader, has, incoming.wanted());
    assert!(matches!(gone, Err(CopyError::Gone(_))), "{gone:?}");
    drop(incoming);
    take(&leader, &follower, 0).unwrap();
    assert_eq!(contents(&follower), contents(&leader));
}

#[test]
fn a_leader_without_a_checkpoint_that_will_do_writes_one() {
    let parent = scratch();
    let leader = leader(&parent.path().join("a"));
    let (follower, _) = Store::open_on(Arc::new(RealDisk), &parent.path().join("b"), options(true)).unwrap();
    take(&leader, &follower, 3).unwrap();
    wait_until("the last record is known", || leader.last_sequence() == 15);
    follow(&leader, &follower);
    assert_eq!(contents(&follower), contents(&leader));
    // What that checkpoint stands for the follower has by now: another one is written.
    leave_behind_by(&leader, 3);
    take(&leader, &follower, 0).unwrap();
    follow(&leader, &follower);
    assert_eq!(contents(&follower), contents(&leader));
    let asks = leader.clone();
    leader.close().unwrap();
    let closed = ask(&asks, follower.position().unwrap(), Wanted::Checkpoint);
    assert!(matches!(closed, Err(CopyError::Closed)), "{closed:?}");
}

fn leave_behind_by(leader: &Store, records: usize) {
    let last = leader.last_sequence() + records as u64;
    for at in 0..records {
        leader.write_wait(one(&format!("k{at}"), "yet another")).unwrap();
    }
    wait_until("the last record is known", || leader.last_sequence() == last);
}
