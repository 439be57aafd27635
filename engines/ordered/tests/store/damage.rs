//! Damage that no crash explains: it is named, and the files stay as they are.

use std::path::Path;

use millpond_engines_ordered::{Error, Options, Put, Store, offline};

use crate::{HEADER_BYTES, History, contents, copy, one, reopen, segments};

fn bytes_of(dir: &Path) -> Vec<Vec<u8>> {
    segments(dir)
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

/// Opens a damaged folder; nothing may be changed by it.
fn open_fails(dir: &Path) -> Error {
    let before = bytes_of(dir);
    let error = Store::open(dir, Options::default())
        .err()
        .expect("a damaged log was opened");
    assert!(bytes_of(dir) == before, "{error}, yet the files were changed");
    error
}

#[test]
fn any_flipped_bit_is_found() {
    let history = History::write(21, 12, 300);
    let files = segments(&history.dir);
    assert!(files.len() > 2, "the log must have several segments");
    let scratch = tempfile::tempdir().unwrap();
    for file in &files {
        let sound = std::fs::read(file).unwrap();
        for at in 0..sound.len() {
            let dir = scratch.path().join("flipped");
            copy(&history.dir, &dir);
            let path = dir.join(file.file_name().unwrap());
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            check_flip(&history, &dir, &path, at as u64);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}

/// A flip in the very last record looks like a torn write; anywhere else it is an error that names the place.
fn check_flip(history: &History, dir: &Path, path: &Path, at: u64) {
    let original = history.dir.join(path.file_name().unwrap());
    let records = history.records_of(&original);
    let hit = records.iter().copied().rfind(|&(_, start)| start <= at);
    let is_last = |before| before + 2 == history.states.len();
    match hit {
        Some((before, start)) if is_last(before) => {
            let (store, recovery) = reopen(dir);
            assert_eq!(contents(&store), history.states[before], "byte {at}");
            assert_eq!(recovery.torn_tail.unwrap().offset, start, "byte {at}");
        }
        Some((_, start)) => match open_fails(dir) {
            Error::Damaged { file, offset, .. } => assert_eq!((&*file, offset), (path, start)),
            other => panic!("byte {at}: {other}"),
        },
        None => match open_fails(dir) {
            Error::Header { file, .. } => assert_eq!(file, path),
            other => panic!("byte {at}: {other}"),
        },
    }
}

#[test]
fn messages_say_where_and_what_to_do() {
    let history = History::write(22, 3, 1 << 20);
    let mut bytes = std::fs::read(history.last_segment()).unwrap();
    bytes[HEADER_BYTES as usize + 20] ^= 1;
    std::fs::write(history.last_segment(), &bytes).unwrap();
    let text = open_fails(&history.dir).to_string();
    let file = history.last_segment().display().to_string();
    assert!(
        text.starts_with(&format!("{file}: damaged record at offset 64: checksum")),
        "{text}"
    );
    assert!(text.contains("yet a sound record follows at offset"), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    assert!(text.ends_with(&format!("run: truncate -s 64 {file}")), "{text}");
    // The advice works.
    std::fs::File::options()
        .write(true)
        .open(history.last_segment())
        .unwrap()
        .set_len(64)
        .unwrap();
    assert_eq!(reopen(&history.dir).1.records, 0);
}

#[test]
fn a_missing_segment_is_a_gap() {
    let history = History::write(23, 20, 300);
    let files = segments(&history.dir);
    for missing in 0..files.len() - 1 {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("gap");
        copy(&history.dir, &dir);
        std::fs::remove_file(dir.join(files[missing].file_name().unwrap())).unwrap();
        match open_fails(&dir) {
            Error::Gap {
                file,
                what,
                expected,
                found,
                ..
            } => {
                assert_eq!(file.file_name(), files[missing + 1].file_name());
                assert_eq!(what, "sequence");
                assert!(expected < found && missing > 0);
            }
            Error::Checkpoint { file, .. } => {
                assert_eq!((file.file_name(), missing), (files[1].file_name(), 0));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn numbers_that_do_not_follow_are_a_gap() {
    for (field_at, name) in [(16, "sequence"), (32, "version")] {
        let history = History::write(28, 3, 1 << 20);
        let records = history.records_of(history.last_segment());
        let (start, end) = (records[1].1 as usize, records[2].1 as usize);
        let mut bytes = std::fs::read(history.last_segment()).unwrap();
        bytes[start + field_at] += 1;
        let checksum = crc32c::crc32c(&bytes[start + 8..end]);
        bytes[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(history.last_segment(), &bytes).unwrap();
        match open_fails(&history.dir) {
            Error::Gap {
                offset,
                what,
                expected,
                found,
                ..
            } => {
                assert_eq!((offset as usize, what, found), (start, name, expected + 1));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_cut_segment_in_the_middle_is_damage() {
    let history = History::write(24, 20, 300);
    let middle = &segments(&history.dir)[1];
    let records = history.records_of(middle);
    let length = std::fs::metadata(middle).unwrap().len();
    let cut = |length| {
        std::fs::File::options()
            .write(true)
            .open(middle)
            .unwrap()
            .set_len(length)
            .unwrap()
    };
    cut(length - 1);
    match open_fails(&history.dir) {
        Error::Damaged { file, offset, .. } => {
            assert_eq!((&file, offset), (middle, records.last().unwrap().1));
        }
        other => panic!("{other}"),
    }
    // Cut between two records, only what follows shows that something is missing.
    cut(records.last().unwrap().1);
    assert!(matches!(open_fails(&history.dir), Error::Gap { .. }));
    cut(HEADER_BYTES - 1);
    assert!(matches!(open_fails(&history.dir), Error::Header { .. }));
    cut(0);
    assert!(matches!(open_fails(&history.dir), Error::Header { .. }));
}

#[test]
fn a_renamed_or_foreign_segment_is_refused() {
    let history = History::write(25, 2, 1 << 20);
    let file = history.last_segment().to_owned();
    let other = history.dir.join("log-00000000000000000002.mpl");
    std::fs::copy(&file, &other).unwrap();
    assert!(matches!(open_fails(&history.dir), Error::Gap { .. }));
    let third = history.dir.join("log-00000000000000000003.mpl");
    std::fs::rename(&other, &third).unwrap();
    match open_fails(&history.dir) {
        Error::Gap {
            file,
            expected: 3,
            found: 1,
            ..
        } => assert_eq!(file, third),
        other => panic!("{other}"),
    }
    std::fs::remove_file(&third).unwrap();
    std::fs::write(&file, "this is a text file, and a rather long one at that").unwrap();
    let text = open_fails(&history.dir).to_string();
    assert!(
        text.contains("bad segment header at offset 0: magic \"this\", expected \"MPLG\""),
        "{text}"
    );
    // Files of other names are not the store's.
    std::fs::remove_file(&file).unwrap();
    for name in [
        "log-1.mpl",
        "log-0000000000000000000a.mpl",
        "log-00000000000000000009.mpl.bak",
        "notes",
    ] {
        std::fs::write(history.dir.join(name), "mine").unwrap();
    }
    let (store, recovery) = reopen(&history.dir);
    assert_eq!((store.len(), recovery.segments), (0, 0));
    assert_eq!(std::fs::read(history.dir.join("notes")).unwrap(), b"mine");
}

#[test]
fn a_newer_format_is_not_taken_for_damage() {
    let history = History::write(26, 1, 1 << 20);
    let file = history.last_segment();
    let sound = std::fs::read(file).unwrap();
    let mut bytes = sound.clone();
    bytes[4] = 3;
    let checksum = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(file, &bytes).unwrap();
    let text = open_fails(&history.dir).to_string();
    assert!(
        text.contains("format 3 at offset 4 is unknown to this build"),
        "{text}"
    );
    // A backup says so of the store's file, and not of its own that is gone.
    let to = history.dir.with_file_name("backup");
    let error = offline::backup(&history.dir, &to, false, &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(text.starts_with(file.to_str().unwrap()) && !to.exists(), "{text}");

    let mut bytes = sound;
    bytes[64 + 12] = 9;
    let checksum = crc32c::crc32c(&bytes[64 + 8..]);
    bytes[68..72].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(file, &bytes).unwrap();
    let text = open_fails(&history.dir).to_string();
    assert!(text.contains("record kind 9 at offset 64 is unknown"), "{text}");
}

#[test]
fn a_value_that_looks_like_a_log_does_not_keep_a_torn_tail_from_being_cut() {
    let other = History::write(27, 20, 1 << 20);
    let log = std::fs::read(other.last_segment()).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = reopen(&dir);
    store.write_wait(one("a", "kept")).unwrap();
    store
        .write_wait(Put {
            entries: vec![(b"log".to_vec(), log)],
            ..Put::default()
        })
        .unwrap();
    store.close().unwrap();
    let file = &segments(&dir)[0];
    let length = std::fs::metadata(file).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(length - 1)
        .unwrap();
    let (store, recovery) = reopen(&dir);
    assert_eq!(recovery.torn_tail.unwrap().records, 0);
    assert_eq!(contents(&store).into_keys().collect::<Vec<_>>(), [b"a"]);
}
