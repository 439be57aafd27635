//! The same rows in every format that the builder reads, written by other code than the builder's.
//!
//! Its invariant: the numbers of a row are the same bits in each, once they are 32-bit floats.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Float64Builder, LargeListBuilder, ListBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_ipc::writer::{FileWriter, StreamWriter};

pub type Rows = [(u64, Vec<f32>)];
/// Writes rows into a folder; returns the input of a build.
pub type Write = fn(&Path, &Rows) -> String;

/// Every way to write rows: what the input of a build is then.
pub const WAYS: &[(&str, Write)] = &[
    ("parquet", parquet),
    ("an Arrow file of lists", |dir, rows| {
        arrow(dir, rows, "a.arrow", list)
    }),
    ("an Arrow file of large lists of doubles", |dir, rows| {
        arrow(dir, rows, "b.feather", large_list)
    }),
    ("an Arrow stream of lists of fixed length", |dir, rows| {
        arrow(dir, rows, "c.arrows", fixed_list)
    }),
    ("CSV with lists", csv_lists),
    ("CSV with a column a number", csv_columns),
    ("JSON lines", jsonl),
    ("NPY of f4", |dir, rows| npy(dir, rows, "f4")),
    ("NPY of f8", |dir, rows| npy(dir, rows, "f8")),
];

fn saved(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn parquet(dir: &Path, rows: &Rows) -> String {
    let rows: Vec<crate::input::Row> = rows
        .iter()
        .map(|(key, row)| {
            let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
            crate::input::row(*key, &row)
        })
        .collect();
    let path = dir.join("in.parquet");
    crate::input::write(&path, &crate::input::pyarrow(), &rows);
    path.display().to_string()
}

fn list(rows: &Rows) -> ArrayRef {
    let mut lists = ListBuilder::new(Float32Builder::new());
    for (_, row) in rows {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn large_list(rows: &Rows) -> ArrayRef {
    let mut lists = LargeListBuilder::new(Float64Builder::new());
    for (_, row) in rows {
        row.iter()
            .for_each(|&number| lists.values().append_value(number.into()));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn fixed_list(rows: &Rows) -> ArrayRef {
    let dim = rows.first().map_or(0, |row| row.1.len());
    let mut lists = FixedSizeListBuilder::new(Float32Builder::new(), dim as i32);
    for (_, row) in rows {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// In record batches of seven rows; a name that ends in `arrows` is a stream.
fn arrow(dir: &Path, rows: &Rows, name: &str, lists: fn(&Rows) -> ArrayRef) -> String {
    let batches: Vec<RecordBatch> = rows
        .chunks(7)
        .map(|rows| {
            let keys: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0)));
            RecordBatch::try_from_iter([("key", keys), ("vector", lists(rows))]).unwrap()
        })
        .collect();
    let path = dir.join(name);
    let (file, schema) = (File::create(&path).unwrap(), batches[0].schema());
    if name.ends_with("arrows") {
        let mut writer = StreamWriter::try_new(file, &schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new(file, &schema).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
    path.display().to_string()
}

fn csv_lists(dir: &Path, rows: &Rows) -> String {
    let mut text = "other,vector,key\n".to_owned();
    for (key, row) in rows {
        writeln!(text, "\"a, b\",\"{row:?}\",{key}").unwrap();
    }
    saved(dir, "lists.csv", text)
}

fn csv_columns(dir: &Path, rows: &Rows) -> String {
    let dim = rows.first().map_or(0, |row| row.1.len());
    let names: Vec<String> = (0..dim).map(|at| format!("x{at}")).collect();
    let mut text = format!("\u{feff}{},key\r\n", names.join(","));
    for (key, row) in rows {
        let row: Vec<String> = row.iter().map(f32::to_string).collect();
        // Keys above the highest signed number are written as the signed number of the same bits.
        write!(text, "{}, {}\r\n", row.join(" ,"), key.cast_signed()).unwrap();
    }
    saved(dir, "columns.csv", text)
}

fn jsonl(dir: &Path, rows: &Rows) -> String {
    let mut text = String::new();
    for (key, row) in rows {
        writeln!(
            text,
            "{{\"vector\": {row:?}, \"other\": {{\"key\": [null]}}, \"key\": {key}}}\n"
        )
        .unwrap();
    }
    saved(dir, "in.jsonl", text)
}

/// An NPY file as NumPy writes it.
pub fn npy_bytes(kind: &str, shape: &str, data: Vec<u8>) -> Vec<u8> {
    let mut header = format!("{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    header += &" ".repeat(63 - (header.len() + 10) % 64);
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.into_bytes());
    bytes.extend(data);
    bytes
}

fn npy(dir: &Path, rows: &Rows, kind: &str) -> String {
    let (len, dim) = (rows.len(), rows.first().map_or(0, |row| row.1.len()));
    let keys = rows.iter().flat_map(|row| row.0.to_le_bytes()).collect();
    let numbers = rows.iter().flat_map(|row| &row.1);
    let numbers = match kind {
        "f4" => numbers.flat_map(|number| number.to_le_bytes()).collect(),
        _ => numbers
            .flat_map(|&number| f64::from(number).to_le_bytes())
            .collect(),
    };
    let keys = saved(dir, "keys.npy", npy_bytes("u8", &format!("({len},)"), keys));
    let rows = saved(
        dir,
        "rows.npy",
        npy_bytes(kind, &format!("({len}, {dim})"), numbers),
    );
    format!("{keys},{rows}")
}
