//! Limits of schemas, and which of them answer alike.

#![allow(clippy::unwrap_used)]
use super::*;

fn column(name: &str, numbers: Numbers, dim: usize) -> Column {
    Column {
        name: name.to_owned(),
        numbers,
        dim,
    }
}

fn check(columns: Vec<Column>, expected: &str) {
    let schema = Schema {
        keys: Keys::U64,
        columns,
        ..Schema::floats(1)
    };
    let error = schema.check().unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn limits_are_named() {
    let a = || column("a", Numbers::F32, 1);
    check(vec![], "columns: expected 1 to 256, found 0");
    check(
        vec![a(), a()],
        "columns: expected different names, found \"a\" twice",
    );
    check(
        vec![column("a", Numbers::F16, 0)],
        "dim: expected at least 1 in column \"a\"",
    );
    check(
        vec![a(), column("b", Numbers::I8Scaled, DIM_MAX)],
        "dim: expected 1 to 65536, found 65537",
    );
    check(
        vec![column("a b", Numbers::F32, 1)],
        "name of a column: expected 1 to 128 letters",
    );
    let varying = |dim| column("rows", Numbers::VaryingBytes, dim);
    check(
        vec![a(), varying(0)],
        "columns: expected column \"rows\" alone, as its rows vary in length (or give its bytes a fixed number), found 2",
    );
    check(
        vec![varying(4)],
        "dim: expected none in column \"rows\", as its rows vary in length, found 4",
    );
    check(
        vec![column("raw", Numbers::Bytes, DIM_MAX + 1)],
        "dim: expected 1 to 65536, found 65537",
    );
    Schema::floats(DIM_MAX).check().unwrap();
}

#[test]
fn scales_count_as_bytes_of_a_row() {
    // Each of the small columns has one byte more than a float would.
    let columns = |floats: usize| -> Vec<Column> {
        let small = (0..255).map(|at| column(&format!("s{at}"), Numbers::I8Scaled, 1));
        small.chain([column("f", Numbers::F32, floats)]).collect()
    };
    check(
        columns(DIM_MAX - 255),
        "bytes of a row: expected at most 262144, all columns and their scales together, found 262399",
    );
    let widest = (ROW_BYTES_MAX - 255 * 5) / 4;
    let schema = Schema {
        columns: columns(widest),
        ..Schema::floats(1)
    };
    schema.check().unwrap();
    check(columns(widest + 1), "bytes of a row: ");
}

#[test]
fn tables_that_answer_alike_have_the_same_keys_and_columns() {
    let text = |slot: &str| Schema {
        keys: Keys::Text {
            slot: slot.to_owned(),
        },
        ..Schema::floats(2)
    };
    let half = Schema {
        columns: vec![column("vector", Numbers::F16, 2)],
        ..Schema::floats(2)
    };
    let check = |one: &Schema, other: &Schema, expected| {
        assert_eq!(one.answers_like(other), expected, "{one:?} and {other:?}");
    };
    let bytes = |numbers, dim| Schema {
        columns: vec![column("vector", numbers, dim)],
        ..Schema::floats(2)
    };
    check(&Schema::floats(2), &half, true);
    check(&Schema::floats(2), &bytes(Numbers::Bytes, 2), false);
    check(&bytes(Numbers::Bytes, 2), &bytes(Numbers::Bytes, 2), true);
    check(&bytes(Numbers::Bytes, 2), &bytes(Numbers::VaryingBytes, 0), false);
    check(&Schema::floats(2), &Schema::floats(3), false);
    check(&Schema::floats(2), &text("genre"), false);
    check(&text("genre"), &text("genre"), true);
    check(&text("genre"), &text("tag"), false);
}

#[test]
fn rows_have_the_documented_sizes() {
    let schema = Schema {
        keys: Keys::U64,
        columns: vec![
            column("a", Numbers::F32, 3),
            column("b", Numbers::F16, 3),
            column("c", Numbers::Bf16, 1),
            column("d", Numbers::I8Scaled, 5),
        ],
        not_finite: NotFinite::Kept,
        default_row: None,
    };
    assert_eq!((schema.dim(), schema.row_bytes()), (12, 12 + 6 + 2 + 9));
    assert!(!schema.is_floats() && Schema::floats(2).is_floats());
}

#[test]
fn default_rows_fit_their_columns() {
    let check = |numbers, row: &[f32], expected: &str| {
        let schema = Schema {
            columns: vec![column("a", numbers, 2)],
            default_row: Some(row.to_vec()),
            ..Schema::floats(2)
        };
        match schema.check() {
            Ok(()) => assert_eq!(expected, ""),
            Err(error) => assert_eq!(
                error.to_string(),
                format!("default row (--default-row): {expected}")
            ),
        }
    };
    check(Numbers::F32, &[0.5, -1.0], "");
    check(Numbers::F32, &[0.5], "expected 2 numbers, found 1");
    let expected = "expected numbers that its columns can hold, found";
    check(Numbers::F32, &[0.5, f32::NAN], &format!("{expected} NaN at 1"));
    check(Numbers::F16, &[1e6, 0.0], &format!("{expected} 1000000 at 0"));
    check(Numbers::Bytes, &[255.0, 0.0], "");
    check(Numbers::Bytes, &[0.0, 256.0], &format!("{expected} 256 at 1"));
    check(Numbers::Bytes, &[0.5, 0.0], &format!("{expected} 0.5 at 0"));
}

#[test]
fn kinds_are_named_as_the_manifest_names_them() {
    for (name, numbers) in Numbers::ALL {
        assert_eq!(numbers.as_str(), name);
        assert_eq!(serde_json::to_string(&numbers).unwrap(), format!("\"{name}\""));
    }
}
