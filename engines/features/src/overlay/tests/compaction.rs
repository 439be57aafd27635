//! A log that gives back what it does not need: how small it gets, and what a kill or a loss of power at any moment leaves of it.

use std::time::Duration;

use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::{Change, End, Left, Survival, lay_out};
use millpond_wal::faults::{RngExt, SeedableRng, StdRng};

use super::super::record::FORMAT;
use super::super::recovered::Found;
use super::*;

/// Waits until the log takes no more than that.
fn settles(bed: &Bed, bytes: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while bed.overlay().log_bytes() > bytes {
        assert!(Instant::now() < until, "{} bytes", bed.overlay().log_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn small(section: &mut OverlaySection) {
    section.segment_bytes_max = 2000;
}

#[test]
fn upserts_of_the_same_keys_do_not_make_the_log_grow_for_ever() {
    let mut bed = Bed::new(small);
    bed.remove(&[5]).unwrap();
    bed.upsert(&[7], &[7.0; 3]).unwrap();
    for turn in 0..500 {
        bed.upsert(&[3, 100 + turn % 3], &[turn as f32; 6]).unwrap();
    }
    settles(&bed, 4000);
    for _ in 0..2 {
        bed.check(3, Some([499.0; 3]));
        bed.check(5, None);
        bed.check(7, Some([7.0; 3]));
        for last in 497..500 {
            bed.check(100 + last % 3, Some([last as f32; 3]));
        }
        assert_eq!(bed.overlay().len(), 6);
        bed.reopen();
    }
    // What was written long ago is a fold's like all else, whatever its place in the log.
    bed.fold().unwrap();
    bed.reopen();
    bed.check(5, None);
    bed.check(7, Some([7.0; 3]));
    bed.check(3, Some([499.0; 3]));
}

#[test]
fn what_was_folded_is_remembered_by_a_log_that_was_gone_through() {
    let mut bed = Bed::new(small);
    bed.upsert(&[1, 2], &[1.0; 6]).unwrap();
    bed.upsert(&[2], &[2.0; 3]).unwrap();
    let folded = bed.fold().unwrap();
    assert_eq!(folded.sequence, 1);
    for turn in 0..300 {
        bed.upsert(&[3], &[turn as f32; 3]).unwrap();
    }
    settles(&bed, 4000);
    let fold_of = bed.wanted();
    let base = |version| Arc::new(Table::open_version(&bed.dir(), Some(version)).unwrap());
    let refused = fold(base(1), &bed.dir(), 3, &fold_of, &|_| true)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("up to sequence 1 are in a version"), "{refused}");
    assert!(
        fold(base(2), &bed.dir(), 3, &fold_of, &|_| true)
            .unwrap()
            .written()
            .is_some()
    );
    bed.reopen();
    bed.check(1, Some([1.0; 3]));
    bed.check(2, Some([2.0; 3]));
}

#[test]
fn what_is_too_old_gives_the_log_back_without_a_fold() {
    let mut bed = Bed::new(|section| {
        section.ttl_ms = Some(600_000);
        section.segment_bytes_max = 2000;
    });
    for key in 0..200 {
        bed.upsert(&[100 + key], &[1.0; 3]).unwrap();
    }
    let full = bed.overlay().log_bytes();
    assert!(full > 10_000, "all of it is in force: {full} bytes");
    bed.overlay().skip_ms(400_000);
    bed.upsert(&[3], &[3.0; 3]).unwrap();
    bed.overlay().skip_ms(400_000);
    // The row that is not too old, the files' headers, and what is said of those that were.
    settles(&bed, 2500);
    bed.check(3, Some([3.0; 3]));
    bed.check(150, None);
    bed.reopen();
    bed.check(3, Some([3.0; 3]));
    bed.check(150, None);
    bed.overlay().skip_ms(2_000_000);
    settles(&bed, 500);
}

#[test]
fn a_full_disk_costs_nothing_and_is_tried_again() {
    let (disk, shared) = FailingDisk::new();
    let mut bed = Bed::on(shared, |section| section.segment_bytes_max = 8000);
    for key in 0..30 {
        bed.upsert(&[100 + key], &[key as f32; 3]).unwrap();
    }
    disk.plan(Plan {
        fail_remove: true,
        ..Plan::default()
    });
    for turn in 0..300 {
        bed.upsert(&[3], &[turn as f32; 3]).unwrap();
    }
    let full = bed.overlay().log_bytes();
    disk.plan(Plan {
        bytes_left: Some(20),
        ..Plan::default()
    });
    let refused = bed.upsert(&[4], &[9.0; 3]).unwrap_err();
    assert!(matches!(refused, UpsertError::Storage(_)), "{refused}");
    assert!(
        bed.overlay().read_only().is_none() && full > 16_000,
        "{full} bytes"
    );
    disk.plan(Plan::default());
    settles(&bed, 16_000);
    for _ in 0..2 {
        bed.check(3, Some([299.0; 3]));
        bed.check(4, Some(base_row(4)));
        (0..30).for_each(|key| bed.check(100 + key, Some([key as f32; 3])));
        bed.reopen();
    }
}

/// A writer goes on meanwhile: segments end, are copied, and go while the fold reads them.
#[test]
fn a_fold_beside_a_writer_misses_nothing_that_was_acknowledged() {
    const KEYS: u64 = 12;
    let bed = Bed::new(|section| section.segment_bytes_max = 600);
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    let fold_of = bed.wanted();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in (0..KEYS).cycle() {
                // Some are written rarely, and so copied often.
                let turn = acknowledged[key as usize].load(Ordering::SeqCst);
                if key % 4 > 0 || turn == 0 {
                    let done = bed.upsert(&[key], &[1.0; 3]).unwrap();
                    acknowledged[key as usize].store(done.sequence, Ordering::SeqCst);
                }
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        for _ in 0..100 {
            let before: Vec<u64> = acknowledged.iter().map(|at| at.load(Ordering::SeqCst)).collect();
            let read = super::super::fold::read(&bed.table, &fold_of);
            done.store(read.is_err(), Ordering::SeqCst);
            let (found, folded) = read.unwrap();
            for (key, sequence) in (0..KEYS).zip(before) {
                let has_it = found
                    .entries
                    .get(&key)
                    .is_some_and(|entry| entry.sequence >= sequence);
                // What was written since may have taken its place.
                let since = || acknowledged[key as usize].load(Ordering::SeqCst) > sequence;
                let is_last = sequence > folded.sequence;
                assert!(
                    sequence == 0 || has_it || is_last || since(),
                    "key {key}, {sequence} of {folded:?}"
                );
            }
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// What callers of the overlay learn.
#[derive(Debug, Clone)]
enum Note {
    Sent,
    Acknowledged,
}

type Contents = BTreeMap<u64, Option<Vec<u8>>>;

/// What is found in what is left of the log, and up to where it goes on.
fn found(left: &Left, layout: u64) -> Contents {
    let parent = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let dir = parent.path().join("log");
    lay_out(left, &dir);
    let mut found = Found::default();
    if left.is_some() {
        let read = millpond_wal::read(&FORMAT, &dir, &mut |record, history| {
            found.apply(record, u64::MAX, layout);
            Ok(history)
        });
        read.unwrap();
    }
    let rows = found.entries.into_iter();
    rows.map(|(key, entry)| (key, entry.row.map(Vec::from))).collect()
}

/// Upserts one at a time of few keys, on a disk that records, with many segments; then every end at every moment.
fn check_ends(seed: u64, durability: Durability) {
    let mut rng = StdRng::seed_from_u64(seed);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("films");
    let mut writer = Writer::create(&dir, "films", 1, schema(), 1).unwrap();
    writer.push(1, &base_row(1)).unwrap();
    writer.finish().unwrap();
    let section = OverlaySection {
        path: Some(parent.path().join("log")),
        durability,
        segment_bytes_max: rng.random_range(150..800),
        ..OverlaySection::default()
    };
    let log = section.path.clone().unwrap();
    let recording = Recording::<Note>::new(&log, Survival::default(), StdRng::seed_from_u64(seed));
    let table = opened(&dir, &section, recording.disk()).unwrap();
    let overlay = table.overlay().unwrap();
    let (mut states, mut state) = (vec![Contents::new()], Contents::new());
    for number in 0..60 {
        let key = rng.random_range(0..6_u64);
        let is_removal = rng.random_ratio(1, 5);
        let values = [number as f32, 0.0, 1.0];
        let (keys, values, remove) = match is_removal {
            true => (vec![], &[][..], vec![key]),
            false => (vec![key], &values[..], vec![]),
        };
        let upsert = Upsert::new(&table, keys, &[] as &[&str], values, remove).unwrap();
        state.insert(key, (!is_removal).then(|| upsert.rows.clone()));
        states.push(state.clone());
        recording.note(Note::Sent);
        overlay.upsert_wait(upsert).unwrap();
        recording.note(Note::Acknowledged);
    }
    let segments = || std::fs::read_dir(&log).unwrap().count();
    let until = Instant::now() + Duration::from_secs(60);
    // Twice the six keys, each in a record of its own.
    while overlay.log_bytes() > 2 * 6 * 234 {
        assert!(
            Instant::now() < until,
            "{} bytes in {} files",
            overlay.log_bytes(),
            segments()
        );
        std::thread::yield_now();
    }
    let layout = overlay.layout;
    drop(table);
    let (mut survival, mut sent, mut acknowledged, mut removed) = (Survival::default(), 0, 0, 0);
    for event in recording.take_events() {
        let ends: &[End] = match durability {
            Durability::Synced => &[End::Killed, End::PowerCut, End::Torn],
            _ => &[End::Killed],
        };
        for end in ends {
            let found = found(&survival.left(*end, &mut rng), layout);
            assert!(
                states[acknowledged..=sent].contains(&found),
                "seed {seed}: {end:?} after {acknowledged} of {sent} leaves {found:?}"
            );
        }
        match event {
            Event::Disk(change) => {
                removed += u64::from(matches!(change, Change::Remove { .. }));
                survival.apply(&change);
            }
            Event::Note(Note::Sent) => sent += 1,
            Event::Note(Note::Acknowledged) => acknowledged += 1,
        }
    }
    assert!(removed > 0, "seed {seed}: it gave nothing back");
}

#[test]
fn no_end_at_any_moment_loses_or_revives_a_row() {
    for seed in 1..9 {
        check_ends(
            seed,
            if seed % 4 == 0 {
                Durability::Logged
            } else {
                Durability::Synced
            },
        );
    }
}
