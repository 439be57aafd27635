//! What failures, crowded places and rows of few columns must not do to an overlay.

use millpond_wal::Work as _;

use super::super::index::Entry;
use super::super::record::{FORMAT, LogRecord, Written};
use super::super::seed::fixed;
use super::super::upsert::Job;
use super::*;
use crate::hash::hash;

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
        said: LogRecord::Upsert {
            time_ms: 1,
            stamp: Stamp::default(),
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
        said: LogRecord::Expired {
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
fn an_upsert_is_answered_before_the_sync_that_its_interval_has() {
    let (disk, shared) = FailingDisk::new();
    let bed = Bed::on(shared, |section| section.sync_every_ms = Some(1));
    disk.shut_gate();
    let done = bed.upsert(&[1], &[1.0; 3]).unwrap();
    assert_eq!(done.durability, Durability::Logged);
    bed.check(1, Some([1.0; 3]));
    disk.wait_for_sync();
    disk.open_gate();
}

#[test]
fn a_fold_that_ends_in_a_note_is_served() {
    let mut bed = Bed::new(|_| ());
    for value in [1.0, 2.0, 3.0] {
        bed.upsert(&[1], &[value; 3]).unwrap();
    }
    // Up to the last but one; then that is said, and one upsert more.
    assert_eq!(bed.fold().unwrap().sequence, 2);
    bed.upsert(&[1], &[4.0; 3]).unwrap();
    assert_eq!(bed.fold().unwrap().sequence, 4);
    bed.check(1, Some([4.0; 3]));
}

#[test]
fn keys_at_the_end_of_the_hashes_take_no_more_places_than_others() {
    let seed = fixed(0);
    let (index, mut writer) = Index::with_seed(seed, 1);
    let lies_last = |key: &u64| seed.mix(hash(*key)).0 >> 55 == (1 << 9) - 1;
    let keys: Vec<u64> = (0..).filter(lies_last).take(1000).collect();
    for &key in &keys {
        writer.put(&Entry {
            key,
            sequence: 1,
            written_ms: 0,
            stamp: Stamp::default(),
            row: None::<Vec<u8>>,
        });
    }
    assert!(keys.iter().all(|key| writer.get(*key).is_some()));
    assert_eq!(index.len(), 1000);
}

#[test]
fn a_scan_begun_in_another_process_misses_no_key_of_the_overlay() {
    let bed = Bed::new(|_| ());
    let keys: Vec<u64> = (1000..1100).collect();
    bed.upsert(&keys, &vec![1.0; keys.len() * 3]).unwrap();
    let pages = |from: u64| {
        let (mut scanned, mut positions, mut at) = (Vec::new(), vec![], Some(from));
        while let Some(position) = at {
            positions.push(position);
            at = bed.table.scan(position, 7, &mut scanned);
        }
        scanned.retain(|key| *key >= 1000);
        scanned.sort_unstable();
        (scanned, positions)
    };
    let (scanned, positions) = pages(0);
    assert_eq!(scanned, keys);
    let last = *positions.last().unwrap();
    assert!(pages(last).0.len() < 10);
    // The order was another, of which it says nothing here.
    let of_another = last ^ (1 << 30);
    assert_eq!(pages(of_another).0, keys);
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

#[test]
fn what_is_gone_of_a_mapped_file_becomes_no_row() {
    const ROWS: u64 = 20_000;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("films");
    let mut writer = Writer::create(&dir, "films", 1, schema(), 1).unwrap();
    (0..ROWS).for_each(|key| writer.push(key, &base_row(key)).unwrap());
    let version = writer.finish().unwrap().path;
    let mut table = Table::open(&version).unwrap();
    table.make_mapped().unwrap();
    let section = OverlaySection {
        durability: Durability::Memory,
        ..OverlaySection::default()
    };
    let (overlay, _) = Overlay::open(&section, &table, QUEUE_BYTES).unwrap();
    table.see(&overlay).unwrap();
    let table = Arc::new(table);
    let write = |columns: &[&str], values: &[f32]| {
        let upsert = Upsert::new(&table, vec![7, 8], columns, values, vec![]);
        overlay.upsert_wait(upsert.unwrap())
    };
    write(&["b"], &[1.0; 2]).unwrap();
    let file = std::fs::File::options()
        .write(true)
        .open(version.join("shard-00000.mpf"));
    file.unwrap().set_len(0).unwrap();
    let upsert = Upsert::new(&table, vec![ROWS - 1], &["b"], &[1.0], vec![]);
    let refused = overlay.upsert_wait(upsert.unwrap()).unwrap_err();
    assert!(matches!(refused, UpsertError::Base(_)), "{refused}");
    assert_eq!(write(&[], &[2.0; 6]).unwrap().sequence, 2);
    assert_eq!(overlay.len(), 2);
}

#[test]
fn a_page_of_a_scan_walks_over_few_places() {
    let bed = Bed::new(|_| ());
    let keys: Vec<u64> = (1000..61_000).collect();
    bed.upsert(&keys, &vec![1.0; keys.len() * 3]).unwrap();
    bed.remove(&keys[..59_990]).unwrap();
    let (mut scanned, mut pages, mut at) = (Vec::new(), 0, Some(0));
    while let Some(position) = at {
        at = bed.table.scan(position, 1, &mut scanned);
        pages += 1;
    }
    scanned.sort_unstable();
    let expected: Vec<u64> = (0..10).chain(60_990..61_000).collect();
    assert_eq!(scanned, expected);
    assert!(pages > 50, "{pages}");
}

#[test]
fn a_fold_of_one_nodes_keys_leaves_out_the_others() {
    let bed = Bed::new(|_| ());
    bed.upsert(&[1, 2, 101, 102], &[9.0; 12]).unwrap();
    bed.remove(&[3, 4]).unwrap();
    bed.upsert(&[7], &[9.0; 3]).unwrap();
    let fold_of = bed.wanted();
    let base = Arc::new(Table::open_version(&bed.dir(), None).unwrap());
    let folded = fold(base, &bed.dir(), 2, &fold_of, &|key| key % 2 == 0);
    assert_eq!(folded.unwrap().written().unwrap().1.sequence, 2);
    let table = Table::open_version(&bed.dir(), Some(2)).unwrap();
    let rows = [1, 2, 3, 4, 101, 102].map(|key| looked_up(&table, key));
    let fresh = Some([9.0; 3]);
    let expected = [Some(base_row(1)), fresh, Some(base_row(3)), None, None, fresh];
    assert_eq!(rows, expected);
}

#[test]
fn a_fold_is_taken_out_however_many_upserts_wait() {
    let (disk, shared) = FailingDisk::new();
    let bed = Bed::on(shared, |section| {
        section.durability = Durability::Synced;
        section.queue_max = 1;
    });
    for key in [1, 2] {
        bed.upsert(&[key], &[1.0; 3]).unwrap();
    }
    let upsert = |key: u64, sender: &std::sync::mpsc::SyncSender<_>| {
        let upsert = Upsert::new(&bed.table, vec![key], &[] as &[&str], &[2.0; 3], vec![]);
        let sender = sender.clone();
        bed.overlay()
            .upsert(upsert.unwrap(), move |result| sender.send(result).unwrap());
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel(8);
    disk.shut_gate();
    upsert(3, &sender);
    disk.wait_for_sync();
    // One waits, and there is no room for another.
    upsert(4, &sender);
    upsert(5, &sender);
    assert!(matches!(receiver.recv().unwrap(), Err(UpsertError::Queue(_))));
    let folded = Folded {
        history: bed.overlay().history,
        sequence: 2,
        before_ms: 0,
    };
    std::thread::scope(|scope| {
        let taken_out = scope.spawn(|| bed.overlay().forget(folded));
        disk.open_gate();
        taken_out.join().unwrap().unwrap();
    });
    assert_eq!(
        (receiver.recv().unwrap().is_ok(), receiver.recv().unwrap().is_ok()),
        (true, true)
    );
    assert_eq!(bed.overlay().len(), 2);
}

/// A fold that is repeated before its version serves writes no second one, and one that differs does.
#[test]
fn a_repeated_fold_finds_the_version_of_the_first() {
    let mut bed = Bed::new(|_| ());
    bed.upsert(&[1, 100], &[7.0; 6]).unwrap();
    bed.remove(&[2, 200]).unwrap();
    bed.upsert(&[3], &[8.0; 3]).unwrap();
    let next = |bed: &Bed, change: &dyn Fn(&mut Fold<'_>), holds: &dyn Fn(u64) -> bool| {
        let mut wanted = bed.wanted();
        change(&mut wanted);
        let base = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
        let highest = Table::open_version(&bed.dir(), None).unwrap().version();
        match fold(base, &bed.dir(), highest + 1, &wanted, holds).unwrap() {
            FoldVersion::Written { summary, .. } => (true, summary.version),
            FoldVersion::Had(version) => (false, version),
            FoldVersion::NothingNew { base, .. } => (false, base),
        }
    };
    let repeated = |bed: &Bed| next(bed, &|_| (), &|_| true);
    assert_eq!(repeated(&bed), (true, 2));
    assert_eq!(repeated(&bed), (false, 2));
    assert_eq!(next(&bed, &|fold| fold.sequence = Some(2), &|_| true), (false, 2));
    // Less of the log, keys of one node alone, other files, and all of it again.
    assert_eq!(next(&bed, &|fold| fold.sequence = Some(1), &|_| true), (true, 3));
    assert_eq!(repeated(&bed), (true, 4));
    assert_eq!(next(&bed, &|_| (), &|key| key % 2 == 0), (true, 5));
    assert_eq!(next(&bed, &|fold| fold.shards = 2, &|_| true), (true, 6));
    assert_eq!(repeated(&bed), (true, 7));
    // Rows that are too old are left out where that is said.
    let old = |fold: &mut Fold<'_>| fold.ttl_ms = Some(0);
    assert_eq!(next(&bed, &old, &|_| true), (false, 1));
    // Without a writer the last upsert is certain, and with one again it is not.
    bed.table = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
    assert_eq!(repeated(&bed), (true, 8));
    bed.table = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
    let (overlay, _) = Overlay::open(&bed.section, &bed.table, QUEUE_BYTES).unwrap();
    assert_eq!(repeated(&bed), (false, 8));
    assert_eq!(next(&bed, &|fold| fold.sequence = Some(2), &|_| true), (true, 9));
    drop(overlay);
    // A version that was built from elsewhere has none of it, and a damaged one is none.
    let build = Writer::create(&bed.dir(), "films", 10, schema(), 1).unwrap();
    build.finish().unwrap();
    assert_eq!(repeated(&bed), (true, 11));
    std::fs::write(bed.dir().join("00000011/manifest.json"), "{}").unwrap();
    let base = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
    let done = fold(base, &bed.dir(), 12, &bed.wanted(), &|_| true).unwrap();
    assert!(done.written().is_some());
}
