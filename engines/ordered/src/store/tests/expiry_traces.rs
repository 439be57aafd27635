//! Writes to a store whose entries expire, while hours and years pass, recorded with all that is done to its disk; then every moment of
//! the record as a crash.
//!
//! Invariants under test: what was shown is found again, with its version; nothing that had expired by then comes back, whether its
//! removal was logged, in part or not at all; and a checkpoint has none of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bed::{contents, wait_until};
use super::traces::{at_every_end, scratch, seeds};
use super::*;
use crate::{Batch, Operation, Put};
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::Survival;

const HOUR: u64 = 3_600_000;
const YEAR: u64 = 365 * 24 * HOUR;

fn options() -> Options {
    Options {
        segment_bytes_max: 600,
        checkpoint_log_bytes: 2000,
        ..Options::default()
    }
}

/// What readers see, and what time it is by the store's clock.
#[derive(Debug, Clone)]
struct Shown {
    entries: Vec<String>,
    now_ms: u64,
}

fn shown(store: &Store) -> Shown {
    Shown {
        entries: contents(store),
        now_ms: store.handle.index.clock().now_ms(),
    }
}

fn random_write(rng: &mut StdRng, number: usize) -> Write {
    let key = |rng: &mut StdRng| format!("k{:02}", rng.random_range(0..12)).into_bytes();
    let ttl_ms = |rng: &mut StdRng| match rng.random_range(0..4) {
        0 => None,
        1 => Some(YEAR),
        _ => Some(rng.random_range(1..4) * HOUR),
    };
    if rng.random::<bool>() {
        let entries = (0..rng.random_range(1..5)).map(|_| (key(rng), number.to_string().into_bytes()));
        return Put {
            entries: entries.collect(),
            ttl_ms: ttl_ms(rng),
            ..Put::default()
        }
        .into();
    }
    let key = key(rng);
    Batch::of(vec![
        Operation::Append {
            key: b"list".to_vec(),
            items: vec![number.to_string().into_bytes()],
            keep: Some(3),
            ttl_ms: ttl_ms(rng),
        },
        Operation::Expire {
            key: key.clone(),
            ttl_ms: ttl_ms(rng),
        },
        Operation::Increment {
            key: b"number".to_vec(),
            by: 1,
            ttl_ms: ttl_ms(rng),
        },
        Operation::Remove {
            key,
            if_version: number.is_multiple_of(3).then_some(0),
        },
    ])
    .into()
}

fn record(dir: &Path, rng: &mut StdRng) -> Vec<Event<Shown>> {
    let recording = Recording::new(dir, Survival::default(), StdRng::seed_from_u64(rng.random()));
    let (store, _) = Store::open_on(recording.disk(), dir, options()).unwrap();
    recording.note(shown(&store));
    for number in 0..30 {
        match store.write_wait(random_write(rng, number)) {
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        recording.note(shown(&store));
        if rng.random_ratio(1, 5) {
            let passes = [HOUR, 3 * HOUR, YEAR][rng.random_range(0..3)];
            let before = contents(&store).len();
            store.handle.index.clock().skip(passes);
            recording.note(shown(&store));
            // Half of the time the log may say that they are gone before the next write comes.
            if contents(&store).len() < before && rng.random() {
                wait_until("what has expired goes", || store.len() == contents(&store).len());
            }
        }
        if rng.random_ratio(1, 10) {
            store.checkpoint().unwrap();
        }
    }
    store.close().unwrap();
    recording.take_events()
}

fn check(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let parent = scratch();
    let events = record(&parent.path().join("store"), &mut rng);
    let mut with_expired = 0;
    at_every_end(&events, &options(), &mut rng, |store, end, now, next| {
        // As much time has passed by the system's clock.
        store.handle.index.clock().observe(now.now_ms);
        let found = contents(store);
        with_expired += usize::from(store.len() > found.len());
        assert!(
            found == now.entries || next.is_some_and(|next| found == next.entries),
            "seed {seed}, {end:?}: {found:?} is neither {now:?} nor {next:?}"
        );
    });
    assert!(
        with_expired > 0,
        "seed {seed}: none was left whose removal was not logged"
    );
}

#[test]
fn no_crash_brings_back_what_expired_or_takes_what_was_shown() {
    for seed in seeds(2) {
        check(seed);
    }
}
