//! Random writes of a lane.
//!
//! Its invariant: what is made of a key fits what it holds, so that nothing but a condition stands against a write; and no effect but a
//! removal's depends on a key that may expire just then.

use super::cells::{Cells, Value};
use super::write::{Condition, Operation, Write};
use super::{TOGETHER, prefix, together_key};
use rand::RngExt;
use rand::rngs::StdRng;

/// Longer than any campaign's life of a store.
const LONG_MS: u64 = 6 * 3_600_000;

fn key(random: &mut StdRng, lane: u64) -> String {
    format!("{}k{}", prefix(lane), random.random_range(0..6))
}

fn list(random: &mut StdRng, lane: u64) -> String {
    format!("{}list{}", prefix(lane), random.random_range(0..2))
}

fn value(random: &mut StdRng, number: u64) -> String {
    let length = match random.random_range(0..12) {
        0 => random.random_range(0..1500),
        _ => random.random_range(0..30),
    };
    format!("{number} {}", "v".repeat(length))
}

/// All keys that are written together, with this number.
pub fn together(random: &mut StdRng, lane: u64, number: u64) -> Write {
    let puts = (0..TOGETHER).map(|at| Operation::Put {
        key: together_key(lane, at),
        value: number.to_string(),
        condition: Condition::None,
        ttl_ms: None,
    });
    let mut operations: Vec<Operation> = puts.collect();
    let is_batch = random.random();
    if is_batch {
        // Other keys before, between and behind them.
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..=operations.len());
            operations.insert(at, operation(random, lane, number));
        }
    }
    Write { operations, is_batch }
}

fn operation(random: &mut StdRng, lane: u64, number: u64) -> Operation {
    match random.random_range(0..10) {
        0..2 => Operation::Put {
            key: key(random, lane),
            value: value(random, number),
            condition: Condition::None,
            ttl_ms: random.random_ratio(1, 4).then_some(LONG_MS),
        },
        2 => Operation::Put {
            key: format!("{}short{}", prefix(lane), random.random_range(0..3)),
            value: value(random, number),
            condition: Condition::None,
            ttl_ms: Some(random.random_range(1..1500)),
        },
        3 => Operation::Remove {
            key: key(random, lane),
        },
        4 => Operation::Increment {
            key: format!("{}number", prefix(lane)),
            by: random.random_range(-99..100),
        },
        5..7 => Operation::Append {
            key: list(random, lane),
            items: (0..random.random_range(1..4))
                .map(|_| value(random, number))
                .collect(),
            keep: random.random_range(1..6),
        },
        7 => Operation::Trim {
            key: list(random, lane),
            stop: random.random_range(0..4),
        },
        8 => Operation::Concatenate {
            key: format!("{}text", prefix(lane)),
            value: format!("{number}."),
        },
        _ => Operation::Expire {
            key: key(random, lane),
            ttl_ms: random.random::<bool>().then_some(LONG_MS),
        },
    }
}

/// A write of a lane that holds this.
pub fn write(random: &mut StdRng, lane: u64, number: u64, cells: &Cells) -> Write {
    let alone = |operation| Write {
        operations: vec![operation],
        is_batch: false,
    };
    match random.random_range(0..10) {
        0..3 => alone(operation(random, lane, number)),
        3 => {
            let key = format!("{}text", prefix(lane));
            // Bytes are added to it, and it begins anew when it is long.
            match cells.get(&key).map(|cell| &cell.value) {
                Some(Value::Bytes(text)) if text.len() > 1000 => alone(Operation::Remove { key }),
                _ => alone(Operation::Remove {
                    key: list(random, lane),
                }),
            }
        }
        4..7 => {
            let key = key(random, lane);
            let found = cells.get(&key);
            let version = found.map_or(Some(0), |cell| cell.version);
            let condition = match (random.random_range(0..4), version) {
                (0, _) => Condition::Absent,
                (1, _) => Condition::Present,
                (2, Some(version)) => Condition::Version(version),
                // No key ever has it.
                _ => Condition::Version(u64::MAX >> 1),
            };
            let put = Operation::Put {
                key,
                value: value(random, number),
                condition,
                ttl_ms: None,
            };
            match random.random() {
                true => alone(put),
                false => Write {
                    operations: vec![
                        operation(random, lane, number),
                        put,
                        operation(random, lane, number),
                    ],
                    is_batch: true,
                },
            }
        }
        _ => {
            let count = random.random_range(1..12);
            Write {
                operations: (0..count).map(|_| operation(random, lane, number)).collect(),
                is_batch: true,
            }
        }
    }
}
