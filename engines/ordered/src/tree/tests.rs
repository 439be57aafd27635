//! The tree against a map, and with many threads.
#![allow(clippy::unwrap_used)]
mod bytes;
mod inners;
mod locks;
#[cfg(shuttle)]
mod schedules;

use super::*;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;

fn content<'a>(key: &'a [u8], value: &'a [u8], version: u64) -> Content<'a> {
    Content {
        key,
        value,
        version,
        expires_ms: expires_ms(version),
        is_list: is_list(version),
    }
}

/// A third of all entries expire.
fn expires_ms(version: u64) -> u64 {
    if version.is_multiple_of(3) {
        version << 20
    } else {
        0
    }
}

/// A fifth of all entries are lists to the tree.
fn is_list(version: u64) -> bool {
    version.is_multiple_of(5)
}

/// What is said of an entry that is replaced.
fn before(key: &[u8], (value, version): (Vec<u8>, u64)) -> Before {
    Before {
        bytes: key.len() + value.len() + if expires_ms(version) == 0 { 0 } else { 8 },
        expires: expires_ms(version) != 0,
    }
}

fn found(tree: &Tree, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    tree.get(key, |cell| ((cell.value(), cell.version), cell.is_list))
        .map(|(found, found_list)| {
            assert_eq!(found_list, is_list(found.1));
            found
        })
}

fn all(entries_max: usize) -> Span<'static> {
    Span {
        start: b"",
        end: None,
        entries_max,
        values: Copied::All,
    }
}

/// Values and versions, of one moment.
struct Found(Vec<Option<(Vec<u8>, u64)>>);

impl ReadMany for Found {
    fn begin(&mut self) {
        self.0.fill(None);
    }

    fn read(&mut self, at: usize, cell: Option<&Cell<'_>>) {
        self.0[at] = cell.map(|cell| (cell.value(), cell.version));
    }
}

fn found_many(tree: &Tree, keys: &[Vec<u8>]) -> Vec<Option<(Vec<u8>, u64)>> {
    let mut found = Found(vec![None; keys.len()]);
    tree.get_many(keys, &mut found);
    found.0
}

fn check(tree: &Tree, model: &BTreeMap<Vec<u8>, (Vec<u8>, u64)>) {
    assert_eq!(tree.len(), model.len() as u64);
    let mut whole = Vec::new();
    tree.scan(all(100), |entry| {
        assert_eq!(entry.expires_ms, expires_ms(entry.version));
        assert_eq!(entry.is_list, is_list(entry.version));
        whole.push((entry.key.to_vec(), (entry.value.to_vec(), entry.version)));
        true
    });
    let expected: Vec<_> = model
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(whole, expected);
    let mut back = Vec::new();
    tree.scan_back(all(100), |entry| {
        back.push((entry.key.to_vec(), (entry.value.to_vec(), entry.version)));
        true
    });
    back.reverse();
    assert_eq!(back, expected);
    for (key, _) in expected.iter().step_by(97) {
        let mut last = None;
        tree.scan_back(
            Span {
                end: Some(key),
                ..all(3)
            },
            |entry| {
                last = Some(entry.key.to_vec());
                false
            },
        );
        let expected = model.range::<Vec<u8>, _>(..key).next_back();
        assert_eq!(last.as_ref(), expected.map(|(key, _)| key));
    }
    // Each key, one that is not there beside it, and some twice.
    let mut keys: Vec<Vec<u8>> = model.keys().rev().cloned().collect();
    keys.extend(model.keys().map(|key| [key, &b"x"[..]].concat()));
    keys.extend(model.keys().take(5).cloned());
    let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    assert_eq!(found_many(tree, &keys), expected);
    let inners = locked(&tree.spare_inners).next;
    for node in (0..inners).filter_map(|id| tree.node(id)) {
        if !node.seen().is_dead() {
            node.inner().check(&tree.heap);
        }
    }
}

fn run(steps: &[(Vec<u8>, u8, usize)]) {
    let tree = Tree::new();
    let mut model = BTreeMap::new();
    for (version, (key, kind, len)) in (1..).zip(steps) {
        let value = vec![version as u8; *len];
        match kind {
            0..6 => {
                let found = tree.put(content(key, &value, version), Near::default());
                let expected = model.insert(key.clone(), (value, version));
                assert_eq!(found, expected.map(|entry| before(key, entry)));
            }
            _ => {
                let expected = model.remove(key).map(|entry| before(key, entry));
                assert_eq!(tree.remove(key), expected);
            }
        }
        assert_eq!(found(&tree, key), model.get(key).cloned());
    }
    check(&tree, &model);
    for key in model.keys().rev() {
        assert!(tree.remove(key).is_some());
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
        // Heads and starts that are all ones.
        (0..3000_u64)
            .prop_map(|number| [vec![255; number as usize % 20], number.to_be_bytes().to_vec()].concat()),
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

/// The nodes at a level's ends have no bound on one side: their heads are of what their separators share.
#[test]
fn keys_that_begin_otherwise_than_all_others_are_found_before_and_behind_them() {
    const OTHERS: [&[u8]; 12] = [
        b"",
        b"a",
        b"user",
        b"user:",
        b"user:0",
        b"user:0000",
        b"user:00000000\0",
        b"user:00020000:",
        b"user:00039999:events/",
        b"user:1",
        b"usf",
        b"zz",
    ];
    let keys: Vec<Vec<u8>> = (0..40_000_u64)
        .map(|number| format!("user:{:08}:events", number * 7919 % 40_000).into_bytes())
        .collect();
    let (tree, mut model) = (Tree::new(), BTreeMap::new());
    let mut version = 0;
    let mut put = |tree: &Tree, model: &mut BTreeMap<_, _>, key: &[u8]| {
        version += 1;
        tree.put(content(key, b"value", version), Near::default());
        model.insert(key.to_vec(), (b"value".to_vec(), version));
    };
    // The second time the others are there first, and the third time they go while those around them stay.
    for round in 0..3 {
        for key in &keys {
            put(&tree, &mut model, key);
        }
        for key in OTHERS {
            assert_eq!(found(&tree, key), model.get(key).cloned(), "{key:?}");
        }
        check(&tree, &model);
        for key in OTHERS {
            put(&tree, &mut model, key);
            assert_eq!(found(&tree, key), model.get(key).cloned(), "{key:?}");
        }
        check(&tree, &model);
        let gone: Vec<Vec<u8>> = match round {
            0 => keys
                .iter()
                .step_by(2)
                .chain(keys.iter().skip(1).step_by(2))
                .cloned()
                .collect(),
            1 => OTHERS.iter().map(|key| key.to_vec()).collect(),
            _ => model.keys().rev().cloned().collect(),
        };
        for key in gone {
            assert!(tree.remove(&key).is_some());
            model.remove(&key);
        }
        check(&tree, &model);
    }
}

#[test]
fn it_shrinks_where_keys_go_in_order() {
    let tree = Tree::new();
    let key = |number: u64| format!("event/{number:012}").into_bytes();
    for number in 0..200_000 {
        tree.put(content(&key(number), b"value", number + 1), Near::default());
        if number >= 5000 {
            assert!(tree.remove(&key(number - 5000)).is_some());
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
                        assert_eq!(tree.remove(&key).is_some(), model.remove(&key).is_some());
                    } else {
                        tree.put(content(&key, &number.to_le_bytes(), number), Near::default());
                        model.insert(key.clone(), number);
                    }
                    let older = key_of(thread, number / 2);
                    let expected = model
                        .get(&older)
                        .map(|version| (version.to_le_bytes().to_vec(), *version));
                    assert_eq!(found(tree, &older), expected);
                }
                let mut found = BTreeMap::new();
                tree.scan(all(100), |entry| {
                    let number: u64 = std::str::from_utf8(entry.key).unwrap().parse().unwrap();
                    if number % 4 == thread {
                        found.insert(entry.key.to_vec(), entry.version);
                    }
                    true
                });
                assert_eq!(found, model);
            });
        }
    });
}

/// So few that Miri goes through all of it.
#[test]
fn a_few_keys_are_written_and_read_by_two_threads() {
    let key = |number: u64| format!("key/{number:04}").into_bytes();
    let (tree, model) = (Tree::new(), std::sync::Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (tree, model) = (&tree, &model);
            scope.spawn(move || {
                for number in (thread..120).step_by(2) {
                    let version = number + 1;
                    tree.put(content(&key(number), &[7; 20], version), Near::default());
                    if let Some(before) = number.checked_sub(2) {
                        assert!(found(tree, &key(before)).is_some());
                    }
                    if number % 3 == 0 {
                        assert!(tree.remove(&key(number)).is_some());
                        tree.put(content(&key(number), b"again", version), Near::default());
                    }
                    let (value, version) = found(tree, &key(number)).unwrap();
                    model.lock().unwrap().insert(key(number), (value, version));
                }
            });
        }
    });
    check(&tree, &model.into_inner().unwrap());
}

fn change_at_once(steps: &[Vec<(Vec<u8>, u8, usize)>]) {
    let tree = Tree::new();
    let mut model = BTreeMap::new();
    for (version, step) in (1..).zip(steps) {
        let keys: BTreeMap<&[u8], _> = step
            .iter()
            .map(|(key, kind, len)| (&key[..], (*kind, *len)))
            .collect();
        let value = vec![version as u8; 3000];
        let changes: Vec<Change<'_>> = keys
            .iter()
            .map(|(key, (kind, len))| match kind {
                0..3 => Change::Set(content(key, &value[..*len], version)),
                _ => Change::Remove(key),
            })
            .collect();
        let mut found = Vec::new();
        tree.change_all(&changes, |change, before| {
            found.push((change.key().to_vec(), before));
        });
        let mut expected = Vec::new();
        for (key, (kind, len)) in &keys {
            let entry = match kind {
                0..3 => model.insert(key.to_vec(), (value[..*len].to_vec(), version)),
                _ => model.remove(*key),
            };
            expected.push((key.to_vec(), entry.map(|entry| before(key, entry))));
        }
        assert_eq!(found, expected);
    }
    check(&tree, &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn changes_at_once_are_those_of_a_map(
        steps in prop::collection::vec(prop::collection::vec((keys(), 0..5_u8, 0..600_usize), 0..120), 0..60)
    ) {
        change_at_once(&steps);
    }
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
        let change = |key| match version % 10 {
            0 => Change::Remove(key),
            _ => Change::Set(content(key, &value, version)),
        };
        let changes: Vec<Change<'_>> = keys.iter().map(|key| change(key)).collect();
        tree.change_all(&changes, |_, _| {});
    };
    write(0, 1, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    let ways = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|from| scope.spawn(move || (2..300).for_each(|version| write(from, 2, version))))
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut found = [Vec::new(), Vec::new()];
                    let is_back = ways.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
                    let mut visit = |entry: Content<'_>| {
                        let number: usize = std::str::from_utf8(entry.key).unwrap().parse().unwrap();
                        let version = entry.version;
                        found[number % 2].push(version);
                        assert!(entry.value.len() as u64 == version % 120 || version == 1);
                        true
                    };
                    match is_back {
                        true => tree.scan_back(all(KEYS as usize), &mut visit),
                        false => tree.scan(all(KEYS as usize), &mut visit),
                    }
                    for of_writer in found {
                        assert!([0, KEYS / 2].contains(&(of_writer.len() as u64)));
                        assert!(
                            of_writer.iter().all(|version| *version == of_writer[0]),
                            "{of_writer:?}"
                        );
                    }
                }
            });
        }
        scope.spawn(|| {
            let keys: Vec<_> = (1..KEYS).step_by(100).map(key).collect();
            while !done.load(Ordering::Relaxed) {
                let found = found_many(&tree, &keys);
                let version = |found: &Option<(Vec<u8>, u64)>| found.as_ref().map(|(_, version)| *version);
                let first = found.first().and_then(version);
                assert!(found.iter().all(|found| version(found) == first), "{found:?}");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    // The last version of both is 299.
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
            let value = vec![1; value_len];
            tree.put(
                Content {
                    is_list: false,
                    ..content(&key, &value, number + 1)
                },
                Near::default(),
            );
        }
        // A third of them expires.
        let said = count * (key_len + value_len) as u64 + count * (crate::index::ENTRY_OVERHEAD_BYTES + 3);
        let ratio = tree.bytes() as f64 / said as f64;
        println!("{ratio} for keys of {key_len} and values of {value_len} bytes");
        assert!((0.75..1.05).contains(&ratio));
    }
}
