//! What failures, crowded places and rows of few columns must not do to an overlay.

use millpond_wal::Work as _;

use super::super::index::Entry;
use super::super::record::{Said, Written};
use super::super::upsert::Job;
use super::*;
use crate::hash::key_of;

#[test]
fn a_log_that_failed_is_written_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, shared) = FailingDisk::new();
    let read = || millpond_wal::read(&FORMAT, dir.path(), &mut |_, history| Ok(history));
    let mut begun = read().unwrap();
    begun.begin_at(1, 9);
    let mut log = Log::open(&FORMAT, shared, dir.path(), Durability::Synced, 300, &begun).unwrap();
    let keys = [7; 160];
    let upsert = Written {
        said: Said::Upsert {
            time_ms: 1,
            layout: 1,
            row_bytes: 0,
            keys: &keys,
            rows: &[],
        },
        history: 9,
    };
    assert!(log.append(&[&upsert]).is_ok());
    disk.plan(Plan {
        fail_sync_dir: true,
        ..Plan::default()
    });
    assert!(log.append(&[&upsert]).is_err(), "the next segment is in doubt");
    disk.plan(Plan::default());
    let expired = Written {
        said: Said::Expired {
            time_ms: 2,
            written_ms: 1,
        },
        history: 9,
    };
    // It would fit into the segment before.
    assert!(log.append(&[&expired]).is_err());
    assert_eq!(read().unwrap().next_sequence, 2);
}

#[test]
fn a_fold_that_ends_in_a_note_is_served() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1], &[1.0; 3]).unwrap();
    let nothing = Folded {
        history: bed.overlay().history,
        sequence: 0,
    };
    bed.overlay().forget(nothing).unwrap();
    bed.overlay().forget(nothing).unwrap();
    assert_eq!(bed.fold().unwrap().sequence, 2);
    bed.check(1, Some([1.0; 3]));
}

#[test]
fn keys_at_the_end_of_the_hashes_take_no_more_places_than_others() {
    let (index, mut writer) = Index::new();
    let keys: Vec<u64> = (0..1000).map(|back| key_of(u64::MAX - back)).collect();
    for &key in &keys {
        writer.put(Entry {
            key,
            sequence: 1,
            written_ms: 0,
            row: None,
        });
    }
    let is_there = |key: &u64| {
        index
            .pin()
            .find(*key, crate::hash::hash(*key), |entry| entry.is_some())
    };
    assert!(keys.iter().all(is_there));
    assert_eq!(index.len(), 1000);
}

#[test]
fn rows_of_some_columns_wait_as_what_they_will_be() {
    let bed = Bed::new(|_| ());
    let bytes = |columns: &[&str], values: &[f32]| {
        let upsert = Upsert::new(&bed.table, vec![1, 2], columns, values, vec![3]);
        Job::Upsert(upsert.unwrap()).bytes()
    };
    assert_eq!(bytes(&["b"], &[1.0; 2]), bytes(&[], &[1.0; 6]));
}
