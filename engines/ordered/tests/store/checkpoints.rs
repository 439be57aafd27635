//! Checkpoints from outside: cut, flipped, of another store, and of older builds' logs.
//!
//! Invariant under test: what is found is all there was, or a refusal that names the file and changes nothing.

use std::path::{Path, PathBuf};

use millpond_engines_ordered::offline::{backup, restore};
use millpond_engines_ordered::{Durability, Error, Options, Put, Store};

use crate::{Contents, contents, one, reopen, segments};

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some())
        .collect();
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for file in files(from) {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// A store with a checkpoint, and some records behind it.
struct Made {
    parent: tempfile::TempDir,
    dir: PathBuf,
    checkpoint: PathBuf,
    contents: Contents,
}

fn make() -> Made {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let options = Options {
        durability: Durability::Logged,
        segment_bytes_max: 300,
        ..Options::default()
    };
    let (store, _) = Store::open(&dir, options).unwrap();
    for at in 0..10 {
        store.write_wait(one(&format!("k{at}"), "before")).unwrap();
    }
    let checkpoint = store.checkpoint().unwrap().file;
    for at in 5..12 {
        store.write_wait(one(&format!("k{at}"), "behind")).unwrap();
    }
    let contents = contents(&store);
    store.close().unwrap();
    Made {
        parent,
        dir,
        checkpoint,
        contents,
    }
}

/// Opens a folder that must be refused, and changes nothing.
fn refused(dir: &Path) -> Error {
    let read = || -> Vec<_> {
        files(dir)
            .into_iter()
            .map(|file| (file.clone(), std::fs::read(file).unwrap()))
            .collect()
    };
    let before = read();
    let error = Store::open(dir, Options::default()).err().expect("it was opened");
    assert!(read() == before, "{error}, yet files were changed");
    error
}

#[test]
fn a_checkpoint_cut_at_any_byte_is_refused_by_its_name() {
    let made = make();
    let scratch = made.parent.path().join("cut");
    let whole = std::fs::read(&made.checkpoint).unwrap();
    for cut in 0..whole.len() {
        copy(&made.dir, &scratch);
        let file = scratch.join(made.checkpoint.file_name().unwrap());
        std::fs::write(&file, &whole[..cut]).unwrap();
        match refused(&scratch) {
            Error::Checkpoint { file: named, .. } => assert_eq!(named, file, "cut at {cut}"),
            other => panic!("cut at {cut}: {other}"),
        }
    }
}

#[test]
fn any_flipped_bit_of_a_checkpoint_is_found() {
    let made = make();
    let scratch = made.parent.path().join("flipped");
    let whole = std::fs::read(&made.checkpoint).unwrap();
    copy(&made.dir, &scratch);
    let file = scratch.join(made.checkpoint.file_name().unwrap());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&file, &bytes).unwrap();
        let text = refused(&scratch).to_string();
        assert!(text.starts_with(&file.display().to_string()), "byte {at}: {text}");
        assert!(
            text.contains("nothing was changed; the log before it is gone"),
            "{text}"
        );
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(contents(&reopen(&scratch).0), made.contents);
}

#[test]
fn damage_in_any_of_many_blocks_is_found_by_whichever_thread_reads_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let (store, _) = reopen(&dir);
    for at in 0..60_u32 {
        let mut put = millpond_engines_ordered::Put::default();
        for of in 0..60_u32 {
            let key = (at * 7919 % 60 * 60 + of).to_be_bytes().to_vec();
            put.entries.push((key, vec![at as u8; 900 + of as usize]));
        }
        store.write_wait(put).unwrap();
    }
    // Larger than a block is by itself.
    store.write_wait(one("large", &"x".repeat(600_000))).unwrap();
    let checkpoint = store.checkpoint().unwrap();
    let expected = contents(&store);
    store.close().unwrap();
    let (store, recovery) = reopen(&dir);
    assert!(contents(&store) == expected);
    assert_eq!(recovery.checkpoint.unwrap().entries, 3601);
    store.close().unwrap();
    let whole = std::fs::read(&checkpoint.file).unwrap();
    assert!(whole.len() > 12 << 18, "{} bytes are too few blocks", whole.len());
    for at in (100..whole.len()).step_by(whole.len() / 9) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&checkpoint.file, &bytes).unwrap();
        let text = refused(&dir).to_string();
        assert!(text.contains("damaged at offset"), "byte {at}: {text}");
    }
}

#[test]
fn an_older_checkpoint_with_its_segments_is_read_in_place_of_a_damaged_one() {
    let made = make();
    let older = made.parent.path().join("older");
    copy(&made.dir, &older);
    let (store, _) = reopen(&made.dir);
    let newer = store.checkpoint().unwrap().file;
    store.write_wait(one("last", "one")).unwrap();
    let expected = contents(&store);
    store.close().unwrap();
    // As if the process had ended before it removed anything.
    for file in files(&older) {
        std::fs::copy(&file, made.dir.join(file.file_name().unwrap())).unwrap();
    }
    let scratch = made.parent.path().join("scratch");
    copy(&made.dir, &scratch);
    let (store, recovery) = reopen(&scratch);
    assert_eq!(contents(&store), expected);
    assert_eq!(recovery.records, 1);
    assert_eq!(
        files(&scratch).len(),
        2,
        "what it stands for is removed at the start"
    );
    drop(store);

    copy(&made.dir, &scratch);
    let file = scratch.join(newer.file_name().unwrap());
    let length = std::fs::metadata(&file).unwrap().len();
    let opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.set_len(length - 1).unwrap();
    let (store, recovery) = reopen(&scratch);
    assert_eq!(contents(&store), expected);
    assert_eq!(
        recovery.checkpoint.clone().unwrap().file.file_name(),
        made.checkpoint.file_name()
    );
    assert!(recovery.damaged[0].contains(file.to_str().unwrap()), "{recovery}");
    // The next one takes its place.
    store.checkpoint().unwrap();
    drop(store);
    let (store, recovery) = reopen(&scratch);
    assert_eq!((contents(&store), recovery.damaged.len()), (expected, 0));
    drop(store);

    // Without the older one's segments there is nothing that could be read.
    copy(&made.dir, &scratch);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(length - 1)
        .unwrap();
    std::fs::remove_file(&segments(&scratch)[0]).unwrap();
    match refused(&scratch) {
        Error::Checkpoint { file: named, .. } => assert_eq!(named, file),
        other => panic!("{other}"),
    }
}

#[test]
fn a_whole_log_is_read_in_place_of_a_damaged_checkpoint() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, kept) = (parent.path().join("store"), parent.path().join("kept"));
    let (store, _) = reopen(&dir);
    store.write_wait(one("a", "1")).unwrap();
    copy(&dir, &kept);
    let checkpoint = store.checkpoint().unwrap().file;
    store.write_wait(one("b", "2")).unwrap();
    let expected = contents(&store);
    store.close().unwrap();
    for file in files(&kept) {
        std::fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
    }
    std::fs::write(&checkpoint, "no checkpoint").unwrap();
    let (store, recovery) = reopen(&dir);
    assert_eq!((contents(&store), recovery.records), (expected, 2));
    assert_eq!((recovery.checkpoint, recovery.damaged.len()), (None, 1));
}

/// Changes the footer of a checkpoint, with a sound checksum.
fn change_foot(file: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() - 64;
    let foot = &mut bytes[at..];
    change(foot);
    let checksum = crc32c::crc32c(&foot[8..]);
    foot[4..8].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(file, &bytes).unwrap();
}

#[test]
fn a_log_that_ends_before_what_a_checkpoint_may_show_is_refused() {
    let made = make();
    // The last record is 17: a checkpoint that was finished then may show it.
    change_foot(&made.checkpoint, |foot| {
        foot[8..16].copy_from_slice(&17u64.to_le_bytes())
    });
    let scratch = made.parent.path().join("scratch");
    copy(&made.dir, &scratch);
    assert_eq!(contents(&reopen(&scratch).0), made.contents);
    let last = segments(&made.dir).pop().unwrap();
    let length = std::fs::metadata(&last).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(&last)
        .unwrap()
        .set_len(length - 1)
        .unwrap();
    let text = refused(&made.dir).to_string();
    assert!(
        text.contains("needs the log up to record 17, but the log ends at record 16"),
        "{text}"
    );
    assert!(text.starts_with(made.checkpoint.to_str().unwrap()), "{text}");
}

#[test]
fn a_checkpoint_without_its_segment_is_refused() {
    let made = make();
    std::fs::remove_file(&segments(&made.dir)[0]).unwrap();
    match refused(&made.dir) {
        Error::Gap {
            expected: 11, found, ..
        } => assert!(found > 11),
        other => panic!("{other}"),
    }
    for file in segments(&made.dir) {
        std::fs::remove_file(file).unwrap();
    }
    let text = refused(&made.dir).to_string();
    assert!(
        text.starts_with(made.checkpoint.to_str().unwrap())
            && text.contains("from record 11 on, and the segment log-00000000000000000011.mpl is missing;"),
        "{text}"
    );
    // Nor is a log that begins late taken without one.
    let made = make();
    std::fs::remove_file(&made.checkpoint).unwrap();
    let text = refused(&made.dir).to_string();
    assert!(
        text.starts_with(segments(&made.dir)[0].to_str().unwrap())
            && text.contains("the log begins with record 11, and the checkpoint")
            && text.contains("restore the missing files from a copy"),
        "{text}"
    );
}

#[test]
fn files_of_another_store_are_refused() {
    let (one, other) = (make(), make());
    std::fs::copy(&other.checkpoint, &one.checkpoint).unwrap();
    let text = refused(&one.dir).to_string();
    assert!(text.contains("it is of history"), "{text}");

    let (one, other) = (make(), make());
    let last = segments(&other.dir).pop().unwrap();
    std::fs::copy(&last, one.dir.join(last.file_name().unwrap())).unwrap();
    match refused(&one.dir) {
        Error::History { file, .. } => assert_eq!(file.file_name(), last.file_name()),
        other => panic!("{other}"),
    }
}

#[test]
fn unfinished_checkpoints_go_and_newer_ones_are_not_taken_for_damage() {
    let made = make();
    let unfinished = made.dir.join("checkpoint-00000000000000000099.mpc.unfinished");
    std::fs::write(&unfinished, "half").unwrap();
    std::fs::write(made.dir.join("checkpoint-9.mpc"), "mine").unwrap();
    let (store, _) = reopen(&made.dir);
    assert_eq!(contents(&store), made.contents);
    store.close().unwrap();
    assert!(!unfinished.exists());
    assert!(made.dir.join("checkpoint-9.mpc").exists());

    let mut bytes = std::fs::read(&made.checkpoint).unwrap();
    bytes[4] = 2;
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&made.checkpoint, &bytes).unwrap();
    let text = refused(&made.dir).to_string();
    assert!(
        text.contains("checkpoint format 2 at offset 0 is unknown to this build"),
        "{text}"
    );
}

/// Makes a log of format 1 of one of format 2.
fn make_older(dir: &Path) {
    for file in segments(dir) {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[4] = 1;
        let checksum = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
        bytes.drain(32..64);
        std::fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn a_log_of_format_1_goes_on_in_a_segment_of_format_2() {
    let history = crate::History::write(31, 20, 300);
    make_older(&history.dir);
    let scratch = history.dir.with_file_name("again");
    copy(&history.dir, &scratch);
    let before = segments(&scratch).len();
    let (store, recovery) = reopen(&scratch);
    assert_eq!((recovery.records, recovery.torn_tail), (20, None));
    assert_eq!(Some(&contents(&store)), history.states.last());
    store.write_wait(one("later", "put")).unwrap();
    let expected = contents(&store);
    store.close().unwrap();
    let now = segments(&scratch);
    assert_eq!(now.len(), before + 1);
    assert_eq!(std::fs::read(now.last().unwrap()).unwrap()[4], 2);
    let (store, recovery) = reopen(&scratch);
    assert_eq!((contents(&store), recovery.records), (expected.clone(), 21));
    assert_eq!(segments(&scratch).len(), before + 1, "once is enough");
    store.checkpoint().unwrap();
    drop(store);
    let (store, recovery) = reopen(&scratch);
    assert_eq!((contents(&store), recovery.records), (expected, 0));

    // Cut at any byte it is what it always was: a part of the puts.
    let last = segments(&history.dir).pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    for cut in 0..whole.len() {
        copy(&history.dir, &scratch);
        std::fs::write(scratch.join(last.file_name().unwrap()), &whole[..cut]).unwrap();
        let (store, recovery) = reopen(&scratch);
        assert_eq!(
            contents(&store),
            history.states[recovery.records as usize],
            "cut at {cut}"
        );
        drop(store);
        assert_eq!(reopen(&scratch).1.torn_tail, None);
    }
}

/// A record may end in bytes that look like room behind the log.
#[test]
fn copies_have_a_last_record_that_ends_in_zeros() {
    for (durability, value) in [
        (Durability::Synced, &[1, 0, 0, 0][..]),
        (Durability::Logged, &[0; 40][..]),
    ] {
        let parent = tempfile::tempdir().unwrap();
        let place = |name: &str| parent.path().join(name);
        let options = Options {
            durability,
            ..Options::default()
        };
        let (store, _) = Store::open(&place("store"), options).unwrap();
        for number in 0..3 {
            let put = Put {
                entries: vec![(format!("k{number}").into_bytes(), value.to_vec())],
                ..Put::default()
            };
            store.write_wait(put).unwrap();
            if number == 1 {
                // What it may show ends with such a record.
                store.checkpoint().unwrap();
            }
            let (open, restored) = (format!("open{number}"), format!("restored{number}"));
            let expected = contents(&store);
            backup(&place("store"), &place(&open), true, &mut |_| ()).unwrap();
            restore(&place(&open), &place(&restored), &mut |_| ()).unwrap();
            for name in [open, restored] {
                let (copy, recovery) = Store::open(&place(&name), Options::default()).unwrap();
                assert_eq!(contents(&copy), expected, "{name}: {recovery}");
                assert_eq!(recovery.torn_tail, None, "{name}");
            }
        }
        let expected = contents(&store);
        store.close().unwrap();
        backup(&place("store"), &place("closed"), false, &mut |_| ()).unwrap();
        let (copy, _) = Store::open(&place("closed"), Options::default()).unwrap();
        assert_eq!(contents(&copy), expected);
    }
}

#[test]
fn a_store_beside_a_damaged_checkpoint_is_copied_as_a_start_reads_it() {
    let made = make();
    let whole = made.parent.path().join("whole");
    // The log from its beginning, as if nothing had been removed yet.
    let (store, _) = Store::open(&whole, Options::default()).unwrap();
    for number in 0..4 {
        store.write_wait(one(&format!("k{number}"), "x")).unwrap();
    }
    let expected = contents(&store);
    store.close().unwrap();
    let name = made.checkpoint.file_name().unwrap();
    std::fs::write(whole.join(name), b"no checkpoint").unwrap();
    let (copied, restored) = (made.parent.path().join("b"), made.parent.path().join("r"));
    backup(&whole, &copied, true, &mut |_| ()).unwrap();
    restore(&copied, &restored, &mut |_| ()).unwrap();
    let (store, recovery) = Store::open(&restored, Options::default()).unwrap();
    assert_eq!(contents(&store), expected);
    assert_eq!(recovery.damaged.len(), 1, "{recovery}");
}
