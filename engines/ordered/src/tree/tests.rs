//! The tree against a map, and with many threads.
#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;

fn content<'a>(key: &'a [u8], value: &'a [u8], version: u64) -> Content<'a> {
    Content { key, value, version }
}

fn found(tree: &Tree, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    tree.get(key, |cell| {
        let mut value = Vec::new();
        cell.copy_value(&mut value);
        (value, cell.version)
    })
}

fn check(tree: &Tree, model: &BTreeMap<Vec<u8>, (Vec<u8>, u64)>) {
    assert_eq!(tree.len(), model.len() as u64);
    let mut all = Vec::new();
    tree.scan(b"", 100, |key, value, version| {
        all.push((key.to_vec(), (value.to_vec(), version)));
        true
    });
    let expected: Vec<_> = model
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(all, expected);
}

fn run(steps: &[(Vec<u8>, u8, usize)]) {
    let tree = Tree::new();
    let mut model = BTreeMap::new();
    for (version, (key, kind, len)) in (1..).zip(steps) {
        let value = vec![version as u8; *len];
        match kind {
            0..6 => {
                let before = tree.put(content(key, &value, version));
                let before_in_model = model.insert(key.clone(), (value, version));
                assert_eq!(before, before_in_model.map(|(value, _)| key.len() + value.len()));
            }
            _ => assert_eq!(tree.remove(key), model.remove(key).is_some()),
        }
        assert_eq!(found(&tree, key), model.get(key).cloned());
    }
    check(&tree, &model);
    for key in model.keys().rev() {
        assert!(tree.remove(key));
    }
    check(&tree, &BTreeMap::new());
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..3000_u64).prop_map(|number| number.to_string().into_bytes()),
        (0..3000_u64)
            .prop_map(|number| format!("a key that is long and alike at first {number:05}").into_bytes()),
        (0..3000_u64).prop_map(|number| vec![0; (number % 70) as usize]),
        (0..3000_u64).prop_map(|number| number.to_be_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((keys(), 0..8_u8, 0..40_usize), 0..6000)) {
        run(&steps);
    }
    #[test]
    fn it_is_a_map_of_values_of_all_lengths(steps in prop::collection::vec((keys(), 0..7_u8, 0..3000_usize), 0..500)) {
        run(&steps);
    }
}

#[test]
fn it_shrinks_where_keys_go_in_order() {
    let tree = Tree::new();
    let key = |number: u64| format!("event/{number:012}").into_bytes();
    for number in 0..200_000 {
        tree.put(content(&key(number), b"value", number + 1));
        if number >= 5000 {
            assert!(tree.remove(&key(number - 5000)));
        }
    }
    let nodes = locked(&tree.spare_leaves).next + locked(&tree.spare_inners).next;
    assert!(nodes < 400, "{nodes}");
}

#[test]
fn threads_that_write_and_read_lose_nothing() {
    let tree = Tree::new();
    let key_of = |thread: u64, number: u64| {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000 * 4 + thread)
            .to_string()
            .into_bytes()
    };
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let tree = &tree;
            let key_of = &key_of;
            scope.spawn(move || {
                let mut model = BTreeMap::new();
                for number in 1..60_000_u64 {
                    let key = key_of(thread, number);
                    if number % 3 == 0 {
                        assert_eq!(tree.remove(&key), model.remove(&key).is_some());
                    } else {
                        tree.put(content(&key, &number.to_le_bytes(), number));
                        model.insert(key.clone(), number);
                    }
                    let older = key_of(thread, number / 2);
                    let expected = model
                        .get(&older)
                        .map(|version| (version.to_le_bytes().to_vec(), *version));
                    assert_eq!(found(tree, &older), expected);
                }
                let mut found = BTreeMap::new();
                tree.scan(b"", 100, |key, _, version| {
                    let number: u64 = std::str::from_utf8(key).unwrap().parse().unwrap();
                    if number % 4 == thread {
                        found.insert(key.to_vec(), version);
                    }
                    true
                });
                assert_eq!(found, model);
            });
        }
    });
}

/// Writers write several keys at once, far apart and next to each other, and readers see all of a write or nothing.
#[test]
fn what_is_written_together_is_seen_together() {
    const KEYS: u64 = 2000;
    let tree = Tree::new();
    let key = |number: u64| format!("{number:06}").into_bytes();
    let write = |from: u64, step: u64, version: u64| {
        let keys: Vec<_> = (from..KEYS).step_by(step as usize).map(key).collect();
        // They grow, so that leaves are split while many are locked.
        let value = vec![version as u8; (version % 120) as usize];
        tree.put_all(keys.iter().map(|key| content(key, &value, version)), drop);
    };
    write(0, 1, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|from| scope.spawn(move || (2..300).for_each(|version| write(from, 2, version))))
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut found = [Vec::new(), Vec::new()];
                    tree.scan(b"", KEYS as usize, |key, value, version| {
                        let number: usize = std::str::from_utf8(key).unwrap().parse().unwrap();
                        found[number % 2].push(version);
                        assert!(value.len() as u64 == version % 120 || version == 1);
                        true
                    });
                    for of_writer in found {
                        assert_eq!(of_writer.len() as u64, KEYS / 2);
                        assert!(
                            of_writer.iter().all(|version| *version == of_writer[0]),
                            "{of_writer:?}"
                        );
                    }
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree.len(), KEYS);
}

/// The estimate that limits go by, for entries of several sizes in random order.
#[test]
fn memory_is_about_what_is_said() {
    for (key_len, value_len) in [(10, 8), (22, 40), (30, 200), (16, 700), (40, 5000)] {
        let (tree, mut random) = (Tree::new(), StdRng::seed_from_u64(1));
        let count = 4_000_000 / (key_len + value_len) as u64;
        for number in 0..count {
            let mut key = rand::RngExt::random::<u64>(&mut random).to_be_bytes().to_vec();
            key.resize(key_len, 7);
            tree.put(content(&key, &vec![1; value_len], number * 3 + 1));
        }
        let said = count * (key_len + value_len) as u64 + count * crate::index::ENTRY_OVERHEAD_BYTES;
        let ratio = tree.bytes() as f64 / said as f64;
        println!("{ratio} for keys of {key_len} and values of {value_len} bytes");
        assert!((0.75..1.05).contains(&ratio));
    }
}
