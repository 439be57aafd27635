//! Every format of input makes the same table, and names what is wrong with it.
//!
//! Invariant checked: the bytes of a table follow from the rows of its input, not from the form they had; and what is refused leaves
//! the versions that were there as they were.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod input;
mod written;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use millpond_engines_features::{Numbers, Table, versions};
use millpond_engines_features_build::{Base, BuildOptions, ColumnOptions, Format, Source, build};
use proptest::prelude::*;
use written::{Rows, WAYS, npy_bytes};

fn options(dir: &Path, inputs: &[&str]) -> BuildOptions {
    BuildOptions {
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        ..BuildOptions::new(dir.join("tables"), "films")
    }
}

/// The shard files of the version that is built.
fn shards(options: &BuildOptions) -> Vec<Vec<u8>> {
    let summary = build(options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    (0..summary.shards)
        .map(|shard| fs::read(summary.path.join(format!("shard-{shard:05}.mpf"))).unwrap())
        .collect()
}

fn tables() -> impl Strategy<Value = Vec<(u64, Vec<f32>)>> {
    let number = prop_oneof![
        any::<u32>()
            .prop_map(f32::from_bits)
            .prop_filter("finite", |number| number.is_finite()),
        (-100_i8..100).prop_map(f32::from),
    ];
    let key = prop_oneof![any::<u64>(), 0..50_u64, Just(u64::MAX)];
    (1..6_usize).prop_flat_map(move |dim| {
        let rows =
            prop::collection::btree_map(key.clone(), prop::collection::vec(number.clone(), dim), 1..40);
        rows.prop_map(|rows: BTreeMap<u64, Vec<f32>>| rows.into_iter().collect::<Vec<_>>())
            .prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_rows_make_the_same_bytes_whatever_their_format(rows in tables(), count in 1..4_u32, cut in 0..40_usize) {
        let mut expected: Option<Vec<Vec<u8>>> = None;
        for (way, write) in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let mut options = options(dir.path(), &[&write(dir.path(), &rows)]);
            options.shards = count;
            options.version = Some(1);
            let got = shards(&options);
            prop_assert!(expected.get_or_insert(got.clone()) == &got, "{way}: {rows:?}");
            // In two files, read with next to no memory.
            let (one, other) = rows.split_at(cut.min(rows.len()));
            if !one.is_empty() && !other.is_empty() {
                let dirs = ["one", "other"].map(|name| dir.path().join(name));
                dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
                options.inputs = vec![write(&dirs[0], one), write(&dirs[1], other)];
                (options.memory_bytes, options.name) = (1, "halves".to_owned());
                let got = shards(&options);
                prop_assert!(expected.as_ref() == Some(&got), "{way}, two files: {rows:?}");
            }
        }
    }
}

#[test]
fn files_of_other_programs_keep_every_bit() {
    let folder = format!("{}/tests/pyarrow", env!("CARGO_MANIFEST_DIR"));
    let keys = [0, 1, 1 << 63, u64::MAX, 14_695_981_039_346_656_037];
    let check = |input: &str, tiny: f64| {
        let dir = tempfile::tempdir().unwrap();
        let built = build(
            &options(dir.path(), &[&input.replace("DIR", &folder)]),
            &mut |_| {},
        );
        let table = Table::open(&built.unwrap_or_else(|error| panic!("{error}")).path).unwrap();
        let (mut values, mut found) = (vec![0.0; 15], [0]);
        assert_eq!(table.lookup(&keys, &mut values, &mut found), 5, "{input}");
        for (number, row) in (0_u8..).zip(values.chunks(3)) {
            let number = f64::from(number);
            let expected = [number + 0.5, -number, tiny * number].map(|number| number as f32);
            assert_eq!(row, expected, "{input}");
        }
    };
    check("DIR/uint64_list_lz4.feather", 1e-40);
    check("DIR/int64_fixed_f16_zstd.arrow", 0.25);
    check("DIR/large_list_double.arrows", 1e-40);
    check("DIR/float16_list.parquet", 0.25);
    check("DIR/keys.npy,DIR/rows_f2.npy", 0.25);
}

#[test]
fn columns_of_numbers_stand_behind_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("in.csv");
    let jsonl = dir.path().join("in.jsonl");
    fs::write(&csv, "id,a,b,list\n7,1,2,\"[3, 4]\"\n8,5,6,\"[7,8]\"\n").unwrap();
    let lines = "{\"id\":7,\"a\":1,\"b\":2,\"list\":[3,4]}\n\n{\"id\":8,\"a\":5.0,\"b\":6,\"list\":[7,8]}";
    fs::write(&jsonl, lines).unwrap();
    for path in [csv, jsonl] {
        let mut options = options(dir.path(), &[path.to_str().unwrap()]);
        options.key_column = "id".to_owned();
        let source = Source::Columns(["b", "list", "a"].map(str::to_owned).to_vec());
        options.columns = vec![ColumnOptions::new(source)];
        let table = Table::open(&build(&options, &mut |_| {}).unwrap().path).unwrap();
        let (mut values, mut found) = ([0.0; 8], [0]);
        assert_eq!(table.lookup(&[8, 7], &mut values, &mut found), 2);
        assert_eq!(values, [6.0, 7.0, 8.0, 5.0, 2.0, 3.0, 4.0, 1.0]);
    }
}

#[test]
fn a_byte_order_mark_before_text_is_no_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let check = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("\u{feff}{text}")).unwrap();
        let summary = build(&options(dir.path(), &[path.to_str().unwrap()]), &mut |_| {}).unwrap();
        let table = Table::open(&summary.path).unwrap();
        let (mut values, mut found) = ([0.0; 2], [0]);
        assert_eq!(table.lookup(&[7, 8], &mut values, &mut found), 2, "{name}");
        assert_eq!(values, [1.0, 2.0], "{name}");
    };
    check("in.csv", "key,x\n7,1\n8,2\n");
    let lines = "{\"key\":7,\"vector\":[1]}\n{\"key\":8,\"vector\":[2]}\n";
    check("in.jsonl", lines);
    check("blank.jsonl", &format!("\n{lines}"));
}

/// Builds what is refused, beside a version that stays as it is.
struct Refused(tempfile::TempDir, Vec<u8>);

impl Refused {
    fn new() -> Refused {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("good.csv"), "key,a,b\n1,2,3\n").unwrap();
        let good = dir.path().join("good.csv").display().to_string();
        let summary = build(&options(dir.path(), &[&good]), &mut |_| {}).unwrap();
        let manifest = fs::read(summary.path.join("manifest.json")).unwrap();
        Refused(dir, manifest)
    }

    /// The files of an input are named without their folder.
    fn check(&self, input: &str, change: impl FnOnce(&mut BuildOptions), expected: &str) {
        let dir = self.0.path();
        let input: Vec<String> = input
            .split(',')
            .map(|name| dir.join(name).display().to_string())
            .collect();
        let mut options = options(dir, &[&input.join(",")]);
        change(&mut options);
        let error = build(&options, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in {error:?}");
        let table_dir = dir.join("tables/films");
        assert_eq!(versions(&table_dir).unwrap(), [1]);
        assert_eq!(fs::read_dir(&table_dir).unwrap().count(), 1);
        assert_eq!(
            fs::read(table_dir.join("00000001/manifest.json")).unwrap(),
            self.1
        );
        Table::open_version(&table_dir, None).unwrap().verify().unwrap();
    }

    fn check_text(&self, name: &str, text: &str, expected: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
        self.check(name, |_| {}, &format!("{name}{expected}"));
    }
}

#[test]
fn what_is_wrong_in_csv_is_named_by_line_and_column() {
    let refused = Refused::new();
    let check = |text: &str, expected: &str| refused.check_text("in.csv", text, expected);
    check("", " has no rows");
    check("key,a\n", " has no rows");
    check("id,a\n1,2\n", " has no column \"key\": found [\"id\", \"a\"]");
    check("key\n1\n", " has no column \"vector\"");
    check(
        "key,a,key\n1,2,3\n",
        ", column \"key\": expected one column of that name, found several",
    );
    check(
        "key,a\n1,2\n3,4\nx,3\n",
        ", line 4, column \"key\": expected a key of 64 bits, a whole number, found \"x\"",
    );
    check("key,a\n1,2\n,3\n", ", line 3, column \"key\": the key is null");
    check(
        "key,a\n1,2\n18446744073709551616,3\n",
        ", line 3, column \"key\": expected a key of 64 bits",
    );
    check(
        "key,a\n1,two\n",
        ", line 2, column \"a\": expected a number, or a list such as [0.5, -1], found \"two\"",
    );
    check(
        "key,a\n1,\"[1, ]\"\n",
        ", line 2, column \"a\": expected a number, or a list such as [0.5, -1], found \" \"",
    );
    check("key,a\n1,[]\n", ", line 2, column \"a\": the list is empty");
    check("key,a\n1,\n", ", line 2, column \"a\": the value is null");
    check("key,a\n1,nan\n", ", line 2, column \"a\": element 0 is NaN");
    check(
        "key,a\n1,1e39\n",
        ", line 2, column \"a\": element 0 is 1e39; expected a finite",
    );
    check(
        "key,a\n1,2\n3,\"[1,2]\"\n",
        ", line 3, column \"vector\": there are 2 numbers, the first row has 1",
    );
    check("key,a\n1,2\n3\n", ", line 3: it has 1 fields, the header has 2");
    check(
        "key,a\n1,2\n\"1\n\",3\n1,4\n",
        ", line 3, column \"key\": key 1 is in line 2 already",
    );
    fs::write(refused.0.path().join("in.csv"), b"key,a\n1,2\n2,\xff\n").unwrap();
    refused.check("in.csv", |_| {}, "in.csv, line 3: field 2 is not UTF-8");
    let endless = "key,a\n1,2\n2,\"".to_owned() + &"3\n".repeat(9 << 20);
    check(
        &endless,
        ", line 3: the record is longer than 16777216 bytes; is a quote left open?",
    );
}

#[test]
fn what_is_wrong_in_json_lines_is_named_by_line_and_column() {
    let refused = Refused::new();
    let check = |text: &str, expected: &str| refused.check_text("in.jsonl", text, expected);
    check("", " has no rows");
    check("\n{\"key\":1}", ", line 2, column \"vector\": the value is null");
    check("{\"vector\":[1]}", ", line 1, column \"key\": the key is null");
    check(
        "{\"key\":null,\"vector\":[1]}",
        ", line 1, column \"key\": the key is null",
    );
    check(
        "{\"key\":1.5,\"vector\":[1]}",
        ", line 1, column \"key\": expected a key of 64 bits, a whole number from -9223372036854775808 to 18446744073709551615, found 1.5",
    );
    check(
        "{\"key\":18446744073709551616,\"vector\":[1]}",
        ", line 1, column \"key\": expected a key of 64 bits, a whole number from -9223372036854775808 to 18446744073709551615, found \
         1.8446744073709552e19",
    );
    check(
        "{\"key\":1,\"vector\":[]}",
        ", line 1, column \"vector\": the list is empty",
    );
    check(
        "{\"key\":1,\"vector\":[1,null]}",
        ", line 1, column \"vector\": element 1 is null",
    );
    check(
        "{\"key\":1,\"vector\":\"x\"}",
        ", line 1, column \"vector\": expected a number, or a list such as [0.5, -1], found \"x\"",
    );
    check(
        "{\"key\":1,\"vector\":[1e39]}",
        ", line 1, column \"vector\": element 0 is 1e39",
    );
    check(
        "{\"key\":1,\"vector\":[[1]]}",
        ", line 1: it is no object such as",
    );
    for twice in [
        "{\"key\":1,\"vector\":[1],\"vector\":[2]}",
        "{\"key\":1,\"vector\":null,\"vector\":[2]}",
        "{\"key\":1,\"vector\":[1],\"key\":1}",
        "{\"key\":null,\"key\":1,\"vector\":[1]}",
    ] {
        check(
            twice,
            ", line 1: it is no object such as {\"key\": 7, \"vector\": [0.5, -1]}: it names a column twice",
        );
    }
    check(
        "{\"key\":1,\"vector\":[1]}\n\u{feff}{\"key\":2,\"vector\":[1]}",
        ", line 2: it is no object such as",
    );
    check(
        "{\"key\":1,\"vector\":[1]} {}",
        ", line 1: it is no object such as",
    );
    check("[1]", ", line 1: it is no object such as");
    check(
        "{\"key\":1,\"vector\":[1]}\n{\"key\":2,\"vector\":[1",
        ", line 2: it is no object such as",
    );
    check(
        "{\"key\":1,\"vector\":[1]}\n{\"key\":1,\"vector\":[1]}",
        ", line 2, column \"key\": key 1 is in line 1 already",
    );
    check(
        &("[".repeat(17 << 20) + "\n"),
        ", line 1: it is longer than 16777216 bytes",
    );
}

#[test]
fn what_is_wrong_in_arrays_is_named() {
    let refused = Refused::new();
    let write = |name: &str, bytes: &[u8]| fs::write(refused.0.path().join(name), bytes).unwrap();
    let f4 = |numbers: &[f32]| {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let u8s = |keys: &[u64]| keys.iter().flat_map(|key| key.to_le_bytes()).collect::<Vec<u8>>();
    write("keys.npy", &npy_bytes("u8", "(2,)", u8s(&[1, 2])));
    let whole = npy_bytes("f4", "(2, 2)", f4(&[1.0, 2.0, 3.0, 4.0]));
    let check = |bytes: &[u8], expected: &str| {
        write("rows.npy", bytes);
        refused.check("keys.npy,rows.npy", |_| {}, &format!("rows.npy{expected}"));
    };
    for length in (0..whole.len()).step_by(7) {
        check(&whole[..length], ": expected ");
    }
    check(
        &[&whole[..], &[0]].concat(),
        ": expected 144 bytes, as its header says, found 145",
    );
    check(
        &npy_bytes("f4", "(3, 1)", f4(&[1.0; 3])),
        ": expected as many rows as there are keys, 2, found 3",
    );
    check(
        &npy_bytes("i4", "(2, 1)", f4(&[1.0; 2])),
        ": expected rows of float16, float32 or float64, found <i4",
    );
    check(&npy_bytes("f4", "(2, 0)", vec![]), ": expected rows of numbers");
    check(
        &npy_bytes("f4", "(2, 4611686018427387904)", vec![]),
        ": expected fewer than 2^64 bytes",
    );
    check(
        &npy_bytes("f4", "(2, 1, 1)", f4(&[1.0; 2])),
        ": expected shape (n,) or (n, dim)",
    );
    check(
        &npy_bytes("f4", "(2, 2)", f4(&[1.0, 2.0, 3.0, f32::NAN])),
        ", row 1 (counted from 0), column \"vector\": element 1 is NaN",
    );
    write("rows.npy", &whole);
    refused.check(
        "keys.npy",
        |_| {},
        "keys.npy: expected two files, KEYS.npy,ROWS.npy, found one",
    );
    write("keys.npy", &npy_bytes("f8", "(2,)", u8s(&[1, 2])));
    refused.check(
        "keys.npy,rows.npy",
        |_| {},
        "keys.npy: expected keys of uint64 or int64, found <f8",
    );
    write("keys.npy", &npy_bytes("u8", "(2,)", u8s(&[5, 5])));
    refused.check(
        "keys.npy,rows.npy",
        |_| {},
        "keys.npy, row 1 (counted from 0), column \"key\": key 5 is in row 0",
    );
}

#[test]
fn inputs_that_do_not_go_together_are_named() {
    let refused = Refused::new();
    let write = |name: &str, text: &str| fs::write(refused.0.path().join(name), text).unwrap();
    write("a-1.csv", "key,x\n1,2\n");
    write("a-2.jsonl", "{\"key\": 1, \"vector\": [3]}\n");
    write("a-3", "key,x\n1,2\n");
    refused.check(
        "b-*",
        |_| {},
        "no file matches it; name a file, or quote a pattern",
    );
    refused.check(
        "a-3",
        |_| {},
        "a-3: its name does not say what it is; add --format parquet, arrow, csv, jsonl, npy",
    );
    refused.check(
        "a-[12].*",
        |_| {},
        "a-2.jsonl, line 1, column \"key\": key 1 is in ",
    );
    refused.check(
        "a-1.csv",
        |options| options.format = Format::by_name("arrow"),
        "a-1.csv is not a whole Arrow IPC file",
    );
    refused.check(
        "a-1.csv",
        |options| options.format = Format::by_name("npy"),
        "a-1.csv: expected a file of NumPy",
    );
    refused.check("a-2.jsonl", |options| options.inputs.clear(), "has no rows");
}

/// A check of the checks: what they hold against each other are rows that were there.
#[test]
fn the_ways_to_write_rows_hold_rows() {
    let dir = tempfile::tempdir().unwrap();
    let rows: &Rows = &[(7, vec![0.5, -1e-45]), (u64::MAX, vec![f32::MAX, 3.0])];
    for (way, write) in WAYS {
        let built = build(&options(dir.path(), &[&write(dir.path(), rows)]), &mut |_| {}).unwrap();
        let table = Table::open(&built.path).unwrap();
        let (mut values, mut found) = ([0.0; 4], [0]);
        assert_eq!(table.lookup(&[u64::MAX, 7], &mut values, &mut found), 2, "{way}");
        assert_eq!(values, [f32::MAX, 3.0, 0.5, -1e-45], "{way}");
    }
}

#[test]
fn a_row_has_its_columns_in_their_order_each_with_its_type() {
    let refused = Refused::new();
    let dir = refused.0.path();
    let csv = dir.join("in.csv");
    fs::write(&csv, "key,image,net,gross\n7,\"[1, 2.5]\",3,4\n8,\"[5,6]\",7,8\n").unwrap();
    let column = |name: &str, columns: &[&str], numbers| ColumnOptions {
        name: name.to_owned(),
        source: Source::Columns(columns.iter().map(|&column| column.to_owned()).collect()),
        numbers,
        width: None,
    };
    let mut options = BuildOptions {
        columns: vec![
            column("price", &["gross", "net"], None),
            column("image", &["image"], Some(Numbers::F16)),
        ],
        name: "items".to_owned(),
        ..options(dir, &[csv.to_str().unwrap()])
    };
    let table = Table::open(&build(&options, &mut |_| {}).unwrap().path).unwrap();
    let columns: Vec<_> = table
        .schema()
        .columns
        .iter()
        .map(|column| (&*column.name, column.numbers, column.dim))
        .collect();
    assert_eq!(columns, [("price", Numbers::F32, 2), ("image", Numbers::F16, 2)]);
    let (mut values, mut found) = ([0.0; 8], [0]);
    assert_eq!(table.lookup(&[8, 7], &mut values, &mut found), 2);
    assert_eq!(values, [8.0, 7.0, 5.0, 6.0, 4.0, 3.0, 1.0, 2.5]);

    // A delta has the types of its base where none is said.
    options.base = Some(Base::Newest);
    options.columns[1].numbers = None;
    let delta = Table::open(&build(&options, &mut |_| {}).unwrap().path).unwrap();
    assert_eq!(delta.schema(), table.schema());
    options.columns.swap(0, 1);
    let check = |options: &BuildOptions, expected: &str| {
        let error = build(options, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        &options,
        "its columns are \"price\", 2 of f32; \"image\", 2 of f16, those of the delta \"image\", 2 of f32; \"price\", 2 of f16",
    );
    options.base = None;
    fs::write(&csv, "key,image,net,gross\n7,\"[1,2]\",3,4\n8,\"[5,6]\",7,1e5\n").unwrap();
    options.columns[1].numbers = Some(Numbers::F16);
    check(
        &options,
        "in.csv, line 3, column \"price\": element 0 is 100000.0; expected a finite number",
    );
    fs::write(&csv, "key,image,net,gross\n7,\"[1,2]\",3,4\n8,\"[5]\",7,8\n").unwrap();
    check(
        &options,
        "in.csv, line 3, column \"image\": there are 1 numbers, the first row has 2",
    );
    options.columns[1].name = "image".to_owned();
    check(
        &options,
        "columns: expected different names, found \"image\" twice",
    );
}
