//! Recorded histories of threads that read and write the same few keys: each call must have taken effect at one moment between its
//! beginning and its end, in one order for all threads.
//!
//! The search for that order is that of Wing and Gong ("Testing and Verifying Concurrent Objects", 1993) with the memory of Lowe
//! ("Testing for linearizability", 2017): states that were reached with the same calls done are not looked at twice. What the calls are
//! comes from a seed; how the threads meet does not, so that a history that fails is printed whole.

mod search;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use millpond_engines_ordered::{
    Batch, Durability, Effect, Operation, Options, Put, Store, Versioned, WriteError,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use search::{Asked, Call, Found, is_linearizable};

const KEYS: usize = 3;
const THREADS: usize = 4;
/// Calls of each thread. All of a history are bits of one number.
const CALLS: usize = 6;

fn key(number: usize) -> Vec<u8> {
    // The last two differ behind the eight bytes that a node compares.
    [b"a".to_vec(), b"one stem, 1".to_vec(), b"one stem, 2".to_vec()][number].clone()
}

fn found(versioned: Option<Versioned>) -> Option<(u64, i64)> {
    let number = |value: Vec<u8>| String::from_utf8(value).unwrap().parse().unwrap();
    versioned.map(|versioned| (versioned.version, number(versioned.value)))
}

fn draw(rng: &mut StdRng) -> Asked {
    let number = rng.random_range(0..100);
    let (one, other) = (rng.random_range(0..KEYS), rng.random_range(0..KEYS));
    match rng.random_range(0..7) {
        0 => Asked::Get(one),
        1 => Asked::GetAll,
        2 => Asked::Put(vec![one], number),
        3 if one != other => Asked::Put(vec![one, other], number),
        4 => Asked::PutIfSeen(one, number),
        5 => Asked::Remove(one),
        _ => Asked::Increment(one, number),
    }
}

/// Does it, and says what came of it. `seen` has the version that this thread saw last of each key.
fn perform(store: &Store, asked: &Asked, seen: &mut [u64; KEYS]) -> Found {
    let batch = |operation| store.write_wait(Batch::of(vec![operation])).unwrap().effects;
    let put = |numbers: &[usize], number: i64, if_version| Put {
        entries: numbers
            .iter()
            .map(|at| (key(*at), number.to_string().into_bytes()))
            .collect(),
        if_version,
        ..Put::default()
    };
    match asked {
        Asked::Get(at) => {
            let entry = found(store.get(&key(*at)));
            seen[*at] = entry.map_or(0, |(version, _)| version);
            Found::Read(vec![(*at, entry)])
        }
        Asked::GetAll => {
            let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
            let entries = store.get_many(&keys, usize::MAX).unwrap();
            Found::Read(entries.into_iter().map(found).enumerate().collect())
        }
        Asked::Put(keys, number) => {
            Found::Wrote(store.write_wait(put(keys, *number, None)).unwrap().versions)
        }
        Asked::PutIfSeen(at, number) => {
            let expected = seen[*at];
            match store.write_wait(put(&[*at], *number, Some(expected))) {
                Ok(written) => Found::WroteAt(expected, written.versions[0]),
                Err(WriteError::Conflict { found, .. }) => Found::Conflict(expected, found),
                Err(other) => panic!("{other}"),
            }
        }
        Asked::Remove(at) => match batch(Operation::Remove {
            key: key(*at),
            if_version: None,
        })[..]
        {
            [Effect::WasThere(was_there)] => Found::Removed(was_there),
            ref other => panic!("{other:?}"),
        },
        Asked::Increment(at, by) => {
            match batch(Operation::Increment {
                key: key(*at),
                by: *by,
                ttl_ms: None,
            })[..]
            {
                [Effect::Incremented { value, version }] => Found::Counted(version, value),
                ref other => panic!("{other:?}"),
            }
        }
    }
}

/// What the threads did with this store, from its state of no keys on.
fn record(store: &Store, seed: u64) -> Vec<Call> {
    let (clock, start) = (&AtomicU64::new(0), &Barrier::new(THREADS));
    let calls = |thread: usize| {
        let mut rng = StdRng::seed_from_u64(seed << 8 | thread as u64);
        let asked: Vec<Asked> = (0..CALLS).map(|_| draw(&mut rng)).collect();
        let mut seen = [0; KEYS];
        start.wait();
        let call = |asked: Asked| {
            let began = clock.fetch_add(1, Ordering::SeqCst);
            let found = perform(store, &asked, &mut seen);
            let ended = clock.fetch_add(1, Ordering::SeqCst);
            Call {
                asked,
                found,
                began,
                ended,
            }
        };
        asked.into_iter().map(call).collect::<Vec<Call>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || calls(thread)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn clear(store: &Store) {
    let removals = (0..KEYS).map(|at| Operation::Remove {
        key: key(at),
        if_version: None,
    });
    store.write_wait(Batch::of(removals.collect())).unwrap();
}

fn check(store: &Store, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        clear(store);
        let mut history = record(store, seed);
        history.sort_by_key(|call| call.began);
        assert!(
            is_linearizable(&history),
            "seed {seed}: no order fits\n{history:#?}"
        );
    }
}

#[test]
fn calls_on_a_store_without_a_log_take_effect_in_one_order() {
    check(&Store::in_memory(Options::default()), 0..1_000);
}

#[test]
fn calls_on_a_store_with_a_log_take_effect_in_one_order() {
    let parent = tempfile::tempdir().unwrap();
    for (name, durability, seeds) in [
        ("logged", Durability::Logged, 0..300),
        ("synced", Durability::Synced, 0..40),
    ] {
        let options = Options {
            durability,
            ..Options::default()
        };
        let (store, _) = Store::open(&parent.path().join(name), options).unwrap();
        check(&store, seeds);
        store.close().unwrap();
    }
}
