//! Writers that are broken off at every place, and gone on with.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::write::Duplicates;
use crate::{Cell, Column, Numbers, Schema, Table};
use std::ffi::OsStr;
use std::sync::Arc;

const ROWS: u64 = 600;
const SHARDS: u32 = 3;

/// What is written in a test.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Numbers,
    Texts,
    Varying,
    Delta,
}

const KINDS: [Kind; 4] = [Kind::Numbers, Kind::Texts, Kind::Varying, Kind::Delta];

fn schema(kind: Kind) -> Schema {
    let mut schema = Schema::floats(3);
    match kind {
        Kind::Numbers | Kind::Delta => {}
        Kind::Texts => {
            schema.keys = Keys::Text {
                slot: "film".to_owned(),
            }
        }
        Kind::Varying => {
            schema.columns = vec![Column {
                name: "body".to_owned(),
                numbers: Numbers::VaryingBytes,
                dim: 0,
            }];
        }
    }
    schema
}

fn begin(dir: &Path, kind: Kind, memory_bytes: usize, identity: &str) -> Writer {
    let writer = match kind {
        Kind::Delta => {
            let base = match Table::open_version(dir, Some(1)) {
                Ok(base) => base,
                Err(_) => {
                    let mut base = Writer::create(dir, "films", 1, schema(kind), 2)
                        .unwrap()
                        .created_unix_s(5);
                    (0..100).for_each(|key| base.push(key * 3, &[0.5; 3]).unwrap());
                    base.finish().unwrap();
                    Table::open_version(dir, Some(1)).unwrap()
                }
            };
            Writer::create_delta(dir, 2, Arc::new(base), SHARDS)
        }
        kind => Writer::create(dir, "films", 2, schema(kind), SHARDS),
    };
    let writer = writer
        .unwrap()
        .duplicates(Duplicates::Last)
        .memory_bytes(memory_bytes);
    writer.resumable(identity, false).unwrap()
}

/// Pushes the rows of two inputs up to row `end` of both together, and all removals behind the last.
fn push(writer: &mut Writer, kind: Kind, end: u64) {
    let there = writer.position();
    for number in 0..end.min(ROWS) {
        let (input, row) = (number / 400, number % 400);
        if (Position { input, row }) < there {
            continue;
        }
        // Some keys come twice.
        let key = number % 550;
        let values = [number as f32, key as f32, -1.0];
        match kind {
            Kind::Texts => writer.push_text(&format!("film {key}"), &values),
            Kind::Varying => {
                writer.push_cells(key, &[Cell::Bytes(&vec![number as u8; number as usize % 90])])
            }
            Kind::Numbers | Kind::Delta => writer.push(key, &values),
        }
        .unwrap();
        if number % 10 == 9 {
            writer.reached(Position { input, row: row + 1 }, false).unwrap();
        }
    }
    if end >= ROWS {
        writer.reached(Position { input: 2, row: 0 }, true).unwrap();
    }
    if end >= ROWS && kind == Kind::Delta {
        for key in (0..900).step_by(7) {
            writer.remove(key).unwrap();
        }
    }
}

/// What a version has, but for the time of its making.
fn bytes(dir: &Path) -> Vec<(OsString, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir.join("00000002"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

fn unbroken(kind: Kind) -> Vec<(OsString, Vec<u8>)> {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = begin(dir.path(), kind, 1 << 20, "a").created_unix_s(7);
    push(&mut writer, kind, ROWS);
    writer.finish().unwrap();
    bytes(dir.path())
}

/// What a kill leaves.
fn kill(mut writer: Writer) {
    writer.unfinished.keep();
}

/// Begins at a fixed time, so that bytes can be compared.
fn begun_at_7(dir: &Path, kind: Kind, memory_bytes: usize) -> Writer {
    let mut writer = begin(dir, kind, memory_bytes, "a");
    if writer.resumed.is_none() && writer.created_unix_s != 7 {
        let path = writer.unfinished.path.join(journal::FILE);
        let identity = writer.identity_of_all("a");
        fs::remove_file(&path).unwrap();
        let mut journal = Journal::create(&writer.unfinished.path).unwrap();
        journal.begin(&identity, 7).unwrap();
        writer.journal = Some(journal);
        writer.created_unix_s = 7;
    }
    writer
}

fn finish_and_compare(dir: &Path, kind: Kind, memory_bytes: usize, what: &str) -> Option<Resumed> {
    let mut writer = begun_at_7(dir, kind, memory_bytes);
    push(&mut writer, kind, ROWS);
    let summary = writer.finish().unwrap();
    assert!(bytes(dir) == unbroken(kind), "{kind:?}, {what}");
    let versions = 1 + usize::from(kind == Kind::Delta);
    assert_eq!(
        fs::read_dir(dir).unwrap().count(),
        versions,
        "nothing unfinished is left"
    );
    summary.resumed
}

#[test]
fn a_version_whose_writer_was_killed_at_any_row_is_the_same() {
    for kind in KINDS {
        for (memory_bytes, is_spilled) in [(0, true), (1 << 20, false)] {
            let dir = tempfile::tempdir().unwrap();
            let mut resumed = None;
            for end in [1, 9, 10, 11, 399, 400, 401, 599, ROWS, ROWS] {
                // Each time it comes a little further.
                let mut writer = begun_at_7(dir.path(), kind, memory_bytes);
                resumed = writer.resumed.or(resumed);
                writer.bytes_since = usize::MAX / 2;
                push(&mut writer, kind, end);
                kill(writer);
            }
            assert_eq!(resumed.is_some(), is_spilled);
            let resumed = finish_and_compare(dir.path(), kind, memory_bytes, "killed often");
            let rows = if is_spilled { ROWS } else { 0 };
            assert_eq!(resumed.map_or(0, |resumed| resumed.rows), rows);
        }
    }
}

#[test]
fn whole_shards_are_not_written_again() {
    for kind in KINDS {
        for memory_bytes in [0, 1 << 20] {
            let dir = tempfile::tempdir().unwrap();
            let mut writer = begun_at_7(dir.path(), kind, memory_bytes);
            push(&mut writer, kind, ROWS);
            // The first and the last; of the one between there is a half.
            let shards = std::mem::take(&mut writer.shards);
            for (number, shard) in shards
                .into_iter()
                .enumerate()
                .filter(|(number, _)| number % 2 == 0)
            {
                let mut journal = writer.journal.take();
                let what = (writer.identity(number, SHARDS as usize), writer.shape());
                let noted = |shard: &Finished| Writer::note_shard(journal.as_mut(), number as u32, shard);
                let base = writer.base.as_deref();
                shard.finish(what, writer.duplicates, base, 0, noted).unwrap();
                writer.journal = journal;
            }
            fs::write(writer.unfinished.path.join(shard_file(1)), "half of it").unwrap();
            kill(writer);
            let resumed = finish_and_compare(dir.path(), kind, memory_bytes, "two shards whole");
            assert_eq!(resumed.unwrap().shards, 2);
        }
    }
}

/// Whatever is damaged of what is left: the version is the same.
#[test]
fn nothing_is_trusted_whose_checksum_does_not_fit() {
    for kind in KINDS {
        let left = |dir: &Path| {
            let mut writer = begun_at_7(dir, kind, 0);
            push(&mut writer, kind, 450);
            writer.note_rows(Position { input: 1, row: 50 }).unwrap();
            let path = writer.unfinished.path.clone();
            kill(writer);
            path
        };
        let dir = tempfile::tempdir().unwrap();
        let mut names: Vec<_> = fs::read_dir(left(dir.path()))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert!(names.contains(&OsStr::new("rows-00001").to_owned()), "{names:?}");
        for name in names {
            for damage in ["cut", "flipped", "gone", "longer"] {
                let dir = tempfile::tempdir().unwrap();
                let path = left(dir.path()).join(&name);
                let mut bytes = fs::read(&path).unwrap();
                let half = bytes.len() / 2;
                match damage {
                    "cut" => bytes.truncate(half),
                    "flipped" => bytes[half] ^= 1,
                    _ => bytes.extend_from_slice(b"more"),
                }
                match damage {
                    "gone" => fs::remove_file(&path).unwrap(),
                    _ => fs::write(&path, bytes).unwrap(),
                }
                let is_journal = name == journal::FILE;
                if is_journal && damage == "gone" {
                    // Nobody knows what it was, and whose: it stays.
                    fs::remove_dir_all(path.parent().unwrap()).unwrap();
                }
                let resumed = finish_and_compare(dir.path(), kind, 0, &format!("{name:?} {damage}"));
                if !is_journal {
                    assert_eq!(resumed.is_some(), damage == "longer", "{name:?} {damage}");
                }
            }
        }
    }
}

#[test]
fn another_version_or_a_writer_that_goes_on_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = begin(dir.path(), Kind::Numbers, 0, "a");
    push(&mut first, Kind::Numbers, 450);
    first.note_rows(Position { input: 1, row: 50 }).unwrap();
    // It goes on: another one of the same begins anew, beside it.
    let beside = begin(dir.path(), Kind::Numbers, 0, "a");
    assert_eq!((beside.position(), beside.resumed), (Position::default(), None));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    drop(beside);
    kill(first);
    // What was left of others is removed; a folder without a journal is nobody's.
    let stranger = dir.path().join(".00000002.1-1.unfinished");
    fs::create_dir(&stranger).unwrap();
    let fetched = dir.path().join(".00000002.fetched.unfinished");
    fs::create_dir(&fetched).unwrap();
    for (identity, restart) in [("b", false), ("b", true)] {
        let writer = Writer::create(dir.path(), "films", 2, schema(Kind::Numbers), SHARDS).unwrap();
        let writer = writer.resumable(identity, restart).unwrap();
        assert_eq!(writer.resumed, None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        kill(writer);
    }
    assert!(stranger.exists() && fetched.exists());
}
