//! A store with little memory: what it takes, what it refuses, and that a refusal leaves no trace.

use std::collections::BTreeMap;

use millpond_engines_ordered::{Batch, Durability, Operation, Options, Put, Store, WriteError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{contents, one};

const OVERHEAD: u64 = 48;

fn limited(memory_bytes_max: u64) -> Options {
    Options {
        durability: Durability::Logged,
        memory_bytes_max: Some(memory_bytes_max),
        ..Options::default()
    }
}

fn refused(store: &Store, put: Put, more: u64) {
    match store.write_wait(put) {
        Err(WriteError::Full {
            bytes, more: needed, ..
        }) => assert_eq!((bytes, needed), (store.entry_bytes(), more)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_and_what_does_not_grow_is_not() {
    // Two entries of a byte each way, and three bytes more.
    let store = Store::in_memory(limited(2 * (OVERHEAD + 2) + 3));
    store.write_wait(one("a", "1")).unwrap();
    store.write_wait(one("b", "1")).unwrap();
    assert_eq!(store.entry_bytes(), 2 * (OVERHEAD + 2));
    refused(&store, one("c", "1"), OVERHEAD + 2);
    refused(&store, one("a", "12345"), 4);
    store.write_wait(one("a", "1234")).unwrap();
    store.write_wait(one("b", "2")).unwrap();
    refused(&store, one("b", "22"), 1);
    store.write_wait(one("a", "")).unwrap();
    store.write_wait(one("b", "22")).unwrap();
    assert_eq!(store.entry_bytes(), 2 * (OVERHEAD + 2));
    // Of a key that comes twice in one put, the later value counts.
    let twice = Put {
        entries: vec![(b"a".to_vec(), vec![0; 100]), (b"a".to_vec(), vec![1])],
        ..Put::default()
    };
    store.write_wait(twice).unwrap();
    assert_eq!(&*store.get(b"a").unwrap().value, [1]);
    assert_eq!(store.entry_bytes(), 2 * (OVERHEAD + 2) + 1);
    let text = store.write_wait(one("c", "1")).unwrap_err().to_string();
    assert!(
        text.contains("the store is full") && text.contains("memory_bytes_max"),
        "{text}"
    );
}

#[test]
fn a_log_with_more_than_the_limit_is_read_and_takes_no_more() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = Store::open(&dir, limited(u64::MAX)).unwrap();
    for i in 0..10 {
        store.write_wait(one(&format!("k{i}"), "value")).unwrap();
    }
    let expected = contents(&store);
    store.close().unwrap();
    let (store, _) = Store::open(&dir, limited(OVERHEAD)).unwrap();
    assert_eq!(contents(&store), expected);
    refused(&store, one("more", ""), OVERHEAD + 4);
    store.write_wait(one("k0", "small")).unwrap();
    store.write_wait(one("k0", "")).unwrap();
}

#[test]
fn the_count_is_the_sum_over_what_is_there_and_never_beyond_the_limit() {
    let (seed, max) = (31, 500);
    let mut rng = StdRng::seed_from_u64(seed);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let mut store = Store::open(&dir, limited(max)).unwrap().0;
    let mut model = BTreeMap::new();
    let mut refused = 0;
    for round in 0..500 {
        let put = crate::random_put(&mut rng);
        let mut after = model.clone();
        after.extend(put.entries.clone());
        let size = |map: &BTreeMap<Vec<u8>, Vec<u8>>| {
            let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| OVERHEAD + (key.len() + value.len()) as u64;
            map.iter().map(entry).sum::<u64>()
        };
        let fits = size(&after) <= max || size(&after) <= size(&model);
        match store.write_wait(put) {
            Ok(_) => {
                assert!(fits, "seed {seed}, round {round}");
                model = after;
            }
            Err(WriteError::Full { .. }) => {
                assert!(!fits, "seed {seed}, round {round}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(store.entry_bytes(), size(&model), "seed {seed}, round {round}");
        if rng.random_ratio(1, 50) {
            store.close().unwrap();
            store = Store::open(&dir, limited(max)).unwrap().0;
        }
    }
    assert_eq!(store.len(), model.len());
    assert!(refused > 0, "seed {seed}");
}

#[test]
fn lists_take_what_they_hold() {
    let append = |item: &str, keep| Operation::Append {
        key: b"l".to_vec(),
        items: vec![item.into()],
        keep,
        ttl_ms: None,
    };
    // One item of eight bytes, its length, the number of items, and what misses one byte for another.
    let one = OVERHEAD + 1 + 4 + 4 + 8;
    let store = Store::in_memory(limited(one + 4 + 7));
    store
        .write_wait(Batch::of(vec![append("12345678", None)]))
        .unwrap();
    assert_eq!(store.entry_bytes(), one);
    // Between two steps of a batch it may be longer.
    store
        .write_wait(Batch::of(vec![
            append("123456789012345", None),
            append("1234567", Some(2)),
            append("8", Some(2)),
        ]))
        .unwrap();
    assert_eq!(store.entry_bytes(), one + 4);
    let bytes = store.entry_bytes();
    match store.write_wait(Batch::of(vec![append("12345678", None)])) {
        Err(WriteError::Full { more: 12, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(store.entry_bytes(), bytes);
    // With a cap it does not grow.
    store
        .write_wait(Batch::of(vec![append("a", Some(1)), append("12345678", Some(1))]))
        .unwrap();
    assert_eq!(store.entry_bytes(), one);
    let trim = Operation::Trim {
        key: b"l".to_vec(),
        start: 1,
        stop: 1,
    };
    store.write_wait(Batch::of(vec![trim])).unwrap();
    assert_eq!((store.len(), store.entry_bytes()), (0, 0));
}

#[test]
fn puts_of_several_threads_never_take_more_than_there_is() {
    const MAX: u64 = 40 * (OVERHEAD + 8 + 100);
    let store = Store::in_memory(limited(MAX));
    for seed in 0..20 {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    let mut rng = StdRng::seed_from_u64(100 * seed + thread);
                    for _ in 0..500 {
                        let key = format!("{:08}", rng.random_range(0..60));
                        let value = vec![0; rng.random_range(0..200)];
                        store.put_at_once(key.as_bytes(), &value, None);
                    }
                });
            }
        });
        let contents = contents(&store);
        let taken = contents.iter().map(|(key, (value, _))| key.len() + value.len());
        let bytes = taken.sum::<usize>() as u64 + contents.len() as u64 * OVERHEAD;
        assert_eq!(store.entry_bytes(), bytes, "seed {seed}");
        assert!(bytes <= MAX && bytes > MAX / 2, "seed {seed}: {bytes} of {MAX}");
    }
}

#[test]
fn a_put_at_once_is_made_as_another_would_be_or_left_to_it() {
    let store = Store::in_memory(Options::default());
    assert_eq!(store.put_at_once(b"a", b"1", None), Some(1));
    assert_eq!(store.put_at_once(b"a", b"2", Some(60_000)), Some(2));
    let found = store.get(b"a").unwrap();
    assert_eq!((&*found.value, found.version), (&b"2"[..], 2));
    assert!(found.expires_ms.is_some());
    assert_eq!(store.put_at_once(b"a", b"3", Some(0)), None);
    assert_eq!(store.put_at_once(b"a", &[0; 64 << 10], None), None);
    assert_eq!(store.put_at_once(&[0; (64 << 10) + 1], b"", None), None);
    store.begin_close();
    assert_eq!(store.put_at_once(b"a", b"3", None), None);
    assert_eq!(&*store.get(b"a").unwrap().value, b"2");

    let folder = tempfile::tempdir().unwrap();
    let (logged, _) = Store::open(folder.path(), limited(1 << 20)).unwrap();
    assert_eq!(logged.put_at_once(b"a", b"1", None), None);
    assert!(logged.is_empty());
}
