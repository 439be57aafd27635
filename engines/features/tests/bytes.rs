//! Tables of bytes, of a fixed length or of one of their own, against a naive map of rows.
//!
//! Invariant checked: a lookup answers the bytes that were written, through a base, deltas on it, and what they are folded into; and no
//! damage goes unseen.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use millpond_engines_features::write::{Duplicates, Writer, compact};
use millpond_engines_features::{
    Answered, Cell, Column, Error, Keys, Numbers, Pool, Projection, ROW_BYTES_MAX, Schema, Table,
};
use proptest::prelude::*;

type Model = HashMap<u64, Vec<u8>>;

fn schema(numbers: Numbers, dim: usize) -> Schema {
    Schema {
        columns: vec![Column {
            name: "rows".to_owned(),
            numbers,
            dim,
        }],
        ..Schema::floats(1)
    }
}

fn varying() -> Schema {
    schema(Numbers::VaryingBytes, 0)
}

/// What `find_rows` answers, as rows.
fn rows_of(table: &Table, keys: &[u64]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut found = vec![0xff; keys.len().div_ceil(8)];
    let rows = table.find_rows(keys, &mut found, u64::MAX);
    let (mut offsets, mut values) = (vec![7; (keys.len() + 1) * 4], vec![7; rows.bytes() as usize]);
    rows.write(&mut offsets, &mut values);
    let bits: usize = found.iter().map(|bits| bits.count_ones() as usize).sum();
    assert_eq!(rows.hits(), bits);
    let ends: Vec<usize> = offsets
        .as_chunks()
        .0
        .iter()
        .map(|end| u32::from_le_bytes(*end) as usize)
        .collect();
    assert_eq!((ends[0], ends.last()), (0, Some(&values.len())));
    let rows = ends.windows(2).map(|pair| values[pair[0]..pair[1]].to_vec());
    (rows.collect(), found)
}

fn check(table: &Table, model: &Model, keys: &[u64], default_row: &[u8]) {
    table.verify().unwrap();
    assert_eq!(table.rows(), model.len() as u64);
    let expected = keys
        .iter()
        .map(|key| model.get(key).cloned().unwrap_or(default_row.to_vec()));
    let mut bits = vec![0; keys.len().div_ceil(8)];
    for (at, key) in keys.iter().enumerate() {
        bits[at / 8] |= u8::from(model.contains_key(key)) << (at % 8);
        assert_eq!(table.row(*key), model.get(key).map(Vec::as_slice), "key {key}");
    }
    let (rows, found) = rows_of(table, keys);
    assert_eq!((rows, &found), (expected.collect(), &bits));
    let mut again = vec![0; found.len()];
    table.find(keys, &mut again);
    assert_eq!(again, bits);
    let mut seen = Model::new();
    table
        .each_row::<()>(&mut |key, row| {
            assert_eq!(seen.insert(key, row.to_vec()), None, "key {key} twice");
            Ok(())
        })
        .unwrap();
    assert_eq!(&seen, model);
    let mut scanned = Vec::new();
    assert_eq!(table.scan(0, usize::MAX, &mut scanned), None);
    scanned.sort_unstable();
    let mut all: Vec<u64> = model.keys().copied().collect();
    all.sort_unstable();
    assert_eq!(scanned, all);
}

fn key() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..60_u64, 1 => any::<u64>()]
}

fn row() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 0..700),
    ]
}

/// What a delta does to a key: it puts a row, or removes the key.
fn changes() -> impl Strategy<Value = HashMap<u64, Option<Vec<u8>>>> {
    prop::collection::hash_map(key(), prop::option::of(row()), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_base_its_deltas_and_what_they_fold_into_answer_as_a_map_does(
        base in prop::collection::hash_map(key(), row(), 0..80),
        deltas in prop::collection::vec(changes(), 0..3),
        keys in prop::collection::vec(key(), 0..150),
        default_row in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        (shards, memory_bytes) in (1..4_u32, prop_oneof![Just(0), Just(100), Just(1 << 20)]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let numbers = default_row.as_ref().map(|row| row.iter().map(|byte| f32::from(*byte)).collect());
        let schema = Schema { default_row: numbers, ..varying() };
        let default_row = default_row.unwrap_or_default();
        let writer = Writer::create(dir.path(), "rows", 1, schema, shards).unwrap();
        let mut writer = writer.memory_bytes(memory_bytes);
        for (key, row) in &base {
            writer.push_cells(*key, &[Cell::Bytes(row)]).unwrap();
        }
        let mut table = Table::open(&writer.finish().unwrap().path).unwrap();
        let mut model = base;
        check(&table, &model, &keys, &default_row);
        for (version, changes) in (2..).zip(deltas) {
            let writer = Writer::create_delta(dir.path(), version, Arc::new(table), shards).unwrap();
            let mut writer = writer.memory_bytes(memory_bytes);
            for (key, row) in changes {
                match row {
                    Some(row) => {
                        writer.push_cells(key, &[Cell::Bytes(&row)]).unwrap();
                        model.insert(key, row);
                    }
                    None => {
                        let is_there = model.remove(&key).is_some();
                        prop_assert_eq!(writer.remove(key).unwrap(), is_there);
                    }
                }
            }
            table = Table::open(&writer.finish().unwrap().path).unwrap();
            check(&table, &model, &keys, &default_row);
        }
        let folded = compact(&table, dir.path(), 9, shards, memory_bytes).unwrap();
        let mut folded = Table::open(&folded.path).unwrap();
        folded.make_resident().unwrap();
        check(&folded, &model, &keys, &default_row);
    }

    #[test]
    fn of_rows_of_one_key_the_first_or_the_last_stays(
        rows in prop::collection::vec((0..6_u64, prop::collection::vec(any::<u8>(), 0..3)), 0..40),
        memory_bytes in prop_oneof![Just(0), Just(40), Just(1 << 20)],
    ) {
        for duplicates in [Duplicates::First, Duplicates::Last] {
            let dir = tempfile::tempdir().unwrap();
            let writer = Writer::create(dir.path(), "rows", 1, varying(), 1).unwrap();
            let mut writer = writer.memory_bytes(memory_bytes).duplicates(duplicates);
            let mut model = Model::new();
            for (key, row) in &rows {
                writer.push_cells(*key, &[Cell::Bytes(row)]).unwrap();
                match duplicates {
                    Duplicates::First => _ = model.entry(*key).or_insert(row.clone()),
                    _ => _ = model.insert(*key, row.clone()),
                }
            }
            let table = Table::open(&writer.finish().unwrap().path).unwrap();
            check(&table, &model, &[0, 1, 2, 3, 4, 5, 6], &[]);
        }
    }

    #[test]
    fn noise_in_an_unverified_table_neither_panics_nor_loops(
        noise in prop::collection::vec(any::<u8>(), 16..200),
        keys in prop::collection::vec(key(), 1..100),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let version_dir = write(dir.path(), 1, 1, usize::MAX);
        let path = version_dir.join("shard-00000.mpf");
        let mut bytes = fs::read(&path).unwrap();
        for (byte, noise) in bytes[128..].iter_mut().zip(noise.iter().cycle()) {
            *byte = *noise;
        }
        fs::write(&path, bytes).unwrap();
        let table = Table::open(&version_dir).unwrap();
        prop_assert_eq!(rows_of(&table, &keys).0.len(), keys.len());
        table.each_row::<()>(&mut |_, _| Ok(())).unwrap();
        prop_assert!(table.verify().is_err());
    }
}

/// Forty rows: row k has k bytes, each k.
fn write(dir: &Path, version: u64, shards: u32, memory_bytes: usize) -> std::path::PathBuf {
    let writer = Writer::create(dir, "rows", version, varying(), shards).unwrap();
    let mut writer = writer.memory_bytes(memory_bytes).created_unix_s(1);
    let order = |at: u64| match memory_bytes {
        usize::MAX => at,
        _ => 39 - at,
    };
    for key in (0..40).map(order) {
        let row = vec![key as u8; key as usize];
        writer.push_cells(key, &[Cell::Bytes(&row)]).unwrap();
    }
    writer.finish().unwrap().path
}

#[test]
fn a_flipped_bit_of_any_byte_is_found_and_so_is_every_cut() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1, 1, usize::MAX);
    for file in ["manifest.json", "shard-00000.mpf"] {
        let path = version_dir.join(file);
        let whole = fs::read(&path).unwrap();
        let damaged = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let opened = Table::open(&version_dir).and_then(|table| table.verify());
            let error = opened.expect_err("damage goes unseen").to_string();
            assert!(error.contains(file), "{error}");
            error
        };
        let mut errors = String::new();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            errors += &damaged(&bytes);
            damaged(&whole[..at]);
        }
        damaged(&[&whole[..], &[0; 64]].concat());
        if file.ends_with("mpf") {
            for section in ["pilots", "slots", "heap"] {
                assert!(errors.contains(&format!("checksum of {section}")), "{section}");
            }
        }
        fs::write(&path, whole).unwrap();
    }
    Table::open(&version_dir).unwrap().verify().unwrap();
}

#[test]
fn bytes_of_a_shard_do_not_depend_on_the_order_or_the_memory() {
    let written = [usize::MAX, 0, 100, 1000].map(|memory_bytes| {
        let dir = tempfile::tempdir().unwrap();
        let version_dir = write(dir.path(), 1, 2, memory_bytes);
        ["manifest.json", "shard-00000.mpf", "shard-00001.mpf"]
            .map(|file| fs::read(version_dir.join(file)).unwrap())
    });
    for other in &written[1..] {
        assert_eq!(&written[0], other);
    }
}

#[test]
fn columns_of_fixed_bytes_stand_among_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let column = |name: &str, numbers, dim| Column {
        name: name.to_owned(),
        numbers,
        dim,
    };
    let schema = Schema {
        columns: vec![
            column("a", Numbers::F32, 2),
            column("raw", Numbers::Bytes, 3),
            column("b", Numbers::F16, 1),
        ],
        default_row: Some(vec![0.5, 0.25, 1.0, 2.0, 255.0, 4.0]),
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(dir.path(), "mixed", 1, schema.clone(), 1).unwrap();
    let cells = |raw: &'static [u8]| {
        [
            Cell::Numbers(&[1.0, 2.0]),
            Cell::Bytes(raw),
            Cell::Numbers(&[3.0]),
        ]
    };
    writer.push_cells(7, &cells(b"abc")).unwrap();
    let error = |result: Result<(), Error>| result.unwrap_err().to_string();
    assert_eq!(
        error(writer.push_cells(8, &cells(b"ab"))),
        "key 8, column \"raw\": expected 3 bytes, found 2 bytes"
    );
    let turned = [Cell::Bytes(b"ab"), Cell::Bytes(b"abc"), Cell::Numbers(&[3.0])];
    assert_eq!(
        error(writer.push_cells(8, &turned)),
        "key 8, column \"a\": expected numbers, found 2 bytes"
    );
    // A byte may come as a number too.
    writer.push(8, &[1.0, 2.0, 97.0, 0.0, 255.0, 3.0]).unwrap();
    assert!(error(writer.push(9, &[1.0, 2.0, 97.0, 0.0, 256.0, 3.0])).contains("value 4 of its row is 256"));
    let table = Table::open(&writer.finish().unwrap().path).unwrap();
    table.verify().unwrap();
    assert_eq!((table.format(), table.is_varying()), (3, false));
    let raw = Projection::new(&schema, &["raw"], Answered::Stored).unwrap();
    let (mut values, mut found) = ([0; 9], [0]);
    assert_eq!(table.lookup_bytes(&[7, 8, 9], &raw, &mut values, &mut found), 2);
    assert_eq!((&values, found), (b"abca\0\xff\x01\x02\xff", [0b011]));
    assert!(Projection::new(&schema, &["raw", "a"], Answered::F32).is_err());
    Projection::new(&schema, &["b", "a"], Answered::F32).unwrap();
}

#[test]
fn rows_that_vary_are_neither_pooled_nor_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::open(&write(dir.path(), 1, 1, usize::MAX)).unwrap();
    let (mut none, mut found) = ([0.0; 0], [0]);
    assert_eq!(table.lookup(&[1, 99], &mut none, &mut found), 1);
    assert_eq!(found, [1]);
    let error = table.lookup_pooled(&[1], &[0, 1], Pool::Sum, &mut none, &mut found);
    assert_eq!(
        error.unwrap_err().to_string(),
        "pool: expected rows of numbers, found rows of varying bytes"
    );
}

#[test]
fn a_row_has_a_length_that_an_answer_can_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), "rows", 1, varying(), 1).unwrap();
    let longest = vec![7; ROW_BYTES_MAX];
    writer.push_cells(1, &[Cell::Bytes(&longest)]).unwrap();
    let longer = vec![7; ROW_BYTES_MAX + 1];
    let error = writer
        .push_cells(2, &[Cell::Bytes(&longer)])
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "key 2, column \"rows\": expected at most 262144 bytes, found 262145 bytes"
    );
    let table = Table::open(&writer.finish().unwrap().path).unwrap();
    assert_eq!(rows_of(&table, &[2, 1]), (vec![vec![], longest], vec![0b10]));
}

#[test]
fn texts_are_keys_of_rows_that_vary_too() {
    let dir = tempfile::tempdir().unwrap();
    let schema = Schema {
        keys: Keys::Text {
            slot: "doc".to_owned(),
        },
        ..varying()
    };
    let mut writer = Writer::create(dir.path(), "rows", 1, schema.clone(), 1).unwrap();
    writer.push_text_cells("a", &[Cell::Bytes(b"{}")]).unwrap();
    writer.push_text_cells("b", &[Cell::Bytes(b"")]).unwrap();
    let table = Table::open(&writer.finish().unwrap().path).unwrap();
    let keys = ["b", "a", "c"].map(|text| schema.keys.of_text(text).unwrap());
    let expected = vec![vec![], b"{}".to_vec(), vec![]];
    assert_eq!(rows_of(&table, &keys), (expected, vec![0b011]));
}
