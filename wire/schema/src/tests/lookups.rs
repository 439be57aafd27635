//! Lookups and their answers: what round-trips, what is refused and in which words, and rows that are read to their place.

use super::*;
use features_lookup::{Lookups, ManyRows, Missing, Pool, RowType, Rows};
use infer::{Data, bf16, f16};

#[test]
fn lookups_round_trip() {
    let lookup = |pool, offsets: &[u32]| Lookup {
        table: "t".into(),
        keys: Some(vec![1, u64::MAX]),
        texts: None,
        at_version: Some(3),
        pool,
        offsets: offsets.to_vec(),
        columns: vec![],
        row_type: RowType::F32,
        unique: false,
        map: None,
    };
    let call = features_lookup::Call::One(lookup(Pool::Sum, &[0, 2]));
    let json = round_trip::<features_lookup::Call<'_>>(&call);
    let expected =
        r#"{"table":"t","keys":[1,18446744073709551615],"at_version":3,"pool":"sum","offsets":[0,2]}"#;
    assert_eq!(json, expected);
    let lookups = vec![lookup(Pool::None, &[]), lookup(Pool::Mean, &[0, 2])];
    round_trip::<features_lookup::Call<'_>>(&features_lookup::Call::Many(Lookups { lookups }));
    let call = features_lookup::Call::One(Lookup {
        columns: vec!["a".into(), "b".into()],
        row_type: RowType::Bf16,
        unique: true,
        map: Some(12),
        keys: None,
        texts: Some(vec![Cow::Borrowed(b"drama"), Cow::Borrowed(&[0xff])]),
        ..lookup(Pool::None, &[])
    });
    round_trip::<features_lookup::Call<'_>>(&call);
    let rows = |version| Rows {
        version,
        dim: 2,
        row_type: RowType::F32,
        found: Cow::Borrowed(&[3]),
        values: Data::F32(vec![0.5, 1.0, -2.0, 3.5]),
        offsets: None,
        inverse: None,
        active: None,
        missing: Vec::new(),
        overlay_sequence: Some(9),
    };
    let json = round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows(2)));
    assert_eq!(
        json,
        r#"{"version":2,"dim":2,"type":"f32","found":[3],"values":[0.5,1.0,-2.0,3.5],"overlay_sequence":9}"#
    );
    let lookups = vec![rows(2), rows(9)];
    round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::Many(ManyRows { lookups }));
}

fn missing() -> Vec<Missing<'static>> {
    vec![Missing {
        node: "b".into(),
        keys: vec![3, u64::MAX],
        code: 30116,
        ex: "the connection closed".into(),
    }]
}

#[test]
fn rows_that_vary_in_length_come_with_offsets() {
    let inverse = [1, 0, 1];
    let rows = Rows {
        version: 7,
        dim: 0,
        row_type: RowType::U8,
        found: Cow::Borrowed(&[2]),
        values: Data::U8(b"abc".to_vec()),
        offsets: Some(vec![0, 0, 3]),
        inverse: Some(inverse.to_vec()),
        overlay_sequence: None,
        active: None,
        missing: Vec::new(),
    };
    let json = round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows.clone()));
    assert_eq!(
        json,
        r#"{"version":7,"dim":0,"type":"u8","found":[2],"values":[97,98,99],"offsets":[0,0,3],"inverse":[1,0,1]}"#
    );
    let header = features_lookup::Header {
        version: 7,
        dim: 0,
        row_type: RowType::U8,
        keys: 2,
        rows: 2,
        inverse: Some(&inverse),
        overlay_sequence: None,
        active: None,
        missing: &[],
    };
    for encoding in [Encoding::Msgpack, Encoding::Json] {
        let (mut whole, mut filled) = (Vec::new(), Vec::new());
        Rows::write(&rows, &mut Encoder::new(&mut whole, encoding, true));
        header.write_varying(
            3,
            &mut Encoder::new(&mut filled, encoding, true),
            |found, offsets, values| {
                found[0] = 2;
                offsets[8] = 3;
                values.copy_from_slice(b"abc");
            },
        );
        assert_eq!(filled, whole);
    }
    for offsets in [vec![], vec![0, 4], vec![1, 3], vec![0, 3, 2, 3]] {
        let wrong = Rows {
            offsets: Some(offsets.clone()),
            ..rows.clone()
        };
        let mut bytes = Vec::new();
        Rows::write(&wrong, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
        let read = Payload::new(Encoding::Msgpack, &bytes)
            .and_then(|payload| Rows::decode(&payload).map(|(rows, _)| Rows::own(rows)));
        let error = read.unwrap_err().to_string();
        assert!(
            error.contains("ascending offsets from 0 to the number of bytes (3)"),
            "{error}"
        );
    }
}

/// The bytes of a number of those rows.
fn number(row_type: RowType) -> Vec<u8> {
    match row_type {
        RowType::F32 => 1.5_f32.to_le_bytes().to_vec(),
        RowType::F64 => 1.5_f64.to_le_bytes().to_vec(),
        RowType::F16 => f16::from_f32(1.5).to_le_bytes().to_vec(),
        RowType::Bf16 => bf16::from_f32(1.5).to_le_bytes().to_vec(),
        RowType::U8 => vec![7],
        RowType::None => Vec::new(),
    }
}

#[test]
fn rows_read_to_their_place_are_the_same_answer() {
    let kinds = [
        (RowType::F32, Data::F32(vec![1.5; 20])),
        (RowType::F64, Data::F64(vec![1.5; 20])),
        (RowType::F16, Data::F16(vec![f16::from_f32(1.5); 20])),
        (RowType::Bf16, Data::Bf16(vec![bf16::from_f32(1.5); 20])),
        (RowType::U8, Data::U8(vec![7; 20])),
        (RowType::None, Data::U8(Vec::new())),
    ];
    for ((row_type, values), encoding) in kinds
        .into_iter()
        .flat_map(|kind| [(kind.clone(), Encoding::Msgpack), (kind, Encoding::Json)])
    {
        let inverse = (row_type == RowType::F16).then(|| vec![0, 1, 0]);
        let missing = missing();
        let rows = Rows {
            version: 7,
            dim: 2,
            row_type,
            found: Cow::Borrowed(&[0x81, 2]),
            values,
            offsets: None,
            inverse: inverse.clone(),
            active: Some(9),
            missing: missing.clone(),
            overlay_sequence: inverse.as_ref().map(|_| 5),
        };
        let header = features_lookup::Header {
            version: 7,
            dim: 2,
            row_type,
            keys: 10,
            rows: 10,
            inverse: inverse.as_deref(),
            active: Some(9),
            missing: &missing,
            overlay_sequence: inverse.as_ref().map(|_| 5),
        };
        let written = |write: &dyn Fn(&mut Encoder<'_>)| {
            let mut bytes = vec![b'1'];
            write(&mut Encoder::new(&mut bytes, encoding, false));
            bytes
        };
        let filled = written(&|out| {
            header.write(out, |found, places| {
                found.copy_from_slice(&[0x81, 2]);
                places.copy_from_slice(&number(row_type).repeat(20));
            });
        });
        assert_eq!(filled, written(&|out| Rows::write(&rows, out)));
        round_trip::<features_lookup::Answer<'_>>(&features_lookup::Answer::One(rows.clone()));
        let answer = features_lookup::Answer::Many(ManyRows {
            lookups: vec![rows.clone(), rows.clone()],
        });
        let parts = written(&|out| {
            features_lookup::write_many(&[&rows, &rows], out, |rows, out| Rows::write(rows, out));
        });
        assert_eq!(
            parts,
            written(&|out| features_lookup::Answer::write(&answer, out))
        );
    }
}

#[test]
fn lookups_are_checked() {
    let check = check::<features_lookup::Call<'_>>;
    check(r#"{"table":"t","keys":[1]}"#, "One(");
    check(
        r#"{"lookups":[{"table":"t","keys":[1]},{"table":"u","keys":[]}]}"#,
        "Many(",
    );
    check(
        r#"{"lookups":[{"table":"t"}]}"#,
        "key \"lookups[0].keys\" is missing",
    );
    check(r#"{"lookups":[],"table":"t"}"#, "\"table\" is unknown");
    check(r#"{"table":"t","keys":[1],"kezs":2}"#, "\"kezs\" is unknown");
    check(
        r#"{"lookups":[{"table":"t","keys":[1],"kezs":2}]}"#,
        "key \"lookups[0].kezs\" is unknown here; known keys: table, keys, texts, at_version, pool, offsets, columns, type, unique, map (and",
    );
    check(
        r#"{"table":"t","keys":[1],"table":"u"}"#,
        "\"table\" occurs twice",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"median"}"#,
        "\"pool\" is \"median\"",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum"}"#,
        "\"offsets\" is missing",
    );
    check(
        r#"{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,1]}"#,
        "0 … 1; expected ascending",
    );
    check(
        r#"{"lookups":[{"table":"t","keys":[1,2],"pool":"sum","offsets":[0,2,1,2]}]}"#,
        "\"lookups[0].offsets\" is descending at 2",
    );
    check(
        r#"{"table":"t","keys":[1,2],"pool":"mean","offsets":[0,0,2]}"#,
        "pool: Mean",
    );
    check(r#"{"table":"t","texts":["a","b"]}"#, "texts: Some([");
    check(r#"{"table":"t"}"#, "key \"keys\" is missing; expected u64 values");
    check(
        r#"{"table":"t","kys":[1]}"#,
        "array of numbers); key \"kys\" is unknown here",
    );
    check(r#"{"tble":"t","keys":[1]}"#, "key \"tble\" is unknown here");
    check(
        r#"{"table":"t","keys":[1],"texts":["a"]}"#,
        "\"texts\" is given; expected no `texts` beside `keys`",
    );
    check(
        r#"{"table":"t","texts":["a"],"pool":"sum","offsets":[0,2]}"#,
        "to the number of keys (1)",
    );
    check(
        r#"{"table":"t","keys":[1],"type":"i8"}"#,
        "\"type\" is \"i8\"; expected \"f32\", \"f64\"",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum","offsets":[0,1],"type":"u8"}"#,
        "\"type\" is given; expected a type of floats",
    );
    check(
        r#"{"table":"t","keys":[1],"pool":"sum","offsets":[0,1],"unique":true}"#,
        "\"unique\" is given; expected no",
    );
}

#[test]
fn answers_that_do_not_fit_are_named() {
    check::<features_lookup::Answer<'_>>(
        r#"{"lookups": [1]}"#,
        "key \"lookups[0]\" is an integer; expected a map",
    );
    check::<features_lookup::Answer<'_>>(
        r#"{"lookups": [{"version": 1, "dim": 1, "found": []}]}"#,
        "key \"lookups[0].values\" is missing",
    );
    check::<ordered_get::Answer<'_>>(
        r#"{"values": [null], "versions": []}"#,
        "key \"versions\" is 0 versions; expected one for each of 1 values",
    );
    check::<rank::Answer<'_>>(
        r#"{"items": [1], "scores": [], "model": "m", "versions": {}}"#,
        "key \"scores\" is 0 scores; expected one for each of 1 items",
    );
    check::<rank::Answer<'_>>(
        r#"{"items": [], "scores": [], "model": "m", "versions": {"t": "x"}}"#,
        "key \"versions.t\" is text; expected an integer",
    );
    check::<system::Pong<'_>>("{}", "\"ts\" is missing");
    check::<system::IsServing<'_>>("{}", "\"status\" is missing");
}
