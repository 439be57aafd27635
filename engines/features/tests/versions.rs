//! Writing versions and opening them.
//!
//! Invariant checked: a version is there whole or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use millpond_engines_features::{Error, Schema, Table, versions, write::Writer};

const DIM: usize = 4;
const ROWS: u64 = 500;

/// Every value of a version is its number.
fn write(dir: &Path, version: u64) {
    let mut writer = Writer::create(dir, "films", version, Schema::floats(DIM), 2).unwrap();
    for key in 0..ROWS {
        writer.push(key, &[version as f32; DIM]).unwrap();
    }
    writer.finish().unwrap();
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_highest_version_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    for version in [2, 10, 9] {
        write(dir.path(), version);
    }
    let table = Table::open_version(dir.path(), None).unwrap();
    assert_eq!(table.version(), 10);
    assert_eq!(versions(dir.path()).unwrap(), [2, 9, 10]);
    assert_eq!(Table::open_version(dir.path(), Some(2)).unwrap().version(), 2);
    let error = Table::open_version(dir.path(), Some(3)).err().unwrap();
    assert!(
        matches!(&error, Error::VersionNotFound { version: 3, available, .. } if *available == [2, 9, 10])
    );
}

#[test]
fn an_unfinished_folder_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    let writer = Writer::create(dir.path(), "films", 2, Schema::floats(DIM), 1).unwrap();
    assert_eq!(entries(dir.path()).len(), 2);
    assert_eq!(versions(dir.path()).unwrap(), [1]);
    assert_eq!(Table::open_version(dir.path(), None).unwrap().version(), 1);
    drop(writer);
    assert_eq!(entries(dir.path()), ["00000001"]);
}

#[test]
fn no_version_says_how_to_build_one() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("absent")] {
        let error = Table::open_version(&path, None).err().unwrap().to_string();
        assert!(error.contains("millpond features build"), "{error}");
        let error = Table::open_version(&path, Some(1)).err().unwrap().to_string();
        assert!(error.contains("millpond features build"), "{error}");
    }
}

#[test]
fn an_existing_version_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let slow = Writer::create(dir.path(), "films", 1, Schema::floats(DIM), 1).unwrap();
    write(dir.path(), 1);
    let error = slow.finish().unwrap_err();
    assert!(
        matches!(error, Error::VersionExists { version: 1, .. }),
        "{error}"
    );
    let error = Writer::create(dir.path(), "films", 1, Schema::floats(DIM), 1)
        .err()
        .unwrap();
    assert!(
        matches!(error, Error::VersionExists { version: 1, .. }),
        "{error}"
    );
    assert_eq!(entries(dir.path()), ["00000001"]);
    assert_eq!(Table::open_version(dir.path(), None).unwrap().rows(), ROWS);
}

#[test]
fn bad_rows_are_refused_and_good_ones_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), "films", 1, Schema::floats(2), 3).unwrap();
    writer.push(5, &[1.0, 2.0]).unwrap();
    let mut check = |key, row: &[f32], expected: &str| {
        let error = writer.push(key, row).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    check(6, &[1.0], "key 6: its row has 1 values, expected 2");
    check(6, &[1.0; 3], "key 6: its row has 3 values, expected 2");
    check(
        6,
        &[1.0, f32::NAN],
        "key 6: value 1 of its row is NaN; expected a finite number that its column's type can hold",
    );
    check(
        6,
        &[f32::INFINITY, 0.0],
        "key 6: value 0 of its row is inf; expected a finite number that its column's type can hold",
    );
    writer.push(6, &[3.0, 4.0]).unwrap();
    let table = Table::open(&writer.finish().unwrap().path).unwrap();
    table.verify().unwrap();
    let (mut values, mut found) = ([0.0; 4], [0; 1]);
    assert_eq!(table.lookup(&[5, 6], &mut values, &mut found), 2);
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn a_key_that_is_there_twice_leaves_no_version() {
    let dir = tempfile::tempdir().unwrap();
    for shards in [1, 3] {
        let mut writer = Writer::create(dir.path(), "films", 1, Schema::floats(1), shards).unwrap();
        for key in (0..1000).chain([77]) {
            writer.push(key, &[1.0]).unwrap();
        }
        let error = writer.finish().unwrap_err().to_string();
        assert_eq!(error, "key 77 is there twice; keep one row a key");
        assert!(!dir.path().join("00000001").exists());
    }
}

#[test]
fn rows_that_the_disk_lost_leave_no_version() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path(), "films", 1, Schema::floats(DIM), 1).unwrap();
    // There is no room for all of them in memory.
    let mut writer = writer.memory_bytes(1 << 20);
    for key in 0..50_000 {
        writer.push(key, &[1.0; DIM]).unwrap();
    }
    let rows = dir.path().join(&entries(dir.path())[0]).join("rows-00000");
    let file = fs::File::options().write(true).open(rows).unwrap();
    file.set_len(0).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("rows, read again: expected checksum"), "{error}");
    assert!(entries(dir.path()).is_empty());
}

#[test]
fn files_depend_on_their_rows_alone() {
    let write = |keys: &mut dyn Iterator<Item = u64>, memory_bytes| {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::create(dir.path(), "films", 1, Schema::floats(3), 2).unwrap();
        let mut writer = writer
            .memory_bytes(memory_bytes)
            .created_unix_s(7)
            .source("a test");
        for key in keys {
            writer.push(key, &[key as f32, 0.5, -1.0]).unwrap();
        }
        let path = writer.finish().unwrap().path;
        assert_eq!(
            entries(&path),
            ["manifest.json", "shard-00000.mpf", "shard-00001.mpf"]
        );
        let files = entries(&path).into_iter();
        files
            .map(|file| fs::read(path.join(file)).unwrap())
            .collect::<Vec<_>>()
    };
    let expected = write(&mut (0..3000), usize::MAX);
    assert!(write(&mut (0..3000).rev(), 1000) == expected);
    assert!(write(&mut (0..3000), 0) == expected);
    assert!(write(&mut (0..2999), 0) != expected);
}

#[test]
fn an_entry_of_8_and_40_bytes_takes_less_than_58() {
    for rows in [10_000, 12_345, 100_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(dir.path(), "films", 1, Schema::floats(10), 1).unwrap();
        for key in 0..rows {
            writer.push(key, &[0.5; 10]).unwrap();
        }
        let bytes = writer.finish().unwrap().bytes - 128;
        assert!(bytes as f64 / (rows as f64) < 54.0, "{bytes} bytes, {rows} rows");
    }
}

#[test]
fn arguments_outside_their_limits_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let check = |name: &str, dim, shards, expected: &str| {
        let error = Writer::create(dir.path(), name, 1, Schema::floats(dim), shards)
            .err()
            .unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("", 1, 1, "name: expected 1 to 128 letters");
    check("../up", 1, 1, "found \"../up\"");
    check(".hidden", 1, 1, "found \".hidden\"");
    check(
        "films",
        0,
        1,
        "dim: expected at least 1 in column \"vector\", found 0",
    );
    check("films", 65_537, 1, "dim: expected 1 to 65536, found 65537");
    check("films", 1, 0, "shards: expected 1 to 1024, found 0");
    check("films", 1, 1025, "shards: expected 1 to 1024, found 1025");
    assert!(entries(dir.path()).is_empty());
}

#[test]
fn an_empty_table_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path(), "none", 1, Schema::floats(2), 2).unwrap();
    let mut table = Table::open(&writer.finish().unwrap().path).unwrap();
    table.make_resident().unwrap();
    let (mut values, mut found) = ([7.0; 4], [7; 1]);
    assert_eq!(table.lookup(&[0, u64::MAX], &mut values, &mut found), 0);
    assert_eq!((values, found), ([0.0; 4], [0; 1]));
}
