//! A table pools its rows itself; rows that came from several nodes are pooled where they are merged. Both give the same bits.

use millpond_engines_features::{Column, NotFinite, Numbers, Pool, Schema, Table, write::Writer};
use millpond_wire_schema::features_lookup::{Asked, Merge, Part, Pool as OfCall, Pooled, RowType};
use proptest::prelude::*;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A table with these rows under the keys 0, 1, 2 and so on; where there is none, the key is not there.
fn table(kind: Numbers, dim: usize, rows: &[Option<Vec<f32>>], default_row: Option<Vec<f32>>) -> Table {
    let dir: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pooling");
    let _ = std::fs::remove_dir_all(&dir);
    let schema = Schema {
        columns: vec![Column {
            name: "all".to_owned(),
            numbers: kind,
            dim,
        }],
        not_finite: NotFinite::Kept,
        default_row,
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(&dir, "films", 1, schema, 1).unwrap();
    for (key, row) in rows.iter().enumerate() {
        let Some(row) = row else { continue };
        // What becomes no number by being narrowed is refused.
        let fits = |number: &f32| match kind {
            Numbers::F32 => *number,
            _ => number.clamp(-100.0, 100.0),
        };
        let row: Vec<f32> = row[..dim].iter().map(fits).collect();
        writer.push(key as u64, &row).unwrap();
    }
    writer.finish().unwrap();
    Table::open_version(&dir, Some(1)).unwrap()
}

/// What a node answers for the keys at those places.
fn part(table: &Table, keys: &[u64], positions: &[u32]) -> Part<'static> {
    let keys: Vec<u64> = positions.iter().map(|at| keys[*at as usize]).collect();
    let (mut values, mut found) = (
        vec![0.0; keys.len() * table.dim()],
        vec![0; keys.len().div_ceil(8)],
    );
    table.lookup(&keys, &mut values, &mut found);
    let bytes: Vec<u8> = values.iter().flat_map(|number| number.to_le_bytes()).collect();
    Part {
        version: 1,
        active: 1,
        dim: table.dim(),
        row_type: Pooled::ASKED,
        found: Cow::Owned(found),
        values: Cow::Owned(bytes),
        offsets: None,
    }
}

/// The rows of the keys from two nodes, pooled where they meet.
fn pooled_at_the_caller(
    table: &Table,
    keys: &[u64],
    pooled: &Pooled,
    default_row: Option<Vec<f32>>,
) -> Vec<u8> {
    let mut merge = Merge::new(keys.len(), Pooled::ASKED, usize::MAX);
    let (even, odd): (Vec<u32>, Vec<u32>) = (0..keys.len() as u32).partition(|at| at % 2 == 0);
    for positions in [odd, even] {
        let part = part(table, keys, &positions);
        let asked = Asked {
            table: "films",
            positions: &positions,
            at_version: None,
            pooled: Some(pooled),
            beside: 0,
        };
        merge.check(&part, &asked).unwrap();
        merge.place(&part, &positions).unwrap();
    }
    pooled.of_merged(&merge, default_row, std::iter::empty())
}

/// Any finite number, and such as add up to none.
fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -8.0_f32..8.0,
        2 => prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
        1 => Just(f32::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_and_a_merge_pool_the_same_rows_to_the_same_bits(
        kind in prop::sample::select(&[Numbers::F32, Numbers::F16, Numbers::Bf16, Numbers::I8Scaled][..]),
        dim in 1..20_usize,
        rows in prop::collection::vec(prop::option::weighted(0.8, prop::collection::vec(number(), 20)), 1..20),
        has_default_row: bool,
        picked in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        pools in Just([(Pool::Sum, OfCall::Sum), (Pool::Mean, OfCall::Mean), (Pool::Max, OfCall::Max)]),
    ) {
        let default_row = has_default_row.then(|| vec![-1.5; dim]);
        let table = table(kind, dim, &rows, default_row.clone());
        let keys: Vec<u64> = picked.iter().map(|at| at.index(rows.len()) as u64).collect();
        let mut offsets: Vec<u32> = cuts.iter().map(|at| at.index(keys.len() + 1) as u32).collect();
        offsets.extend([0, keys.len() as u32]);
        offsets.sort_unstable();
        for (pool, of_call) in pools {
            let (mut values, mut found) =
                (vec![7.0; (offsets.len() - 1) * dim], vec![0; keys.len().div_ceil(8)]);
            table.lookup_pooled(&keys, &offsets, pool, &mut values, &mut found).unwrap();
            let expected: Vec<u8> = values.iter().flat_map(|number| number.to_le_bytes()).collect();
            let pooled = Pooled::of(of_call, offsets.clone(), RowType::F32).unwrap();
            // What a table stores of its default row may be less than was given.
            let stored = part(&table, &[u64::MAX], &[0]).values;
            let stored = stored.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let found = pooled_at_the_caller(&table, &keys, &pooled, Some(stored));
            prop_assert_eq!(found, expected, "{:?}", pool);
        }
    }
}
