//! Parquet files for the tests, in the layouts that writers of the field use.
//!
//! Not a general writer: two columns, `key` and `vector`. Invariant: levels are computed from the layout, so a test
//! states rows and nothing of Parquet.
#![allow(dead_code, reason = "no test uses every layout")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{DoubleType, FloatType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// A key and a vector, each part of which may be null.
pub type Row = (Option<u64>, Option<Vec<Option<f64>>>);

/// A row without nulls.
pub fn row(key: u64, vector: &[f64]) -> Row {
    (Some(key), Some(vector.iter().copied().map(Some).collect()))
}

#[derive(Debug, Clone)]
pub struct Layout {
    /// `required int64 key` or as given.
    pub key: &'static str,
    pub list_optional: bool,
    pub element_optional: bool,
    pub double: bool,
    pub compression: Compression,
    pub version: WriterVersion,
    pub group_rows: usize,
}

/// What pyarrow writes: everything optional, snappy.
pub fn pyarrow() -> Layout {
    Layout {
        key: "optional int64 key (INTEGER(64,false))",
        list_optional: true,
        element_optional: true,
        double: false,
        compression: Compression::SNAPPY,
        version: WriterVersion::PARQUET_1_0,
        group_rows: 1 << 20,
    }
}

/// What a schema without nulls gives.
pub fn required() -> Layout {
    Layout {
        key: "required int64 key",
        list_optional: false,
        element_optional: false,
        compression: Compression::ZSTD(Default::default()),
        version: WriterVersion::PARQUET_2_0,
        ..pyarrow()
    }
}

impl Layout {
    fn message(&self) -> String {
        let word = |optional| if optional { "optional" } else { "required" };
        format!(
            "message rows {{ {}; optional int32 other;
               {} group vector (LIST) {{ repeated group list {{ {} {} element; }} }} }}",
            self.key,
            word(self.list_optional),
            word(self.element_optional),
            if self.double { "double" } else { "float" },
        )
    }
}

pub fn write(path: &Path, layout: &Layout, rows: &[Row]) {
    let schema = Arc::new(parse_message_type(&layout.message()).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(layout.compression)
        .set_writer_version(layout.version)
        .set_data_page_size_limit(4096)
        .set_write_batch_size(500)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for rows in rows.chunks(layout.group_rows) {
        let mut group = writer.next_row_group().unwrap();

        let keys: Vec<i64> = rows
            .iter()
            .filter_map(|row| row.0.map(|key| key as i64))
            .collect();
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.0.is_some())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        let levels = layout.key.starts_with("optional").then_some(&levels[..]);
        column
            .typed::<Int64Type>()
            .write_batch(&keys, levels, None)
            .unwrap();
        column.close().unwrap();

        let mut column = group.next_column().unwrap().unwrap();
        let nulls = vec![0; rows.len()];
        column
            .typed::<parquet::data_type::Int32Type>()
            .write_batch(&[], Some(&nulls), None)
            .unwrap();
        column.close().unwrap();

        let (values, definitions, repetitions) = levels_of(layout, rows);
        let mut column = group.next_column().unwrap().unwrap();
        let (definitions, repetitions) = (Some(&definitions[..]), Some(&repetitions[..]));
        if layout.double {
            let column = column.typed::<DoubleType>();
            column.write_batch(&values, definitions, repetitions).unwrap();
        } else {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            let column = column.typed::<FloatType>();
            column.write_batch(&values, definitions, repetitions).unwrap();
        }
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// The elements that are not null, and the definition and repetition level of every element, null or empty list.
fn levels_of(layout: &Layout, rows: &[Row]) -> (Vec<f64>, Vec<i16>, Vec<i16>) {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    let empty = i16::from(layout.list_optional);
    let full = empty + 1 + i16::from(layout.element_optional);
    for (_, vector) in rows {
        let elements = vector.as_deref().unwrap_or_default();
        if elements.is_empty() {
            definitions.push(if vector.is_some() { empty } else { 0 });
            repetitions.push(0);
        }
        for (at, element) in elements.iter().enumerate() {
            definitions.push(if element.is_some() { full } else { full - 1 });
            repetitions.push(i16::from(at > 0));
            values.extend(element);
        }
    }
    (values, definitions, repetitions)
}
