//! How fast the store alone logs puts and reads its log back, three times each.
//!
//! It stands for one process that uses the engine directly, with 16-byte keys in random order and
//! 64-byte values. It hides the network. Stores without a log are measured beside other maps by `make bench AREA=ordered`.
//! Invariant: the same seed makes the same work. `cargo bench -p millpond-engines-ordered [-- KEYS]`
//! logs under the folder TMPDIR names: choose one on the disk that is meant.

#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millpond_engines_ordered::{Durability, Options, Put, Store};
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};

const SEED: u64 = 2;
const REPEATS: usize = 3;
const KEYS_DEFAULT: usize = 200_000;
const VALUE_BYTES: usize = 64;
/// Puts in flight, as many as a busy server would have waiting.
const IN_FLIGHT: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes "--bench"; a number is ours.
    let keys_count = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let keys = keys(keys_count.unwrap_or(KEYS_DEFAULT));
    println!("seed {SEED}, {} keys, values of {VALUE_BYTES} bytes", keys.len());
    for repeat in 1..=REPEATS {
        println!("repeat {repeat}");
        logged(&keys, Durability::Logged, "logged put")?;
        logged(&keys, Durability::Synced, "synced put")?;
        one_at_a_time(&keys)?;
    }
    Ok(())
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut keys: Vec<Vec<u8>> = (0..count)
        .map(|i| format!("u/{:06}/{:07}", i / 50, i).into_bytes())
        .collect();
    keys.shuffle(&mut rng);
    keys
}

fn logged(keys: &[Vec<u8>], durability: Durability, what: &str) -> Result<(), Box<dyn Error>> {
    let parent = tempfile::tempdir()?;
    let options = Options {
        durability,
        ..Options::default()
    };
    let (store, _) = Store::open(&parent.path().join("store"), options.clone())?;
    report(what, keys.len(), put_all(&store, keys)?);
    store.close()?;
    let begun = Instant::now();
    let (_, recovery) = Store::open(&parent.path().join("store"), options)?;
    report("recovery, records", recovery.records as usize, begun.elapsed());
    Ok(())
}

/// What one caller sees who waits for each put before the next: the disk's own time to sync.
fn one_at_a_time(keys: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let parent = tempfile::tempdir()?;
    let (store, _) = Store::open(&parent.path().join("store"), Options::default())?;
    let keys = keys.get(..500).unwrap_or(keys);
    let begun = Instant::now();
    for key in keys {
        store.write_wait(put(key))?;
    }
    report("synced put, one at a time", keys.len(), begun.elapsed());
    Ok(store.close()?)
}

/// Puts every key, one a put, with [`IN_FLIGHT`] of them waiting at any time.
fn put_all(store: &Store, keys: &[Vec<u8>]) -> Result<Duration, Box<dyn Error>> {
    let (sender, receiver) = mpsc::sync_channel(IN_FLIGHT);
    let begun = Instant::now();
    for (i, key) in keys.iter().enumerate() {
        if i >= IN_FLIGHT {
            receiver.recv()??;
        }
        let sender = sender.clone();
        store.write(put(key), Box::new(move |result| drop(sender.send(result))))?;
    }
    for _ in 0..keys.len().min(IN_FLIGHT) {
        receiver.recv()??;
    }
    Ok(begun.elapsed())
}

fn put(key: &[u8]) -> Put {
    Put {
        entries: vec![(key.to_vec(), vec![b'v'; VALUE_BYTES])],
        ..Put::default()
    }
}

fn report(what: &str, count: usize, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!(
        "  {what:<26} {rate:>12.0} /s   ({count} in {:.3} s)",
        took.as_secs_f64()
    );
}
