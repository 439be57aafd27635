//! Parts merged against the answer of one server that has all keys, and parts that lie.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Field;
use crate::features_lookup::{Answer, Pool};
use crate::payload::{Encoding, Payload};
use proptest::prelude::*;

const TYPES: [RowType; 6] = [
    RowType::F32,
    RowType::F64,
    RowType::F16,
    RowType::Bf16,
    RowType::U8,
    RowType::None,
];

/// The rows of some keys, as a server writes them: key k is found where k is odd, and each byte of its row is k.
fn answer(keys: &[u64], version: u64, dim: usize, row_type: RowType) -> Vec<u8> {
    let header = Header {
        version,
        dim,
        row_type,
        keys: keys.len(),
        rows: keys.len(),
        inverse: None,
        overlay_sequence: None,
        active: None,
        missing: &[],
    };
    let mut bytes = Vec::new();
    header.write(
        &mut Encoder::new(&mut bytes, Encoding::Msgpack, false),
        |found, values| {
            let row_bytes = dim * row_type.bytes();
            for (at, key) in keys.iter().enumerate() {
                found[at / 8] |= ((key % 2) as u8) << (at % 8);
                values[at * row_bytes..][..row_bytes].fill(*key as u8);
            }
        },
    );
    bytes
}

fn add(merge: &mut Merge, answer: &[u8], positions: &[u32], at_version: Option<u64>) -> Result<(), String> {
    let payload = Payload::new(Encoding::Msgpack, answer).unwrap();
    let part = Part::decode(&payload).map_err(|error| error.to_string())?;
    let asked = Asked {
        at_version,
        positions,
        ..asked(&[])
    };
    match merge.check(&part, &asked) {
        Ok(()) => merge.place(&part, positions).map_err(|error| error.to_string()),
        Err(Unfit::Node(error)) => Err(error.to_string()),
        Err(Unfit::Call(status)) => Err(status.to_string()),
    }
}

fn asked(positions: &[u32]) -> Asked<'_> {
    Asked {
        table: "films",
        positions,
        at_version: None,
        pooled: None,
        beside: 0,
    }
}

proptest! {
    #[test]
    fn merged_parts_are_the_answer_of_one_server(
        keys in prop::collection::vec((0_u64..200, 0_usize..4), 1..70),
        dim in 1_usize..5,
        row_type in prop::sample::select(&TYPES[..]),
        missed in 0_usize..5,
        twice in any::<bool>(),
    ) {
        let dim = if row_type == RowType::None { 0 } else { dim };
        let all: Vec<u64> = keys.iter().map(|(key, _)| *key).collect();
        let mut merge = Merge::new(all.len(), row_type, 1 << 20);
        let mut expected_keys = all.clone();
        let mut missing = Vec::new();
        for node in 0..4 {
            let positions: Vec<u32> = (0_u32..).zip(&keys).filter(|(_, (_, of))| *of == node).map(|(at, _)| at).collect();
            let part: Vec<u64> = positions.iter().map(|at| all[*at as usize]).collect();
            if node == missed && node > 0 {
                positions.iter().for_each(|at| expected_keys[*at as usize] = 0);
                missing = positions;
                continue;
            }
            let bytes = answer(&part, 7, dim, row_type);
            for _ in 0..=usize::from(twice) {
                add(&mut merge, &bytes, &positions, Some(7)).unwrap();
            }
        }
        merge.miss(&missing);
        let mut merged = Vec::new();
        merge.write(&[], &mut Encoder::new(&mut merged, Encoding::Msgpack, false));
        prop_assert_eq!(&merged, &answer(&expected_keys, 7, dim, row_type));
        let payload = Payload::new(Encoding::Msgpack, &merged).unwrap();
        let Answer::One(rows) = Answer::decode(&payload).unwrap().0 else { panic!("of several tables") };
        let bytes = |rows: &Rows<'_>| {
            let mut bytes = Vec::new();
            Rows::write(rows, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
            bytes
        };
        // Bytes and not numbers are compared: some of these rows are NaN.
        prop_assert_eq!(bytes(&rows), bytes(&merge.into_rows(Vec::new())));
    }

    #[test]
    fn a_part_that_was_cut_or_changed_never_panics(at in 0_usize..60, byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = answer(&[1, 2, 3], 7, 2, RowType::F32);
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let mut merge = Merge::new(9, RowType::F32, 1 << 10);
        let before = merge.values().len();
        if let Ok(payload) = Payload::new(Encoding::Msgpack, &bytes)
            && let Ok(part) = Part::decode(&payload)
            && merge.check(&part, &Asked { at_version: Some(7), ..asked(&[0, 4, 8]) }).is_ok()
        {
            let _ = merge.place(&part, &[0, 4, 8]);
        }
        prop_assert!(before == 0 && merge.values().len() <= 1 << 10);
    }
}

#[test]
fn a_part_that_lies_is_refused_whole() {
    let check = |answer: Vec<u8>, expected: &str| {
        let mut merge = Merge::new(4, RowType::F32, 1 << 10);
        add(&mut merge, &self::answer(&[1], 7, 2, RowType::F32), &[0], Some(7)).unwrap();
        let before = (merge.found().to_vec(), merge.values().to_vec());
        let error = add(&mut merge, &answer, &[1, 2, 3], Some(7)).unwrap_err();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        assert_eq!(before, (merge.found().to_vec(), merge.values().to_vec()));
    };
    check(
        answer(&[1, 2, 3], 8, 2, RowType::F32),
        "key \"version\" is version 8",
    );
    check(answer(&[1, 2, 3], 7, 2, RowType::F16), "key \"type\" is \"f16\"");
    check(answer(&[1, 2], 7, 2, RowType::F32), "key \"values\" is 16 bytes");
    check(answer(&[1; 9], 7, 2, RowType::F32), "key \"found\" is 2 bytes");
    check(
        answer(&[1, 2, 3], 7, 3, RowType::F32),
        "key \"dim\" is 3 numbers; expected 2 numbers",
    );
    check(vec![0x80], "version");
    check(b"\x91\x01".to_vec(), "a map");
}

#[test]
fn a_right_part_that_is_none_of_an_answer_is_not_its_nodes_fault() {
    let check = |row_type, dim, values: usize, beside, expected: Result<(), Option<Code>>| {
        let merge = Merge::new(4, row_type, 100);
        let part = Part {
            version: 1,
            active: 1,
            dim,
            row_type,
            found: vec![0].into(),
            values: vec![0; values].into(),
            offsets: None,
        };
        let asked = Asked {
            beside,
            ..asked(&[0, 1])
        };
        let found = merge.check(&part, &asked);
        let found = found.map_err(|unfit| match unfit {
            Unfit::Call(status) => Some(status.code),
            Unfit::Node(_) => None,
        });
        assert_eq!(found, expected, "{part:?} beside {beside}");
        assert!(merge.values().is_empty());
    };
    check(RowType::F32, 6, 48, 4, Ok(()));
    // With the call's other tables.
    check(RowType::F32, 6, 48, 5, Err(Some(Code::TooLarge)));
    check(RowType::F32, 7, 56, 0, Err(Some(Code::TooLarge)));
    // What does not hold what it says is a lie, however large.
    check(RowType::F32, usize::MAX, 48, 0, Err(None));
    check(RowType::F32, 0, 48, 0, Err(None));
    check(RowType::U8, 0, 0, 0, Ok(()));
    check(RowType::U8, 0, 11, 0, Err(None));
}

/// Rows of bytes that vary in length, as a server writes them: a key is found where its row is there.
fn varying_answer(rows: &[Option<Vec<u8>>], version: u64) -> Vec<u8> {
    let header = Header {
        version,
        dim: 0,
        row_type: RowType::U8,
        keys: rows.len(),
        rows: rows.len(),
        inverse: None,
        overlay_sequence: None,
        active: None,
        missing: &[],
    };
    let all: Vec<u8> = rows.iter().flatten().flatten().copied().collect();
    let mut bytes = Vec::new();
    let out = &mut Encoder::new(&mut bytes, Encoding::Msgpack, false);
    header.write_varying(all.len(), out, |found, offsets, values| {
        values.copy_from_slice(&all);
        let (mut end, places) = (0, offsets.as_chunks_mut().0);
        for (at, row) in rows.iter().enumerate() {
            found[at / 8] |= u8::from(row.is_some()) << (at % 8);
            end += row.as_ref().map_or(0, |row| row.len() as u32);
            places[at + 1] = end.to_le_bytes();
        }
    });
    bytes
}

proptest! {
    #[test]
    fn merged_rows_that_vary_in_length_are_the_answer_of_one_server(
        keys in prop::collection::vec((prop::option::of(prop::collection::vec(any::<u8>(), 0..9)), 0_usize..3), 1..40),
        missed in 0_usize..4,
        twice in any::<bool>(),
    ) {
        let mut expected: Vec<Option<Vec<u8>>> = keys.iter().map(|(row, _)| row.clone()).collect();
        let bytes = expected.iter().flatten().map(Vec::len).sum::<usize>() + (keys.len() + 1) * 4;
        let mut merge = Merge::new(keys.len(), RowType::U8, bytes);
        let mut missing = Vec::new();
        for node in 0..3 {
            let positions: Vec<u32> = (0_u32..).zip(&keys).filter(|(_, (_, of))| *of == node).map(|(at, _)| at).collect();
            let part: Vec<_> = positions.iter().map(|at| expected[*at as usize].clone()).collect();
            if node == missed && node > 0 {
                missing = positions;
                continue;
            }
            for _ in 0..=usize::from(twice) {
                add(&mut merge, &varying_answer(&part, 7), &positions, Some(7)).unwrap();
            }
        }
        merge.miss(&missing);
        missing.iter().for_each(|at| expected[*at as usize] = None);
        let mut merged = Vec::new();
        merge.write(&[], &mut Encoder::new(&mut merged, Encoding::Msgpack, false));
        prop_assert_eq!(&merged, &varying_answer(&expected, 7));
        prop_assert!(merge.rows_bytes() <= bytes);
        let payload = Payload::new(Encoding::Msgpack, &merged).unwrap();
        let Answer::One(rows) = Answer::decode(&payload).unwrap().0 else { panic!("of several tables") };
        prop_assert_eq!(&rows, &merge.into_rows(Vec::new()));
    }
}

#[test]
fn rows_that_vary_in_length_are_held_against_their_offsets_and_the_limit() {
    let rows = |count: usize, bytes: usize| vec![Some(vec![7; bytes]); count];
    // Three offsets and eight bytes.
    let mut merge = Merge::new(2, RowType::U8, 20);
    add(&mut merge, &varying_answer(&rows(1, 5), 7), &[0], None).unwrap();
    let mut check = |answer: Vec<u8>, positions: &[u32], expected: &str| {
        let error = add(&mut merge, &answer, positions, None).unwrap_err();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        assert_eq!((merge.row_at(0), merge.row_at(1)), (&[7; 5][..], &[][..]));
    };
    check(varying_answer(&rows(1, 4), 7), &[1], "21 bytes of rows");
    check(varying_answer(&rows(2, 1), 7), &[1], "key \"offsets\" is 3");
    check(answer(&[1], 7, 2, RowType::U8), &[1], "key \"dim\" is 2 numbers");
    let cut = varying_answer(&rows(1, 3), 7);
    let mut cut = cut[..cut.len() - 4].to_vec();
    cut.extend_from_slice(&9_u32.to_le_bytes());
    check(cut, &[1], "ascending offsets from 0");
    // A row that is sent again counts once, and what came of another version does not.
    add(&mut merge, &varying_answer(&rows(1, 8), 7), &[0], None).unwrap();
    merge.reset();
    add(&mut merge, &varying_answer(&rows(2, 4), 8), &[1, 0], None).unwrap();
    assert_eq!(merge.into_values(), (vec![7; 8], Some(vec![0, 4, 8])));
}

#[test]
fn bags_count_where_they_are_more_than_keys() {
    let check = |bags: usize, row_type, beside, expected: Result<(), &str>| {
        let merge = Merge::new(1, Pooled::ASKED, 100);
        let part = Part {
            version: 1,
            active: 1,
            dim: 2,
            row_type: Pooled::ASKED,
            found: vec![1].into(),
            values: vec![0; 8].into(),
            offsets: None,
        };
        let offsets = [vec![0; bags], vec![1]].concat();
        let pooled = Pooled::of(Pool::Sum, offsets, row_type).unwrap();
        let asked = Asked {
            pooled: Some(&pooled),
            beside,
            ..asked(&[0])
        };
        let found = merge.check(&part, &asked).map_err(|unfit| match unfit {
            Unfit::Call(status) if status.code == Code::TooLarge => status.ex,
            unfit => panic!("{unfit:?}"),
        });
        match (&found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(ex), Err(words)) if ex.contains(words) => {}
            _ => panic!("{bags} bags of {row_type:?} beside {beside}: {found:?}"),
        }
    };
    check(1, RowType::F16, 92, Ok(()));
    // Its row is wider before it is pooled.
    check(1, RowType::F16, 93, Err("101 bytes"));
    check(12, RowType::F32, 4, Ok(()));
    check(12, RowType::F32, 5, Err("101 bytes"));
    check(13, RowType::F32, 0, Err("104 bytes"));
    check(25, RowType::Bf16, 0, Ok(()));
    check(7, RowType::F64, 0, Err("112 bytes"));
}

#[test]
fn a_call_that_begins_anew_keeps_nothing() {
    let mut merge = Merge::new(2, RowType::U8, 1 << 10);
    add(&mut merge, &answer(&[1], 7, 2, RowType::U8), &[0], None).unwrap();
    merge.reset();
    assert_eq!((merge.version(), merge.found()), (None, &[0][..]));
    // Another version may be wider.
    add(&mut merge, &answer(&[3], 6, 3, RowType::U8), &[1], None).unwrap();
    assert_eq!(
        (merge.version(), merge.values()),
        (Some(6), &[0, 0, 0, 3, 3, 3][..])
    );
}
