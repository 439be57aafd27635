//! Logs in the folders of other tables, with the same columns or with others.

use super::*;

const TABLE: &str = "TABLE";

/// The first version of another table beside that of `bed`.
fn other(bed: &Bed, name: &str, schema: Schema) -> PathBuf {
    let dir = bed.parent.path().join(name);
    let writer = Writer::create(&dir, name, 1, schema, 1).unwrap();
    writer.finish().unwrap();
    dir
}

/// Has nobody hold the log.
fn close(bed: &mut Bed) -> PathBuf {
    bed.table = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    bed.section.path.clone().unwrap()
}

#[test]
fn the_log_of_another_table_is_neither_served_nor_folded() {
    let mut bed = Bed::new(|_| ());
    let users = other(&bed, "users", schema());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    bed.upsert(&[2], &[8.0; 3]).unwrap();
    let log = close(&mut bed);
    let segments = std::fs::read(millpond_wal::segment_path(&log, 1)).unwrap();
    let base = || Arc::new(Table::open_version(&users, None).unwrap());
    let folds = || fold(base(), &users, 2, &bed.wanted(), &|_| true).map(|done| done.written().is_some());
    let served = || opened(&users, &bed.section, Arc::new(RealDisk)).map(drop);
    for refused in [folds().unwrap_err(), served().unwrap_err(), folds().unwrap_err()] {
        let refused = refused.to_string();
        let told = [
            "upserts of table \"films\"",
            "not of \"users\"",
            log.to_str().unwrap(),
        ];
        assert!(told.iter().all(|told| refused.contains(told)), "{refused}");
    }
    assert_eq!(
        std::fs::read(millpond_wal::segment_path(&log, 1)).unwrap(),
        segments
    );
    assert!(
        Table::open_version(&users, Some(2)).is_err(),
        "nothing is written"
    );
    // A log from before there were names is taken for that of who opens it, and has its name from then on.
    std::fs::remove_file(log.join(TABLE)).unwrap();
    assert!(folds().unwrap());
    assert!(!log.join(TABLE).exists(), "a fold changes nothing of the log");
    bed.reopen();
    bed.check(1, Some([7.0; 3]));
    close(&mut bed);
    assert!(log.join(TABLE).exists());
    assert!(
        opened(&users, &bed.section, Arc::new(RealDisk)).is_err(),
        "it is that of films again"
    );
    bed.reopen();
    bed.check(2, Some([8.0; 3]));
}

#[test]
fn a_table_that_is_refused_does_not_give_the_log_its_name() {
    let mut bed = Bed::new(|_| ());
    let users = other(&bed, "users", Schema::floats(2));
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    let log = close(&mut bed);
    std::fs::remove_file(log.join(TABLE)).unwrap();
    let refused = opened(&users, &bed.section, Arc::new(RealDisk)).unwrap_err();
    assert!(refused.to_string().contains("rows of other columns"), "{refused}");
    assert!(!log.join(TABLE).exists());
    bed.reopen();
    bed.check(1, Some([7.0; 3]));
}

/// The folder and the table may be moved, and the section may have another name.
#[test]
fn a_table_that_was_moved_has_its_log() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    let log = close(&mut bed);
    let moved = bed.parent.path().join("moved");
    std::fs::rename(bed.dir(), &moved).unwrap();
    let section = OverlaySection {
        path: Some(bed.parent.path().join("fresh")),
        ..bed.section.clone()
    };
    std::fs::rename(log, section.path.as_ref().unwrap()).unwrap();
    let table = opened(&moved, &section, Arc::new(RealDisk)).unwrap();
    assert_eq!(looked_up(&table, 1), Some([7.0; 3]));
}

#[test]
fn a_log_that_cannot_be_named_is_opened() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    let log = close(&mut bed);
    std::fs::remove_file(log.join(TABLE)).unwrap();
    // Nothing is written under a name that a folder has.
    std::fs::create_dir(log.join(".TABLE.unfinished")).unwrap();
    bed.reopen();
    bed.check(1, Some([7.0; 3]));
    assert!(!log.join(TABLE).exists());
    close(&mut bed);
    std::fs::remove_dir(log.join(".TABLE.unfinished")).unwrap();
    bed.reopen();
    assert!(log.join(TABLE).exists());
}
