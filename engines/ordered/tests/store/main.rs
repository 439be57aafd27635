//! The ordered store from outside: real files, through the public interface only.
//!
//! One binary, one behaviour a module. Invariant: every random choice comes from a seed that is
//! printed when a test fails.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acknowledged;
mod checkpoints;
mod copies;
mod crash;
mod damage;
mod eviction;
mod followers;
mod held;
mod leading;
mod linearizable;
mod model;
mod opening;
mod space;
mod threads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millpond_engines_ordered::{
    Batch, Durability, Kind, Operation, Options, Put, Recovery, Scan, Store, Write,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Keys with their values and versions.
type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn contents(store: &Store) -> Contents {
    let mut found = Contents::new();
    let scan = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    let cursor = store.scan(&scan, &mut |key, value| {
        let entry = store.get(key).unwrap();
        let value = match entry.kind {
            Kind::Bytes => value.to_vec(),
            // Told apart from all bytes that are put here.
            Kind::List => format!("{:?}", store.items(key, 0, -1, usize::MAX).unwrap()).into_bytes(),
        };
        found.insert(key.to_vec(), (value, entry.version));
    });
    assert_eq!(cursor, None);
    assert_eq!(found.len(), store.len());
    found
}

fn one(key: &str, value: &str) -> Put {
    Put {
        entries: vec![(key.into(), value.into())],
        ..Put::default()
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "mpl"));
    files.sort();
    files
}

/// A log of acknowledged puts and of changes of lists and bytes, and what was in the store, and how long the log was, after each of them.
struct History {
    dir: PathBuf,
    states: Vec<Contents>,
    /// Segment and its length after each put; for state 0, the first segment's header.
    ends: Vec<(PathBuf, u64)>,
    _parent: tempfile::TempDir,
}

impl History {
    fn write(seed: u64, puts: usize, segment_bytes_max: u64) -> History {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let options = Options {
            durability: Durability::Logged,
            segment_bytes_max,
            ..Options::default()
        };
        let (store, _) = Store::open(&dir, options).unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut states, mut ends) = (vec![], vec![]);
        for put in 0..=puts {
            if put > 0 {
                let write = match put % 2 {
                    0 => Write::from(random_batch(&mut rng)),
                    _ => random_put(&mut rng).into(),
                };
                store.write_wait(write).unwrap();
            }
            let last = segments(&dir).pop().unwrap();
            let length = std::fs::metadata(&last).unwrap().len();
            states.push(contents(&store));
            ends.push((last, length));
        }
        store.close().unwrap();
        History {
            dir,
            states,
            ends,
            _parent: parent,
        }
    }

    fn last_segment(&self) -> &Path {
        &self.ends.last().unwrap().0
    }

    /// Where the records of a segment begin, each with the number of the put before it.
    fn records_of(&self, segment: &Path) -> Vec<(usize, u64)> {
        let ends = self
            .ends
            .iter()
            .enumerate()
            .filter(|(_, (path, _))| path == segment);
        let mut starts: Vec<(usize, u64)> = ends.map(|(put, (_, length))| (put, *length)).collect();
        starts.pop();
        if starts.first().is_none_or(|&(_, start)| start > HEADER_BYTES) {
            let before = self.ends.iter().position(|(path, _)| path == segment).unwrap() - 1;
            starts.insert(0, (before, HEADER_BYTES));
        }
        starts
    }
}

const HEADER_BYTES: u64 = 64;

fn random_put(rng: &mut StdRng) -> Put {
    let count = rng.random_range(1..4);
    let mut entry = || {
        let key = format!("k{}", rng.random_range(0..12)).into_bytes();
        let value = (0..rng.random_range(0..9)).map(|_| rng.random()).collect();
        (key, value)
    };
    let entries = (0..count).map(|_| entry()).collect();
    Put {
        entries,
        ..Put::default()
    }
}

/// Each form of change that is made of what a key held.
fn random_batch(rng: &mut StdRng) -> Batch {
    let key = format!("l{}", rng.random_range(0..3)).into_bytes();
    let items = (0..rng.random_range(1..3)).map(|_| vec![rng.random(); rng.random_range(0..5)]);
    Batch::of(vec![
        Operation::Append {
            key: key.clone(),
            items: items.collect(),
            keep: Some(rng.random_range(1..6)),
            ttl_ms: None,
        },
        Operation::Trim {
            key: key.clone(),
            start: rng.random_range(0..2),
            stop: -1,
        },
        Operation::Expire {
            key,
            ttl_ms: Some(3_600_000),
        },
        Operation::Concatenate {
            key: b"text".to_vec(),
            value: vec![rng.random(); rng.random_range(0..5)],
        },
    ])
}

/// Copies a store's folder, so that damage can be done to the copy.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in segments(from) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

fn reopen(dir: &Path) -> (Store, Recovery) {
    Store::open(
        dir,
        Options {
            durability: Durability::Logged,
            ..Options::default()
        },
    )
    .unwrap()
}
