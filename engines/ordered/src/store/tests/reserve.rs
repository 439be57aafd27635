//! Zeros behind the last group: they make syncs cheap, and nobody takes them for anything else.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::bed::{Bed, HEADER_BYTES, contents, one, put_record_bytes};
use super::*;
use millpond_wal::faults::failing::Plan;
use std::fs;

fn file_bytes(bed: &Bed) -> u64 {
    fs::metadata(bed.last_segment()).unwrap().len()
}

#[test]
fn a_file_does_not_grow_with_each_group_and_ends_with_the_last_one() {
    let bed = Bed::new(Options::default());
    bed.store.write_wait(one("k0", "value")).unwrap();
    let (reserved, before) = (file_bytes(&bed), bed.disk.counts());
    for at in 1..10 {
        bed.store.write_wait(one(&format!("k{at}"), "value")).unwrap();
    }
    assert_eq!(
        (file_bytes(&bed), bed.disk.counts().writes - before.writes),
        (reserved, 9)
    );
    let groups = HEADER_BYTES + 10 * put_record_bytes(&one("k0", "value"));
    assert!(reserved > 1 << 20);
    let last = bed.last_segment();
    bed.store.close().unwrap();
    assert_eq!(fs::metadata(last).unwrap().len(), groups as u64);
}

#[test]
fn a_segment_that_is_full_ends_with_its_last_group() {
    let bed = Bed::new(Options {
        segment_bytes_max: 300,
        ..Options::default()
    });
    let first = bed.last_segment();
    while bed.last_segment() == first {
        bed.store.write_wait(one("key", "value")).unwrap();
        assert!(file_bytes(&bed) <= 300);
    }
    let record = put_record_bytes(&one("key", "value"));
    let groups = (300 - HEADER_BYTES) / record * record;
    assert_eq!(fs::metadata(first).unwrap().len(), (HEADER_BYTES + groups) as u64);
}

/// Its process ends there, whole groups and zeros behind them, or a group that was torn.
#[test]
fn what_a_kill_leaves_is_read_up_to_the_zeros() {
    let bed = Bed::new(Options::default());
    for at in 0..3 {
        bed.store.write_wait(one(&format!("k{at}"), "value")).unwrap();
    }
    let (bytes, expected) = (fs::read(bed.last_segment()).unwrap(), contents(&bed.store));
    let groups = HEADER_BYTES + 3 * put_record_bytes(&one("k0", "value"));
    for torn in [0, 1, 20] {
        let killed = tempfile::tempdir().unwrap();
        let mut bytes = bytes.clone();
        bytes[groups..groups + torn].fill(7);
        let log = killed.path().join(bed.last_segment().file_name().unwrap());
        fs::write(&log, bytes).unwrap();
        let (store, recovery) = Store::open(killed.path(), Options::default()).unwrap();
        assert_eq!((contents(&store), recovery.records), (expected.clone(), 3));
        assert_eq!(recovery.torn_tail.map_or(0, |tail| tail.bytes), torn as u64);
        assert_eq!(fs::metadata(&log).unwrap().len(), groups as u64);
        store.write_wait(one("k3", "value")).unwrap();
        store.close().unwrap();
        let (store, recovery) = Store::open(killed.path(), Options::default()).unwrap();
        assert_eq!((store.len(), recovery.torn_tail), (4, None));
    }
}

#[test]
fn a_group_that_fits_a_full_disk_is_kept_though_no_zeros_do() {
    let bed = Bed::new(Options::default());
    for (at, left) in [0, 1, 5000].into_iter().enumerate() {
        let put = one(&format!("k{at}"), "value");
        bed.disk.plan(Plan {
            bytes_left: Some(put_record_bytes(&put) + left),
            ..Plan::default()
        });
        bed.store.write_wait(put).unwrap();
    }
    let expected = contents(&bed.store);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((contents(&store), recovery.torn_tail), (expected, None));
}

/// Who reads beside a writer has read zeros where groups are by now.
#[test]
fn groups_that_came_over_zeros_which_were_read_are_no_damage() {
    let bed = Bed::new(Options::default());
    let mut bytes = Vec::new();
    for at in 0..5 {
        bed.store.write_wait(one(&format!("k{at}"), "value")).unwrap();
        bytes.push(fs::read(bed.last_segment()).unwrap());
    }
    let read = tempfile::tempdir().unwrap();
    let log = read.path().join(bed.last_segment().file_name().unwrap());
    fs::write(&log, &bytes[2]).unwrap();
    let mut records = 0;
    let recovered = millpond_wal::read(&crate::record::FORMAT, read.path(), &mut |_, number| {
        records += 1;
        if records == 3 {
            // In place, as a writer does.
            let file = fs::File::options().write(true).open(&log).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes[4], 0).unwrap();
        }
        Ok(number + 1)
    });
    let recovered = recovered.unwrap();
    assert_eq!((recovered.records, recovered.torn_tail), (3, None));
}
