//! Frames and headers against what the format document says, and against damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

const MARKER: u32 = 0x5eed_0001;
const KIND: u8 = 3;

static FORMAT: Format = Format {
    keeper: "test",
    magic: b"MPLG",
    version: 1,
    history_from: None,
    body_bytes_min: 2,
    body_bytes_max: 1000,
    kinds: &[KIND],
    check: |_, body| match body.first() {
        Some(0xff) => Err(Fault::Malformed("a body of the wrong kind".into())),
        _ => Ok(()),
    },
    number: "version",
    first_number: 1,
    may_begin_late: false,
};

struct Bytes<'a>(&'a [u8]);

impl Body for Bytes<'_> {
    fn kind(&self) -> u8 {
        KIND
    }

    fn number(&self) -> u64 {
        0
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

fn framed(sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let place = Place {
        marker: MARKER,
        sequence,
        group_index: 3,
    };
    encode(&mut out, place, &Bytes(body));
    out
}

fn read(bytes: &[u8]) -> Result<Record<'_>, Fault> {
    let prefix = bytes.first_chunk().unwrap();
    let length = record_length(&FORMAT, prefix, MARKER, bytes.len() as u64)?;
    decode_record(&FORMAT, &bytes[..length])
}

/// Changes a sound record, fixes its checksum, and looks at what reading says.
fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut bytes = framed(1, b"body");
    change(&mut bytes);
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    let found = format!("{:?}", read(&bytes).map(|record| record.sequence));
    assert!(found.contains(expected), "expected {expected:?} in {found:?}");
}

#[test]
fn bytes_lie_where_the_document_draws_them() {
    let header = SegmentHeader {
        first_sequence: 0x0102,
        number: 0x0304,
        marker: MARKER,
        history: None,
        version: 1,
    };
    let bytes = header.encode(&FORMAT);
    assert_eq!(&bytes[..8], b"MPLG\x01\0\0\0");
    assert_eq!(&bytes[8..24], b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0");
    assert_eq!(&bytes[24..28], b"\x01\0\xed\x5e");
    assert_eq!(SegmentHeader::decode(&FORMAT, &bytes), Ok(header));

    let record = framed(0x0506, b"vv");
    assert_eq!(record.len(), FRAME_BYTES + 2);
    assert_eq!(&record[..4], b"\x01\0\xed\x5e");
    assert_eq!(&record[8..12], 30u32.to_le_bytes());
    assert_eq!(&record[12..28], b"\x03\0\0\0\x06\x05\0\0\0\0\0\0\x03\0\0\0");
    assert_eq!(&record[28..], b"vv");
    // CRC-32C, not CRC-32: the check value of the polynomial.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn what_a_sound_checksum_covers_is_still_checked() {
    check(|_| (), "Ok(1)");
    check(|bytes| bytes[0] ^= 2, "Unreadable(\"marker");
    check(
        |bytes| bytes[8] = 29,
        "Unreadable(\"length 29, expected 30 to 1028",
    );
    check(|bytes| bytes[11] = 0xff, "Unreadable(\"length");
    check(|bytes| bytes[8] += 1, "bytes are left");
    check(|bytes| bytes[12] = 2, "Unsupported(2)");
    check(|bytes| bytes[14] = 1, "Malformed(\"bytes 13 to 15");
    check(|bytes| bytes[28] = 0xff, "Malformed(\"a body of the wrong kind");
}

#[test]
fn headers_of_other_files_and_formats_are_told_apart() {
    let header = SegmentHeader {
        first_sequence: 1,
        number: 1,
        marker: MARKER,
        history: None,
        version: 1,
    };
    let sound = header.encode(&FORMAT);
    for cut in 0..sound.len() {
        assert!(matches!(
            SegmentHeader::decode(&FORMAT, &sound[..cut]),
            Err(Fault::Unreadable(_))
        ));
    }
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let decoded = SegmentHeader::decode(&FORMAT, &bytes);
        assert!(matches!(decoded, Err(Fault::Unreadable(_))), "bit {bit}");
    }
    let mut newer = sound;
    newer[4] = 2;
    let checksum = crc32c::crc32c(&newer[..28]);
    newer[28..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(SegmentHeader::decode(&FORMAT, &newer), Err(Fault::Unsupported(2)));
}

/// The same with a history.
static LATER: Format = Format {
    version: 2,
    history_from: Some(2),
    ..FORMAT
};

fn later_header() -> SegmentHeader {
    SegmentHeader {
        first_sequence: 5,
        number: 6,
        marker: MARKER,
        history: Some(History {
            epoch: 0x0708,
            id: *b"sixteen bytes id",
        }),
        version: 2,
    }
}

#[test]
fn a_history_follows_the_header_that_older_builds_know() {
    let bytes = later_header().encode(&LATER);
    assert_eq!(bytes.len(), LATER.header_bytes());
    assert_eq!(&bytes[32..40], b"\x08\x07\0\0\0\0\0\0");
    assert_eq!(&bytes[40..60], b"sixteen bytes id\0\0\0\0");
    assert_eq!(SegmentHeader::decode(&LATER, &bytes), Ok(later_header()));
    // An older build says that it is newer, and does not take it for damage.
    assert_eq!(SegmentHeader::decode(&FORMAT, &bytes), Err(Fault::Unsupported(2)));
    for cut in 0..bytes.len() {
        let decoded = SegmentHeader::decode(&LATER, &bytes[..cut]);
        assert!(matches!(decoded, Err(Fault::Unreadable(_))), "cut at {cut}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let decoded = SegmentHeader::decode(&LATER, &bytes);
        assert!(matches!(decoded, Err(Fault::Unreadable(_))), "bit {bit}");
    }
    let old = SegmentHeader {
        history: None,
        version: 1,
        ..later_header()
    };
    assert_eq!(SegmentHeader::decode(&LATER, &old.encode(&LATER)), Ok(old));
    assert_eq!(old.bytes(&LATER), SEGMENT_HEADER_BYTES);
}

proptest! {
    #[test]
    fn a_body_reads_back_as_it_was(
        sequence: u64,
        body in prop::collection::vec(0..0xff_u8, 2..1000),
    ) {
        let bytes = framed(sequence, &body);
        let record = read(&bytes).unwrap();
        prop_assert_eq!(record.body, &body);
        prop_assert_eq!((record.sequence, record.group_index, record.kind), (sequence, 3, KIND));
        prop_assert_eq!(record.length, bytes.len());
    }

    #[test]
    fn one_flipped_bit_is_always_seen(
        body in prop::collection::vec(0..0xff_u8, 2..100),
        bit: prop::sample::Index,
    ) {
        let mut bytes = framed(1, &body);
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(matches!(read(&bytes), Err(Fault::Unreadable(_))));
    }
}
