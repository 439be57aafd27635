//! Rows of the same key: refused, or one of them kept.
//!
//! Invariant checked: the bytes of a table are those of the rows that stay, whatever the memory and the shards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use millpond_engines_features::Table;
use millpond_engines_features_build::{Base, BuildOptions, Duplicates, Summary, build};
use proptest::prelude::*;

fn csv(path: &Path, rows: &[(u64, i8)]) -> String {
    let mut text = "key,x\n".to_owned();
    for (key, number) in rows {
        writeln!(text, "{key},{number}").unwrap();
    }
    fs::write(path, text).unwrap();
    path.display().to_string()
}

fn built(options: &BuildOptions) -> Summary {
    build(options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn shards(options: &BuildOptions) -> Vec<Vec<u8>> {
    let summary = built(options);
    (0..summary.shards)
        .map(|shard| fs::read(summary.path.join(format!("shard-{shard:05}.mpf"))).unwrap())
        .collect()
}

/// The rows that stay of `rows`.
fn kept(rows: &[(u64, i8)], duplicates: Duplicates) -> BTreeMap<u64, i8> {
    let mut kept = BTreeMap::new();
    for &(key, number) in rows {
        match duplicates {
            Duplicates::Last => drop(kept.insert(key, number)),
            _ => drop(kept.entry(key).or_insert(number)),
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_that_of_the_rows_that_stay(
        rows in prop::collection::vec((0..30_u64, any::<i8>()), 1..80),
        cut in 0..80_usize,
        shard_count in 1..4_u32,
        memory_bytes in prop_oneof![Just(1_usize), Just(60), Just(1 << 20)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = rows.split_at(cut.min(rows.len()));
        for duplicates in [Duplicates::First, Duplicates::Last] {
            let mut options = BuildOptions::new(dir.path().join("tables"), "films");
            // The files are read as given, not by name.
            options.inputs = vec![csv(&dir.path().join("b.csv"), one), csv(&dir.path().join("a.csv"), other)];
            (options.shards, options.memory_bytes, options.duplicates) = (shard_count, memory_bytes, duplicates);
            options.version = Some(1);
            let got = shards(&options);
            let kept: Vec<(u64, i8)> = kept(&rows, duplicates).into_iter().collect();
            options.inputs = vec![csv(&dir.path().join("c.csv"), &kept)];
            (options.duplicates, options.name) = (Duplicates::Refused, "kept".to_owned());
            prop_assert_eq!(&got, &shards(&options), "{:?} of {:?}", duplicates, rows);
            fs::remove_dir_all(&options.out_dir).unwrap();
        }
    }

    #[test]
    fn a_delta_counts_each_key_once(
        base in prop::collection::btree_map(0..20_u64, any::<i8>(), 1..20),
        rows in prop::collection::vec((0..30_u64, any::<i8>()), 1..40),
        gone in prop::collection::vec(0..30_u64, 0..20),
    ) {
        for duplicates in [Duplicates::First, Duplicates::Last] {
            let dir = tempfile::tempdir().unwrap();
            let base_rows: Vec<(u64, i8)> = base.clone().into_iter().collect();
            let gone_rows: Vec<(u64, i8)> = gone.iter().map(|&key| (key, 0)).collect();
            let mut options = BuildOptions::new(dir.path().join("tables"), "films");
            options.inputs = vec![csv(&dir.path().join("base.csv"), &base_rows)];
            built(&options);
            options.inputs = vec![csv(&dir.path().join("in.csv"), &rows)];
            options.remove = vec![csv(&dir.path().join("gone.csv"), &gone_rows)];
            (options.base, options.duplicates, options.memory_bytes) = (Some(Base::Newest), duplicates, 40);
            let mut expected = base.clone();
            let put = kept(&rows, duplicates);
            expected.extend(&put);
            // A removal is a row that comes last, whether the base has the key or not.
            for key in &gone {
                if duplicates == Duplicates::Last || !put.contains_key(key) {
                    expected.remove(key);
                }
            }
            let table = Table::open(&built(&options).path).unwrap();
            table.verify().unwrap();
            prop_assert_eq!(table.rows(), expected.len() as u64);
            // What is put or removed for the base has a slot, and no key else: a removal of nothing is nowhere.
            let changed: BTreeSet<u64> = put.keys().chain(&gone).copied().collect();
            let slots = changed.iter().filter(|key| base.contains_key(key) || expected.contains_key(key));
            let slots_found: u64 = table.own_shards().map(|shard| shard.rows).sum();
            prop_assert_eq!(slots_found, slots.count() as u64);
            let keys: Vec<u64> = (0..30).collect();
            let (mut values, mut found) = ([0.0; 30], [0; 4]);
            prop_assert_eq!(table.lookup(&keys, &mut values, &mut found), expected.len());
            for key in keys {
                let number = expected.get(&key).map_or(0.0, |&number| f32::from(number));
                prop_assert_eq!(values[key as usize], number, "key {}", key);
            }
        }
    }
}

#[test]
fn two_rows_of_a_key_are_named_with_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = BuildOptions::new(dir.path().join("tables"), "films");
    options.inputs = vec![
        csv(&dir.path().join("b.csv"), &[(1, 1), (7, 2)]),
        csv(&dir.path().join("a.csv"), &[(2, 1), (3, 2), (7, 2)]),
    ];
    let error = build(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("a.csv, line 4, column \"key\": key 7 is in "),
        "{error}"
    );
    assert!(
        error.contains("b.csv, line 3 already; keep one row a key, or say which by --duplicates"),
        "{error}"
    );
    assert!(!options.out_dir.join("films").exists());
}

#[test]
fn a_key_that_is_put_and_removed_is_there_twice_whether_the_base_has_it_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = BuildOptions::new(dir.path().join("tables"), "films");
    options.inputs = vec![csv(&dir.path().join("base.csv"), &[(1, 1), (2, 2)])];
    built(&options);
    options.base = Some(Base::Newest);
    for key in [2, 5] {
        options.inputs = vec![csv(&dir.path().join("in.csv"), &[(9, 9), (key, 7)])];
        options.remove = vec![csv(&dir.path().join("gone.csv"), &[(1, 0), (8, 0), (key, 0)])];
        let error = build(&options, &mut |_| {}).unwrap_err().to_string();
        assert!(
            error.contains(&format!("gone.csv, line 4, column \"key\": key {key} is in ")),
            "{error}"
        );
        assert!(error.contains("in.csv, line 3 already"), "{error}");
    }
}
