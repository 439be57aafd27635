//! Many threads at once: puts stay atomic for readers, conditions hold, and the log tells the same story.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use millpond_engines_ordered::{Durability, Options, Put, Scan, Store, WriteError};

use crate::{contents, one};

const WRITERS: usize = 4;
const PUTS: usize = 300;

/// Writes the same value under both keys in one put.
fn pair(writer: usize, i: usize) -> Put {
    let value = format!("{writer}/{i}").into_bytes();
    let key = |side| format!("pair/{}/{side}", i % 3).into_bytes();
    Put {
        entries: vec![(key("a"), value.clone()), (key("b"), value)],
        ..Put::default()
    }
}

/// Adds one, however often others come in between. Returns the conflicts met.
fn increment(store: &Store) -> usize {
    for conflicts in 0.. {
        let found = store.get(b"count");
        let count: u64 = found
            .as_ref()
            .map_or(0, |found| String::from_utf8_lossy(&found.value).parse().unwrap());
        let if_version = Some(found.map_or(0, |found| found.version));
        match store.write_wait(Put {
            if_version,
            ..one("count", &(count + 1).to_string())
        }) {
            Ok(_) => return conflicts,
            Err(WriteError::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!()
}

/// Scans until told to stop; both sides of a pair must always show the same put.
fn read_pairs(store: &Store, stop: &AtomicBool) {
    let scan = Scan {
        prefix: Some(b"pair/".to_vec()),
        limit: 100,
        ..Scan::default()
    };
    while !stop.load(Ordering::Relaxed) {
        let mut values = vec![];
        store.scan(&scan, &mut |_, value| values.push(value.to_vec()));
        for pair in values.chunks(2) {
            assert_eq!(pair[0], pair[1]);
        }
    }
}

#[test]
fn readers_see_whole_puts_and_writers_do_not_lose_any() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let options = Options {
        durability: Durability::Logged,
        queue_max: 3, // small, so that the writers meet a full queue
        segment_bytes_max: 10_000,
        ..Options::default()
    };
    let (store, _) = Store::open(&dir, options.clone()).unwrap();
    let versions = Mutex::new(vec![]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| read_pairs(&store, &stop)))
            .collect();
        let write = |writer: usize| {
            for i in 0..PUTS {
                let outcome = store.write_wait(pair(writer, i)).unwrap();
                versions.lock().unwrap().extend(outcome.versions);
                increment(&store);
            }
        };
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ended
            .into_iter()
            .chain(readers.into_iter().map(|reader| reader.join()))
            .for_each(|end| end.unwrap());
    });
    let total = WRITERS * PUTS;
    assert_eq!(&*store.get(b"count").unwrap().value, total.to_string().as_bytes());
    let mut versions = versions.into_inner().unwrap();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 2 * total);

    let expected = contents(&store);
    store.close().unwrap();
    let (store, recovery) = Store::open(&dir, options).unwrap();
    assert_eq!(recovery.entries as usize, 3 * total);
    assert_eq!(contents(&store), expected);
}
