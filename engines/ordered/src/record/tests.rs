//! Records against what the format document says, and against damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const MARKER: u32 = 0x5eed_0001;

fn encode(sequence: u64, entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let place = Place {
        marker: MARKER,
        sequence,
        group_index: 3,
        first_version: 9,
    };
    encode_put(&mut out, place, entries);
    out
}

fn read(bytes: &[u8]) -> Result<Record<'_>, Fault> {
    let prefix = bytes.first_chunk().unwrap();
    let length = record_length(prefix, MARKER, bytes.len() as u64)?;
    decode_record(&bytes[..length])
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Changes a sound record of one entry, fixes its checksum, and looks at what reading says.
fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut bytes = encode(1, &[(b"key".to_vec(), b"value".to_vec())]);
    change(&mut bytes);
    let found = format!("{:?}", read(&with_checksum(bytes)).map(|record| record.sequence));
    assert!(found.contains(expected), "expected {expected:?} in {found:?}");
}

#[test]
fn bytes_lie_where_the_document_draws_them() {
    let header = SegmentHeader {
        first_sequence: 0x0102,
        first_version: 0x0304,
        marker: MARKER,
    };
    let bytes = header.encode();
    assert_eq!(&bytes[..8], b"MPLG\x01\0\0\0");
    assert_eq!(&bytes[8..24], b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0");
    assert_eq!(&bytes[24..28], b"\x01\0\xed\x5e");
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));

    let record = encode(0x0506, &[(b"k".to_vec(), b"vv".to_vec())]);
    assert_eq!(record.len(), put_record_bytes(8 + 3));
    assert_eq!(&record[..4], b"\x01\0\xed\x5e");
    assert_eq!(&record[8..12], 51u32.to_le_bytes());
    assert_eq!(&record[12..28], b"\x01\0\0\0\x06\x05\0\0\0\0\0\0\x03\0\0\0");
    assert_eq!(&record[28..40], b"\x01\0\0\0\x09\0\0\0\0\0\0\0");
    assert_eq!(&record[40..], b"\x01\0\0\0\x02\0\0\0kvv");
    // CRC-32C, not CRC-32: the check value of the polynomial.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn what_a_sound_checksum_covers_is_still_checked() {
    check(|_| (), "Ok(1)");
    check(|bytes| bytes[0] ^= 2, "Unreadable(\"marker");
    check(|bytes| bytes[8] = 39, "Unreadable(\"length 39");
    check(|bytes| bytes[11] = 0xff, "Unreadable(\"length");
    check(|bytes| bytes[8] += 1, "bytes are left");
    check(|bytes| bytes[12] = 2, "Unsupported(2)");
    check(|bytes| bytes[14] = 1, "Malformed(\"bytes 13 to 15");
    check(
        |bytes| bytes[28] = 2,
        "Malformed(\"2 entries announced, 1 found, 0 bytes behind",
    );
    check(|bytes| bytes[28] = 0, "Malformed(\"0 entries announced, 1 found");
    check(
        |bytes| bytes[40] = 4,
        "Malformed(\"1 entries announced, 0 found, 16 bytes behind",
    );
    check(
        |bytes| bytes[44] = 4,
        "Malformed(\"1 entries announced, 1 found, 1 bytes behind",
    );
    check(|bytes| bytes[32..40].fill(0xff), "Malformed(\"version");
    check(
        |bytes| {
            let key = vec![0; KEY_BYTES_MAX + 1];
            bytes[40..44].copy_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.splice(48..51, key);
            let length = bytes.len() as u32;
            bytes[8..12].copy_from_slice(&length.to_le_bytes());
        },
        "Malformed(\"entry 0 is beyond the limits",
    );
}

#[test]
fn headers_of_other_files_and_formats_are_told_apart() {
    let header = SegmentHeader {
        first_sequence: 1,
        first_version: 1,
        marker: MARKER,
    };
    let sound = header.encode();
    for cut in 0..sound.len() {
        assert!(matches!(
            SegmentHeader::decode(&sound[..cut]),
            Err(Fault::Unreadable(_))
        ));
    }
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(SegmentHeader::decode(&bytes), Err(Fault::Unreadable(_))),
            "bit {bit}"
        );
    }
    let mut newer = sound;
    newer[4] = 2;
    let checksum = crc32c::crc32c(&newer[..28]);
    newer[28..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(SegmentHeader::decode(&newer), Err(Fault::Unsupported(2)));
}

proptest! {
    #[test]
    fn a_put_reads_back_as_it_was(
        sequence: u64,
        entries in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 1..20),
    ) {
        let bytes = encode(sequence, &entries);
        let record = read(&bytes).unwrap();
        let found: Entries =
            record.entries().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(found, entries);
        prop_assert_eq!((record.sequence, record.group_index, record.first_version), (sequence, 3, 9));
        prop_assert_eq!(record.length, bytes.len());
    }

    #[test]
    fn one_flipped_bit_is_always_seen(
        entries in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 1..5),
        bit: prop::sample::Index,
    ) {
        let mut bytes = encode(1, &entries);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(matches!(read(&bytes), Err(Fault::Unreadable(_))));
    }

    #[test]
    fn any_bytes_behind_a_sound_checksum_are_judged_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), RECORD_HEADER_BYTES..200),
        plausible: bool,
    ) {
        if plausible {
            bytes[12..16].copy_from_slice(&[KIND_PUT, 0, 0, 0]);
            bytes[29..32].fill(0);
        }
        let bytes = with_checksum(bytes);
        if let Ok(record) = decode_record(&bytes) {
            prop_assert_eq!(record.entries().count() as u32, record.entry_count);
        }
    }
}
