//! A store that evicts: what stays, what goes, and that what went does not come back.

use std::collections::BTreeMap;
use std::path::Path;

use millpond_engines_ordered::{
    Batch, Durability, Effect, Eviction, Operation, Options, Put, Store, Write, WriteError,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Contents, HEADER_BYTES, contents, copy, one, segments};

const OVERHEAD: u64 = 48;
const HOUR: u64 = 3_600_000;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn evicting(memory_bytes_max: u64, eviction: Eviction) -> Options {
    Options {
        durability: Durability::Logged,
        memory_bytes_max: Some(memory_bytes_max),
        eviction,
        ..Options::default()
    }
}

fn put(key: Vec<u8>, value: Vec<u8>, ttl_ms: Option<u64>) -> Operation {
    Operation::Put {
        key,
        value,
        if_version: None,
        if_absent: false,
        if_present: false,
        ttl_ms,
        keep_ttl: false,
    }
}

/// What the entries of a write take, were they all there is.
fn size(key: &[u8], value: &[u8], expires: bool) -> u64 {
    OVERHEAD + (key.len() + value.len()) as u64 + if expires { 8 } else { 0 }
}

/// What each key was last written with, whether it was evicted or not.
#[derive(Default)]
struct Model {
    values: BTreeMap<Vec<u8>, (Vec<u8>, u64, bool)>,
    next_version: u64,
}

impl Model {
    /// What a key takes in the store as it is.
    fn size(&self, key: &[u8]) -> u64 {
        let (value, _, expires) = &self.values[key];
        size(key, value, *expires)
    }
}

/// A write of some puts, by either way; every other one of keys that expire.
fn random_write(rng: &mut StdRng) -> (Entries, bool, Write) {
    let expires = rng.random_ratio(1, 2);
    let ttl_ms = expires.then(|| HOUR * rng.random_range(1..1000));
    let count = rng.random_range(1..5);
    let mut entries: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for _ in 0..count {
        let key = format!("k{}", rng.random_range(0..120)).into_bytes();
        entries.insert(key, vec![b'v'; rng.random_range(0..60)]);
    }
    let entries: Entries = entries.into_iter().collect();
    let write = match rng.random_ratio(1, 2) {
        true => Write::from(Put {
            entries: entries.clone(),
            ttl_ms,
            ..Put::default()
        }),
        false => {
            let puts = entries.iter().cloned();
            Batch::of(puts.map(|(key, value)| put(key, value, ttl_ms)).collect()).into()
        }
    };
    (entries, expires, write)
}

fn versions(written: millpond_engines_ordered::Written) -> Vec<u64> {
    let effects = written.effects.into_iter().map(|effect| match effect {
        Effect::Put(version) => version,
        other => panic!("{other:?}"),
    });
    written.versions.into_iter().chain(effects).collect()
}

/// Random writes to a store that is always full, beside a model that forgets nothing: whatever is missing was evicted, and nothing that a
/// write had just written.
fn check_random_writes(
    seed: u64,
    eviction: Eviction,
    mut store: Store,
    mut again: impl FnMut(Store) -> Store,
) {
    const MAX: u64 = 3000;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model {
        next_version: 1,
        ..Model::default()
    };
    let (mut refused, mut evictions) = (0, 0);
    for round in 0..600 {
        let at = format!("seed {seed}, {eviction:?}, round {round}");
        let before = contents(&store);
        let evicted = store.evicted();
        let (entries, expires, write) = random_write(&mut rng);
        match store.write_wait(write) {
            Ok(written) => {
                let versions = versions(written);
                let gone = store.evicted() - evicted;
                evictions += gone;
                let expected = model.next_version + gone..;
                assert_eq!(versions, expected.take(entries.len()).collect::<Vec<_>>(), "{at}");
                model.next_version += gone + entries.len() as u64;
                for ((key, value), version) in entries.iter().zip(versions) {
                    model
                        .values
                        .insert(key.clone(), (value.clone(), version, expires));
                }
                let after = contents(&store);
                for (key, _) in &entries {
                    assert!(after.contains_key(key), "{at}: what was written is there");
                }
                let missing = before.keys().filter(|key| !after.contains_key(*key));
                let missing: Vec<_> = missing.collect();
                assert_eq!(missing.len() as u64, gone, "{at}");
                if eviction == Eviction::SoonestExpiry {
                    assert!(
                        missing.iter().all(|key| model.values[*key].2),
                        "{at}: {missing:?}"
                    );
                }
            }
            Err(WriteError::Full { more, .. }) => {
                refused += 1;
                assert_eq!(contents(&store), before, "{at}: a refusal removes nothing");
                let may_go = before.keys().filter(|key| {
                    let is_touched = entries.iter().any(|(touched, _)| touched == *key);
                    !is_touched && (eviction == Eviction::OldestWrite || model.values[*key].2)
                });
                let may_go: u64 = may_go.map(|key| model.size(key)).sum();
                assert!(
                    store.entry_bytes() + more > MAX + may_go,
                    "{at}: there was room to make"
                );
            }
            Err(other) => panic!("{at}: {other}"),
        }
        let after = contents(&store);
        assert!(store.entry_bytes() <= MAX, "{at}");
        assert_eq!(
            store.entry_bytes(),
            after.keys().map(|key| model.size(key)).sum(),
            "{at}"
        );
        for (key, (value, version)) in &after {
            assert_eq!(
                (value, version),
                (&model.values[key].0, &model.values[key].1),
                "{at}"
            );
        }
        if rng.random_ratio(1, 40) {
            store = again(store);
            assert_eq!(contents(&store), after, "{at}: the same behind a restart");
        }
    }
    assert!(evictions > 20, "seed {seed}: {evictions}");
    // Only where some may not go is there ever too little.
    assert_eq!(refused > 0, eviction == Eviction::SoonestExpiry, "seed {seed}");
}

#[test]
fn memory_stays_within_the_limit_and_what_was_written_stays() {
    for seed in 70..74 {
        for eviction in [Eviction::OldestWrite, Eviction::SoonestExpiry] {
            let options = evicting(3000, eviction);
            check_random_writes(seed, eviction, Store::in_memory(options.clone()), |store| store);
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("store");
            let open = || Store::open(&dir, options.clone()).unwrap().0;
            let mut restarts = 0;
            check_random_writes(seed, eviction, open(), |store| {
                restarts += 1;
                if restarts % 2 == 0 {
                    store.checkpoint().unwrap();
                }
                store.close().unwrap();
                open()
            });
            assert!(restarts > 4, "seed {seed}");
        }
    }
}

#[test]
fn what_was_written_last_outlives_what_was_written_first() {
    // Keys that ascend, descend, and come in any order: the tree's leaves look different each time.
    let mut rng = StdRng::seed_from_u64(80);
    let mut random: Vec<u32> = (0..20_000).collect();
    rand::seq::SliceRandom::shuffle(&mut random[..], &mut rng);
    for keys in [
        (0..20_000).collect(),
        (0..20_000).rev().collect::<Vec<u32>>(),
        random,
    ] {
        let entry = OVERHEAD + 5 + 20;
        let store = Store::in_memory(evicting(entry * 2000, Eviction::OldestWrite));
        let name = |key: &u32| format!("{key:05}");
        for key in &keys {
            store.write_wait(one(&name(key), &"v".repeat(20))).unwrap();
        }
        assert_eq!((store.len(), store.evicted()), (2000, 18_000));
        let is_there = |key: &&u32| store.get(name(key).as_bytes()).is_some();
        // Entries of a leaf that were written in the order of their keys are of like age, so that 32 of them are about four samples: one of
        // the newest quarter goes where all four are of it, once in 256 times.
        let newest = keys[19_500..].iter().filter(is_there).count();
        assert!(newest >= 475, "{newest}");
        assert_eq!(keys[..10_000].iter().filter(is_there).count(), 0);
    }
}

#[test]
fn keys_that_a_batch_looks_at_stay() {
    let entry = OVERHEAD + 1 + 1;
    let store = Store::in_memory(evicting(2 * entry, Eviction::OldestWrite));
    store.write_wait(one("a", "1")).unwrap();
    store.write_wait(one("b", "2")).unwrap();
    let get = Operation::Get { key: b"a".to_vec() };
    let batch = Batch::of(vec![get.clone(), put(b"c".to_vec(), b"3".to_vec(), None), get]);
    let effects = store.write_wait(batch).unwrap().effects;
    // Version 3 removes "b".
    assert_eq!(effects[1], Effect::Put(4));
    assert_eq!(effects[0], effects[2]);
    assert!(matches!(&effects[0], Effect::Found(Some(found)) if found.version == 1));
    assert_eq!(contents(&store).into_keys().collect::<Vec<_>>(), [b"a", b"c"]);
    // Nothing is left that may go.
    let all = ["a", "c"].map(|key| Operation::Inspect { key: key.into() });
    let more = put(b"d".to_vec(), b"4".to_vec(), None);
    let batch = Batch::of(all.into_iter().chain([more]).collect());
    let refused = store.write_wait(batch).unwrap_err();
    assert!(matches!(refused, WriteError::Full { .. }), "{refused}");
    assert_eq!((store.len(), store.evicted()), (2, 1));
    // Of two keys at once, a batch sees its own versions.
    let numbers = ["d", "e"].map(|key| Operation::Increment {
        key: key.into(),
        by: 7,
        ttl_ms: None,
    });
    let again = Operation::Inspect { key: b"d".to_vec() };
    let batch = Batch::of(numbers.into_iter().chain([again]).collect());
    let effects = store.write_wait(batch).unwrap().effects;
    let versions = [("d", 7), ("e", 8)].map(|(key, version)| {
        assert_eq!(store.get(key.as_bytes()).unwrap().version, version);
        Effect::Incremented { value: 7, version }
    });
    assert_eq!(effects[..2], versions);
    assert!(matches!(&effects[2], Effect::Inspected(found) if found.version == 7));
}

#[test]
fn a_write_that_would_need_too_many_victims_is_refused_and_takes_none() {
    let store = Store::in_memory(evicting(9 << 20, Eviction::OldestWrite));
    for first in (0..150_000u32).step_by(50_000) {
        let entries = (first..first + 50_000).map(|key| (key.to_be_bytes().to_vec(), vec![0; 4]));
        store
            .write_wait(Put {
                entries: entries.collect(),
                ..Put::default()
            })
            .unwrap();
    }
    let (len, bytes) = (store.len(), store.entry_bytes());
    let large = |value: usize| Put {
        entries: vec![(b"large".to_vec(), vec![0; value])],
        ..Put::default()
    };
    let refused = store.write_wait(large(8 << 20)).unwrap_err();
    assert!(matches!(refused, WriteError::Full { .. }), "{refused}");
    assert_eq!((store.len(), store.entry_bytes()), (len, bytes));
    // As many as a write may take: this one is let in.
    store.write_wait(large(3 << 20)).unwrap();
    assert!(store.entry_bytes() <= 9 << 20);
    assert_eq!(store.len() as u64, len as u64 + 1 - store.evicted());
}

#[test]
fn few_keys_that_expire_among_many_that_do_not_are_found() {
    // Keys of ten bytes.
    let (lasting, expiring) = (OVERHEAD + 10, OVERHEAD + 10 + 8);
    let parent = tempfile::tempdir().unwrap();
    let options = evicting(20_000 * lasting + 50 * expiring, Eviction::SoonestExpiry);
    let (logged, _) = Store::open(&parent.path().join("store"), options.clone()).unwrap();
    for store in [logged, Store::in_memory(options)] {
        let many = |prefix: &str, count: u32, ttl_ms: Option<u64>| Put {
            entries: (0..count)
                .map(|key| (format!("{prefix}{key:05}").into_bytes(), Vec::new()))
                .collect(),
            ttl_ms,
            ..Put::default()
        };
        store.write_wait(many("aaaaa", 20_000, None)).unwrap();
        store.write_wait(many("zzzzz", 50, Some(HOUR))).unwrap();
        let mut number = 0;
        while store.evicted() < 50 {
            // A turn through all entries finds some.
            let key = format!("new{number:07}");
            let taken = (0..25).any(|_| store.write_wait(one(&key, "")).is_ok());
            assert!(taken, "{number} keys, {} evicted", store.evicted());
            number += 1;
        }
        assert!(number < 60, "{number}");
        assert_eq!(store.len(), 20_000 + number);
        // What is free by now, and no more.
        let refused = (0..2).find_map(|key| store.write_wait(one(&format!("last{key:06}"), "")).err());
        assert!(matches!(refused, Some(WriteError::Full { .. })), "{refused:?}");
        store.close().unwrap();
    }
}

/// A log of writes that evict, cut at any byte: memory is as some moment of the store had it, and no key is there that had gone.
#[test]
fn a_log_that_is_cut_anywhere_brings_no_key_back() {
    let (seed, max) = (90, 1000);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let options = evicting(max, Eviction::OldestWrite);
    let (store, _) = Store::open(&dir, options.clone()).unwrap();
    let mut rng = StdRng::seed_from_u64(seed);
    let length = || std::fs::metadata(&segments(&dir)[0]).unwrap().len();
    let mut moments: Vec<(u64, Contents)> = vec![(HEADER_BYTES, Contents::new())];
    while store.evicted() < 40 {
        let (.., write) = random_write(&mut rng);
        store.write_wait(write).unwrap();
        moments.push((length(), contents(&store)));
    }
    store.close().unwrap();
    let (mut between, end) = (0, moments.last().unwrap().0);
    let random: Vec<u64> = (0..150).map(|_| rng.random_range(HEADER_BYTES..=end)).collect();
    for cut in random.into_iter().chain([HEADER_BYTES, end]) {
        let found = cut_at(&dir, parent.path(), cut, &options);
        let whole = moments.iter().rposition(|(end, _)| *end <= cut).unwrap();
        let before = &moments[whole].1;
        if found == *before {
            continue;
        }
        // The removals are a record of their own, before the one that they make room for.
        between += 1;
        let after = &moments[whole + 1].1;
        let mut expected = before.clone();
        expected.retain(|key, _| after.contains_key(key));
        assert_eq!(found, expected, "seed {seed}, cut {cut}");
    }
    assert!(between > 0, "seed {seed}");
}

/// What a copy of a folder with one segment, cut to a length, has.
fn cut_at(dir: &Path, parent: &Path, length: u64, options: &Options) -> Contents {
    let cut = parent.join("cut");
    copy(dir, &cut);
    let file = std::fs::File::options().write(true).open(&segments(&cut)[0]);
    file.unwrap().set_len(length).unwrap();
    let (store, _) = Store::open(&cut, options.clone()).unwrap();
    let found = contents(&store);
    assert!(store.entry_bytes() <= options.memory_bytes_max.unwrap());
    store.close().unwrap();
    std::fs::remove_dir_all(&cut).unwrap();
    found
}
