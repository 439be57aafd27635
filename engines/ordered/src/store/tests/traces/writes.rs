//! Random writes of every kind, small enough that many fit in a segment.
//!
//! Invariant: what is made of a key fits what it holds: numbers, lists and bytes have keys of their own.

use rand::RngExt;
use rand::rngs::StdRng;

use super::super::*;
use crate::{Batch, Operation, Put};

/// Long enough that no test takes so long.
const HOUR: u64 = 3_600_000;

/// Names the write and the place in it; some groups are larger than a sector.
fn value(rng: &mut StdRng, number: usize, at: usize) -> Vec<u8> {
    let mut value = format!("{number}/{at}").into_bytes();
    let more = rng.random_range(0..10) * rng.random_range(0..60);
    value.resize(value.len() + more, b'.');
    value
}

fn key(rng: &mut StdRng) -> Vec<u8> {
    format!("k{}", rng.random_range(0..6)).into_bytes()
}

fn put(rng: &mut StdRng, number: usize) -> Put {
    let count = rng.random_range(1..4);
    let entries = (0..count).map(|at| (key(rng), value(rng, number, at))).collect();
    Put {
        entries,
        if_absent: rng.random_ratio(1, 4),
        ttl_ms: rng.random_ratio(1, 8).then_some(HOUR),
        ..Put::default()
    }
}

fn operation(rng: &mut StdRng, number: usize, at: usize) -> Operation {
    let list = |rng: &mut StdRng| format!("l{}", rng.random_range(0..2)).into_bytes();
    match rng.random_range(0..12) {
        0 | 1 => Operation::Put {
            key: key(rng),
            value: value(rng, number, at),
            if_version: None,
            if_absent: rng.random_ratio(1, 6),
            if_present: false,
            ttl_ms: rng.random_ratio(1, 4).then_some(HOUR),
            keep_ttl: false,
        },
        2 | 3 => Operation::Remove {
            key: key(rng),
            // Mostly another than it has: then the whole batch is refused.
            if_version: rng.random_ratio(1, 8).then(|| rng.random_range(0..9)),
        },
        4 => Operation::Remove {
            key: list(rng),
            if_version: None,
        },
        5 => Operation::Expire {
            key: key(rng),
            ttl_ms: rng.random::<bool>().then_some(HOUR),
        },
        6 => Operation::Concatenate {
            key: key(rng),
            value: value(rng, number, at),
        },
        7 | 8 => Operation::Increment {
            key: b"n".to_vec(),
            by: rng.random_range(-9..10),
            ttl_ms: None,
        },
        9 => Operation::Trim {
            key: list(rng),
            start: 0,
            stop: rng.random_range(0..3),
        },
        _ => Operation::Append {
            key: list(rng),
            items: (0..rng.random_range(1..4))
                .map(|item| value(rng, number, item))
                .collect(),
            keep: rng.random::<bool>().then(|| rng.random_range(1..5)),
            ttl_ms: None,
        },
    }
}

pub fn random_write(rng: &mut StdRng, number: usize) -> Write {
    if rng.random_ratio(2, 5) {
        return put(rng, number).into();
    }
    let count = rng.random_range(1..7);
    Batch::of((0..count).map(|at| operation(rng, number, at)).collect()).into()
}

/// The same without what may stand against it.
pub fn unconditional(mut write: Write) -> Write {
    match &mut write {
        Write::Put(put) => put.if_absent = false,
        Write::Batch(batch) => {
            for operation in &mut batch.operations {
                match operation {
                    Operation::Put { if_absent, .. } => *if_absent = false,
                    Operation::Remove { if_version, .. } => *if_version = None,
                    _ => {}
                }
            }
        }
    }
    write
}
