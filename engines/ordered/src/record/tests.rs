//! Records against what the format document says, and against damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use millpond_wal::{Durability, FRAME_BYTES, Log, RealDisk, SEGMENT_HEADER_BYTES, read, segment_path};
use proptest::prelude::*;

use super::*;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn accepted(entries: &[(Vec<u8>, Vec<u8>)]) -> Accepted {
    Accepted {
        entries: entries.to_vec(),
        bytes: entries
            .iter()
            .map(|(key, value)| key.len() + value.len() + 8)
            .sum(),
        first_version: 9,
    }
}

fn encode(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    accepted(entries).encode(&mut out);
    assert_eq!(out.len(), accepted(entries).bytes());
    out
}

/// Changes the body of one entry and looks at what reading says.
fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut body = encode(&[(b"key".to_vec(), b"value".to_vec())]);
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
    let one = Accepted {
        first_version: 1,
        ..accepted(&[(b"k".to_vec(), b"vv".to_vec())])
    };
    assert!(log.append(&[&one]).is_ok());
    log.finish().unwrap();

    let bytes = std::fs::read(segment_path(dir.path(), 1)).unwrap();
    let (header, record) = bytes.split_at(SEGMENT_HEADER_BYTES);
    assert_eq!(&header[..8], b"MPLG\x01\0\0\0");
    assert_eq!(&header[8..24], b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(record.len(), 40 + 8 + 3);
    assert_eq!(&record[..4], &header[24..28]);
    assert_eq!(&record[8..12], 51u32.to_le_bytes());
    assert_eq!(&record[12..28], b"\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(&record[28..40], b"\x01\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(&record[40..], b"\x01\0\0\0\x02\0\0\0kvv");
    assert_eq!(FRAME_BYTES + PUT_HEADER_BYTES, 40);
    assert_eq!(FRAME_BYTES + FORMAT.body_bytes_max, (16 << 20) + 40);
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
    fn a_put_reads_back_as_it_was(
        entries in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 1..20),
    ) {
        let body = encode(&entries);
        let put = decode(&body).unwrap();
        let found: Entries =
            put.entries().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(put.entry_count as usize, entries.len());
        prop_assert_eq!(found, entries);
        prop_assert_eq!(put.first_version, 9);
    }

    #[test]
    fn any_bytes_behind_a_sound_checksum_are_judged_without_panic(
        mut body in prop::collection::vec(any::<u8>(), 0..200),
        plausible: bool,
    ) {
        if plausible && body.len() >= 4 {
            body[1..4].fill(0);
        }
        if let Ok(put) = decode(&body) {
            prop_assert_eq!(put.entries().count() as u32, put.entry_count);
        }
    }
}
