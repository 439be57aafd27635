//! Opening: who may, where, and what is said when it cannot be.

use std::path::Path;

use millpond_engines_ordered::{Durability, Error, Options, Store, WriteError};

use crate::{contents, one, reopen};

/// Opens and returns what was said against it.
fn check(dir: &Path, options: Options, expected: &[&str]) {
    let text = Store::open(dir, options)
        .err()
        .expect("it was opened")
        .to_string();
    let shown = dir.display().to_string();
    for part in expected.iter().copied().chain([&*shown]) {
        assert!(text.contains(part), "expected {part:?} in {text:?}");
    }
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let parent = tempfile::tempdir().unwrap();
    let missing = parent.path().join("missing/store");
    check(
        &missing,
        Options::default(),
        &["cannot create the folder", "create the parent folder first"],
    );
    let file = parent.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    check(
        &file,
        Options::default(),
        &["cannot create the folder", "a file is in the way"],
    );
    check(
        &file.join("store"),
        Options::default(),
        &["cannot create the folder", "a file is in the way"],
    );
    let memory = Options {
        durability: Durability::Memory,
        ..Options::default()
    };
    check(
        &parent.path().join("store"),
        memory,
        &["durability \"memory\" keeps no folder"],
    );
    assert!(!parent.path().join("store").exists());
}

#[test]
fn a_store_is_open_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = reopen(&dir);
    store.write_wait(one("a", "0")).unwrap();
    check(&dir, Options::default(), &["already open elsewhere"]);
    let clone = store.clone();
    drop(store);
    check(&dir, Options::default(), &["already open elsewhere"]);
    clone.write_wait(one("b", "1")).unwrap();
    drop(clone);
    let (store, _) = reopen(&dir);
    assert_eq!(store.len(), 2);
    // Closing one handle frees the folder, and the other handle still reads.
    let clone = store.clone();
    store.close().unwrap();
    let (second, _) = reopen(&dir);
    assert_eq!(contents(&clone), contents(&second));
    assert!(matches!(clone.write_wait(one("c", "2")), Err(WriteError::Closed)));
    clone.close().unwrap();
    second.write_wait(one("c", "2")).unwrap();
}

#[test]
fn a_refused_open_leaves_the_folder_free() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    drop(reopen(&dir));
    let bad = dir.join("log-00000000000000000007.mpl");
    std::fs::write(&bad, "not a segment").unwrap();
    assert!(matches!(
        Store::open(&dir, Options::default()),
        Err(Error::Gap { .. })
    ));
    std::fs::remove_file(&bad).unwrap();
    reopen(&dir).0.write_wait(one("a", "0")).unwrap();
}

#[test]
fn durability_is_what_was_asked_for() {
    let parent = tempfile::tempdir().unwrap();
    for (durability, name) in [(Durability::Logged, "logged"), (Durability::Synced, "synced")] {
        let options = Options {
            durability,
            ..Options::default()
        };
        let (store, _) = Store::open(&parent.path().join(name), options).unwrap();
        assert_eq!(store.write_wait(one("a", "0")).unwrap().durability.as_str(), name);
        assert_eq!(store.durability(), durability);
    }
    let store = Store::in_memory(Options::default());
    assert_eq!(
        store.write_wait(one("a", "0")).unwrap().durability.as_str(),
        "memory"
    );
    assert!(!store.is_empty());
    store.close().unwrap();
}

#[test]
fn what_was_put_comes_back_with_its_version_whatever_the_segments() {
    for segment_bytes_max in [0, 100, 1000, u64::MAX] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let options = Options {
            segment_bytes_max,
            ..Options::default()
        };
        let (store, _) = Store::open(&dir, options.clone()).unwrap();
        for i in 0..30 {
            store
                .write_wait(one(&format!("k{}", i % 7), &format!("value {i}")))
                .unwrap();
        }
        let expected = contents(&store);
        store.close().unwrap();
        let (store, recovery) = Store::open(&dir, options).unwrap();
        assert_eq!((recovery.records, recovery.entries, recovery.keys), (30, 30, 7));
        assert_eq!(recovery.segments, crate::segments(&dir).len());
        assert_eq!(contents(&store), expected);
        let text = recovery.to_string();
        assert!(
            text.starts_with("recovered 7 keys from 30 records (30 entries) in "),
            "{text}"
        );
    }
}
