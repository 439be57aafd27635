//! What a version does not show of the upserts that were folded into others.

use super::stamps::upsert;
use super::*;

/// Serves the highest version over the log, and takes what it has out of the overlay.
fn serve_highest(bed: &mut Bed) {
    bed.reopen();
    let folded = bed.overlay().folded_in(&bed.table);
    bed.overlay().forget(folded).unwrap();
}

/// Folds onto the highest version, with nobody at the log.
fn folded(bed: &mut Bed, change: impl FnOnce(&mut Fold<'_>)) {
    let base = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    bed.table = Arc::clone(&base);
    let mut wanted = bed.wanted();
    change(&mut wanted);
    let next = base.version() + 1;
    fold(base, &bed.dir(), next, &wanted, &|_| true)
        .unwrap()
        .written()
        .unwrap();
}

fn open(bed: &Bed, version: u64) -> Table {
    Table::open_version(&bed.dir(), Some(version)).unwrap()
}

#[test]
fn what_was_folded_elsewhere_and_left_the_overlay_is_hidden() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    bed.upsert(&[2], &[7.0; 3]).unwrap();
    folded(&mut bed, |_| ());
    bed.reopen();
    let check = |bed: &Bed, version, expected: Option<(u64, u64, u64)>| {
        let table = open(bed, version);
        let found = hidden_by(&table, Some(bed.overlay()), 9);
        let found = found.map(|found| {
            assert_eq!((found.version, found.is_certain), (version, true));
            (*found.sequences().start(), *found.sequences().end(), found.within)
        });
        assert_eq!(found, expected, "version {version}");
    };
    // It was opened over the fold, so the log has given it up.
    check(&bed, 1, Some((1, 2, 2)));
    check(&bed, 2, None);
    // A delta on the version before the fold hides it, whatever its number; one on the fold does not, and nor does a whole build.
    Writer::create_delta(&bed.dir(), 3, Arc::new(open(&bed, 1)), 1)
        .unwrap()
        .finish()
        .unwrap();
    Writer::create_delta(&bed.dir(), 4, Arc::new(open(&bed, 2)), 1)
        .unwrap()
        .finish()
        .unwrap();
    Writer::create(&bed.dir(), "films", 5, schema(), 1)
        .unwrap()
        .finish()
        .unwrap();
    check(&bed, 3, Some((1, 2, 4)));
    check(&bed, 4, None);
    check(&bed, 5, None);
    // Without a log to ask, a version that never served hides nothing; nor is anything hidden that no version has.
    let unasked = |version, served_max| hidden_by(&open(&bed, version), None, served_max);
    assert_eq!(unasked(1, 1), None);
    assert!(unasked(1, 2).is_some_and(|found| found.within == 2 && !found.is_certain));
    for version in [4, 2] {
        std::fs::remove_dir_all(open(&bed, version).path()).unwrap();
    }
    check(&bed, 1, None);
}

#[test]
fn a_compaction_hides_what_the_versions_hide_that_it_was_made_of() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    folded(&mut bed, |_| ());
    bed.reopen();
    let compact = |of: u64, version: u64| {
        crate::write::compact(&open(&bed, of), &bed.dir(), version, 1, 1 << 20).unwrap();
    };
    // Of the version before the fold, of that once more, and of the fold.
    compact(1, 3);
    compact(3, 4);
    compact(2, 5);
    // A delta on such a one is as that is.
    Writer::create_delta(&bed.dir(), 6, Arc::new(open(&bed, 4)), 1)
        .unwrap()
        .finish()
        .unwrap();
    for (version, hides) in [(3, true), (4, true), (5, false), (6, true)] {
        let found = hidden_by(&open(&bed, version), Some(bed.overlay()), 9);
        assert_eq!(
            found.map(|found| found.sequences()),
            hides.then_some(1..=1),
            "version {version}"
        );
        let on_disk = hidden_by_version(&bed.dir(), version, 9).unwrap();
        assert_eq!(on_disk.is_some(), hides, "version {version}");
    }
    assert_eq!(hidden_by_version(&bed.dir(), 1, 1).unwrap(), None);
    assert!(hidden_by_version(&bed.dir(), 9, 9).is_err());
}

#[test]
fn upserts_over_nodes_are_hidden_by_their_time() {
    let mut bed = Bed::new(|_| ());
    let made = |ms: u64| Stamp {
        time: (1_000_000 + ms) << 16,
        origin: 1,
    };
    for (before_ms, stamp) in [(1_000_050, made(10)), (1_000_100, made(60))] {
        upsert(&bed, &[1], Some(7.0), stamp);
        bed.overlay().settle(Settled {
            whole_ms: before_ms,
            foldable_ms: before_ms,
        });
        // It stands behind the record that says so.
        upsert(&bed, &[9], Some(7.0), made(500));
        folded(&mut bed, |fold| fold.before_ms = Some(before_ms));
        serve_highest(&mut bed);
    }
    let said = |version| {
        let hidden = hidden_by(&open(&bed, version), Some(bed.overlay()), 3);
        hidden.map(|hidden| hidden.to_string()).unwrap_or_default()
    };
    assert!(
        said(1).starts_with(
            "version 1 hides the upserts over nodes that were made before 1000100 ms of Unix time: they were folded into version 3, "
        ),
        "{}",
        said(1)
    );
    assert!(
        said(2).contains("before 1000100 ms of Unix time and not before 1000050: "),
        "{}",
        said(2)
    );
    assert_eq!(said(3), "");
}

#[test]
fn what_only_one_version_has_is_lost_without_it() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[7.0; 3]).unwrap();
    bed.upsert(&[2], &[7.0; 3]).unwrap();
    folded(&mut bed, |_| ());
    let check = |bed: &Bed, version, expected: Option<(u64, &str)>| {
        let lost = lost_without(&bed.dir(), version, Some(bed.overlay()), 9);
        let found = lost.map(|lost| (lost.version, lost.to_string()));
        let expected = expected.map(|(version, upserts)| {
            let said = format!(
                "version {version} is the only one that has the upserts of {upserts}, which are not in the overlay any more"
            );
            (version, said)
        });
        assert_eq!(found, expected, "without version {version}");
    };
    // It was opened over version 1, so the log has all of it still.
    let mut base = open(&bed, 1);
    let (overlay, _) = Overlay::open_on(Arc::new(RealDisk), &bed.section, &base, QUEUE_BYTES).unwrap();
    base.see(&overlay).unwrap();
    drop(overlay);
    bed.table = Arc::new(base);
    check(&bed, 2, None);
    bed.reopen();
    check(&bed, 2, Some((2, "2 sequences of the log (1 to 2)")));
    check(&bed, 1, None);
    check(&bed, 9, None);
    // Without a log to ask: only what may have served.
    assert_eq!(lost_without(&bed.dir(), 2, None, 1), None);
    let unasked = lost_without(&bed.dir(), 2, None, 2).unwrap();
    assert!(!unasked.is_certain);
    assert!(
        unasked
            .deleted()
            .contains("(1 to 2), and if a server served version 2 meanwhile"),
        "{}",
        unasked.deleted()
    );
    // Of a second fold the first has a part, and a compaction of the second has all.
    bed.upsert(&[3], &[7.0; 3]).unwrap();
    folded(&mut bed, |_| ());
    bed.reopen();
    check(&bed, 2, None);
    // One of the two is the log's own, which says what it gave up.
    check(&bed, 3, Some((3, "2 sequences of the log (3 to 4)")));
    crate::write::compact(&open(&bed, 3), &bed.dir(), 4, 1, 1 << 20).unwrap();
    check(&bed, 3, None);
    check(&bed, 4, None);
    std::fs::remove_dir_all(open(&bed, 3).path()).unwrap();
    check(&bed, 4, Some((4, "2 sequences of the log (3 to 4)")));
    // The sources of a version that is built whole are to have it.
    Writer::create(&bed.dir(), "films", 5, schema(), 1)
        .unwrap()
        .finish()
        .unwrap();
    check(&bed, 4, None);
}
