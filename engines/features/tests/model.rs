//! Tables against a naive map of rows, under random contents and random requests.
//!
//! Not a test of damaged files (see damage.rs). Invariant checked: a lookup answers what the map answers, to the bit.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::path::Path;

use millpond_engines_features::{Pool, Schema, Table, write::Writer};
use proptest::prelude::*;

type Model = HashMap<u64, Vec<f32>>;

fn write(dir: &Path, model: &Model, default_row: Option<f32>, dim: usize, shards: u32) -> Table {
    let schema = Schema {
        default_row: default_row.map(|value| vec![value; dim]),
        ..Schema::floats(dim)
    };
    let mut writer = Writer::create(dir, "model", 1, schema, shards).unwrap();
    for (key, row) in model {
        writer.push(*key, row).unwrap();
    }
    let summary = writer.finish().unwrap();
    assert_eq!(
        (summary.rows, summary.shards, summary.dim),
        (model.len() as u64, shards, dim)
    );
    let table = Table::open(&summary.path).unwrap();
    table.verify().unwrap();
    assert_eq!(
        (table.name(), table.version(), table.dim(), table.rows()),
        ("model", 1, dim, model.len() as u64)
    );
    table
}

/// Keys from a few small sets, so that asked keys are often present and extremes are common.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..200_u64,
        1 => any::<u64>(),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just(u64::from(u32::MAX))],
        1 => (0..64_u32).prop_map(|bit| 1 << bit),
    ]
}

fn finite() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -100.0..100.0_f32,
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f32::MIN_POSITIVE / 2.0), Just(f32::MAX)],
    ]
}

fn contents() -> impl Strategy<Value = (usize, Model)> {
    prop_oneof![1..20_usize, Just(64), Just(65)].prop_flat_map(|dim| {
        let row = prop::collection::vec(finite(), dim);
        (Just(dim), prop::collection::hash_map(key(), row, 0..150_usize))
    })
}

fn expected_rows(
    model: &Model,
    default_row: Option<f32>,
    keys: &[u64],
    dim: usize,
) -> (Vec<f32>, Vec<u8>, usize) {
    let (mut values, mut found, mut count) = (Vec::new(), vec![0; keys.len().div_ceil(8)], 0);
    for (at, key) in keys.iter().enumerate() {
        match model.get(key) {
            Some(row) => {
                values.extend_from_slice(row);
                found[at / 8] |= 1 << (at % 8);
                count += 1;
            }
            None => values.extend(std::iter::repeat_n(default_row.unwrap_or_default(), dim)),
        }
    }
    (values, found, count)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lookups_equal_the_map(
        (dim, model) in contents(),
        keys in prop::collection::vec(key(), 0..300),
        shards in prop_oneof![Just(1_u32), 1..9_u32],
        resident in any::<bool>(),
        default_row in prop::option::of(finite()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut table = write(dir.path(), &model, default_row, dim, shards);
        if resident {
            table.make_resident().unwrap();
        }
        let (values, found, count) = expected_rows(&model, default_row, &keys, dim);

        // The buffers come dirty: nothing of them may stay.
        let mut got = vec![7.0; keys.len() * dim];
        let mut got_found = vec![0xff; keys.len().div_ceil(8)];
        prop_assert_eq!(table.lookup(&keys, &mut got, &mut got_found), count);
        prop_assert_eq!(bits(&got), bits(&values));
        prop_assert_eq!(&got_found, &found);
        let mut bytes = vec![7; keys.len() * dim * 4];
        got_found.fill(0xff);
        prop_assert_eq!(table.lookup_bytes(&keys, table.floats(), &mut bytes, &mut got_found), count);
        let expected: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        prop_assert_eq!((&bytes, &got_found), (&expected, &found));
        got_found.fill(0xff);
        prop_assert_eq!((table.find(&keys, &mut got_found), &got_found), (count, &found));
    }

    #[test]
    fn pooled_lookups_equal_the_map(
        (dim, model) in contents(),
        bags in prop::collection::vec(prop::collection::vec(key(), 0..40), 0..20),
        shards in 1..4_u32,
        pool in prop_oneof![Just(Pool::Sum), Just(Pool::Mean), Just(Pool::Max)],
        default_row in prop::option::of(finite()),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let table = write(dir.path(), &model, default_row, dim, shards);
        let keys = bags.concat();
        let mut offsets = vec![0];
        let mut values = Vec::new();
        for bag in &bags {
            offsets.push(offsets[offsets.len() - 1] + bag.len() as u32);
            let rows: Vec<&Vec<f32>> = bag.iter().filter_map(|key| model.get(key)).collect();
            for at in 0..dim {
                let values_at = rows.iter().map(|row| row[at]);
                let pooled = match pool {
                    Pool::Max => values_at.reduce(f32::max),
                    Pool::Sum => values_at.reduce(|sum, value| sum + value),
                    Pool::Mean => values_at.reduce(|sum, value| sum + value).map(|sum| sum / rows.len() as f32),
                };
                values.push(pooled.or(default_row).unwrap_or_default());
            }
        }
        let (_, found, count) = expected_rows(&model, default_row, &keys, dim);

        let mut got = vec![7.0; bags.len() * dim];
        let mut got_found = vec![0xff; keys.len().div_ceil(8)];
        prop_assert_eq!(table.lookup_pooled(&keys, &offsets, pool, &mut got, &mut got_found).unwrap(), count);
        prop_assert_eq!(bits(&got), bits(&values));
        prop_assert_eq!(got_found, found);
    }
}

#[test]
fn wrong_offsets_and_lengths_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = Model::from([(1, vec![1.0, 2.0])]);
    let table = write(dir.path(), &model, None, 2, 1);
    let check = |offsets: &[u32], values: usize, found: usize, expected: &str| {
        let (mut values, mut found) = (vec![7.0; values], vec![7; found]);
        let error = table
            .lookup_pooled(&[1, 1, 9], offsets, Pool::Sum, &mut values, &mut found)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(
            values.iter().all(|&value| value == 7.0) && found.iter().all(|&byte| byte == 7),
            "an error writes nothing"
        );
    };
    check(&[], 0, 1, "offsets: expected one more entry than bags");
    check(&[1, 3], 2, 1, "offsets: expected 0 as the first entry");
    check(&[0, 2], 2, 1, "offsets: expected 3, the number of keys");
    check(&[0, 4], 2, 1, "offsets: expected 3, the number of keys");
    check(&[0, 2, 1, 3], 6, 1, "found 2 before 1 at 1");
    check(&[0, 3], 3, 1, "values: expected 2 entries, found 3");
    check(&[0, 3], 2, 2, "found: expected 1 entries, found 2");
}

#[test]
fn a_large_table_in_many_shards_keeps_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), "large", 1, Schema::floats(3), 5).unwrap();
    let rows = 50_000_u64;
    for key in 0..rows {
        let value = key as f32;
        writer.push(key, &[value, -value, 0.5]).unwrap();
    }
    let mut table = Table::open(&writer.finish().unwrap().path).unwrap();
    table.make_resident().unwrap();
    assert_eq!(table.own_shards().map(|shard| shard.rows).sum::<u64>(), rows);
    assert!(
        table
            .own_shards()
            .all(|shard| shard.rows > 9_000 && shard.slots > shard.rows)
    );
    let keys: Vec<u64> = (0..rows * 2).collect();
    let mut values = vec![7.0; keys.len() * 3];
    let mut found = vec![0; keys.len().div_ceil(8)];
    assert_eq!(table.lookup(&keys, &mut values, &mut found), rows as usize);
    for (key, row) in values.chunks_exact(3).enumerate() {
        let value = key as f32;
        let expected = if key < rows as usize {
            [value, -value, 0.5]
        } else {
            [0.0; 3]
        };
        assert_eq!(row, expected, "key {key}");
    }
}
