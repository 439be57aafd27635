//! Tables of bytes from every format, and back.
//!
//! Invariant checked: what a version holds is the bytes of the input, whatever its form, and what does not fit is named with its place.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    RecordBatch, StringArray, UInt64Array,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use millpond_engines_features::Table;
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Numbers, Source, build, compact, diff, export, inspect, verify,
};
use parquet::data_type::{ByteArray, ByteArrayType, FixedLenByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

type Rows = Vec<(u64, Vec<u8>)>;

fn options(dir: &Path, input: &str, numbers: Numbers, width: Option<usize>) -> BuildOptions {
    BuildOptions {
        inputs: vec![input.to_owned()],
        columns: vec![ColumnOptions {
            name: "doc".to_owned(),
            source: Source::Columns(vec!["body".to_owned()]),
            numbers: Some(numbers),
            width,
        }],
        ..BuildOptions::new(dir.join("tables"), "docs")
    }
}

fn varying(dir: &Path, input: &str) -> BuildOptions {
    options(dir, input, Numbers::VaryingBytes, None)
}

fn rows_of(path: &Path) -> Rows {
    let table = Table::open(path).unwrap();
    table.verify().unwrap();
    let mut rows = Rows::new();
    table
        .each_row::<()>(&mut |key, row| {
            rows.push((key, row.to_vec()));
            Ok(())
        })
        .unwrap();
    rows.sort();
    rows
}

fn batch(rows: &Rows, column: ArrayRef) -> RecordBatch {
    let keys: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(key, _)| *key)));
    RecordBatch::try_from_iter([("key", keys), ("body", column)]).unwrap()
}

fn arrow(dir: &Path, name: &str, rows: &Rows, column: ArrayRef) -> String {
    let path = dir.join(name);
    let batch = batch(rows, column);
    let file = File::create(&path).unwrap();
    match name.ends_with("arrows") {
        true => {
            let mut writer = StreamWriter::try_new(file, &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
        }
        false => {
            let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
        }
    }
    path.display().to_string()
}

/// `kind` is that of the column `body`, as `required binary` or `optional fixed_len_byte_array(3)`.
fn parquet(dir: &Path, kind: &str, rows: &[(u64, Option<Vec<u8>>)]) -> String {
    let path = dir.join("rows.parquet");
    let message = format!("message rows {{ required int64 key; {kind} }}");
    let schema = Arc::new(parse_message_type(&message).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let file = File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let keys: Vec<i64> = rows.iter().map(|(key, _)| *key as i64).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int64Type>()
        .write_batch(&keys, None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let values = rows.iter().filter_map(|(_, row)| row.clone());
    let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
    let levels: Vec<i16> = rows.iter().map(|(_, row)| i16::from(row.is_some())).collect();
    let levels = kind.starts_with("optional").then_some(&levels[..]);
    match kind.contains("fixed") {
        true => {
            let values: Vec<_> = values.into_iter().map(Into::into).collect();
            let column = column.typed::<FixedLenByteArrayType>();
            column.write_batch(&values, levels, None).unwrap();
        }
        false => {
            let column = column.typed::<ByteArrayType>();
            column.write_batch(&values, levels, None).unwrap();
        }
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    path.display().to_string()
}

fn some(rows: &Rows) -> Vec<(u64, Option<Vec<u8>>)> {
    rows.iter().map(|(key, row)| (*key, Some(row.clone()))).collect()
}

fn csv(dir: &Path, rows: &Rows) -> String {
    let path = dir.join("rows.csv");
    let mut out = "key,body\n".to_owned();
    for (key, row) in rows {
        let text = str::from_utf8(row).unwrap().replace('"', "\"\"");
        out += &format!("{key},\"{text}\"\n");
    }
    fs::write(&path, out).unwrap();
    path.display().to_string()
}

fn jsonl(dir: &Path, rows: &Rows) -> String {
    let path = dir.join("rows.jsonl");
    let lines = rows.iter().map(|(key, row)| {
        let text = str::from_utf8(row).unwrap();
        serde_json::json!({"key": key, "body": text}).to_string() + "\n"
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
    path.display().to_string()
}

/// Rows of texts, so that every format can hold them.
fn texts() -> impl Strategy<Value = Rows> {
    let text = prop_oneof![Just(String::new()), "[ a-zé\"\\\\,\n\r]{0,12}", "[a-z]{100,900}",];
    prop::collection::btree_map(any::<u64>(), text, 1..40).prop_map(|rows| {
        rows.into_iter()
            .map(|(key, text)| (key, text.into_bytes()))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_makes_the_same_table_and_exports_are_read_again(rows in texts(), memory_bytes in 0..2000_usize) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = || rows.iter().map(|(_, row)| row.as_slice());
        let strings = || rows.iter().map(|(_, row)| str::from_utf8(row).unwrap());
        let columns: [(&str, ArrayRef); 5] = [
            ("a.arrow", Arc::new(BinaryArray::from_iter_values(bytes()))),
            ("b.arrows", Arc::new(LargeBinaryArray::from_iter_values(bytes()))),
            ("c.feather", Arc::new(BinaryViewArray::from_iter_values(bytes()))),
            ("d.arrow", Arc::new(StringArray::from_iter_values(strings()))),
            ("e.arrow", Arc::new(LargeStringArray::from_iter_values(strings()))),
        ];
        let mut inputs: Vec<String> = Vec::new();
        for (name, column) in columns {
            inputs.push(arrow(dir.path(), name, &rows, column));
        }
        inputs.extend([csv(dir.path(), &rows), jsonl(dir.path(), &rows)]);
        inputs.push(parquet(dir.path(), "optional binary body (STRING);", &some(&rows)));
        let mut shards = Vec::new();
        for input in inputs {
            let mut options = varying(dir.path(), &input);
            (options.memory_bytes, options.shards) = (memory_bytes, 2);
            let path = build(&options, &mut |_| {}).unwrap().path;
            prop_assert_eq!(&rows_of(&path), &rows, "{}", input);
            shards.push(path);
        }
        let table_dir = dir.path().join("tables/docs");
        for name in ["out.parquet", "out.csv", "out.jsonl"] {
            let output = dir.path().join(name);
            export(&table_dir, None, &output).unwrap();
            let mut options = varying(dir.path(), &output.display().to_string());
            options.columns[0].source = Source::Columns(vec!["doc".to_owned()]);
            let path = build(&options, &mut |_| {}).unwrap().path;
            prop_assert_eq!(&rows_of(&path), &rows, "{}", name);
        }
        let last = Table::open_version(&table_dir, None).unwrap().version();
        let same = diff(&table_dir, 1, last, 3).unwrap();
        prop_assert_eq!((same.same, same.changed.count), (rows.len() as u64, 0));
    }

    #[test]
    fn any_bytes_come_through_parquet_and_numpy(rows in prop::collection::btree_map(any::<u64>(), any::<[u8; 3]>(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let rows: Rows = rows.into_iter().map(|(key, row)| (key, row.to_vec())).collect();
        let keys: Vec<u8> = rows.iter().flat_map(|(key, _)| key.to_le_bytes()).collect();
        let values: Vec<u8> = rows.iter().flat_map(|(_, row)| row.clone()).collect();
        let fixed = FixedSizeBinaryArray::try_from_iter(rows.iter().map(|(_, row)| row)).unwrap();
        let npy = |name: &str, kind: &str, shape: String, data: &[u8]| {
            let path = dir.path().join(name);
            let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
            let length = (header.len() as u16).to_le_bytes();
            let bytes = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), data].concat();
            fs::write(&path, bytes).unwrap();
            path.display().to_string()
        };
        let count = rows.len();
        let keys = npy("keys.npy", "<u8", format!("({count},)"), &keys);
        let inputs = [
            arrow(dir.path(), "fixed.arrow", &rows, Arc::new(fixed)),
            parquet(dir.path(), "required fixed_len_byte_array(3) body;", &some(&rows)),
            format!("{keys},{}", npy("s.npy", "|S3", format!("({count},)"), &values)),
            format!("{keys},{}", npy("v.npy", "|V3", format!("({count},)"), &values)),
            format!("{keys},{}", npy("u.npy", "|u1", format!("({count}, 3)"), &values)),
        ];
        for input in inputs {
            for (numbers, width) in [
                (Numbers::Bytes, Some(3)),
                (Numbers::Bytes, None),
                (Numbers::VaryingBytes, None),
            ] {
                let path = build(&options(dir.path(), &input, numbers, width), &mut |_| {}).unwrap().path;
                prop_assert_eq!(&rows_of(&path), &rows, "{} {:?}", input, numbers);
            }
            let error = build(&options(dir.path(), &input, Numbers::Bytes, Some(4)), &mut |_| {}).unwrap_err();
            prop_assert!(error.to_string().contains("there are 3 bytes, the column has 4 a row"), "{}", error);
        }
        let output = dir.path().join("out.parquet");
        let version = Some(1);
        export(&dir.path().join("tables/docs"), version, &output).unwrap();
        let mut again = options(dir.path(), &output.display().to_string(), Numbers::Bytes, Some(3));
        again.columns[0].source = Source::Columns(vec!["doc".to_owned()]);
        let path = build(&again, &mut |_| {}).unwrap().path;
        prop_assert_eq!(rows_of(&path), rows);
    }
}

#[test]
fn bytes_stand_beside_numbers_and_deltas_take_their_base_s_columns() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("items.jsonl");
    let write = |lines: &str| fs::write(&input, lines).unwrap();
    write("{\"key\":1,\"price\":0.5,\"code\":\"abcd\"}\n{\"key\":2,\"price\":1,\"code\":\"é\\u0000z\"}\n");
    let column = |name: &str, numbers, width| ColumnOptions {
        numbers,
        width,
        ..ColumnOptions::new(Source::Columns(vec![name.to_owned()]))
    };
    let mut options = BuildOptions {
        inputs: vec![input.display().to_string()],
        columns: vec![
            column("code", Some(Numbers::Bytes), Some(4)),
            column("price", Some(Numbers::F16), None),
        ],
        default_row: Some(vec![120.0, 120.0, 120.0, 120.0, -1.0]),
        ..BuildOptions::new(dir.path().join("tables"), "items")
    };
    let base = build(&options, &mut |_| {}).unwrap();
    assert!(base.to_string().contains("2 rows of 5 numbers"), "{base}");
    let half = |number: f32| half::f16::from_f32(number).to_le_bytes();
    let row = |code: &[u8], price| [code, &half(price)].concat();
    let expected = [(1, row(b"abcd", 0.5)), (2, row("é\0z".as_bytes(), 1.0))];
    assert_eq!(rows_of(&base.path), expected);
    // A delta need not say how its columns are stored.
    write("{\"key\":2,\"price\":4,\"code\":\"wxyz\"}\n");
    options.columns = vec![column("code", None, None), column("price", None, None)];
    (options.base, options.default_row) = (Some(Base::Newest), None);
    let delta = build(&options, &mut |_| {}).unwrap();
    let expected = [(1, row(b"abcd", 0.5)), (2, row(b"wxyz", 4.0))];
    assert_eq!(rows_of(&delta.path), expected);
    let table_dir = dir.path().join("tables/items");
    let folded = compact(&table_dir, None, None, 1, 1 << 20).unwrap();
    assert_eq!(rows_of(&folded.path), expected);
    let said = verify(&folded.path).unwrap().to_string();
    assert!(
        said.contains("column    code: 4 bytes\ncolumn    price: 1 of f16\n"),
        "{said}"
    );
    assert!(said.contains("of format 3"), "{said}");
    let output = dir.path().join("out.csv");
    export(&table_dir, Some(1), &output).unwrap();
    let mut lines: Vec<String> = fs::read_to_string(&output)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines[1..].sort();
    assert_eq!(
        lines,
        ["key,code,price", "1,\"abcd\",\"[0.5]\"", "2,\"é\0z\",\"[1.0]\""]
    );
}

/// The error of a build of varying bytes from such a file.
fn check(name: &str, text: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join(name);
    fs::write(&input, text).unwrap();
    let error = build(&varying(dir.path(), &input.display().to_string()), &mut |_| {}).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(expected) && error.contains(name), "{error}");
    assert!(!dir.path().join("tables/docs").exists());
}

#[test]
fn what_is_no_text_or_too_long_is_named_with_its_line() {
    let place = "line 1, column \"body\"";
    check(
        "a.jsonl",
        "{\"key\":1,\"body\":7}\n",
        &format!("{place}: expected a text, whose bytes the column holds, found 7"),
    );
    check(
        "a.jsonl",
        "{\"key\":1,\"body\":[7,\"a\"]}\n",
        &format!("{place}: expected a text, whose bytes the column holds, found a list"),
    );
    check(
        "a.jsonl",
        "{\"key\":1,\"body\":null}\n",
        &format!("{place}: the value is null"),
    );
    check("a.jsonl", "{\"key\":1}\n", &format!("{place}: the value is null"));
    let long = "x".repeat(262_145);
    check(
        "a.jsonl",
        &format!("{{\"key\":1,\"body\":\"{long}\"}}\n"),
        "there are 262145 bytes; expected at most 262144",
    );
    check(
        "a.csv",
        &format!("key,body\n1,{long}\n"),
        "line 2, column \"doc\": there are 262145 bytes",
    );
}

#[test]
fn columns_of_other_types_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Rows = vec![(1, b"abc".to_vec())];
    let error = |options: &BuildOptions| build(options, &mut |_| {}).unwrap_err().to_string();
    let binary = parquet(dir.path(), "optional binary body;", &some(&rows));
    let mut numbers = varying(dir.path(), &binary);
    numbers.columns[0].numbers = None;
    let found = error(&numbers);
    assert!(
        found.contains("expected numbers, or a column that is said to hold bytes (--column NAME=COLUMN:bytes), found BYTE_ARRAY"),
        "{found}"
    );
    let null = parquet(dir.path(), "optional binary body;", &[(1, None)]);
    let found = error(&varying(dir.path(), &null));
    assert!(
        found.contains("row 0 (counted from 0), column \"body\": the value is null"),
        "{found}"
    );
    let decimal = parquet(dir.path(), "required binary body (DECIMAL(4,2));", &some(&rows));
    let found = error(&varying(dir.path(), &decimal));
    assert!(
        found.contains("expected binary or a string, not in a list"),
        "{found}"
    );
    let keys: ArrayRef = Arc::new(UInt64Array::from(vec![1]));
    let arrow = arrow(dir.path(), "n.arrow", &rows, keys);
    let found = error(&varying(dir.path(), &arrow));
    assert!(
        found.contains("expected binary or a string, as the column holds bytes, found UInt64"),
        "{found}"
    );
    let mut several = varying(dir.path(), &csv(dir.path(), &rows));
    several
        .columns
        .push(ColumnOptions::new(Source::Columns(vec!["key".to_owned()])));
    let found = error(&several);
    assert!(
        found.contains("expected column \"doc\" alone, as its rows vary in length"),
        "{found}"
    );
}

#[test]
fn bytes_that_are_no_text_are_exported_as_parquet_alone() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Rows = vec![(7, vec![0xff, 0])];
    let input = parquet(dir.path(), "required binary body;", &some(&rows));
    let built = build(&varying(dir.path(), &input), &mut |_| {}).unwrap();
    let table_dir = dir.path().join("tables/docs");
    for (name, format) in [("out.csv", "a CSV file"), ("out.jsonl", "JSON")] {
        let error = export(&table_dir, None, &dir.path().join(name))
            .unwrap_err()
            .to_string();
        let expected = format!(
            "the row of key 7 has bytes that are not UTF-8, which {format} cannot hold; export it as Parquet"
        );
        assert_eq!(error, expected);
        assert!(!dir.path().join(name).exists());
    }
    export(&table_dir, None, &dir.path().join("out.parquet")).unwrap();
    let said = inspect(&built.path).unwrap().to_string();
    assert!(said.contains("column    doc: bytes of any length\n"), "{said}");
}
