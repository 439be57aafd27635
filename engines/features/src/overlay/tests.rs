//! The overlay against a naive model, with restarts, folds and disks that fail.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use millpond_wal::faults::failing::{FailingDisk, Plan};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::schema::{Column, NotFinite, Numbers, Schema};
use crate::write::Writer;

mod bytes;
mod compaction;
mod folds;
mod hard;
mod hidden;
mod model;
mod owners;
mod stamps;

const QUEUE_BYTES: usize = 1 << 20;

/// A table of two columns with the keys 0 to 9, and an overlay over it.
struct Bed {
    parent: TempDir,
    section: OverlaySection,
    table: Arc<Table>,
}

fn schema() -> Schema {
    let column = |name: &str, numbers, dim| Column {
        name: name.to_owned(),
        numbers,
        dim,
    };
    Schema {
        columns: vec![column("a", Numbers::F32, 2), column("b", Numbers::F16, 1)],
        not_finite: NotFinite::Refused,
        default_row: Some(vec![-1.0, -2.0, -3.0]),
        ..Schema::floats(1)
    }
}

fn base_row(key: u64) -> [f32; 3] {
    [key as f32, 0.5, 0.25]
}

impl Bed {
    fn new(change: impl FnOnce(&mut OverlaySection)) -> Bed {
        Bed::on(Arc::new(RealDisk), change)
    }

    fn on(disk: Arc<dyn Disk>, change: impl FnOnce(&mut OverlaySection)) -> Bed {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("films");
        let mut writer = Writer::create(&dir, "films", 1, schema(), 1).unwrap();
        (0..10).for_each(|key| writer.push(key, &base_row(key)).unwrap());
        writer.finish().unwrap();
        let mut section = OverlaySection {
            path: Some(parent.path().join("log")),
            durability: Durability::Logged,
            ..OverlaySection::default()
        };
        change(&mut section);
        let table = opened(&dir, &section, disk).unwrap();
        Bed {
            parent,
            section,
            table,
        }
    }

    fn dir(&self) -> PathBuf {
        self.parent.path().join("films")
    }

    fn overlay(&self) -> &Arc<Overlay> {
        self.table.overlay().unwrap()
    }

    fn reopen(&mut self) {
        // The log is free once nobody has the overlay.
        self.table = Arc::new(Table::open_version(&self.dir(), None).unwrap());
        self.table = opened(&self.dir(), &self.section, Arc::new(RealDisk)).unwrap();
    }

    fn upsert(&self, keys: &[u64], values: &[f32]) -> Result<Upserted, UpsertError> {
        let upsert = Upsert::new(&self.table, keys.to_vec(), &[] as &[&str], values, vec![]);
        self.overlay().upsert_wait(upsert.unwrap())
    }

    fn remove(&self, keys: &[u64]) -> Result<Upserted, UpsertError> {
        let upsert = Upsert::new(&self.table, vec![], &[] as &[&str], &[], keys.to_vec());
        self.overlay().upsert_wait(upsert.unwrap())
    }

    fn check(&self, key: u64, expected: Option<[f32; 3]>) {
        assert_eq!(looked_up(&self.table, key), expected, "key {key}");
    }

    /// A fold of all that can be folded.
    fn wanted(&self) -> Fold<'_> {
        Fold {
            log: self.section.path.as_deref().unwrap(),
            sequence: None,
            before_ms: None,
            is_rebuilt: false,
            ttl_ms: None,
            shards: 1,
        }
    }

    /// Folds, and serves what came of it as a switch does.
    fn fold(&mut self) -> Option<Folded> {
        let fold_of = Fold {
            ttl_ms: self.section.ttl_ms,
            ..self.wanted()
        };
        let base = Arc::new(Table::open_version(&self.dir(), None).unwrap());
        let version = base.version() + 1;
        let (_, folded) = fold(base, &self.dir(), version, &fold_of, &|_| true)
            .unwrap()
            .written()?;
        let mut next = Table::open_version(&self.dir(), None).unwrap();
        next.see(self.overlay()).unwrap();
        assert_eq!(next.folded(), Some(folded));
        let before = self.table.clone();
        self.table = Arc::new(next);
        // Rows that vary in length are compared by those who have them.
        for key in (0..20).filter(|_| !before.is_varying()) {
            assert_eq!(
                looked_up(&self.table, key),
                looked_up(&before, key),
                "key {key} across the switch"
            );
        }
        self.overlay().forget(folded).unwrap();
        Some(folded)
    }
}

fn opened(dir: &Path, section: &OverlaySection, disk: Arc<dyn Disk>) -> Result<Arc<Table>, Error> {
    let mut table = Table::open_version(dir, None)?;
    let (overlay, _) = Overlay::open_on(disk, section, &table, QUEUE_BYTES)?;
    table.see(&overlay)?;
    Ok(Arc::new(table))
}

fn looked_up(table: &Table, key: u64) -> Option<[f32; 3]> {
    let (mut values, mut found) = ([0.0; 3], [0; 1]);
    let count = table.lookup(&[key], &mut values, &mut found);
    assert_eq!(count, usize::from(found[0]));
    let mut only_found = [0; 1];
    assert_eq!(table.find(&[key], &mut only_found), count);
    if count == 0 {
        assert_eq!(values, [-1.0, -2.0, -3.0], "the default row");
    }
    (count == 1).then_some(values)
}

#[test]
fn an_upsert_is_visible_at_once_and_after_a_restart() {
    let mut bed = Bed::new(|_| ());
    assert_eq!(bed.table.overlay_sequence(), Some(0));
    let done = bed.upsert(&[3, 100], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    assert_eq!((done.sequence, done.durability), (1, Durability::Logged));
    bed.remove(&[4, 200]).unwrap();
    for _ in 0..2 {
        bed.check(3, Some([1.0, 2.0, 3.0]));
        bed.check(100, Some([4.0, 5.0, 6.0]));
        bed.check(4, None);
        bed.check(5, Some(base_row(5)));
        assert_eq!(bed.table.overlay_sequence(), Some(2));
        bed.reopen();
    }
    let mut pooled = [0.0; 3];
    let mut found = [0; 1];
    let keys = [3, 4, 100];
    let count = bed
        .table
        .lookup_pooled(&keys, &[0, 3], crate::Pool::Sum, &mut pooled, &mut found);
    assert_eq!((count.unwrap(), pooled, found), (2, [5.0, 7.0, 9.0], [0b101]));
}

#[test]
fn named_columns_leave_the_others_as_they_are() {
    let bed = Bed::new(|_| ());
    let write = |keys: &[u64], columns: &[&str], values: &[f32]| {
        let upsert = Upsert::new(&bed.table, keys.to_vec(), columns, values, vec![]).unwrap();
        bed.overlay().upsert_wait(upsert).unwrap();
    };
    write(&[3, 100], &["b"], &[9.0, 8.0]);
    bed.check(3, Some([3.0, 0.5, 9.0]));
    bed.check(100, Some([-1.0, -2.0, 8.0]));
    write(&[3, 3], &["a"], &[1.0, 1.0, 2.0, 2.0]);
    bed.check(3, Some([2.0, 2.0, 9.0]));
    write(&[5], &["b", "a"], &[7.0, 6.0, 5.0]);
    bed.check(5, Some([6.0, 5.0, 7.0]));
    bed.remove(&[5]).unwrap();
    write(&[5], &["b"], &[1.0]);
    bed.check(5, Some([-1.0, -2.0, 1.0]));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let bed = Bed::new(|_| ());
    let check = |keys: &[u64], columns: &[&str], values: &[f32], expected: &str| {
        let refused = Upsert::new(&bed.table, keys.to_vec(), columns, values, vec![]).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    };
    check(&[], &[], &[], "keys: expected at least one key");
    check(
        &[1],
        &[],
        &[1.0],
        "values: expected 3 for each of 1 keys, found 1 numbers",
    );
    check(
        &[1],
        &["b"],
        &[1.0, 2.0],
        "values: expected 1 for each of 1 keys, found 2",
    );
    check(
        &[1],
        &["c"],
        &[1.0],
        "columns: expected some of [\"a\", \"b\"], found \"c\"",
    );
    check(
        &[1],
        &["b", "b"],
        &[1.0, 2.0],
        "columns: expected different names",
    );
    check(&[7], &[], &[1.0, f32::NAN, 2.0], "7");
    check(&[7], &["b"], &[1e9], "7");
    let many = vec![0; 1 << 20];
    check(&many, &[], &[], "keys: expected at most 16777216 bytes");
}

#[test]
fn a_full_overlay_refuses_what_makes_it_grow() {
    let bed = Bed::new(|section| section.bytes_max = 170);
    bed.upsert(&[1, 2, 3], &[0.0; 9]).unwrap();
    let refused = bed.upsert(&[4], &[0.0; 3]).unwrap_err();
    assert!(
        matches!(
            refused,
            UpsertError::Full {
                bytes: 165,
                more: 55,
                max: 170,
                can_be_folded: true,
            }
        ),
        "{refused}"
    );
    assert!(refused.to_string().contains("features fold"), "{refused}");
    bed.upsert(&[1, 2], &[1.0; 6]).unwrap();
    bed.remove(&[3]).unwrap();
    bed.check(1, Some([1.0; 3]));
    bed.check(4, Some(base_row(4)));
    assert_eq!(bed.overlay().state.counts.refused.load(Ordering::Relaxed), 1);
}

#[test]
fn an_overlay_too_small_for_one_row_is_not_opened() {
    let bed = Bed::new(|_| ());
    let open = |bytes_max| {
        let section = OverlaySection {
            durability: Durability::Memory,
            bytes_max,
            ..OverlaySection::default()
        };
        Overlay::open(&section, &bed.table, 1 << 20).map(drop)
    };
    let refused = open(54).unwrap_err().to_string();
    assert_eq!(
        refused,
        "overlay.bytes_max: expected at least 55, the bytes of one row, found 54"
    );
    open(55).unwrap();
}

#[test]
fn old_rows_are_as_if_they_had_never_been_and_their_memory_is_freed() {
    let mut bed = Bed::new(|section| {
        section.ttl_ms = Some(60_000);
        section.bytes_max = 170;
    });
    bed.upsert(&[3, 100], &[1.0; 6]).unwrap();
    bed.overlay().skip_ms(30_000);
    bed.remove(&[4]).unwrap();
    bed.check(3, Some([1.0; 3]));
    bed.overlay().skip_ms(30_001);
    bed.check(3, Some(base_row(3)));
    bed.check(100, None);
    bed.check(4, None);
    // Full for their sake alone.
    bed.upsert(&[7, 8], &[2.0; 6]).unwrap();
    bed.overlay().skip_ms(30_001);
    bed.check(4, Some(base_row(4)));
    // What expired stays so when the clock is back where it was; the log says when it was written last.
    bed.reopen();
    bed.check(3, Some(base_row(3)));
    bed.check(7, Some([2.0; 3]));
    // The background needs no upsert.
    bed.overlay().skip_ms(600_000);
    while !bed.overlay().is_empty() {
        std::thread::yield_now();
    }
    bed.check(7, Some(base_row(7)));
}

#[test]
fn a_fold_is_a_version_and_gives_the_log_back() {
    let mut bed = Bed::new(|section| section.segment_bytes_max = 300);
    assert_eq!(bed.fold(), None, "there is nothing");
    for turn in 0..20 {
        bed.upsert(&[turn % 12, 100 + turn], &[turn as f32; 6]).unwrap();
    }
    bed.remove(&[5, 300]).unwrap();
    let files = |bed: &Bed| {
        std::fs::read_dir(bed.section.path.as_ref().unwrap())
            .unwrap()
            .count()
    };
    let before = files(&bed);
    // Somebody writes, so the last group may still fail.
    assert_eq!(bed.fold().unwrap().sequence, 20);
    assert!(files(&bed) < before, "{} files, {before} before", files(&bed));
    assert_eq!(bed.overlay().len(), 2);
    bed.check(5, None);
    bed.check(119, Some([19.0; 3]));
    bed.upsert(&[0], &[50.0; 3]).unwrap();
    bed.reopen();
    bed.check(0, Some([50.0; 3]));
    bed.check(5, None);
    bed.check(119, Some([19.0; 3]));
    assert_eq!(bed.table.version(), 2);
    bed.fold().unwrap();
    bed.reopen();
    assert_eq!(bed.table.chain(), [3, 2, 1]);
    bed.check(0, Some([50.0; 3]));
}

/// What was folded is in the log no more, so a fold on a version without it would lose it.
#[test]
fn a_fold_on_a_version_before_the_last_fold_is_refused() {
    let mut bed = Bed::new(|_| ());
    for turn in 0..3 {
        bed.upsert(&[turn], &[9.0; 3]).unwrap();
    }
    let first = bed.fold().unwrap();
    bed.upsert(&[7], &[8.0; 3]).unwrap();
    bed.upsert(&[8], &[8.0; 3]).unwrap();
    let fold_of = bed.wanted();
    let base = |version| Arc::new(Table::open_version(&bed.dir(), Some(version)).unwrap());
    let refused = fold(base(1), &bed.dir(), 3, &fold_of, &|_| true)
        .unwrap_err()
        .to_string();
    let told = format!(
        "up to sequence {} are in a version, and version 1 has them up to sequence 0:",
        first.sequence
    );
    assert!(refused.contains(&told), "{refused}");
    assert!(
        fold(base(2), &bed.dir(), 3, &fold_of, &|_| true)
            .unwrap()
            .written()
            .is_some()
    );
}

#[test]
fn a_log_that_is_behind_its_version_is_refused_and_one_that_is_gone_begins_behind_it() {
    let mut bed = Bed::new(|_| ());
    let log = bed.section.path.clone().unwrap();
    bed.upsert(&[1], &[1.0; 3]).unwrap();
    bed.table = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    let old = std::fs::read(millpond_wal::segment_path(&log, 1)).unwrap();
    bed.reopen();
    bed.upsert(&[1], &[2.0; 3]).unwrap();
    bed.upsert(&[1], &[3.0; 3]).unwrap();
    let folded = bed.fold().unwrap();
    assert_eq!(folded.sequence, 2);
    bed.table = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    for entry in std::fs::read_dir(&log).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    std::fs::write(millpond_wal::segment_path(&log, 1), old).unwrap();
    let refused = opened(&bed.dir(), &bed.section, Arc::new(RealDisk))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("ends at sequence 1, and version 2 has it folded up to 2"),
        "{refused}"
    );
    std::fs::remove_dir_all(&log).unwrap();
    bed.reopen();
    // It says first what was folded.
    assert_eq!(bed.upsert(&[1], &[4.0; 3]).unwrap().sequence, 4);
    bed.check(1, Some([4.0; 3]));
}

#[test]
fn rows_of_other_columns_are_refused() {
    let bed = Bed::new(|_| ());
    let other = bed.parent.path().join("other");
    let mut writer = Writer::create(&other, "films", 1, Schema::floats(3), 1).unwrap();
    writer.push(1, &[0.0; 3]).unwrap();
    let mut table = Table::open(&writer.finish().unwrap().path).unwrap();
    assert!(matches!(table.see(bed.overlay()), Err(Error::Overlay { .. })));
}

#[test]
fn a_group_that_fails_leaves_no_trace() {
    let (disk, shared) = FailingDisk::new();
    let mut bed = Bed::on(shared, |section| section.durability = Durability::Synced);
    bed.upsert(&[1], &[1.0; 3]).unwrap();
    disk.plan(Plan {
        bytes_left: Some(40),
        ..Plan::default()
    });
    let failed = bed.upsert(&[1, 2], &[2.0; 6]).unwrap_err();
    assert!(matches!(failed, UpsertError::Storage(_)), "{failed}");
    bed.check(1, Some([1.0; 3]));
    disk.plan(Plan::default());
    assert_eq!(bed.upsert(&[2], &[3.0; 3]).unwrap().sequence, 2);
    disk.plan(Plan {
        fail_sync: true,
        ..Plan::default()
    });
    assert!(matches!(
        bed.upsert(&[2], &[4.0; 3]),
        Err(UpsertError::Storage(_))
    ));
    disk.plan(Plan::default());
    assert!(matches!(
        bed.upsert(&[2], &[4.0; 3]),
        Err(UpsertError::ReadOnly(_))
    ));
    assert!(bed.overlay().read_only().is_some());
    bed.reopen();
    bed.check(1, Some([1.0; 3]));
    bed.check(2, Some([3.0; 3]));
}
