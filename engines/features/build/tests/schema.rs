//! What is said of a table's rows when it is built, beside the rows: their default, and whether they may be NaN.
#![allow(clippy::unwrap_used)]

use std::fs;

use millpond_engines_features_build::{Base, BuildOptions, NotFinite, build, inspect};

fn check(options: &BuildOptions, expected: &[&str]) {
    let found = match build(options, &mut |_| {}) {
        Ok(summary) => inspect(&summary.path).unwrap().to_string(),
        Err(error) => error.to_string(),
    };
    for words in expected {
        assert!(found.contains(words), "{found:?} does not contain {words:?}");
    }
}

#[test]
fn a_table_has_the_default_row_that_it_was_given_and_its_deltas_have_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.csv");
    fs::write(&input, "key,a,b\n1,0.5,2\n").unwrap();
    let given = |row: &[f32]| BuildOptions {
        inputs: vec![input.display().to_string()],
        default_row: Some(row.to_vec()),
        ..BuildOptions::new(dir.path(), "films")
    };
    check(
        &given(&[1.0]),
        &["default row (--default-row): expected 2 numbers, found 1"],
    );
    check(
        &given(&[1.0, f32::NAN]),
        &["default row (--default-row): expected numbers that its columns can hold, found NaN at 1"],
    );
    check(&given(&[0.25, -1.0]), &["default   0.25, -1\n"]);
    let delta = |options| BuildOptions {
        base: Some(Base::Newest),
        ..options
    };
    let left_out = BuildOptions {
        default_row: None,
        ..given(&[])
    };
    check(&delta(left_out), &["delta on  [1]", "default   0.25, -1\n"]);
    check(&delta(given(&[0.25, -1.0])), &["delta on  [2, 1]"]);
    check(&delta(given(&[0.0, 0.0])), &["its default row is another"]);
}

#[test]
fn numbers_that_are_not_finite_are_kept_where_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.csv");
    fs::write(&input, "key,a,b\n1,NaN,inf\n").unwrap();
    let options = BuildOptions {
        inputs: vec![input.display().to_string()],
        ..BuildOptions::new(dir.path(), "films")
    };
    check(
        &options,
        &["expected a finite number: tables that are built with --keep-not-finite hold it too"],
    );
    let kept = BuildOptions {
        not_finite: NotFinite::Kept,
        ..options
    };
    check(&kept, &["rows      1", "numbers   may be NaN and infinite"]);
}
