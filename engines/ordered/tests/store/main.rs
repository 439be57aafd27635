//! The ordered store from outside: real files, through the public interface only.
//!
//! One binary, one behaviour a module. Invariant: every random choice comes from a seed that is
//! printed when a test fails.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checkpoints;
mod crash;
mod damage;
mod model;
mod opening;
mod space;
mod threads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millpond_engines_ordered::{Durability, Options, Put, Recovery, Scan, Store};
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
        let version = store.get(key).unwrap().version;
        found.insert(key.to_vec(), (value.to_vec(), version));
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

/// A log of acknowledged puts, and what was in the store, and how long the log was, after each of them.
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
                store.write_wait(random_put(&mut rng)).unwrap();
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
