//! What is said of versions, and what is written of them: `diff` and `export`.
//!
//! Invariant checked: a version that is exported and built again has the same bytes, and a difference counts each key once.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use millpond_engines_features::write::Writer;
use millpond_engines_features::{Column, Keys, NotFinite, Schema, Table};
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Numbers, Source, build, diff, export,
};
use proptest::prelude::*;

type Rows = BTreeMap<u64, i8>;

/// Builds a version; returns the table's folder.
fn version(dir: &Path, rows: &Rows, base: Option<Base>, gone: &[u64]) -> PathBuf {
    let mut text = "key,x\n".to_owned();
    rows.iter()
        .for_each(|(key, number)| writeln!(text, "{key},{number}").unwrap());
    let mut removed = "key\n".to_owned();
    gone.iter().for_each(|key| writeln!(removed, "{key}").unwrap());
    let save = |name: &str, text: String| {
        fs::write(dir.join(name), text).unwrap();
        vec![dir.join(name).display().to_string()]
    };
    let mut options = BuildOptions::new(dir.join("tables"), "films");
    options.inputs = save("in.csv", text);
    options.base = base;
    if !gone.is_empty() {
        options.remove = save("gone.csv", removed);
    }
    build(&options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    dir.join("tables/films")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_difference_is_that_of_the_rows(
        one in prop::collection::btree_map(0..40_u64, 0..3_i8, 1..40),
        other in prop::collection::btree_map(0..40_u64, 0..3_i8, 1..40),
        show in 0..5_usize,
        is_delta in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        version(dir.path(), &one, None, &[]);
        let gone: Vec<u64> = one.keys().copied().filter(|key| !other.contains_key(key)).collect();
        let table_dir = match is_delta {
            true => version(dir.path(), &other, Some(Base::Newest), &gone),
            false => version(dir.path(), &other, None, &[]),
        };
        for (from, to, one, other) in [(1, 2, &one, &other), (2, 1, &other, &one), (1, 1, &one, &one)] {
            let keys = |keep: &dyn Fn(u64) -> bool| (0..40).filter(|&key| keep(key)).collect::<Vec<u64>>();
            let added = keys(&|key| !one.contains_key(&key) && other.contains_key(&key));
            let removed = keys(&|key| one.contains_key(&key) && !other.contains_key(&key));
            let both = |key: u64| one.get(&key).zip(other.get(&key));
            let changed = keys(&|key| both(key).is_some_and(|(a, b)| a != b));
            let found = diff(&table_dir, from, to, show).unwrap();
            prop_assert_eq!(found.same as usize, keys(&|key| both(key).is_some_and(|(a, b)| a == b)).len());
            for (found, expected) in [(found.added, added), (found.removed, removed), (found.changed, changed)] {
                prop_assert_eq!(found.count as usize, expected.len());
                prop_assert_eq!(&found.lowest[..], &expected[..show.min(expected.len())]);
            }
        }
    }
}

#[test]
fn a_difference_reads_as_it_should_and_names_what_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    version(dir.path(), &Rows::from([(1, 1), (2, 2), (3, 3)]), None, &[]);
    let table_dir = version(
        dir.path(),
        &Rows::from([(2, 2), (3, 4), (8, 1), (9, 1)]),
        None,
        &[],
    );
    assert_eq!(
        diff(&table_dir, 1, 2, 1).unwrap().to_string(),
        "from version 1 to version 2\nadded     2: 8, …\nremoved   1: 1\nchanged   1: 3\nsame      1"
    );
    let check = |from, to, expected: &str| {
        let error = diff(&table_dir, from, to, 1).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(1, 7, "version 7 is not in");
    Writer::create(&table_dir, "films", 7, Schema::floats(2), 1)
        .unwrap()
        .finish()
        .unwrap();
    check(1, 7, "versions 1 and 7 in ");
    check(1, 7, "cannot be compared: their columns differ");
    let keys = Keys::Text { slot: String::new() };
    let texts = Schema {
        keys,
        ..Schema::floats(1)
    };
    Writer::create(&table_dir, "films", 8, texts, 1)
        .unwrap()
        .finish()
        .unwrap();
    check(2, 8, "cannot be compared: their keys are not of one kind");
    let shard = table_dir.join("00000002/shard-00000.mpf");
    let mut bytes = fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&shard, bytes).unwrap();
    check(1, 2, "shard-00000.mpf is damaged");
}

/// Two columns of different types, and every kind of number.
fn several_columns(dir: &Path) -> Table {
    let csv = dir.join("in.csv");
    let mut text = "key,a,b\n".to_owned();
    let numbers = [0.0, -0.0, 1.5, f32::MIN_POSITIVE, 1e-45, f32::MAX, -1.0 / 3.0];
    for (key, number) in (0..2000_u64).zip(numbers.iter().cycle()) {
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(
            text,
            "{key},\"[{number:?},{}]\",{}",
            key as f32,
            (key % 100) as f32 / 8.0
        )
        .unwrap();
    }
    fs::write(&csv, text).unwrap();
    let mut options = BuildOptions::new(dir.join("tables"), "films");
    options.inputs = vec![csv.display().to_string()];
    options.columns = columns(["a", "b"]);
    options.shards = 2;
    Table::open(&build(&options, &mut |_| {}).unwrap().path).unwrap()
}

fn columns(from: [&str; 2]) -> Vec<ColumnOptions> {
    let column = |name: &str, from: &str, numbers| ColumnOptions {
        name: name.to_owned(),
        source: Source::Columns(vec![from.to_owned()]),
        numbers: Some(numbers),
        width: None,
    };
    vec![
        column("a", from[0], Numbers::F32),
        column("b-2.x", from[1], Numbers::F16),
    ]
}

#[test]
fn what_is_exported_and_built_again_has_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let table = several_columns(dir.path());
    for name in ["out.parquet", "out.csv", "out.jsonl"] {
        let output = dir.path().join(name);
        let exported = export(&dir.path().join("tables/films"), None, &output).unwrap();
        assert_eq!((exported.version, exported.rows), (1, 2000));
        assert_eq!(exported.bytes, fs::metadata(&output).unwrap().len());
        let mut options = BuildOptions::new(dir.path().join("again"), name);
        options.inputs = vec![output.display().to_string()];
        options.columns = columns(["a", "b-2.x"]);
        options.shards = 2;
        options.version = Some(1);
        let again = build(&options, &mut |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        for shard in ["shard-00000.mpf", "shard-00001.mpf"] {
            let read = |path: &Path| fs::read(path.join(shard)).unwrap();
            assert!(read(&again.path) == read(table.path()), "{name} {shard}");
        }
    }
}

#[test]
fn a_version_is_exported_with_its_deltas_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    version(dir.path(), &Rows::from([(1, 1), (2, 2)]), None, &[]);
    let table_dir = version(
        dir.path(),
        &Rows::from([(2, 5), (3, 3)]),
        Some(Base::Newest),
        &[1],
    );
    let check = |version, expected: &[&str]| {
        let output = dir.path().join("out.jsonl");
        export(&table_dir, version, &output).unwrap();
        let text = fs::read_to_string(&output).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected);
        fs::remove_file(&output).unwrap();
    };
    check(
        Some(1),
        &["{\"key\":1,\"vector\":[1.0]}", "{\"key\":2,\"vector\":[2.0]}"],
    );
    check(
        None,
        &["{\"key\":2,\"vector\":[5.0]}", "{\"key\":3,\"vector\":[3.0]}"],
    );
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let table_dir = version(dir.path(), &Rows::from([(1, 1)]), None, &[]);
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let check = |version, name: &str, expected: &str| {
        let error = export(&table_dir, version, &out.join(name))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        None,
        "rows.txt",
        "rows.txt: expected a name that ends in .parquet, .csv, .jsonl",
    );
    check(
        None,
        "rows",
        "rows: expected a name that ends in .parquet, .csv, .jsonl",
    );
    check(Some(9), "rows.csv", "version 9 is not in");
    check(None, "no/rows.csv", "cannot write ");
    let named = |name: &str| Schema {
        keys: Keys::U64,
        columns: vec![Column {
            name: name.to_owned(),
            numbers: Numbers::F32,
            dim: 1,
        }],
        not_finite: NotFinite::Kept,
        default_row: None,
    };
    let mut writer = Writer::create(&table_dir, "films", 2, named("x"), 1).unwrap();
    writer.push(7, &[f32::NAN]).unwrap();
    writer.finish().unwrap();
    check(
        Some(2),
        "rows.csv",
        "the row of key 7 has NaN, which a CSV file of numbers cannot hold",
    );
    check(
        Some(2),
        "rows.jsonl",
        "the row of key 7 has NaN, which JSON cannot hold; export it as Parquet",
    );
    Writer::create(&table_dir, "films", 3, named("key"), 1)
        .unwrap()
        .finish()
        .unwrap();
    check(Some(3), "rows.csv", "column \"key\": expected another name");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    fs::write(out.join("rows.csv"), "mine").unwrap();
    check(Some(1), "rows.csv", "rows.csv: it is there already");
    assert_eq!(fs::read_to_string(out.join("rows.csv")).unwrap(), "mine");
    for to in ["nowhere.csv", "rows.csv"] {
        std::os::unix::fs::symlink(to, out.join("link.csv")).unwrap();
        check(Some(1), "link.csv", "link.csv: it is there already");
        assert_eq!(fs::read_link(out.join("link.csv")).unwrap(), Path::new(to));
        fs::remove_file(out.join("link.csv")).unwrap();
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}
