//! Folds of upserts that went to several servers: by their time, as far as all replicas have them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::stamps::{catch_up, rows, upsert};
use super::*;

/// The stamp of a moment so many milliseconds before some of two minutes ago.
fn at(base_ms: u64, ms: u64) -> Stamp {
    Stamp {
        time: (base_ms + ms) << 16,
        origin: 1,
    }
}

/// A time that all stamps of a test begin at.
fn base_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64 - 120_000
}

/// What replicas say of each other, and that the log has it.
fn settle(bed: &Bed, ms: u64) {
    let settled = Settled {
        whole_ms: ms,
        foldable_ms: ms,
    };
    bed.overlay().settle(settled);
    let until = Instant::now() + Duration::from_secs(60);
    while bed.overlay().settled() != settled {
        assert!(Instant::now() < until, "the log does not say it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Folds onto the highest version.
fn folded(bed: &Bed, change: impl FnOnce(&mut Fold<'_>)) -> Result<Option<Folded>, String> {
    let mut wanted = bed.wanted();
    change(&mut wanted);
    let base = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    let next = base.version() + 1;
    let done = fold(base, &bed.dir(), next, &wanted, &|_| true);
    done.map(|done| done.written().map(|(_, folded)| folded))
        .map_err(|error| error.to_string())
}

/// Serves a version, without taking anything out of the overlay.
fn serve(bed: &mut Bed, version: Option<u64>) {
    let mut next = Table::open_version(&bed.dir(), version).unwrap();
    next.see(bed.overlay()).unwrap();
    bed.table = Arc::new(next);
}

fn forget(bed: &Bed) {
    bed.overlay().forget(bed.overlay().folded_in(&bed.table)).unwrap();
}

#[test]
fn a_fold_takes_what_was_made_before_a_time_and_lookups_see_the_same_rows() {
    let base = base_ms();
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1, 2], &[7.0; 6]).unwrap();
    upsert(&bed, &[1, 11], Some(1.0), at(base, 10));
    upsert(&bed, &[3], None, at(base, 20));
    upsert(&bed, &[3, 12], Some(3.0), at(base, 30));
    upsert(&bed, &[11], None, at(base, 40));
    let refused = folded(&bed, |_| ()).unwrap_err();
    assert!(refused.contains("nodes.settle_ms"), "{refused}");
    let refused = folded(&bed, |fold| fold.sequence = Some(2)).unwrap_err();
    assert!(refused.contains("before_ms in the place"), "{refused}");
    settle(&bed, base + 30);
    let refused = folded(&bed, |fold| fold.before_ms = Some(base + 31)).unwrap_err();
    assert!(
        refused.contains(&format!("at most, not {}", base + 31)),
        "{refused}"
    );
    assert!(Table::open_version(&bed.dir(), Some(2)).is_err());
    let expected = rows(&bed);
    let done = folded(&bed, |_| ()).unwrap().unwrap();
    assert_eq!((done.before_ms, done.sequence), (base + 30, 5));
    assert_eq!(folded(&bed, |_| ()), Ok(None), "there is nothing more");
    // A row that comes late shows over the version, which does not have it.
    upsert(&bed, &[13], Some(4.0), at(base, 25));
    // And one that would, where a newer one was folded.
    assert_ne!(upsert(&bed, &[1], Some(9.0), at(base, 9)).newer, Stamp::default());
    serve(&mut bed, None);
    assert_eq!(bed.table.folded(), Some(done));
    let with_late = |mut rows: Vec<Option<[f32; 3]>>| {
        rows[13] = Some([4.0; 3]);
        rows
    };
    let expected = with_late(expected);
    assert_eq!(rows(&bed), expected);
    // The version before shows the same as long as it is open, also after a restart.
    for reopens in [false, true] {
        if reopens {
            bed.reopen();
        }
        for version in [1, 2] {
            serve(&mut bed, Some(version));
            assert_eq!(rows(&bed), expected, "version {version}");
        }
    }
    let before = bed.overlay().len();
    forget(&bed);
    // 1 and 2 are folded; 3, 11 and 12 were written again later, and 13 came late.
    assert_eq!((before, bed.overlay().len()), (6, 4));
    assert_eq!(bed.overlay().forgotten(), done);
    for _ in 0..2 {
        assert_eq!(rows(&bed), expected);
        assert_eq!(bed.overlay().folded_before_ms(), base + 30);
        // Nobody knows any more whether it is newer than what was folded.
        let late = upsert(&bed, &[2, 14], Some(9.0), at(base, 29));
        assert_eq!(late.newer.ms(), base + 30);
        assert!(bed.overlay().has(14, at(base, 29)) && !bed.overlay().has(14, at(base, 30)));
        assert_eq!(rows(&bed), expected);
        bed.reopen();
    }
    // The next fold takes the late one too, and what was made later.
    settle(&bed, base + 41);
    let next = folded(&bed, |_| ()).unwrap().unwrap();
    assert!(next.covers(done));
    serve(&mut bed, None);
    forget(&bed);
    assert_eq!((rows(&bed), bed.overlay().len()), (expected, 0));
    // A way back behind a fold has what the version before has, and what is newer.
    upsert(&bed, &[5], Some(6.0), at(base, 50));
    serve(&mut bed, Some(1));
    bed.check(1, Some(base_row(1)));
    bed.check(5, Some([6.0; 3]));
}

#[test]
fn a_fold_repeated_up_to_the_same_time_writes_nothing_whatever_came_since() {
    let base = base_ms();
    let bed = Bed::new(|_| ());
    upsert(&bed, &[1, 11], Some(1.0), at(base, 10));
    settle(&bed, base + 100);
    let up_to = |ms| {
        let wanted = Fold {
            before_ms: Some(base + ms),
            ..bed.wanted()
        };
        let first = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
        let next = Table::open_version(&bed.dir(), None).unwrap().version() + 1;
        match fold(first, &bed.dir(), next, &wanted, &|_| true).unwrap() {
            FoldVersion::Written { summary, .. } => (true, summary.version),
            FoldVersion::Had(version) | FoldVersion::NothingNew { base: version, .. } => (false, version),
        }
    };
    assert_eq!(up_to(50), (true, 2));
    for key in [2, 3] {
        upsert(&bed, &[key], Some(2.0), at(base, 60));
    }
    assert_eq!(up_to(50), (false, 2));
    // One that comes late is in the fold.
    for key in [4, 5] {
        upsert(&bed, &[key], Some(3.0), at(base, 20));
    }
    assert_eq!(up_to(50), (true, 3));
    assert_eq!(up_to(70), (true, 4));
}

/// Segments are given back behind the writes.
fn wait_for_log_below(bed: &Bed, bytes: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while bed.overlay().log_bytes() >= bytes {
        assert!(Instant::now() < until, "{} bytes", bed.overlay().log_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_the_replicas_said_outlives_restarts_and_segments() {
    let base = base_ms();
    let mut bed = Bed::new(|section| section.segment_bytes_max = 2000);
    for round in 0..400 {
        upsert(&bed, &[round % 7], Some(1.0), at(base, round));
    }
    settle(&bed, base + 300);
    for round in 0..400 {
        upsert(&bed, &[round % 7], Some(2.0), at(base, 1000 + round));
    }
    for _ in 0..3 {
        // Its segment is given back, whatever it says.
        wait_for_log_below(&bed, 6000);
        bed.reopen();
        assert_eq!(bed.overlay().settled().foldable_ms, base + 300);
    }
    settle(&bed, base + 2000);
    let done = folded(&bed, |_| ()).unwrap().unwrap();
    serve(&mut bed, None);
    forget(&bed);
    assert!(bed.overlay().is_empty());
    for _ in 0..3 {
        bed.check(3, Some([2.0; 3]));
        let overlay = bed.overlay();
        assert_eq!(overlay.settled().whole_ms, base + 2000);
        assert_eq!(overlay.whole_before_ms(&bed.table), base + 2000);
        assert_eq!(overlay.forgotten(), done);
        wait_for_log_below(&bed, 2000);
        bed.reopen();
    }
}

#[test]
fn whoever_reads_pages_while_rows_leave_memory_has_them_all_or_knows_that_they_left() {
    let (base, keys) = (base_ms(), (0..2000).collect::<Vec<u64>>());
    let mut bed = Bed::new(|_| ());
    for round in 1..=7 {
        let (made, before) = (at(base, round * 10), base + round * 10 + 1);
        upsert(&bed, &keys, Some(round as f32), made);
        settle(&bed, before);
        folded(&bed, |_| ()).unwrap().unwrap();
        serve(&mut bed, None);
        let overlay = bed.overlay();
        let read = || {
            let (mut position, mut count, mut folded_ms) = (Some(0), 0, 0);
            while let Some(at) = position {
                let page = overlay.fresh_page(0, at, (keys.len(), usize::MAX), |_| true);
                folded_ms = overlay.folded_before_ms();
                (count, position) = (count + page.rows.len(), page.next);
            }
            (count, folded_ms)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let (count, folded_ms) = read();
                    assert!(count == keys.len() || folded_ms == before, "{count} {folded_ms}");
                    if count == 0 {
                        break;
                    }
                }
            });
            forget(&bed);
        });
    }
}

#[test]
fn a_table_that_was_built_from_others_counts_as_folded() {
    let base = base_ms();
    let mut bed = Bed::new(|_| ());
    let refused = folded(&bed, |fold| fold.is_rebuilt = true).unwrap_err();
    assert!(refused.contains("before_ms"), "{refused}");
    let rebuilt = |fold: &mut Fold<'_>| (fold.is_rebuilt, fold.before_ms) = (true, Some(base + 10));
    let done = folded(&bed, rebuilt).unwrap().unwrap();
    assert_eq!((done.sequence, done.before_ms), (0, base + 10));
    // A log that is empty goes on with the history that the version says.
    bed.reopen();
    forget(&bed);
    assert_eq!(bed.overlay().whole_before_ms(&bed.table), base + 10);
    upsert(&bed, &[1], Some(9.0), at(base, 9));
    upsert(&bed, &[2], Some(9.0), at(base, 10));
    bed.check(1, Some(base_row(1)));
    bed.check(2, Some([9.0; 3]));
    // Of a log that has something, too: rows before that time are those of the version.
    let mut other = Bed::new(|_| ());
    upsert(&other, &[1, 2], Some(9.0), at(base, 9));
    upsert(&other, &[2], Some(8.0), at(base, 10));
    upsert(&other, &[3], Some(8.0), at(base, 11));
    folded(&other, rebuilt).unwrap().unwrap();
    serve(&mut other, None);
    other.check(1, Some(base_row(1)));
    other.check(2, Some([8.0; 3]));
}

#[test]
fn rows_that_are_too_old_are_left_out_of_a_fold_by_time() {
    let base = base_ms();
    let bed = Bed::new(|section| section.ttl_ms = Some(60_000));
    upsert(&bed, &[1], Some(9.0), at(base, 0));
    upsert(&bed, &[2], Some(9.0), at(base, 100_000));
    settle(&bed, base + 110_000);
    folded(&bed, |fold| fold.ttl_ms = Some(60_000)).unwrap().unwrap();
    let version = Table::open_version(&bed.dir(), Some(2)).unwrap();
    assert_eq!(looked_up(&version, 1), Some(base_row(1)));
    assert_eq!(looked_up(&version, 2), Some([9.0; 3]));
}

/// What happens to two replicas.
#[derive(Debug, Clone)]
enum Step {
    /// Keys, a value or a removal, and which of them takes it at once; the other one catches up before it says so.
    Upsert(Vec<u64>, Option<i8>, (bool, bool)),
    /// The replicas take what they miss, and say so of all that was made up to now.
    Settle,
    /// One of them folds, serves the version or not, and takes out of its overlay what is in it or not.
    Fold(bool, bool, bool),
    Reopen(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop::collection::vec(0..30_u64, 1..5);
    prop_oneof![
        6 => (keys, prop::option::of(-9_i8..9), any::<(bool, bool)>())
            .prop_map(|(keys, value, has)| Step::Upsert(keys, value, has)),
        2 => Just(Step::Settle),
        2 => any::<(bool, bool, bool)>().prop_map(|(one, serves, forgets)| Step::Fold(one, serves, forgets)),
        1 => any::<bool>().prop_map(Step::Reopen),
    ]
}

/// What the last of the upserts of each key says.
fn model_rows(model: &BTreeMap<u64, Option<f32>>) -> Vec<Option<[f32; 3]>> {
    let row = |key| match model.get(&key) {
        Some(value) => value.map(|value| [value; 3]),
        None => (key < 10).then(|| base_row(key)),
    };
    (0..30).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn replicas_that_fold_show_what_was_written_last(steps in prop::collection::vec(step(), 1..40)) {
        let base = base_ms();
        let mut beds = [Bed::new(|_| ()), Bed::new(|_| ())];
        let mut model = BTreeMap::new();
        let (mut now, mut settled) = (1, [0, 0]);
        for step in steps {
            now += 1;
            match step {
                Step::Upsert(keys, value, (one, other)) => {
                    let value = value.map(f32::from);
                    for (bed, has) in beds.iter().zip([one || !other, other]) {
                        if has {
                            upsert(bed, &keys, value, at(base, now));
                        }
                    }
                    model.extend(keys.into_iter().map(|key| (key, value)));
                }
                Step::Settle => {
                    let [one, other] = &beds;
                    catch_up(one, other, 0);
                    catch_up(other, one, 0);
                    // What the other one said comes a moment later.
                    for (bed, settled) in beds.iter().zip(&mut settled) {
                        let said = Settled { whole_ms: base + now, foldable_ms: base + *settled };
                        bed.overlay().settle(said);
                        *settled = now;
                    }
                }
                Step::Fold(one, serves, forgets) => {
                    let bed = &mut beds[usize::from(one)];
                    let done = folded(bed, |_| ());
                    if serves && done.as_ref().is_ok_and(Option::is_some) {
                        serve(bed, None);
                        if forgets {
                            forget(bed);
                        }
                    } else if let Ok(Some(_)) = done {
                        std::fs::remove_dir_all(Table::open_version(&bed.dir(), None).unwrap().path()).unwrap();
                    }
                }
                Step::Reopen(one) => beds[usize::from(one)].reopen(),
            }
        }
        let [one, other] = &beds;
        catch_up(one, other, 0);
        catch_up(other, one, 0);
        prop_assert_eq!(&rows(one), &model_rows(&model));
        prop_assert_eq!(&rows(other), &model_rows(&model));
    }
}

#[test]
fn a_limit_below_the_base_leaves_no_key_that_the_base_has() {
    let bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    bed.upsert(&[2], &[7.0; 3]).unwrap();
    let onto = |version, sequence| {
        let base = Arc::new(Table::open_version(&bed.dir(), Some(version)).unwrap());
        let mut wanted = bed.wanted();
        wanted.sequence = sequence;
        fold(base, &bed.dir(), version + 1, &wanted, &|_| true).unwrap()
    };
    bed.upsert(&[3], &[7.0; 3]).unwrap();
    assert!(onto(1, Some(2)).written().is_some());
    let check = |sequence, expected: (u64, bool)| match onto(2, Some(sequence)) {
        FoldVersion::NothingNew {
            base: 2,
            keys_left,
            is_past_limit,
        } => assert_eq!((keys_left, is_past_limit), expected, "up to {sequence}"),
        other => panic!("{other:?}"),
    };
    check(1, (1, true));
    check(2, (1, false));
}

#[test]
fn a_fold_says_of_how_many_keys_the_log_has_more() {
    let base = base_ms();
    let bed = Bed::new(|section| section.segment_bytes_max = 4000);
    let left = |change: &dyn Fn(&mut Fold<'_>), holds: &dyn Fn(u64) -> bool| {
        let mut wanted = bed.wanted();
        change(&mut wanted);
        let first = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
        let next = Table::open_version(&bed.dir(), None).unwrap().version() + 1;
        match fold(first, &bed.dir(), next, &wanted, holds).unwrap() {
            FoldVersion::Written { keys_left, .. } | FoldVersion::NothingNew { keys_left, .. } => keys_left,
            FoldVersion::Had(version) => panic!("version {version} has it"),
        }
    };
    bed.upsert(&[1, 2], &[7.0; 6]).unwrap();
    bed.upsert(&[2, 3], &[8.0; 6]).unwrap();
    bed.remove(&[3, 4]).unwrap();
    // Of 2, 3 and 4; and of 3 and 4 where the last may still fail.
    let up_to = |sequence| move |fold: &mut Fold<'_>| fold.sequence = Some(sequence);
    assert_eq!(left(&up_to(1), &|_| true), 3);
    assert_eq!(left(&|_| (), &|_| true), 2);
    assert_eq!(left(&up_to(1), &|key| key % 2 == 0), 2);
    assert_eq!(
        left(&|fold| (fold.sequence, fold.ttl_ms) = (Some(1), Some(0)), &|_| {
            true
        }),
        0
    );
    // By their time, once each, whatever copies the log has.
    for round in 0..200 {
        upsert(&bed, &[7, 8], Some(1.0), at(base, 60 + round));
    }
    upsert(&bed, &[9], Some(1.0), at(base, 10));
    settle(&bed, base + 100);
    upsert(&bed, &[8, 9], Some(1.0), at(base, 300));
    assert_eq!(left(&|fold| fold.before_ms = Some(base + 50), &|_| true), 3);
}

/// The log notes for itself that a fold serves, in a record of its own.
#[test]
fn a_log_without_new_rows_is_not_folded() {
    let mut bed = Bed::new(|_| ());
    // Without a writer the last record is certain.
    let folded = |bed: &mut Bed| {
        bed.table = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
        folded(bed, |_| ()).unwrap()
    };
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    let done = folded(&mut bed).unwrap();
    bed.reopen();
    forget(&bed);
    bed.reopen();
    assert!(bed.overlay().sequence() > done.sequence);
    assert_eq!(folded(&mut bed), None);
    // The removal of a key that the version does not have takes memory until it is folded.
    bed.reopen();
    bed.remove(&[999]).unwrap();
    assert!(folded(&mut bed).is_some());
}

/// Of a version that is folded further than the log and not served: what is upserted next would be taken for what it has.
#[test]
fn sequences_of_a_version_that_is_not_served_are_not_given_twice() {
    let mut bed = Bed::new(|_| ());
    let log = bed.section.path.clone().unwrap();
    let upsert = |bed: &Bed, key: u64| bed.upsert(&[key], &[1.0; 3]).unwrap().sequence;
    let open = |bed: &mut Bed, version| -> Result<(), Error> {
        let mut table = Table::open_version(&bed.dir(), Some(version))?;
        // The log is free once nobody has the overlay.
        bed.table = Arc::new(Table::open_version(&bed.dir(), Some(version))?);
        let (overlay, _) = Overlay::open_on(Arc::new(RealDisk), &bed.section, &table, QUEUE_BYTES)?;
        table.see(&overlay)?;
        bed.table = Arc::new(table);
        Ok(())
    };
    upsert(&bed, 1);
    bed.reopen();
    let segment = millpond_wal::segment_path(&log, 1);
    let short = std::fs::read(&segment).unwrap();
    for key in 2..6 {
        upsert(&bed, key);
    }
    bed.reopen();
    let done = folded(&bed, |_| ()).unwrap().unwrap();
    bed.table = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
    // A log that was cut, beside the version before.
    std::fs::write(&segment, short).unwrap();
    let refused = open(&mut bed, 1).unwrap_err().to_string();
    assert!(refused.contains("and version 2 has it folded up to"), "{refused}");
    std::fs::remove_file(&segment).unwrap();
    open(&mut bed, 2).unwrap();
    assert!(upsert(&bed, 7) > done.sequence);
}
