//! Records that are written and read, and bodies that nobody wrote.

#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn encoded(said: LogRecord<'_>) -> (u8, Vec<u8>) {
    let written = Written { said, history: 9 };
    let mut body = Vec::new();
    written.encode(&mut body);
    assert_eq!((body.len(), written.number()), (written.bytes(), 9));
    (written.kind(), body)
}

#[test]
fn bytes_lie_where_the_document_draws_them() {
    let keys = [7_u64.to_le_bytes(), 8_u64.to_le_bytes()].concat();
    let (kind, body) = encoded(LogRecord::Upsert {
        time_ms: 0x0102,
        stamp: Stamp::default(),
        layout: 0x0304,
        row_bytes: 3,
        keys: &keys,
        rows: b"row",
    });
    assert_eq!(kind, 1);
    assert_eq!(&body[..16], b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0");
    assert_eq!(&body[16..28], b"\x03\0\0\0\x01\0\0\0\0\0\0\0");
    assert_eq!(&body[28..44], &keys);
    assert_eq!(&body[44..], b"row");
    let said = decode(kind, &body).unwrap();
    let changes: Vec<_> = said.changes().collect();
    assert_eq!(changes, [(7, Some(&b"row"[..])), (8, None)]);
    let (kind, stamped) = encoded(LogRecord::Upsert {
        time_ms: 0x0102,
        stamp: Stamp {
            time: 0x0506,
            origin: 0x0708,
        },
        layout: 0x0304,
        row_bytes: 3,
        keys: &keys,
        rows: b"row",
    });
    assert_eq!(kind, 4);
    assert_eq!(&stamped[28..44], b"\x06\x05\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0");
    assert_eq!([&stamped[..28], &stamped[44..]].concat(), body);
    let said = decode(kind, &stamped).unwrap();
    assert_eq!((said.written_ms(), encoded(said)), (0, (4, stamped)));
    let (kind, body) = encoded(LogRecord::Folded {
        time_ms: 1,
        sequence: 2,
        before_ms: 0,
    });
    assert_eq!((kind, &*body), (2, &b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"[..]));
    assert_eq!(
        encoded(LogRecord::Expired {
            time_ms: 1,
            written_ms: 2
        })
        .0,
        3
    );
}

#[test]
fn marks_of_two_numbers_lie_where_the_document_draws_them() {
    let body = [1_u64, 2, 3].map(u64::to_le_bytes).concat();
    let folded = LogRecord::Folded {
        time_ms: 1,
        sequence: 2,
        before_ms: 3,
    };
    let settled = LogRecord::Settled {
        time_ms: 1,
        settled: Settled {
            whole_ms: 2,
            foldable_ms: 3,
        },
    };
    for (kind, said) in [(8, folded), (7, settled)] {
        assert_eq!(encoded(said), (kind, body.clone()));
        assert_eq!(decode(kind, &body).unwrap(), said);
        assert!(matches!(decode(kind, &body[..16]), Err(Fault::Malformed(_))));
        assert_eq!((said.time_ms(), said.upserted(9).is_none()), (1, true));
    }
    let before_nothing = [1_u64, 2, 0].map(u64::to_le_bytes).concat();
    assert!(matches!(decode(8, &before_nothing), Err(Fault::Malformed(_))));
}

#[test]
fn rows_that_vary_in_length_lie_behind_their_lengths() {
    let keys = [7_u64, 8, 9].map(u64::to_le_bytes).concat();
    let mut rows = Vec::new();
    stored::push(VARYING, b"row", &mut rows);
    stored::push(VARYING, b"", &mut rows);
    let said = |rows| LogRecord::Upsert {
        time_ms: 0x0102,
        stamp: Stamp::default(),
        layout: 0x0304,
        row_bytes: VARYING as u32,
        keys: &keys,
        rows,
    };
    let (kind, body) = encoded(said(&rows));
    assert_eq!(kind, 5);
    assert_eq!(&body[16..28], b"\x0b\0\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(&body[28..44], &[0; 16]);
    assert_eq!(&body[44..68], &keys);
    assert_eq!(&body[68..], b"\x03\0\0\0row\0\0\0\0");
    let decoded = decode(kind, &body).unwrap();
    assert_eq!(decoded, said(&rows));
    let changes: Vec<_> = decoded.changes().collect();
    assert_eq!(changes, [(7, Some(&b"row"[..])), (8, Some(b"")), (9, None)]);
    for (at, byte) in [(16, 12), (16, 3), (20, 1), (20, 3), (68, 4), (68, 0)] {
        let mut body = body.clone();
        body[at] = byte;
        assert!(
            matches!(decode(5, &body), Err(Fault::Malformed(_))),
            "{at} {byte}"
        );
    }
    // Removals alone are those of any table.
    assert_eq!(encoded(said(b"")).0, 1);
}

#[test]
fn what_does_not_add_up_is_malformed() {
    let keys = 7_u64.to_le_bytes();
    let (_, body) = encoded(LogRecord::Upsert {
        time_ms: 0,
        stamp: Stamp::default(),
        layout: 0,
        row_bytes: 3,
        keys: &keys,
        rows: b"row",
    });
    let check = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = body.clone();
        change(&mut body);
        assert!(matches!(decode(1, &body), Err(Fault::Malformed(_))), "{body:?}");
    };
    check(&|body| body.truncate(27));
    check(&|body| body[16] = 2);
    check(&|body| body[20] = 2);
    check(&|body| body[27] = 0xff);
    check(&|body| body.push(0));
    check(&|body| body.truncate(28));
    // As a stamped one it has keys in the place of its stamp, or zeros.
    assert!(matches!(decode(4, &body), Err(Fault::Malformed(_))));
    assert!(matches!(decode(4, &[0; 60]), Err(Fault::Malformed(_))));
    assert!(matches!(decode(2, &[0; 17]), Err(Fault::Malformed(_))));
}

#[test]
fn what_is_kept_of_an_upsert_is_what_is_in_force() {
    let keys: Vec<u8> = [7_u64, 8, 7, 9]
        .iter()
        .flat_map(|key| key.to_le_bytes())
        .collect();
    let said = LogRecord::Upsert {
        time_ms: 5,
        stamp: Stamp::default(),
        layout: 6,
        row_bytes: 3,
        keys: &keys,
        rows: b"onetwo",
    };
    let check = |keys: &[u64], expected: &[(u64, Option<&[u8]>)]| {
        let left = said.left(|key| keys.contains(&key));
        assert_eq!(left.is_some(), !expected.is_empty());
        let Some((kind, body)) = left else { return };
        let (kind, kept) = encoded(LogRecord::Kept {
            sequence: 3,
            copied: 4,
            kind,
            body: &body,
        });
        assert_eq!(
            (kind, &kept[..20]),
            (6, &b"\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0"[..])
        );
        let (inner, sequence) = decode(kind, &kept).unwrap().upserted(99).unwrap();
        assert_eq!((sequence, inner.time_ms()), (3, 5));
        assert_eq!(inner.changes().collect::<Vec<_>>(), expected);
    };
    check(
        &[7, 8, 9],
        &[(7, Some(b"one")), (8, Some(b"two")), (7, None), (9, None)],
    );
    check(&[8], &[(8, Some(b"two"))]);
    check(&[9], &[(9, None)]);
    check(&[1], &[]);
    let (kind, body) = encoded(said);
    for inner in [2_u32, 3, 6, 7, 8, 0, 0x101] {
        let kept = [&[0; 16][..], &inner.to_le_bytes(), &body].concat();
        assert!(
            matches!(decode(KIND_KEPT, &kept), Err(Fault::Malformed(_))),
            "{inner}"
        );
    }
    let kept = [&[0; 16][..], &u32::from(kind).to_le_bytes(), &body[1..]].concat();
    assert!(matches!(decode(KIND_KEPT, &kept), Err(Fault::Malformed(_))));
    assert!(matches!(decode(KIND_KEPT, &kept[..19]), Err(Fault::Malformed(_))));
}

proptest! {
    #[test]
    fn any_body_is_judged_without_panic(kind in prop::sample::select(FORMAT.kinds), body in prop::collection::vec(any::<u8>(), 0..100), small: bool) {
        let mut body = body;
        if small && body.len() > 28 {
            body[17..20].fill(0);
            body[21..28].fill(0);
        }
        if let Some((said, _)) = decode(kind, &body).ok().and_then(|said| said.upserted(0)) {
            let LogRecord::Upsert { row_bytes, rows: bytes, .. } = said else { return Ok(()) };
            let length_bytes = if row_bytes as usize == VARYING { stored::LENGTH_BYTES } else { 0 };
            let rows = said.changes().filter_map(|(_, row)| row);
            prop_assert_eq!(rows.map(|row| row.len() + length_bytes).sum::<usize>(), bytes.len());
        }
    }
}
