//! Batches in groups: each write sees those before it, and a group that fails leaves nothing of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::bed::{Bed, if_absent, one};
use super::*;
use crate::{Batch, Effect, Operation};
use millpond_wal::faults::failing::Plan;

fn get(key: &str) -> Operation {
    Operation::Get { key: key.into() }
}

fn remove(key: &str) -> Operation {
    Operation::Remove {
        key: key.into(),
        if_version: None,
    }
}

fn increment(key: &str, by: i64) -> Operation {
    Operation::Increment {
        key: key.into(),
        by,
        ttl_ms: None,
    }
}

fn found(value: &str, version: u64) -> Effect {
    let value = value.into();
    let expires_ms = None;
    Effect::Found(Some(Versioned {
        value,
        kind: crate::Kind::Bytes,
        version,
        expires_ms,
    }))
}

fn batch(operations: &[Operation]) -> Batch {
    Batch::of(operations.to_vec())
}

/// A group behind a put of key "a", whose batches and puts meet each other.
fn meet(bed: &Bed) {
    bed.hold_with(0, one("a", "0"));
    bed.write(1, batch(&[get("a"), increment("n", 5), get("n"), remove("x")]))
        .unwrap();
    bed.write(2, one("n", "7")).unwrap();
    bed.write(3, batch(&[increment("n", 1), remove("a"), get("a"), get("n")]))
        .unwrap();
    bed.write(4, if_absent("a", "again")).unwrap();
    bed.write(5, batch(&[increment("a", 1)])).unwrap();
    bed.write(6, batch(&[get("a"), remove("n"), remove("n")]))
        .unwrap();
}

#[test]
fn writes_of_a_group_see_those_before_them() {
    let bed = Bed::new(Options::default());
    meet(&bed);
    bed.disk.open_gate();
    let effects = |answer: &Result<Written, WriteError>| answer.as_ref().unwrap().effects.clone();
    let answers: Vec<_> = bed.collect(7).into_iter().map(|(_, answer)| answer).collect();
    let incremented = |value, version| Effect::Incremented { value, version };
    assert_eq!(
        effects(&answers[1]),
        [
            found("0", 1),
            incremented(5, 2),
            found("5", 2),
            Effect::WasThere(false)
        ]
    );
    assert_eq!(answers[2].as_ref().unwrap().versions, [3]);
    assert_eq!(
        effects(&answers[3]),
        [
            incremented(8, 4),
            Effect::WasThere(true),
            Effect::Found(None),
            found("8", 4)
        ]
    );
    assert_eq!(answers[4].as_ref().unwrap().versions, [6]);
    let refused = answers[5].as_ref().unwrap_err().to_string();
    assert!(
        refused.contains("\"a\" does not hold a whole number"),
        "{refused}"
    );
    assert_eq!(
        effects(&answers[6]),
        [found("again", 6), Effect::WasThere(true), Effect::WasThere(false)]
    );
    check_left(&bed.store);
    let (closed, store, ..) = bed.reopen();
    closed.unwrap();
    check_left(&store);
}

fn check_left(store: &Store) {
    assert_eq!(store.len(), 1);
    let left = store.get(b"a").unwrap();
    assert_eq!((left.value.as_slice(), left.version), (&b"again"[..], 6));
}

#[test]
fn a_failed_group_leaves_nothing_of_its_batches() {
    let bed = Bed::new(Options::default());
    meet(&bed);
    bed.disk.plan(Plan {
        bytes_left: Some(60),
        ..Plan::default()
    });
    bed.disk.open_gate();
    for (number, answer) in bed.collect(7).into_iter().skip(1) {
        // What met the group's other writes has lost its reason too.
        let error = answer.unwrap_err();
        assert!(matches!(error, WriteError::Storage(_)), "{number}: {error}");
    }
    assert_eq!(bed.store.get(b"a").unwrap().version, 1);
    assert_eq!(bed.store.get(b"n"), None);
}

#[test]
fn a_batch_that_reads_too_much_changes_nothing() {
    let store = Store::in_memory(Options::default());
    store.write_wait(one("a", "12345")).unwrap();
    let reading = |read_bytes_max| Batch {
        read_bytes_max,
        ..batch(&[get("a"), remove("a"), get("a")])
    };
    let error = store.write_wait(reading(4)).unwrap_err();
    assert!(
        matches!(error, WriteError::TooLarge { found: 5, max: 4, .. }),
        "{error}"
    );
    assert_eq!(store.len(), 1);
    store.write_wait(reading(5)).unwrap();
    assert!(store.is_empty());
    assert_eq!(store.entry_bytes(), 0);
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let store = Store::in_memory(Options::default());
    let sum = |by| match store.write_wait(batch(&[increment("n", by)])) {
        Ok(written) => format!("{:?}", written.effects),
        Err(error) => error.to_string(),
    };
    assert!(sum(i64::MIN).contains("value: -9223372036854775808"));
    assert!(sum(-1).contains("-1 more does not fit 64 bits"));
    assert!(sum(i64::MAX).contains("value: -1,"));
}
