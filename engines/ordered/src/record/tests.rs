//! Records against what the format document says, and against damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use millpond_wal::{Durability, FRAME_BYTES, Log, RealDisk, SEGMENT_HEADER_BYTES, read, segment_path};
use proptest::prelude::*;

use super::*;
use crate::change::{Edit, Held};
use crate::list::{List, encode_items};
use crate::put::KEY_BYTES_MAX;

/// When an entry expires, where it is set.
type Given = (Vec<u8>, Option<(Vec<u8>, Option<u64>)>);

fn changed((key, to): Given) -> Changed {
    match to {
        None => Changed::removed(key),
        Some((value, expires_ms)) => Changed::put(key, value, expires_ms.unwrap_or_default()),
    }
}

fn edited((key, edit, expires_ms): (&str, Edit, u64)) -> Changed {
    Changed {
        key: key.into(),
        held: Held::Later,
        edit: Some(edit),
        expires_ms,
    }
}

/// Edits of every form, beside values and removals.
fn any_change() -> impl Strategy<Value = Changed> {
    let items = || prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..5);
    let edit = prop_oneof![
        items().prop_map(|items| {
            let mut list = List::default();
            list.append(items, u32::MAX);
            Edit::NewList(list.into_value())
        }),
        (items(), 1..9u32).prop_map(|(items, keep)| Edit::Append {
            items: encode_items(&items),
            keep,
        }),
        (any::<u32>(), 1..u32::MAX).prop_map(|(older, kept)| Edit::Trim { older, kept }),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Edit::Concatenate),
        Just(Edit::Expire),
    ];
    prop_oneof![
        any::<Given>().prop_map(changed),
        (edit, any::<u8>()).prop_map(|(edit, expires_ms)| edited(("k", edit, expires_ms.into()))),
    ]
}

fn set(key: &str, value: &str) -> Changed {
    changed((key.into(), Some((value.into(), None))))
}

fn encode(changes: Vec<Changed>) -> Vec<u8> {
    let mut out = Vec::new();
    let accepted = Accepted::new(changes, (9, 77), Vec::new());
    accepted.encode(&mut out);
    assert_eq!(out.len(), accepted.bytes());
    out
}

fn found(logged: &Logged<'_>) -> Vec<Changed> {
    let changed = |entry: Entry<'_>| match entry.what {
        What::Bytes(value) => Changed::put(entry.key.to_vec(), value.to_vec(), entry.expires_ms),
        _ => Changed::removed(entry.key.to_vec()),
    };
    logged.entries().map(changed).collect()
}

/// Changes the body of one entry and looks at what reading says.
fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut body = encode(vec![set("key", "value")]);
    change(&mut body);
    let found = format!("{:?}", (FORMAT.check)(KIND_PUT, &body));
    assert!(found.contains(expected), "expected {expected:?} in {found:?}");
}

#[test]
fn bytes_lie_where_the_document_draws_them() {
    let dir = tempfile::tempdir().unwrap();
    let found = read(&FORMAT, dir.path(), &mut |_, _| unreachable!()).unwrap();
    let mut log = Log::open(
        &FORMAT,
        Arc::new(RealDisk),
        dir.path(),
        Durability::Logged,
        1 << 20,
        &found,
    )
    .unwrap();
    let one = Accepted::new(vec![set("k", "vv")], (1, 5), Vec::new());
    let gone = Accepted::new(vec![Changed::removed(b"k".to_vec())], (2, 5), Vec::new());
    let expiring = changed((b"k".to_vec(), Some((b"vv".to_vec(), Some(9)))));
    let expiring = Accepted::new(vec![expiring], (3, 5), Vec::new());
    assert!(log.append(&[&one, &gone, &expiring]).is_ok());
    log.finish().unwrap();

    let bytes = std::fs::read(segment_path(dir.path(), 1)).unwrap();
    let (header, record) = bytes.split_at(SEGMENT_HEADER_BYTES);
    assert_eq!(&header[..8], b"MPLG\x01\0\0\0");
    assert_eq!(&header[8..24], b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    let (record, removal) = record.split_at(40 + 8 + 3);
    let (removal, expiring) = removal.split_at(40 + 8 + 1);
    assert_eq!(&record[..4], &header[24..28]);
    assert_eq!(&record[8..12], 51u32.to_le_bytes());
    assert_eq!(&record[12..28], b"\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(&record[28..40], b"\x01\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(&record[40..], b"\x01\0\0\0\x02\0\0\0kvv");
    assert_eq!(FRAME_BYTES + HEADER_BYTES, 40);
    assert_eq!(&removal[12..28], b"\x02\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0");
    assert_eq!(
        &removal[28..],
        b"\x01\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\xff\xff\xff\xffk"
    );
    assert_eq!(&expiring[12..28], b"\x03\0\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0");
    assert_eq!(
        &expiring[28..],
        b"\x01\0\0\0\x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x09\0\0\0\0\0\0\0kvv"
    );
    assert_eq!(FRAME_BYTES + FORMAT.body_bytes_max, (16 << 20) + 48);
}

/// The body of one entry of kind 4, as it is, and how it is read.
fn edit(body: &[u8]) -> String {
    let header = [&1u32.to_le_bytes()[..], &9u64.to_le_bytes(), &77u64.to_le_bytes()].concat();
    let body = [&header, body].concat();
    match decode(KIND_EDITS, &body) {
        Ok(logged) => {
            let entries: Vec<Entry<'_>> = logged.entries().collect();
            assert_eq!((entries.len(), logged.time_ms), (1, 77));
            let mut again = header;
            entries[0].encode(KIND_EDITS, &mut again);
            assert_eq!(again, body);
            format!("{:?} {}", entries[0].what, entries[0].expires_ms)
        }
        Err(Fault::Malformed(text)) => text,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn edits_lie_where_the_document_draws_them() {
    let check = |body: &[u8], expected: &str| assert_eq!(edit(body), expected, "{body:?}");
    check(b"\x01\0\0\0\0\0\0\0\x00k", "Removed 0");
    check(b"\x01\0\0\0\x01\0\0\0\x01kv", "Bytes([118]) 0");
    check(
        b"\x01\0\0\0\x09\0\0\0\x02k\x01\0\0\0\x01\0\0\0v",
        "List([1, 0, 0, 0, 1, 0, 0, 0, 118]) 0",
    );
    check(
        b"\x01\0\0\0\x09\0\0\0\x83\x05\0\0\0\0\0\0\0k\x07\0\0\0\x01\0\0\0v",
        "Append { keep: 7, items: [1, 0, 0, 0, 118] } 5",
    );
    check(
        b"\x01\0\0\0\x08\0\0\0\x04k\x03\0\0\0\x02\0\0\0",
        "Trim { older: 3, kept: 2 } 0",
    );
    check(b"\x01\0\0\0\x01\0\0\0\x05kv", "Concatenate([118]) 0");
    check(b"\x01\0\0\0\0\0\0\0\x86\x05\0\0\0\0\0\0\0k", "Expire 5");
}

#[test]
fn edits_that_nobody_writes_are_refused() {
    let check = |body: &[u8], expected: &str| {
        let found = edit(body);
        assert!(found.starts_with(expected), "{found} of {body:?}");
    };
    let (unread, unsound) = ("1 entries announced, 0 found", "entry 0 is beyond the limits");
    // A form that is none.
    check(b"\x01\0\0\0\0\0\0\0\x07k", unread);
    // A removal, or a moment, that has bytes; a removal that expires; one that expires at 0.
    check(b"\x01\0\0\0\x01\0\0\0\x00kv", unread);
    check(b"\x01\0\0\0\x01\0\0\0\x06kv", unread);
    check(b"\x01\0\0\0\0\0\0\0\x80\x05\0\0\0\0\0\0\0k", unsound);
    check(b"\x01\0\0\0\0\0\0\0\x86\0\0\0\0\0\0\0\0k", unread);
    // Lists without items, and with others than they say.
    check(b"\x01\0\0\0\x04\0\0\0\x02k\0\0\0\0", unsound);
    check(b"\x01\0\0\0\x09\0\0\0\x02k\x02\0\0\0\x01\0\0\0v", unsound);
    // An append of nothing, one that keeps nothing, and an item that is cut.
    check(b"\x01\0\0\0\x04\0\0\0\x03k\x07\0\0\0", unsound);
    check(b"\x01\0\0\0\x09\0\0\0\x03k\0\0\0\0\x01\0\0\0v", unsound);
    check(b"\x01\0\0\0\x09\0\0\0\x03k\x07\0\0\0\x02\0\0\0v", unsound);
    check(b"\x01\0\0\0\x03\0\0\0\x03k\0\0\0", unread);
    // A trim that leaves nothing, and one of another length.
    check(b"\x01\0\0\0\x08\0\0\0\x04k\x03\0\0\0\0\0\0\0", unsound);
    check(b"\x01\0\0\0\x09\0\0\0\x04k\x03\0\0\0\x02\0\0\0\0", unread);
}

#[test]
fn what_a_sound_checksum_covers_is_still_checked() {
    check(|_| (), "Ok(())");
    check(|body| body.truncate(11), "Malformed(\"11 bytes, too few");
    check(
        |body| body[0] = 2,
        "Malformed(\"2 entries announced, 1 found, 0 bytes behind",
    );
    check(|body| body[0] = 0, "Malformed(\"0 entries announced, 1 found");
    check(
        |body| body[12] = 4,
        "Malformed(\"1 entries announced, 0 found, 16 bytes behind",
    );
    check(
        |body| body[16] = 4,
        "Malformed(\"1 entries announced, 1 found, 1 bytes behind",
    );
    check(|body| body[4..12].fill(0xff), "Malformed(\"version");
    check(
        |body| {
            let key = vec![0; KEY_BYTES_MAX + 1];
            body[12..16].copy_from_slice(&(key.len() as u32).to_le_bytes());
            body.splice(20..23, key);
        },
        "Malformed(\"entry 0 is beyond the limits",
    );
}

proptest! {
    #[test]
    fn a_write_reads_back_as_it_was(given in prop::collection::vec(any::<Given>(), 1..20)) {
        let changes: Vec<Changed> = given.into_iter().map(changed).collect();
        let kind = Accepted::new(changes.clone(), (9, 77), Vec::new()).kind();
        let expires = changes.iter().any(|change| change.expires_ms != 0);
        prop_assert_eq!(kind == KIND_EXPIRING, expires);
        let body = encode(changes.clone());
        let logged = decode(kind, &body).unwrap();
        let removes = changes.iter().any(|change| !change.is_there());
        prop_assert_eq!(found(&logged), changes);
        prop_assert_eq!((logged.first_version, logged.time_ms), (9, if expires { 77 } else { 0 }));
        // An older build knows no removals, and is told of them by the kind.
        if removes {
            prop_assert!(decode(KIND_PUT, &body).is_err());
        }
    }

    #[test]
    fn edits_read_back_as_they_were(changes in prop::collection::vec(any_change(), 1..20)) {
        let accepted = Accepted::new(changes, (9, 77), Vec::new());
        let mut body = Vec::new();
        accepted.encode(&mut body);
        prop_assert_eq!(body.len(), accepted.bytes());
        let logged = decode(accepted.kind(), &body).unwrap();
        prop_assert!(logged.entries().eq(accepted.changes.iter().map(Entry::of)));
        let mut again = Vec::new();
        for entry in logged.entries() {
            entry.encode(accepted.kind(), &mut again);
        }
        let begin = HEADER_BYTES + time_bytes(accepted.kind());
        prop_assert_eq!(again.as_slice(), &body[begin..]);
    }

    #[test]
    fn any_bytes_behind_a_sound_checksum_are_judged_without_panic(
        mut body in prop::collection::vec(any::<u8>(), 0..200),
        plausible: bool,
        kind in KIND_PUT..=KIND_EDITS,
    ) {
        if plausible && body.len() >= 4 {
            body[1..4].fill(0);
        }
        if let Ok(logged) = decode(kind, &body) {
            prop_assert_eq!(logged.entries().count() as u32, logged.entry_count);
        }
    }
}
