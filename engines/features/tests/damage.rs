//! Tables whose files were flipped, cut, swapped or filled with noise.
//!
//! Invariant checked: damage is an error that names the file, at open or at verify; and a table that was opened without
//! being verified neither panics nor loops, whatever its data.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use millpond_engines_features::{Error, Pool, Schema, Table, write::Writer};
use proptest::prelude::*;

const KEYS: u64 = 40;

/// Writes version `version` in a fresh folder; two shards of dimension 3.
fn write(dir: &Path, version: u64) -> PathBuf {
    let mut writer = Writer::create(dir, "films", version, Schema::floats(3), 2).unwrap();
    for key in 0..KEYS {
        let value = (key + version) as f32;
        writer.push(key, &[value, value + 0.25, -value]).unwrap();
    }
    writer.finish().unwrap().path
}

fn open_and_verify(version_dir: &Path) -> Result<(), Error> {
    Table::open(version_dir)?.verify()
}

/// Replaces a file by `bytes`, expects an error that names it, and puts the file back.
fn check_damaged(version_dir: &Path, file: &str, bytes: &[u8]) {
    let path = version_dir.join(file);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    let error = open_and_verify(version_dir).expect_err("damage goes unseen");
    fs::write(&path, whole).unwrap();
    assert!(error.to_string().contains(file), "{error}");
}

#[test]
fn a_whole_table_has_no_error() {
    let dir = tempfile::tempdir().unwrap();
    open_and_verify(&write(dir.path(), 1)).unwrap();
}

#[test]
fn a_flipped_bit_of_any_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    for file in ["manifest.json", "shard-00000.mpf"] {
        let whole = fs::read(version_dir.join(file)).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            check_damaged(&version_dir, file, &bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn noise_in_an_unverified_table_neither_panics_nor_loops(
        noise in prop::collection::vec(any::<u8>(), 16..200),
        keys in prop::collection::vec(prop_oneof![0..KEYS, any::<u64>()], 1..200),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let version_dir = write(dir.path(), 1);
        for file in ["shard-00000.mpf", "shard-00001.mpf"] {
            let path = version_dir.join(file);
            let mut bytes = fs::read(&path).unwrap();
            for (byte, noise) in bytes[128..].iter_mut().zip(noise.iter().cycle()) {
                *byte = *noise;
            }
            fs::write(&path, bytes).unwrap();
        }
        let table = Table::open(&version_dir).unwrap();
        let (mut values, mut found) = (vec![0.0; keys.len() * 3], vec![0; keys.len().div_ceil(8)]);
        let count = table.lookup(&keys, &mut values, &mut found);
        prop_assert!(count <= keys.len());
        let offsets = [0, keys.len() as u32];
        table.lookup_pooled(&keys, &offsets, Pool::Mean, &mut values[..3], &mut found).unwrap();
        prop_assert!(table.verify().is_err());
    }
}

#[test]
fn slots_of_one_key_and_pilots_of_any_end_every_search() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    for pilot in [0, 1, u16::MAX] {
        for file in ["shard-00000.mpf", "shard-00001.mpf"] {
            let path = version_dir.join(file);
            let mut bytes = fs::read(&path).unwrap();
            // Fewer than 128 buckets: their pilots take the first 64 bytes behind the header.
            let (pilots, slots) = bytes[128..].split_at_mut(64);
            for place in pilots.chunks_exact_mut(2) {
                place.copy_from_slice(&pilot.to_le_bytes());
            }
            for slot in slots.chunks_exact_mut(20) {
                slot[..8].copy_from_slice(&7_u64.to_le_bytes());
            }
            fs::write(&path, bytes).unwrap();
        }
        let table = Table::open(&version_dir).unwrap();
        let (mut values, mut found) = ([0.0; 6], [0; 1]);
        assert_eq!(table.lookup(&[7, 8], &mut values, &mut found), 1, "pilot {pilot}");
        assert_eq!(found, [1]);
    }
}

#[test]
fn every_cut_and_every_extension_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    for file in ["manifest.json", "shard-00000.mpf"] {
        let whole = fs::read(version_dir.join(file)).unwrap();
        for length in 0..whole.len() {
            check_damaged(&version_dir, file, &whole[..length]);
        }
        check_damaged(&version_dir, file, &[&whole[..], &[0]].concat());
        check_damaged(&version_dir, file, &[&whole[..], &[b'\n'; 4096]].concat());
    }
    open_and_verify(&version_dir).unwrap();
}

#[test]
fn a_file_cut_after_the_opening_is_an_error_and_no_end_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    let path = version_dir.join("shard-00001.mpf");
    let whole = fs::read(&path).unwrap();
    let mut table = Table::open(&version_dir).unwrap();
    table.check_lengths().unwrap();
    let cut = fs::File::options().write(true).open(&path).unwrap();
    for length in [0, 128, whole.len() as u64 - 1, whole.len() as u64 + 1] {
        cut.set_len(length).unwrap();
        for found in [table.check_lengths(), table.verify(), table.make_resident()] {
            let error = found.expect_err("the cut goes unseen").to_string();
            assert!(error.contains("shard-00001.mpf is damaged: length"), "{error}");
        }
    }
    // Deleted, or with another file in its place, it is whole for those who have it open.
    fs::write(&path, &whole).unwrap();
    fs::rename(&path, version_dir.join("elsewhere")).unwrap();
    table.verify().unwrap();
    fs::write(&path, "another file").unwrap();
    table.verify().unwrap();
    table.check_lengths().unwrap();
    // In memory it does not matter what becomes of the file.
    table.make_resident().unwrap();
    let moved = fs::File::options()
        .write(true)
        .open(version_dir.join("elsewhere"));
    moved.unwrap().set_len(0).unwrap();
    table.verify().unwrap();
    table.check_lengths().unwrap();
}

#[test]
fn a_mapped_file_that_is_cut_while_it_is_served_costs_its_table() {
    const ROWS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), "films", 1, Schema::floats(3), 1).unwrap();
    for key in 0..ROWS {
        writer.push(key, &[1.0, 2.0, 3.0]).unwrap();
    }
    let version_dir = writer.finish().unwrap().path;
    let mut table = Table::open(&version_dir).unwrap();
    table.make_mapped().unwrap();
    let keys: Vec<u64> = (0..ROWS).collect();
    let (mut values, mut found) = (vec![0.0; keys.len() * 3], vec![0; keys.len().div_ceil(8)]);
    assert_eq!(table.lookup(&keys, &mut values, &mut found), keys.len());
    table.check_whole().unwrap();

    let path = version_dir.join("shard-00000.mpf");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(100_000).unwrap();
    assert!(table.lookup(&keys, &mut values, &mut found) < keys.len());
    let error = table.check_whole().unwrap_err().to_string();
    assert!(
        error.contains("shard-00000.mpf was cut while it was served"),
        "{error}"
    );
    assert!(table.check_whole().is_err(), "it stays so");
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    for file in ["shard-00001.mpf", "manifest.json"] {
        fs::remove_file(version_dir.join(file)).unwrap();
        let error = open_and_verify(&version_dir).unwrap_err();
        assert!(
            matches!(&error, Error::Io { path, .. } if path.ends_with(file)),
            "{error}"
        );
    }
}

#[test]
fn files_of_other_versions_and_shards_do_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (write(dir.path(), 1), write(dir.path(), 2));
    let other = fs::read(second.join("shard-00000.mpf")).unwrap();
    check_damaged(&first, "shard-00000.mpf", &other);
    let other = fs::read(first.join("shard-00001.mpf")).unwrap();
    check_damaged(&first, "shard-00000.mpf", &other);
    // Same version, same shape, other contents: only the checksum in the manifest can tell.
    let elsewhere = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(elsewhere.path(), "films", 1, Schema::floats(3), 2).unwrap();
    for key in 0..KEYS {
        writer.push(key, &[0.0; 3]).unwrap();
    }
    let other = fs::read(writer.finish().unwrap().path.join("shard-00000.mpf")).unwrap();
    check_damaged(&first, "shard-00000.mpf", &other);

    let renamed = dir.path().join("00000009");
    fs::rename(&second, &renamed).unwrap();
    let error = Table::open(&renamed).unwrap_err().to_string();
    assert!(
        error.contains("the folder's name: expected 9, found 2"),
        "{error}"
    );
}

#[test]
fn a_manifest_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let version_dir = write(dir.path(), 1);
    let text = fs::read_to_string(version_dir.join("manifest.json")).unwrap();
    let edited = text.replace("films", "books");
    check_damaged(&version_dir, "manifest.json", edited.as_bytes());
    check_damaged(&version_dir, "manifest.json", b"{}");
    check_damaged(&version_dir, "manifest.json", &[0xff; 300]);
}
