//! Writes to a store that evicts, recorded with all that is done to its disk; then every moment of the record as a crash.
//!
//! Invariants under test: what was shown is found again, and nothing that had given way by then; memory never has more than it may.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bed::{contents, one};
use super::traces::{at_every_end, scratch, seeds};
use super::*;
use crate::{Eviction, Put};
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::Survival;

const ENTRY: u64 = 48 + 3 + 8;
const ENTRIES: u64 = 6;

fn options() -> Options {
    Options {
        memory_bytes_max: Some(ENTRIES * ENTRY),
        eviction: Eviction::OldestWrite,
        segment_bytes_max: 1000,
        ..Options::default()
    }
}

/// What a store has behind each write.
type Shown = Vec<String>;

fn record(dir: &Path, rng: &mut StdRng) -> Vec<Event<Shown>> {
    let recording = Recording::new(dir, Survival::default(), StdRng::seed_from_u64(rng.random()));
    let (store, _) = Store::open_on(recording.disk(), dir, options()).unwrap();
    recording.note(contents(&store));
    for _ in 0..40 {
        let entries = (0..rng.random_range(1..4)).map(|_| {
            let key = format!("k{:02}", rng.random_range(0..20)).into_bytes();
            (key, vec![b'v'; rng.random_range(0..9)])
        });
        let put = Put {
            entries: entries.collect(),
            ..Put::default()
        };
        store.write_wait(put).unwrap();
        recording.note(contents(&store));
        if rng.random_ratio(1, 12) {
            store.checkpoint().unwrap();
        }
    }
    assert!(store.evicted() > 20);
    store.close().unwrap();
    recording.take_events()
}

/// The entries of one moment whose keys the next one has too: what gave way to the write between them has gone.
fn between(before: &Shown, after: &Shown) -> Shown {
    let key = |entry: &String| entry.split('=').next().unwrap().to_owned();
    let left: Vec<String> = after.iter().map(key).collect();
    let stays = before.iter().filter(|entry| left.contains(&key(entry)));
    stays.cloned().collect()
}

fn check(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let parent = scratch();
    let events = record(&parent.path().join("store"), &mut rng);
    let mut between_records = 0;
    at_every_end(&events, &options(), &mut rng, |store, end, now, next| {
        let found = contents(store);
        assert!(store.entry_bytes() <= ENTRIES * ENTRY, "seed {seed}, {end:?}");
        let is_between = || next.is_some_and(|next| found == between(now, next));
        if found != *now && next.is_none_or(|next| found != *next) {
            assert!(
                is_between(),
                "seed {seed}, {end:?}: {found:?} is neither {now:?} nor {next:?}"
            );
            between_records += 1;
        }
        // What the next process does goes on from there.
        store.write_wait(one("new", "1")).unwrap();
    });
    assert!(
        between_records > 0,
        "seed {seed}: no crash between removals and what they are for"
    );
}

#[test]
fn no_crash_brings_back_what_gave_way_or_takes_what_was_shown() {
    for seed in seeds(3) {
        check(seed);
    }
}
