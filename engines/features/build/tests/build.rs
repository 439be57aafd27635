//! Parquet files into tables, and every way in which that is refused.
//!
//! Invariant checked: a built table answers with the bits of its input; a refused one leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod input;

use std::fs;
use std::path::{Path, PathBuf};

use input::{Layout, Row, pyarrow, required, row};
use millpond_engines_features::{Table, versions};
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Error, MEMORY_BYTES, Numbers, Source, Summary, build, compact,
    inspect, verify,
};
use parquet::basic::Compression;
use parquet::file::properties::WriterVersion;

fn options(dir: &Path) -> BuildOptions {
    BuildOptions {
        inputs: vec![dir.join("in.parquet").display().to_string()],
        shards: 2,
        ..BuildOptions::new(dir.join("tables"), "films")
    }
}

fn build_quietly(options: &BuildOptions) -> Result<Summary, Error> {
    build(options, &mut |_| {})
}

/// What a failed build of the only table left.
fn left_behind(dir: &Path) -> Vec<String> {
    fs::read_dir(dir.join("tables")).map_or(Vec::new(), |entries| {
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    })
}

fn many_rows(count: u64, dim: u64) -> Vec<Row> {
    (0..count)
        .map(|number| {
            // Spread over all bits, the highest included; 0 and the last are extremes.
            let key = if number + 1 == count {
                u64::MAX
            } else {
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            };
            let vector: Vec<f64> = (0..dim)
                .map(|at| f64::from((number * dim + at) as f32) / 8.0 - 100.0)
                .collect();
            row(key, &vector)
        })
        .collect()
}

fn check_contents(table: &Table, rows: &[Row]) {
    table.verify().unwrap();
    assert_eq!(table.rows(), rows.len() as u64);
    let keys: Vec<u64> = rows.iter().filter_map(|row| row.0).collect();
    let mut values = vec![0.0; keys.len() * table.dim()];
    let mut found = vec![0; keys.len().div_ceil(8)];
    assert_eq!(table.lookup(&keys, &mut values, &mut found), keys.len());
    for ((_, expected), got) in rows.iter().zip(values.chunks(table.dim())) {
        let expected: Vec<f32> = expected
            .iter()
            .flatten()
            .map(|value| value.unwrap() as f32)
            .collect();
        assert_eq!(got, expected);
    }
}

/// As [`check_contents`], for 16-bit floats.
fn check_near(table: &Table, rows: &[Row]) {
    assert_eq!(table.rows(), rows.len() as u64);
    for (key, vector) in rows {
        let (mut values, mut found) = (vec![0.0; table.dim()], [0]);
        assert_eq!(table.lookup(&[key.unwrap()], &mut values, &mut found), 1);
        for (value, expected) in values.iter().zip(vector.iter().flatten()) {
            assert!(
                (f64::from(*value) - expected.unwrap()).abs() < 0.1,
                "{values:?} {vector:?}"
            );
        }
    }
}

#[test]
fn every_layout_keeps_every_bit() {
    let check = |layout: Layout| {
        let dir = tempfile::tempdir().unwrap();
        let rows = many_rows(5000, 3);
        input::write(&dir.path().join("in.parquet"), &layout, &rows);
        let summary =
            build_quietly(&options(dir.path())).unwrap_or_else(|error| panic!("{layout:?}: {error}"));
        assert_eq!(
            (summary.rows, summary.dim, summary.shards, summary.version),
            (5000, 3, 2, 1)
        );
        check_contents(&Table::open(&summary.path).unwrap(), &rows);
    };
    check(pyarrow());
    check(required());
    check(Layout {
        group_rows: 999,
        ..pyarrow()
    });
    check(Layout {
        double: true,
        ..pyarrow()
    });
    check(Layout {
        double: true,
        group_rows: 1,
        ..required()
    });
    check(Layout {
        element_optional: true,
        key: "optional int64 key",
        ..required()
    });
    check(Layout {
        list_optional: true,
        key: "required int64 key (UINT_64)",
        ..required()
    });
    check(Layout {
        compression: Compression::UNCOMPRESSED,
        version: WriterVersion::PARQUET_2_0,
        key: "required int64 key (INTEGER(64,true))",
        ..pyarrow()
    });
}

#[test]
fn files_of_pyarrow_keep_every_bit() {
    let keys = [0, 1, 1 << 63, u64::MAX, 14_695_981_039_346_656_037];
    let rows: Vec<Row> = (0..5_u32)
        .map(|at| {
            let number = f64::from(at);
            row(keys[at as usize], &[number + 0.5, -number, 1e-40 * number])
        })
        .collect();
    for file in [
        "uint64_list_snappy.parquet",
        "int64_fixed_zstd_v2.parquet",
        "uint64_double_plain.parquet",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = BuildOptions {
            inputs: vec![format!("{}/tests/pyarrow/{file}", env!("CARGO_MANIFEST_DIR"))],
            ..options(dir.path())
        };
        let summary = build_quietly(&options).unwrap();
        check_contents(&Table::open(&summary.path).unwrap(), &rows);
    }
}

#[test]
fn a_codec_that_is_not_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = BuildOptions {
        inputs: vec![format!(
            "{}/tests/pyarrow/uint64_list_gzip.parquet",
            env!("CARGO_MANIFEST_DIR")
        )],
        ..options(dir.path())
    };
    let message = build_quietly(&options).unwrap_err().to_string();
    assert!(
        message.contains("is compressed with gzip;") && message.contains("snappy, zstd or no compression"),
        "{message}"
    );
}

#[test]
fn progress_grows_to_the_whole_input() {
    let dir = tempfile::tempdir().unwrap();
    input::write(&dir.path().join("in.parquet"), &required(), &many_rows(20_001, 1));
    let mut seen = Vec::new();
    build(&options(dir.path()), &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.len() > 5 && seen.is_sorted_by(|a, b| a.rows < b.rows && a.share < b.share));
    let last = seen.last().unwrap().to_string();
    assert_eq!(last, "20001 rows, 100 % of the input");
}

#[test]
fn versions_count_up_and_are_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    input::write(&dir.path().join("in.parquet"), &pyarrow(), &[row(1, &[1.0])]);
    let mut options = options(dir.path());
    assert_eq!(build_quietly(&options).unwrap().version, 1);
    assert_eq!(build_quietly(&options).unwrap().version, 2);
    options.version = Some(9);
    assert_eq!(build_quietly(&options).unwrap().version, 9);
    let error = build_quietly(&options).unwrap_err().to_string();
    assert!(error.contains("version 9 is already in"), "{error}");
    options.version = None;
    assert_eq!(build_quietly(&options).unwrap().version, 10);
    options.version = Some(u64::MAX);
    build_quietly(&options).unwrap();
    options.version = None;
    assert!(matches!(
        build_quietly(&options),
        Err(Error::NoNextVersion { .. })
    ));
    let there = versions(&dir.path().join("tables/films"));
    assert_eq!(there.unwrap(), [1, 2, 9, 10, u64::MAX]);
}

/// Builds `rows` and expects an error that begins as the input's row and ends as given, and no folder left.
fn check_refused(rows: &[Row], layout: &Layout, at: usize, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    input::write(&dir.path().join("in.parquet"), layout, rows);
    let error = build_quietly(&options(dir.path())).unwrap_err();
    let message = error.to_string();
    let column = if expected.contains("key") { "key" } else { "vector" };
    let place = format!("in.parquet, row {at} (counted from 0), column \"{column}\": {expected}");
    assert!(message.contains(&place), "{message}");
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn a_bad_row_is_named_wherever_it_is() {
    let small_groups = Layout {
        group_rows: 1000,
        ..pyarrow()
    };
    // The first row of the file, rows around the ends of batches and groups, the last row.
    for at in [0, 1, 999, 1000, 2047, 2048, 4999] {
        let check = |bad: Row, expected: &str| {
            let mut rows = many_rows(5000, 2);
            rows[at] = bad;
            check_refused(&rows, &pyarrow(), at, expected);
            check_refused(&rows, &small_groups, at, expected);
        };
        check((None, Some(vec![Some(1.0); 2])), "the key is null");
        check((Some(5), None), "the value is null");
        check((Some(5), Some(vec![])), "the list is empty");
        check((Some(5), Some(vec![Some(1.0), None])), "element 1 is null");
        check(row(5, &[f64::NAN, 1.0]), "element 0 is NaN; expected a finite");
        check(row(5, &[0.0, f64::NEG_INFINITY]), "element 1 is -inf");
        if at > 0 {
            check(
                row(5, &[1.0]),
                "there are 1 numbers, the first row has 2; make all",
            );
            check(
                row(5, &[1.0; 3]),
                "there are 3 numbers, the first row has 2; make all",
            );
            check(
                row(0, &[1.0; 2]),
                "key 0 is in row 0 (counted from 0) already; keep one",
            );
        }
    }
}

#[test]
fn a_double_beyond_a_float_is_named() {
    let layout = Layout {
        double: true,
        ..pyarrow()
    };
    check_refused(
        &[row(1, &[1.0]), row(2, &[1e300])],
        &layout,
        1,
        "element 0 is 1e300; expected a finite number that the table's type holds",
    );
}

#[test]
fn columns_that_are_missing_or_of_other_types_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.parquet");
    let check = |key_column: &str, value_column: &str, expected: &str| {
        let options = BuildOptions {
            key_column: key_column.to_owned(),
            columns: vec![ColumnOptions::new(Source::Columns(vec![value_column.to_owned()]))],
            ..options(dir.path())
        };
        let message = build_quietly(&options).unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("in.parquet"),
            "{message}"
        );
        assert_eq!(left_behind(dir.path()), Vec::<String>::new());
    };
    input::write(&path, &required(), &[row(1, &[1.0])]);
    check(
        "id",
        "vector",
        "no column \"id\": found [\"key\", \"other\", \"vector\"]",
    );
    check("key", "Vector", "no column \"Vector\"");
    check(
        "other",
        "vector",
        "column \"other\": expected INT64, signed or unsigned, or a string, not in a list, found INT32",
    );
    check(
        "vector",
        "vector",
        "column \"vector\": expected INT64, signed or unsigned, or a string, not in a list, found group (List)",
    );
    check(
        "key",
        "key",
        "column \"key\": expected float, double or float16, or a list of them, found INT64",
    );
    let timestamps = Layout {
        key: "required int64 key (TIMESTAMP(MICROS,true))",
        ..required()
    };
    input::write(&path, &timestamps, &[row(1, &[1.0])]);
    check(
        "key",
        "vector",
        "column \"key\": expected INT64, signed or unsigned, or a string, not in a list, found INT64 (Timestamp",
    );
}

#[test]
fn files_that_are_no_input_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.parquet");
    let check = |expected: &str| {
        let message = build_quietly(&options(dir.path())).unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("in.parquet"),
            "{message}"
        );
        assert_eq!(left_behind(dir.path()), Vec::<String>::new());
    };
    check("cannot open");
    fs::write(&path, b"").unwrap();
    check("is not a whole Parquet file");
    fs::write(&path, "key,vector\n1,\"[1.0]\"\n".repeat(100)).unwrap();
    check("is not a whole Parquet file");
    input::write(&path, &pyarrow(), &[]);
    check("has no rows; expected at least one");

    input::write(&path, &pyarrow(), &many_rows(300, 2));
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(37) {
        fs::write(&path, &whole[..length]).unwrap();
        check("is not a whole Parquet file");
    }
}

#[test]
fn a_flipped_bit_in_the_input_ends_in_a_table_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.parquet");
    for layout in [pyarrow(), required()] {
        input::write(&path, &layout, &many_rows(20, 2));
        let whole = fs::read(&path).unwrap();
        // Parquet pages carry no checksum that must be there, so a flip in a value may well build a table.
        let (mut built, mut refused) = (0, 0);
        for bit in (0..whole.len() * 8).step_by(43) {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped).unwrap();
            let options = BuildOptions {
                shards: 1,
                ..options(dir.path())
            };
            match build_quietly(&options) {
                Ok(_) => {
                    built += 1;
                    fs::remove_dir_all(&options.out_dir).unwrap();
                }
                Err(_) => refused += 1,
            }
            assert_eq!(left_behind(dir.path()), Vec::<String>::new());
        }
        assert!(built > 0 && refused > 0, "{built} built, {refused} refused");
    }
}

#[test]
fn deltas_change_what_their_input_names() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, rows: &[Row]| input::write(&dir.path().join(name), &pyarrow(), rows);
    let (mut rows, gone) = (many_rows(300, 2), many_rows(310, 2)[290..].to_vec());
    write("in.parquet", &rows);
    let mut options = options(dir.path());
    options.columns[0].numbers = Some(Numbers::F16);
    build_quietly(&options).unwrap();

    let changed = [row(7_777, &[1.0, 2.0]), row(rows[5].0.unwrap(), &[3.0, 4.0])];
    write("in.parquet", &changed);
    write("gone.parquet", &gone);
    options.columns[0].numbers = None;
    options.base = Some(Base::Newest);
    options.remove = vec![dir.path().join("gone.parquet").display().to_string()];
    assert_eq!(build_quietly(&options).unwrap().version, 2);
    let table_dir = dir.path().join("tables/films");
    rows.retain(|row| !gone.iter().any(|gone| gone.0 == row.0));
    rows[5] = changed[1].clone();
    rows.push(changed[0].clone());
    let check = |version| {
        let table = Table::open_version(&table_dir, Some(version)).unwrap();
        assert_eq!(table.schema().columns[0].numbers, Numbers::F16);
        check_near(&table, &rows);
    };
    check(2);
    let text = inspect(&table_dir).unwrap().to_string();
    assert!(
        text.contains("delta on  [1]") && text.contains("vector: 2 of f16"),
        "{text}"
    );
    assert_eq!(
        compact(&table_dir, None, None, 1, MEMORY_BYTES).unwrap().version,
        3
    );
    check(3);
    assert!(!inspect(&table_dir).unwrap().to_string().contains("delta"));

    let check_refused = |options: &BuildOptions, expected: &str| {
        let error = build_quietly(options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    options.columns[0].numbers = Some(Numbers::F32);
    check_refused(
        &options,
        "its columns are \"vector\", 2 of f16, those of the delta \"vector\", 2 of f32",
    );
    options.columns[0].numbers = None;
    options.base = Some(Base::Version(9));
    check_refused(&options, "version 9 is not in");
    options.base = None;
    check_refused(&options, "keys to remove: expected none");
    assert_eq!(versions(&table_dir).unwrap(), [1, 2, 3]);
}

#[test]
fn inspect_and_verify_tell_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    input::write(&dir.path().join("in.parquet"), &pyarrow(), &many_rows(100, 4));
    let options = options(dir.path());
    let first = build_quietly(&options).unwrap();
    let second = build_quietly(&options).unwrap();
    let table_dir: PathBuf = dir.path().join("tables/films");

    let of_table = inspect(&table_dir).unwrap();
    assert_eq!((of_table.version, &of_table.versions[..]), (2, &[1, 2][..]));
    assert_eq!(
        (of_table.rows, of_table.schema.dim(), of_table.shards.len()),
        (100, 4, 2)
    );
    assert!(!of_table.checksums_verified);
    let text = of_table.to_string();
    for expected in [
        "films",
        "2 (there are 1, 2)",
        "vector: 4 of f32",
        "shard-00001.mpf",
        "data not read",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let of_version = verify(&first.path).unwrap();
    assert_eq!((of_version.version, &of_version.versions[..]), (1, &[1][..]));
    assert!(of_version.to_string().contains("every byte verified"));

    let shard = second.path.join("shard-00000.mpf");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[300] ^= 4;
    fs::write(&shard, bytes).unwrap();
    inspect(&table_dir).unwrap();
    let error = verify(&table_dir).unwrap_err().to_string();
    assert!(error.contains("shard-00000.mpf is damaged"), "{error}");
    let error = inspect(dir.path()).unwrap_err().to_string();
    assert!(error.contains("millpond features build"), "{error}");
}
