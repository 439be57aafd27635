//! Deltas on bases: what a chain of versions answers, and what it refuses to be.
//!
//! Invariant checked: a version answers as the map that the same changes make of the base's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use millpond_engines_features::write::{Writer, compact};
use millpond_engines_features::{
    Answered, Error, LAYERS_MAX, Pool, Projection, Schema, Table, delete_version, version_infos,
};
use proptest::prelude::*;

type Model = BTreeMap<u64, [f32; 2]>;

/// Rows that are put, and keys that are removed.
#[derive(Debug, Clone)]
struct Changes {
    puts: Model,
    removes: BTreeSet<u64>,
}

fn base(dir: &Path, model: &Model, shards: u32) -> Arc<Table> {
    let mut writer = Writer::create(dir, "films", 1, Schema::floats(2), shards).unwrap();
    for (key, row) in model {
        writer.push(*key, row).unwrap();
    }
    Arc::new(Table::open(&writer.finish().unwrap().path).unwrap())
}

fn delta(dir: &Path, on: &Arc<Table>, version: u64, shards: u32, changes: &Changes) -> Arc<Table> {
    let mut writer = Writer::create_delta(dir, version, Arc::clone(on), shards).unwrap();
    for (key, row) in &changes.puts {
        writer.push(*key, row).unwrap();
    }
    for key in &changes.removes {
        assert_eq!(writer.remove(*key).unwrap(), on.contains(*key));
    }
    writer.finish().unwrap();
    Arc::new(Table::open_beside(dir, Some(version), Some(on)).unwrap())
}

fn apply(model: &mut Model, changes: &Changes) {
    model.extend(&changes.puts);
    model.retain(|key, _| !changes.removes.contains(key));
}

fn check(table: &Table, model: &Model) {
    assert_eq!(table.rows(), model.len() as u64);
    let keys: Vec<u64> = (0..120).chain([u64::MAX]).collect();
    let (mut values, mut found) = (vec![7.0; keys.len() * 2], vec![0xff; keys.len().div_ceil(8)]);
    assert_eq!(table.lookup(&keys, &mut values, &mut found), model.len());
    for (at, key) in keys.iter().enumerate() {
        let expected = model.get(key);
        assert_eq!(
            values[at * 2..at * 2 + 2],
            *expected.unwrap_or(&[0.0; 2]),
            "key {key}"
        );
        assert_eq!(
            found[at / 8] >> (at % 8) & 1 == 1,
            expected.is_some(),
            "key {key}"
        );
        assert_eq!(table.contains(*key), expected.is_some(), "key {key}");
    }
    let offsets = [0, keys.len() as u32];
    let mut sum = [0.0; 2];
    table
        .lookup_pooled(&keys, &offsets, Pool::Sum, &mut sum, &mut found)
        .unwrap();
    let rows = keys.iter().filter_map(|key| model.get(key));
    assert_eq!(
        sum,
        rows.fold([0.0; 2], |sum, row| [sum[0] + row[0], sum[1] + row[1]])
    );
    table.verify().unwrap();
    check_stored(table, &keys, &values);
    for page in [1, 7, 1000] {
        check_scan(table, model, page);
    }
}

/// These tables store what they answer.
fn check_stored(table: &Table, keys: &[u64], values: &[f32]) {
    let stored = Projection::new::<&str>(table.schema(), &[], Answered::Stored).unwrap();
    let (mut rows, mut found) = (vec![7; keys.len() * 8], vec![0xff; keys.len().div_ceil(8)]);
    let count = table.lookup_bytes(keys, &stored, &mut rows, &mut found);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(rows, bytes);
    let bits: u32 = found.iter().map(|bits| bits.count_ones()).sum();
    assert_eq!(bits as usize, count);
}

/// Page by page, every key comes once.
fn check_scan(table: &Table, model: &Model, page: usize) {
    let (mut position, mut keys) = (0, Vec::new());
    loop {
        let before = keys.len();
        let next = table.scan(position, page, &mut keys);
        assert!(keys.len() - before <= page);
        match next {
            Some(next) => assert!(next > position),
            None => break,
        }
        position = next.unwrap();
    }
    keys.sort_unstable();
    assert!(keys.iter().eq(model.keys()), "pages of {page}");
    let mut beyond = Vec::new();
    assert_eq!(table.scan(u64::MAX, page, &mut beyond), None);
    assert!(beyond.is_empty());
}

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..120_u64, 1 => Just(u64::MAX)]
}

fn rows(max: usize) -> impl Strategy<Value = Model> {
    prop::collection::btree_map(key(), prop::array::uniform2(-8.0..8.0_f32), 0..max)
}

fn changes() -> impl Strategy<Value = Changes> {
    (rows(30), prop::collection::btree_set(key(), 0..20)).prop_map(|(puts, removes)| Changes {
        removes: removes
            .into_iter()
            .filter(|key| !puts.contains_key(key))
            .collect(),
        puts,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chains_equal_the_map(
        mut model in rows(100),
        chain in prop::collection::vec(changes(), 1..LAYERS_MAX),
        shards in 1..4_u32,
        resident in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let first = base(dir.path(), &model, shards);
        check(&first, &model);
        let mut newest = Arc::clone(&first);
        let before = model.clone();
        for (version, changes) in (2..).zip(&chain) {
            newest = delta(dir.path(), &newest, version, 4 - shards, changes);
            apply(&mut model, changes);
            check(&newest, &model);
        }
        check(&first, &before);

        let mut opened = Table::open_version(dir.path(), None).unwrap();
        if resident {
            opened.make_resident().unwrap();
        }
        check(&opened, &model);
        prop_assert_eq!(opened.chain().len(), chain.len() + 1);
        let path = compact(&opened, dir.path(), 99, shards, 1000).unwrap().path;
        let folded = Table::open(&path).unwrap();
        check(&folded, &model);
        prop_assert_eq!(folded.chain(), [99]);
    }
}

fn three_rows(dir: &Path) -> Arc<Table> {
    base(dir, &(0..3).map(|key| (key, [key as f32, 0.5])).collect(), 1)
}

fn one_change() -> Changes {
    Changes {
        puts: Model::from([(1, [9.0, 9.0])]),
        removes: BTreeSet::from([2, 77]),
    }
}

#[test]
fn a_base_that_is_gone_or_another_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = three_rows(dir.path());
    delta(dir.path(), &first, 2, 1, &one_change());
    let check = |expected: &str| {
        let error = Table::open_version(dir.path(), Some(2)).unwrap_err();
        assert!(matches!(error, Error::Base { version: 1, .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let there = dir.path().join("00000001");
    fs::rename(&there, dir.path().join("elsewhere")).unwrap();
    check("cannot read");
    let mut writer = Writer::create(dir.path(), "films", 1, Schema::floats(2), 1).unwrap();
    writer.push(0, &[1.0, 1.0]).unwrap();
    writer.finish().unwrap();
    check("expected");
    fs::remove_dir_all(&there).unwrap();
    fs::rename(dir.path().join("elsewhere"), &there).unwrap();
    Table::open_version(dir.path(), Some(2)).unwrap();
}

#[test]
fn what_a_delta_cannot_be_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = three_rows(dir.path());
    let error = Writer::create_delta(dir.path(), 1, Arc::clone(&first), 1)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("expected above its base's, 1, found 1"),
        "{error}"
    );
    let mut writer = Writer::create(dir.path(), "films", 5, Schema::floats(2), 1).unwrap();
    let error = writer.remove(1).unwrap_err().to_string();
    assert!(
        error.contains("keys to remove: expected none in a version that is no delta"),
        "{error}"
    );

    let mut newest = first;
    for version in 2..=LAYERS_MAX as u64 {
        newest = delta(dir.path(), &newest, version, 1, &one_change());
    }
    let error = Writer::create_delta(dir.path(), 50, newest, 1).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("compact them with `millpond features build --compact`"),
        "{error}"
    );
}

#[test]
fn a_damaged_base_is_neither_folded_nor_built_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = three_rows(dir.path());
    let path = first.path().join("shard-00000.mpf");
    let mut bytes = fs::read(&path).unwrap();
    bytes[200] ^= 1;
    fs::write(&path, bytes).unwrap();
    let damaged = |error: Error| assert!(matches!(error, Error::Damaged { .. }), "{error}");
    damaged(compact(&first, dir.path(), 2, 1, 1000).unwrap_err());
    damaged(
        Writer::create_delta(dir.path(), 2, Arc::clone(&first), 1)
            .err()
            .unwrap(),
    );

    let elsewhere = tempfile::tempdir().unwrap();
    let whole = three_rows(elsewhere.path());
    let error = Writer::create_delta(&dir.path().join("other"), 2, whole, 1)
        .err()
        .unwrap();
    assert!(matches!(error, Error::Base { version: 1, .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_base_goes_after_its_deltas() {
    let dir = tempfile::tempdir().unwrap();
    let first = three_rows(dir.path());
    delta(dir.path(), &first, 2, 1, &one_change());
    let described = version_infos(dir.path()).unwrap();
    let bases: Vec<_> = described
        .iter()
        .map(|info| (info.version, info.base, info.rows))
        .collect();
    assert_eq!(bases, [(1, None, 3), (2, Some(1), 2)]);
    let error = delete_version(dir.path(), 1).unwrap_err().to_string();
    assert!(
        error.contains("is the base of version 2; delete that one first"),
        "{error}"
    );
    assert!(matches!(
        delete_version(dir.path(), 3),
        Err(Error::VersionNotFound { .. })
    ));
    delete_version(dir.path(), 2).unwrap();
    delete_version(dir.path(), 1).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    first.verify().unwrap();
}

#[test]
fn a_delta_shares_its_base_with_the_version_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Table::open(three_rows(dir.path()).path()).unwrap();
    first.make_resident().unwrap();
    let first = Arc::new(first);
    let second = delta(dir.path(), &first, 2, 1, &one_change());
    // What was read once need not be there any more; the delta's own files are mapped.
    let path = dir.path().join("00000001/shard-00000.mpf");
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(0)
        .unwrap();
    second.verify().unwrap();
    assert!(Table::open_version(dir.path(), Some(2)).is_err());
    let expected = Model::from([(0, [0.0, 0.5]), (1, [9.0, 9.0])]);
    check(&second, &expected);
    assert_eq!((second.chain(), first.chain()), (vec![2, 1], vec![1]));
}

/// Deletes a base while a delta on it is built: in no round may both succeed.
#[test]
fn a_base_that_goes_while_a_delta_is_built_leaves_no_delta_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::from([(1, [1.0; 2])]);
    for _ in 0..200 {
        let on = match Table::open_version(dir.path(), Some(1)) {
            Ok(table) => Arc::new(table),
            Err(_) => base(dir.path(), &model, 1),
        };
        let writer = Writer::create_delta(dir.path(), 2, on, 1).unwrap();
        let (built, deleted) = std::thread::scope(|scope| {
            let deleting = scope.spawn(|| delete_version(dir.path(), 1));
            (writer.finish(), deleting.join().unwrap())
        });
        assert!(built.is_err() || deleted.is_err(), "{built:?} {deleted:?}");
        let left = version_infos(dir.path()).unwrap_or_default();
        let left: Vec<u64> = left.iter().map(|info| info.version).collect();
        assert!(!left.contains(&2) || left.contains(&1), "{left:?}");
        if left.contains(&2) {
            delete_version(dir.path(), 2).unwrap();
        }
    }
}
