//! Entries that expire: nobody sees them from that moment on, and they are removed for good.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use super::bed::{Bed, one};
use super::*;
use crate::{Batch, Effect, Operation, Put};

fn lasting(key: &str, ttl_ms: u64) -> Put {
    Put {
        ttl_ms: Some(ttl_ms),
        ..one(key, "v")
    }
}

fn skip(store: &Store, ms: u64) {
    store.handle.index.clock().skip(ms);
}

/// An hour, so that no test takes so long.
const HOUR: u64 = 3_600_000;

fn expire(key: &str, ttl_ms: Option<u64>) -> Batch {
    let key = key.into();
    Batch::of(vec![Operation::Expire { key, ttl_ms }])
}

fn keys(store: &Store, reverse: bool) -> Vec<String> {
    let mut found = Vec::new();
    let scan = Scan {
        limit: usize::MAX,
        reverse,
        ..Scan::default()
    };
    store.scan(&scan, &mut |key, _| {
        found.push(String::from_utf8(key.to_vec()).unwrap())
    });
    found
}

fn wait_for_len(store: &Store, len: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    while store.len() != len {
        assert!(Instant::now() < until, "{} keys", store.len());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn check_nobody_sees_what_expired(store: &Store) {
    store.write_wait(lasting("a", HOUR)).unwrap();
    store.write_wait(lasting("b", 3 * HOUR)).unwrap();
    store.write_wait(one("c", "v")).unwrap();
    store.write_wait(lasting("d", HOUR)).unwrap();
    store.write_wait(one("d", "for good again")).unwrap();
    assert_eq!(store.handle.index.expiring(), 2);
    skip(store, 2 * HOUR);
    assert_eq!(store.get(b"a"), None);
    assert!(store.get(b"b").unwrap().expires_ms.is_some());
    let many = store.get_many(&[b"a", b"b", b"d"], 100).unwrap();
    assert_eq!(many.iter().filter(|found| found.is_some()).count(), 2);
    assert_eq!(keys(store, false), ["b", "c", "d"]);
    assert_eq!(keys(store, true), ["d", "c", "b"]);
    wait_for_len(store, 3);
    // It is as if it had never been.
    let again = Put {
        if_absent: true,
        ..lasting("a", HOUR)
    };
    store.write_wait(again).unwrap();
    assert_eq!(
        store.write_wait(expire("b", None)).unwrap().effects,
        [Effect::WasThere(true)]
    );
    skip(store, 2 * HOUR);
    assert_eq!(
        store.write_wait(expire("a", None)).unwrap().effects,
        [Effect::WasThere(false)]
    );
    wait_for_len(store, 3);
    assert_eq!(
        (keys(store, false).join(""), store.handle.index.expiring()),
        ("bcd".into(), 0)
    );
    assert_eq!(
        store.entry_bytes(),
        3 * 48 + 3 + 2 + "for good again".len() as u64
    );
}

#[test]
fn nobody_sees_what_expired_in_memory() {
    check_nobody_sees_what_expired(&Store::in_memory(Options::default()));
}

#[test]
fn nobody_sees_what_expired_nor_after_a_restart() {
    let bed = Bed::new(Options::default());
    check_nobody_sees_what_expired(&bed.store);
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!((keys(&store, false).join(""), recovery.keys), ("bcd".into(), 3));
}

#[test]
fn keys_of_any_length_are_removed_by_records_that_can_be_read() {
    let bed = Bed::new(Options {
        durability: Durability::Logged,
        ..Options::default()
    });
    // More bytes of keys than one record may have.
    for part in 0..2_u8 {
        let key = |number: u8| [vec![part, number], vec![7; crate::KEY_BYTES_MAX - 2]].concat();
        let put = Put {
            entries: (0..150).map(|number| (key(number), Vec::new())).collect(),
            ttl_ms: Some(HOUR),
            ..Put::default()
        };
        bed.store.write_wait(put).unwrap();
    }
    skip(&bed.store, 2 * HOUR);
    wait_for_len(&bed.store, 0);
    bed.store.write_wait(one("a", "1")).unwrap();
    let (closed, store, recovery, _parent) = bed.reopen();
    closed.unwrap();
    assert_eq!(
        (keys(&store, false), recovery.torn_tail),
        (vec!["a".to_owned()], None)
    );
}

#[test]
fn a_scan_passes_over_many_that_have_expired_and_says_where_it_is() {
    let store = Store::in_memory(Options::default());
    let count = 100_000_u32;
    for first in (0..count).step_by(1000) {
        let entry = |number: u32| (number.to_be_bytes().to_vec(), Vec::new());
        let put = Put {
            entries: (first..first + 1000).map(entry).collect(),
            ttl_ms: Some(HOUR),
            ..Put::default()
        };
        store.write_wait(put).unwrap();
    }
    store.write_wait(one("\u{7f}last", "1")).unwrap();
    // While nothing of it is removed: the index alone is looked at.
    let index = &store.handle.index;
    let scan = |reverse, from: Option<Vec<u8>>| {
        let scan = Scan {
            limit: 1,
            reverse,
            start: from.clone().filter(|_| !reverse),
            end: from.map(|from| Scan::end_behind(&from)).filter(|_| reverse),
            ..Scan::default()
        };
        let mut found = Vec::new();
        let range = crate::scan::Range::of(&scan).unwrap();
        let cursor = index.scan(&range, &scan, |entry| found.push(entry.key.to_vec()));
        (found, cursor)
    };
    assert_eq!(scan(false, None).0, [0_u32.to_be_bytes()]);
    skip(&store, 2 * HOUR);
    let (mut cursor, mut turns) = (None, 0);
    loop {
        let (found, next) = scan(false, cursor);
        turns += 1;
        if !found.is_empty() {
            assert_eq!(found, [b"\x7flast".to_vec()]);
            break;
        }
        assert!(turns < 5 && next.is_some());
        cursor = next;
    }
    assert_eq!(scan(true, None).0, [b"\x7flast".to_vec()]);
}

#[test]
fn a_clock_that_was_set_back_revives_nothing() {
    let bed = Bed::new(Options::default());
    // As if the system's clock had been two hours ahead.
    skip(&bed.store, 2 * HOUR);
    bed.store.write_wait(lasting("a", HOUR)).unwrap();
    skip(&bed.store, 2 * HOUR);
    bed.store.write_wait(lasting("b", HOUR)).unwrap();
    let (closed, store, ..) = bed.reopen();
    closed.unwrap();
    assert_eq!(keys(&store, false), ["b"]);
}

#[test]
fn an_increment_keeps_the_time_unless_it_says_another() {
    let store = Store::in_memory(Options::default());
    let add = |ttl_ms| {
        let operations = vec![
            Operation::Increment {
                key: b"n".to_vec(),
                by: 1,
                ttl_ms,
            },
            Operation::Get { key: b"n".to_vec() },
        ];
        let effects = store.write_wait(Batch::of(operations)).unwrap().effects;
        match effects.as_slice() {
            [Effect::Incremented { value, .. }, Effect::Found(Some(found))] => (*value, found.expires_ms),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(add(None), (1, None));
    let (two, first) = add(Some(HOUR));
    assert_eq!((two, add(None)), (2, (3, first)));
    let (four, second) = add(Some(3 * HOUR));
    assert!(four == 4 && second > first);
    skip(&store, 2 * HOUR);
    assert_eq!(add(None), (5, second));
    skip(&store, 2 * HOUR);
    assert_eq!(add(None), (1, None));
}

#[test]
fn no_time_at_all_is_refused() {
    let store = Store::in_memory(Options::default());
    for write in [Write::from(lasting("a", 0)), expire("a", Some(0)).into()] {
        let error = store.write_wait(write).unwrap_err();
        assert!(matches!(error, WriteError::NoTime), "{error}");
    }
}
