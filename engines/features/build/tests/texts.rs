//! Tables whose keys are texts.
//!
//! Invariant checked: two texts never share a row, and what a text is hashed with is said by the table.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use millpond_engines_features::{Table, text_key};
use millpond_engines_features_build::{
    Base, BuildOptions, Duplicates, Keys, MEMORY_BYTES, build, compact, inspect,
};

/// Their keys are the same in the slot without a name.
const MET: [&str; 2] = ["s9YUnHpEmBF", "7MQZR649emD"];

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// Options for an input of that text, its name with it.
    fn options(&self, name: &str, text: &str) -> BuildOptions {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        BuildOptions {
            inputs: vec![path.display().to_string()],
            keys: name.ends_with("csv").then(in_no_slot),
            ..BuildOptions::new(self.0.path().join("tables"), "films")
        }
    }
}

fn in_no_slot() -> Keys {
    Keys::Text { slot: String::new() }
}

fn built(options: &BuildOptions) -> Table {
    let summary = build(options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let table = Table::open(&summary.path).unwrap();
    table.verify().unwrap();
    table
}

fn check_refused(options: &BuildOptions, expected: &str) {
    let error = build(options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains(expected), "expected {expected:?} in {error:?}");
}

/// What a table has of a text, if it has it.
fn find(table: &Table, text: &str) -> Option<Vec<f32>> {
    let key = table.keys().of_text(text).unwrap();
    let (mut values, mut found) = (vec![0.0; table.dim()], [0]);
    (table.lookup(&[key], &mut values, &mut found) == 1).then_some(values)
}

#[test]
fn texts_are_keys_in_every_format_that_has_texts() {
    let folder = format!("{}/tests/pyarrow", env!("CARGO_MANIFEST_DIR"));
    let texts = ["a", "é ü", "7", "", &"long ".repeat(20)];
    let mut expected: Option<Vec<u8>> = None;
    let mut check = |options: &BuildOptions| {
        let table = built(options);
        assert_eq!(table.keys(), &in_no_slot());
        for (number, text) in (0_u8..).zip(texts) {
            assert_eq!(find(&table, text), Some(vec![f32::from(number), 0.5]), "{text:?}");
        }
        assert_eq!(find(&table, "b"), None);
        let bytes = fs::read(table.path().join("shard-00000.mpf")).unwrap();
        assert!(expected.get_or_insert(bytes.clone()) == &bytes);
    };
    for file in ["texts.parquet", "large_texts.feather", "text_views.arrow"] {
        let place = Place::new();
        let mut options = place.options("unused", "");
        options.inputs = vec![format!("{folder}/{file}")];
        check(&options);
    }
    let lines = (0..5).map(|at| format!("{{\"key\": {:?}, \"vector\": [{at}, 0.5]}}\n", texts[at]));
    let place = Place::new();
    check(&place.options("in.jsonl", &lines.collect::<String>()));
}

/// A batch of one column of texts, each a number in a dictionary of that kind, and one of numbers in a dictionary.
fn batch<K: ArrowDictionaryKeyType>(texts: &[Option<&str>]) -> RecordBatch {
    let keys: DictionaryArray<K> = texts.iter().copied().collect();
    let numbers: Vec<i8> = (0..texts.len() as i8).map(|at| at % 3).collect();
    let values = Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5]));
    let vector = DictionaryArray::<Int8Type>::new(numbers.into(), values);
    let columns: [(&str, ArrayRef); 2] = [("key", Arc::new(keys)), ("vector", Arc::new(vector))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Writes batches as a file of Arrow, or as a stream.
fn write(path: &Path, batches: &[RecordBatch]) {
    let file = fs::File::create(path).unwrap();
    let schema = batches[0].schema();
    // A file has one dictionary for all batches, unless it may be replaced or added to.
    if path.extension().is_some_and(|extension| extension == "arrows") {
        let mut writer = StreamWriter::try_new(file, &schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        return writer.finish().unwrap();
    }
    let mut writer = FileWriter::try_new(file, &schema).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

#[test]
fn values_in_a_dictionary_are_as_any_others() {
    fn check<K: ArrowDictionaryKeyType>() {
        let place = Place::new();
        let texts = ["Alien", "Brazil", "", "é ü", "Alien 2"].map(Some);
        for (name, batches) in [
            ("in.arrow", vec![batch::<K>(&texts)]),
            // The second batch has another dictionary.
            (
                "in.arrows",
                vec![batch::<K>(&texts[..2]), batch::<K>(&texts[2..])],
            ),
        ] {
            let mut options = place.options(name, "");
            write(&place.0.path().join(name), &batches);
            options.keys = Some(in_no_slot());
            let table = built(&options);
            let numbers = batches
                .iter()
                .flat_map(|batch| (0..batch.num_rows()).map(|at| at % 3));
            for (text, number) in texts.into_iter().flatten().zip(numbers) {
                assert_eq!(
                    find(&table, text),
                    Some(vec![number as f32 + 0.5]),
                    "{name}: {text:?}"
                );
            }
            assert_eq!(table.rows(), 5);
        }
        let mut options = place.options("null.arrow", "");
        write(
            &place.0.path().join("null.arrow"),
            &[batch::<K>(&[Some("a"), None])],
        );
        options.keys = Some(in_no_slot());
        check_refused(&options, "row 1 (counted from 0)");
    }
    check::<Int8Type>();
    check::<UInt8Type>();
    check::<Int16Type>();
    check::<UInt16Type>();
    check::<Int32Type>();
    check::<UInt32Type>();
    check::<Int64Type>();
    check::<UInt64Type>();
}

#[test]
fn texts_of_csv_are_said_to_be_texts() {
    let place = Place::new();
    let mut options = place.options("in.csv", "key,x\nAlien,1\n7,2\n\"a, b\",3\n");
    let table = built(&options);
    assert_eq!(find(&table, "7"), Some(vec![2.0]));
    assert_eq!(find(&table, "a, b"), Some(vec![3.0]));
    let text = inspect(table.path()).unwrap().to_string();
    assert!(text.contains("keys      texts, hashed in slot \"\""), "{text}");

    options.keys = Some(Keys::Text {
        slot: "film".to_owned(),
    });
    let table = built(&options);
    assert_eq!(table.keys().of_text("Alien"), Some(text_key("film", "Alien")));
    assert_eq!(find(&table, "Alien"), Some(vec![1.0]));
    options.keys = None;
    check_refused(
        &options,
        "line 2, column \"key\": expected a key of 64 bits, a whole number, found \"Alien\"; for texts add --keys text",
    );
}

#[test]
fn spaces_are_part_of_a_text_and_not_of_a_number() {
    let place = Place::new();
    let csv = "key , x \na, 1 \n\" a \",2\n b,\t3\n\" \",\" [4 ] \"\n";
    let table = built(&place.options("in.csv", csv));
    let check = |text: &str, expected: Option<f32>| {
        assert_eq!(
            find(&table, text),
            expected.map(|number| vec![number]),
            "{text:?}"
        );
    };
    check("a", Some(1.0));
    check(" a ", Some(2.0));
    check(" b", Some(3.0));
    check(" ", Some(4.0));
    check("b", None);
    check("", None);

    let mut options = place.options("in.csv", "key,x\n 7 ,\" 5 \"\n\" -1 \",6\n");
    options.keys = None;
    let table = built(&options);
    let (mut values, mut found) = ([0.0; 2], [0]);
    assert_eq!(table.lookup(&[7, u64::MAX], &mut values, &mut found), 2);
    assert_eq!(values, [5.0, 6.0]);
}

#[test]
fn two_texts_of_one_key_are_named_whatever_is_kept_of_duplicates() {
    let place = Place::new();
    let rows: String = (0..1000).map(|row| format!("text {row},1\n")).collect();
    let text = format!("key,x\n{},1\n{rows}{},2\n", MET[0], MET[1]);
    let mut options = place.options("in.csv", &text);
    for duplicates in [Duplicates::Refused, Duplicates::First, Duplicates::Last] {
        for (shards, memory_bytes) in [(1, 1), (3, MEMORY_BYTES)] {
            (options.duplicates, options.shards, options.memory_bytes) = (duplicates, shards, memory_bytes);
            check_refused(
                &options,
                "the texts \"s9YUnHpEmBF\" and \"7MQZR649emD\" have the same key, 14280323590514496615",
            );
            assert!(!options.out_dir.join("films").exists());
        }
    }
    options.keys = Some(Keys::Text {
        slot: "film".to_owned(),
    });
    assert_eq!(built(&options).rows(), 1002);
}

#[test]
fn a_text_that_is_there_twice_is_named_or_kept_once() {
    let place = Place::new();
    let mut options = place.options("in.csv", "key,x\nAlien,1\nHeat,2\nAlien,3\n");
    options.memory_bytes = 1;
    check_refused(
        &options,
        "in.csv, line 4, column \"key\": key \"Alien\" is in line 2 already",
    );
    for (duplicates, expected) in [(Duplicates::First, 1.0), (Duplicates::Last, 3.0)] {
        options.duplicates = duplicates;
        let table = built(&options);
        assert_eq!((table.rows(), find(&table, "Alien")), (2, Some(vec![expected])));
        // Nothing of the texts stays.
        assert_eq!(fs::read_dir(table.path()).unwrap().count(), 2);
    }
}

#[test]
fn deltas_have_the_keys_of_their_base() {
    let place = Place::new();
    built(&place.options("in.csv", "key,x\nAlien,1\nHeat,2\n"));
    let mut delta = place.options("changed.csv", "key,x\nAlien,3\nSolaris,4\n");
    (delta.base, delta.keys) = (Some(Base::Newest), None);
    delta.remove = vec![place.0.path().join("gone.csv").display().to_string()];
    fs::write(place.0.path().join("gone.csv"), "key\nHeat\nUnknown\n").unwrap();
    let table = built(&delta);
    let check = |table: &Table| {
        assert_eq!((table.rows(), table.keys()), (2, &in_no_slot()));
        assert_eq!(find(table, "Alien"), Some(vec![3.0]));
        assert_eq!(find(table, "Solaris"), Some(vec![4.0]));
        assert_eq!(find(table, "Heat"), None);
    };
    check(&table);
    let folded = compact(
        Path::new(&delta.out_dir).join("films").as_path(),
        None,
        None,
        2,
        1,
    )
    .unwrap();
    check(&Table::open(&folded.path).unwrap());

    for keys in [
        Keys::U64,
        Keys::Text {
            slot: "film".to_owned(),
        },
    ] {
        delta.keys = Some(keys);
        check_refused(
            &delta,
            "cannot be the base of this delta: its keys are texts, hashed in slot \"\"; those of the delta, ",
        );
    }
    let mut numbers = place.options("numbers.jsonl", "{\"key\": 7, \"vector\": [1]}");
    numbers.base = Some(Base::Newest);
    check_refused(
        &numbers,
        "numbers.jsonl, line 1, column \"key\": expected a text as a key, found 7",
    );
}

#[test]
fn a_text_that_is_put_and_removed_is_held_against_the_other() {
    let place = Place::new();
    built(&place.options("in.csv", "key,x\nHeat,2\n"));
    let mut delta = place.options("changed.csv", &format!("key,x\nSolaris,4\n{},5\n", MET[0]));
    delta.base = Some(Base::Newest);
    let gone = place.0.path().join("gone.csv");
    delta.remove = vec![gone.display().to_string()];
    fs::write(&gone, "key\nAlien\nSolaris\n").unwrap();
    check_refused(&delta, "gone.csv, line 3, column \"key\": key \"Solaris\" is in ");
    fs::write(&gone, format!("key\n{}\n", MET[1])).unwrap();
    for duplicates in [Duplicates::Refused, Duplicates::First, Duplicates::Last] {
        delta.duplicates = duplicates;
        check_refused(
            &delta,
            "the texts \"s9YUnHpEmBF\" and \"7MQZR649emD\" have the same key",
        );
    }
    fs::write(&gone, "key\nAlien\nSolaris\n").unwrap();
    let table = built(&delta);
    assert_eq!((table.rows(), find(&table, "Solaris")), (2, None));
    assert_eq!(find(&table, MET[0]), Some(vec![5.0]));
}

#[test]
fn texts_and_numbers_do_not_mix() {
    let place = Place::new();
    let number = "{\"key\": 7, \"vector\": [1]}\n";
    let text = "{\"key\": \"Alien\", \"vector\": [1]}\n";
    let mixed = place.options("in.jsonl", &(number.to_owned() + text));
    check_refused(
        &mixed,
        "in.jsonl, line 2, column \"key\": expected a number as a key, found \"Alien\"",
    );
    let mixed = place.options("in.jsonl", &(text.to_owned() + number));
    check_refused(
        &mixed,
        "in.jsonl, line 2, column \"key\": expected a text as a key, found 7",
    );
    let mut mixed = place.options("a.jsonl", number);
    mixed.inputs.extend(place.options("b.jsonl", text).inputs);
    check_refused(
        &mixed,
        "b.jsonl, line 1, column \"key\": expected a number as a key, found \"Alien\"",
    );
    let long = format!("{{\"key\": \"{}\", \"vector\": [1]}}\n", "a".repeat(65_536));
    check_refused(
        &place.options("in.jsonl", &long),
        "expected a text of at most 65535 bytes as a key",
    );
}
