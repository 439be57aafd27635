//! Lists in groups, and large ones.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::bed::{Bed, one};
use super::*;
use crate::{Batch, Effect, Kind, LIST_BYTES_MAX, Operation};
use millpond_wal::faults::failing::Plan;

fn append(key: &str, items: &[&str], keep: u32) -> Operation {
    Operation::Append {
        key: key.into(),
        items: items.iter().map(|item| item.as_bytes().to_vec()).collect(),
        keep: Some(keep),
        ttl_ms: None,
    }
}

fn trim(key: &str, start: i64, stop: i64) -> Operation {
    let key = key.into();
    Operation::Trim { key, start, stop }
}

fn concatenate(key: &str, value: &str) -> Operation {
    Operation::Concatenate {
        key: key.into(),
        value: value.into(),
    }
}

fn all(store: &Store, key: &str) -> Vec<String> {
    let items = store.items(key.as_bytes(), 0, -1, usize::MAX).unwrap();
    items
        .into_iter()
        .map(|item| String::from_utf8(item).unwrap())
        .collect()
}

/// A group whose writes change the same keys one behind the other.
fn meet(bed: &Bed) {
    bed.hold_with(0, one("a", "0"));
    let batch = |operations: &[Operation]| Batch::of(operations.to_vec());
    bed.write(1, batch(&[append("l", &["1", "2"], 9), concatenate("a", "1")]))
        .unwrap();
    bed.write(2, batch(&[append("l", &["3", "4"], 3)])).unwrap();
    bed.write(3, batch(&[trim("l", 0, 1), concatenate("a", "2")]))
        .unwrap();
    bed.write(4, batch(&[append("a", &["x"], 1)])).unwrap();
    bed.write(5, batch(&[trim("l", 5, 6), append("l", &["5"], 9)]))
        .unwrap();
    bed.write(6, batch(&[append("l", &["6"], 9)])).unwrap();
}

#[test]
fn writes_of_a_group_see_lists_as_those_before_left_them() {
    let bed = Bed::new(Options::default());
    meet(&bed);
    bed.disk.open_gate();
    let answers: Vec<_> = bed.collect(7).into_iter().map(|(_, answer)| answer).collect();
    let effects = |at: usize| answers[at].as_ref().unwrap().effects.clone();
    let listed = |count, version| Effect::Listed { count, version };
    let joined = |bytes, version| Effect::Concatenated { bytes, version };
    assert_eq!(effects(1), [listed(2, 2), joined(2, 3)]);
    assert_eq!(effects(2), [listed(3, 4)]);
    assert_eq!(effects(3), [listed(2, 5), joined(3, 6)]);
    let refused = answers[4].as_ref().unwrap_err().to_string();
    assert!(refused.starts_with("wrong kind of value: key \"a\""), "{refused}");
    assert_eq!(effects(5), [listed(0, 0), listed(1, 8)]);
    assert_eq!(effects(6), [listed(2, 9)]);
    let check = |store: &Store| {
        assert_eq!(all(store, "l"), ["6", "5"]);
        assert_eq!(store.get(b"a").unwrap().value, b"012");
    };
    check(&bed.store);
    let (closed, store, ..) = bed.reopen();
    closed.unwrap();
    check(&store);
}

#[test]
fn a_failed_group_leaves_lists_as_they_were() {
    let bed = Bed::new(Options::default());
    bed.store
        .write_wait(Batch::of(vec![append("l", &["0"], 9)]))
        .unwrap();
    let memory_bytes = bed.store.entry_bytes();
    meet(&bed);
    bed.disk.plan(Plan {
        bytes_left: Some(60),
        ..Plan::default()
    });
    bed.disk.open_gate();
    for (number, answer) in bed.collect(7).into_iter().skip(1) {
        let error = answer.unwrap_err();
        assert!(matches!(error, WriteError::Storage(_)), "{number}: {error}");
    }
    assert_eq!(all(&bed.store, "l"), ["0"]);
    assert_eq!(bed.store.get(b"a").map(|found| found.value), Some(b"0".to_vec()));
    assert_eq!(bed.store.entry_bytes(), memory_bytes + 48 + 2);
}

/// The log gets what is added, and a batch copies the list once: ten thousand copies of 1 MiB would be 10 GB.
#[test]
fn a_long_list_is_not_written_anew_for_each_item() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let options = Options {
        durability: Durability::Logged,
        ..Options::default()
    };
    let (store, _) = Store::open(&dir, options.clone()).unwrap();
    let chunk = "x".repeat(1 << 17);
    for _ in 0..7 {
        store
            .write_wait(Batch::of(vec![append("l", &[&chunk], u32::MAX)]))
            .unwrap();
    }
    let log_bytes = || -> u64 {
        let files = std::fs::read_dir(&dir).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let before = log_bytes();
    let operations = (0..10_000).flat_map(|_| [append("l", &["event"], 9_000), concatenate("t", "event")]);
    let operations: Vec<Operation> = operations.take(10_000).collect();
    let written = store.write_wait(Batch::of(operations)).unwrap();
    assert_eq!(
        written.effects.last(),
        Some(&Effect::Concatenated {
            bytes: 25_000,
            version: 10_007
        })
    );
    assert!(log_bytes() - before < 10_000 * 64, "{}", log_bytes() - before);
    // What takes it over the limit of a value is refused, and changes nothing.
    let full = store.write_wait(Batch::of(vec![
        append("l", &[&chunk], u32::MAX),
        append("l", &[&chunk], u32::MAX),
    ]));
    let error = full.unwrap_err();
    assert!(
        matches!(&error, WriteError::TooLarge { what: "bytes of a list", found, max: LIST_BYTES_MAX } if *found > LIST_BYTES_MAX),
        "{error}"
    );
    let before = (store.inspect(&["l", "t"]), store.entry_bytes());
    assert_eq!(before.0[0].count, Some(5007));
    store.close().unwrap();
    let (store, _) = Store::open(&dir, options).unwrap();
    assert_eq!((store.inspect(&["l", "t"]), store.entry_bytes()), before);
    assert_eq!(all(&store, "l").last(), Some(&chunk));
    // Several such lists in one batch are more than it may copy.
    let keys: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    for key in &keys {
        let appended = append(key, &[chunk.as_str(); 7], 9);
        store.write_wait(Batch::of(vec![appended])).unwrap();
    }
    let error = store
        .write_wait(Batch::of(keys.iter().map(|key| trim(key, 0, 0)).collect()))
        .unwrap_err();
    assert!(error.to_string().contains("that it changes in part"), "{error}");
}

#[test]
fn items_count_as_bytes_that_are_read() {
    let store = Store::in_memory(Options::default());
    store
        .write_wait(Batch::of(vec![append("l", &["12345", "1"], 9)]))
        .unwrap();
    let items = |stop| Operation::Items {
        key: b"l".to_vec(),
        start: 0,
        stop,
    };
    let read = |stop, read_bytes_max| {
        store.write_wait(Batch {
            read_bytes_max,
            ..Batch::of(vec![items(stop), trim("l", 0, 5)])
        })
    };
    assert!(matches!(
        read(1, 21),
        Err(WriteError::TooLarge {
            found: 22,
            max: 21,
            ..
        })
    ));
    let items = |written: Written| match written.effects.first() {
        Some(Effect::Items(items)) => items.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(items(read(1, 22).unwrap()), [b"1".to_vec(), b"12345".to_vec()]);
    assert_eq!(items(read(0, 9).unwrap()), [b"1".to_vec()]);
    let error = store.items(b"l", 0, 1, 21).unwrap_err().to_string();
    assert!(error.contains("22 bytes, and the limit is 21"), "{error}");
    assert_eq!(
        store.get(b"l").map(|found| (found.kind, found.value)),
        Some((Kind::List, vec![]))
    );
}

#[test]
fn a_batch_that_reads_more_items_than_an_answer_has_changes_nothing() {
    let store = Store::in_memory(Options::default());
    let items = vec![Vec::new(); 60_000];
    for _ in 0..4 {
        let appended = Operation::Append {
            key: b"l".to_vec(),
            items: items.clone(),
            keep: None,
            ttl_ms: None,
        };
        store.write_wait(Batch::of(vec![appended])).unwrap();
    }
    let read = |times: usize| {
        let items = Operation::Items {
            key: b"l".to_vec(),
            start: 0,
            stop: -1,
        };
        let increment = Operation::Increment {
            key: b"n".to_vec(),
            by: 1,
            ttl_ms: None,
        };
        let mut operations = vec![increment];
        operations.extend(vec![items; times]);
        store.write_wait(Batch::of(operations))
    };
    read(2).unwrap();
    let error = read(3).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("items of lists that the batch reads: 720000"),
        "{error}"
    );
    assert_eq!(store.get(b"n").unwrap().value, b"1");
}

/// Callers that append at once: nobody's item is lost, and each list is whole whenever it is read.
#[test]
fn items_of_many_callers_are_all_there() {
    let parent = tempfile::tempdir().unwrap();
    let logged = Store::open(
        &parent.path().join("store"),
        Options {
            durability: Durability::Logged,
            ..Options::default()
        },
    );
    for store in [logged.unwrap().0, Store::in_memory(Options::default())] {
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..300 {
                        let item = format!("{caller}/{number}");
                        let batch = Batch::of(vec![append("l", &[&item, &item], u32::MAX)]);
                        store.write_wait(batch).unwrap();
                    }
                });
            }
            for _ in 0..200 {
                let items = all(&store, "l");
                for pair in items.chunks(2) {
                    assert_eq!(pair[0], pair[1]);
                }
            }
        });
        let items = all(&store, "l");
        assert_eq!(items.len(), 2400);
        for caller in 0..4 {
            let own = items
                .iter()
                .filter(|item| item.starts_with(&format!("{caller}/")));
            let newest_first = (0..300)
                .rev()
                .flat_map(|number| std::iter::repeat_n(format!("{caller}/{number}"), 2));
            assert!(own.eq(newest_first.collect::<Vec<_>>().iter()), "caller {caller}");
        }
    }
}
