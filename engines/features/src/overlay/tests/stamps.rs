//! Upserts that went to several servers: replicas end with the same rows, and take from each other what they miss.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

pub(super) fn stamp(time: u64) -> Stamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Stamp {
        time: ((now.as_millis() as u64) << 16) + time,
        origin: 1,
    }
}

/// An upsert of some keys, or their removal, where it is made at all.
pub(super) fn upsert(bed: &Bed, keys: &[u64], value: Option<f32>, stamp: Stamp) -> Upserted {
    let (written, removed) = match value {
        Some(_) => (keys.to_vec(), vec![]),
        None => (vec![], keys.to_vec()),
    };
    let values = vec![value.unwrap_or_default(); written.len() * 3];
    let upsert = Upsert::new(&bed.table, written, &[] as &[&str], &values, removed).unwrap();
    bed.overlay().upsert_wait(upsert.stamped(stamp)).unwrap()
}

pub(super) fn rows(bed: &Bed) -> Vec<Option<[f32; 3]>> {
    (0..30).map(|key| looked_up(&bed.table, key)).collect()
}

/// Takes all that `from` has written behind a sequence, in pages of a few rows; how many rows those were.
pub(super) fn catch_up(bed: &Bed, from: &Bed, since: u64) -> usize {
    let (mut position, mut count) = (Some(0), 0);
    while let Some(at) = position {
        let page = from.overlay().fresh_page(since, at, (2, usize::MAX), |_| true);
        count += page.rows.len();
        for fresh in page.rows {
            let rows = fresh.row.as_deref().unwrap_or_default().to_vec();
            let layout = from.overlay().layout();
            let upsert = Upsert::of_stored(&bed.table, layout, vec![fresh.key], rows, fresh.stamp);
            bed.overlay().upsert_wait(upsert.unwrap()).unwrap();
        }
        assert!(page.next.is_none_or(|next| next > at));
        position = page.next;
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn replicas_end_alike_whatever_the_order_and_what_they_missed(
        upserts in prop::collection::vec((prop::collection::vec(0..30_u64, 1..6), prop::option::of(-9_i8..9), any::<(bool, bool)>()), 1..40),
        order in any::<u64>(),
    ) {
        let base = stamp(0).time;
        let (mut one, mut other) = (Bed::new(|_| ()), Bed::new(|_| ()));
        let of = |time: usize| Stamp { time: base + time as u64, origin: 1 };
        let mut shuffled: Vec<usize> = (0..upserts.len()).collect();
        shuffled.sort_by_key(|at| crate::hash::hash(order ^ *at as u64));
        for (at, (keys, value, (has_one, has_other))) in upserts.iter().enumerate() {
            if *has_one || !has_other {
                upsert(&one, keys, value.map(f32::from), of(at));
            }
        }
        for at in shuffled {
            let (keys, value, (_, has_other)) = &upserts[at];
            if *has_other {
                upsert(&other, keys, value.map(f32::from), of(at));
            }
        }
        catch_up(&one, &other, 0);
        catch_up(&other, &one, 0);
        let expected = rows(&one);
        prop_assert_eq!(&rows(&other), &expected);
        one.reopen();
        other.reopen();
        prop_assert_eq!(&rows(&one), &expected);
        prop_assert_eq!(&rows(&other), &expected);
        // There is nothing new.
        let (before, after) = (one.overlay().sequence(), other.overlay().sequence());
        catch_up(&one, &other, 0);
        catch_up(&other, &one, 0);
        prop_assert_eq!((one.overlay().sequence(), other.overlay().sequence()), (before, after));
        prop_assert_eq!(catch_up(&one, &other, after), 0);
    }
}

#[test]
fn a_newer_row_stays_and_is_named() {
    let mut bed = Bed::new(|_| ());
    let (older, newer) = (stamp(1), stamp(2));
    assert_eq!(upsert(&bed, &[1, 2], Some(5.0), newer).newer, Stamp::default());
    let done = upsert(&bed, &[1, 3], Some(7.0), older);
    assert_eq!((done.newer, done.sequence), (newer, 2));
    let nothing = upsert(&bed, &[1, 2], None, older);
    assert_eq!(
        (nothing.newer, nothing.sequence),
        (newer, 2),
        "there is nothing to write"
    );
    for reopened in [false, true] {
        if reopened {
            bed.reopen();
        }
        bed.check(1, Some([5.0; 3]));
        bed.check(2, Some([5.0; 3]));
        bed.check(3, Some([7.0; 3]));
        assert_eq!(bed.overlay().newest(), newer.time);
    }
    assert!(!stamp(0).is_ahead(SystemTime::now()));
    let ahead = SystemTime::now() - Stamp::AHEAD_MAX - Duration::from_secs(1);
    assert!(stamp(0).is_ahead(ahead));
}

#[test]
fn rows_of_another_layout_are_refused() {
    let bed = Bed::new(|_| ());
    let of = |layout, rows: usize| Upsert::of_stored(&bed.table, layout, vec![1], vec![0; rows], stamp(0));
    let (layout, row_bytes) = (bed.overlay().layout(), schema().row_bytes());
    assert!(of(layout, row_bytes).is_ok() && of(layout, 0).is_ok());
    for (layout, rows) in [
        (layout ^ 1, row_bytes),
        (layout, row_bytes - 1),
        (layout, row_bytes * 2),
    ] {
        assert!(of(layout, rows).is_err());
    }
}
