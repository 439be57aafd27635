//! Which leaves of a Parquet schema hold the keys and the vectors.
//!
//! Reads no data. Invariant: the leaves found have types that `rows` can read, so nothing is guessed later.

use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

use crate::error::Error;

const KEY_TYPES: &str = "INT64, signed or unsigned, not in a list";
const VALUE_TYPES: &str = "list<float> or list<double>";

/// The leaves, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) key: usize,
    /// None where only keys are wanted.
    pub(crate) value: Option<usize>,
}

impl Columns {
    pub(crate) fn find(
        schema: &SchemaDescriptor,
        key: &str,
        value: Option<&str>,
        path: &Path,
    ) -> Result<Columns, Error> {
        let wrong = |column: &str, expected, found| Error::ColumnType {
            path: path.to_path_buf(),
            column: column.to_owned(),
            expected,
            found,
        };
        let key_field = field(schema, key, path)?;
        let key_leaf = only_leaf(schema, key)
            .filter(|&leaf| is_key(&schema.column(leaf)))
            .ok_or_else(|| wrong(key, KEY_TYPES, describe(key_field)))?;
        let value_leaf = |value: &str| {
            let value_field = field(schema, value, path)?;
            only_leaf(schema, value)
                .filter(|&leaf| is_value(&schema.column(leaf)))
                .ok_or_else(|| wrong(value, VALUE_TYPES, describe(value_field)))
        };
        Ok(Columns {
            key: key_leaf,
            value: value.map(value_leaf).transpose()?,
        })
    }
}

fn field<'a>(schema: &'a SchemaDescriptor, name: &str, path: &Path) -> Result<&'a Type, Error> {
    let fields = schema.root_schema().get_fields();
    fields
        .iter()
        .find(|field| field.name() == name)
        .map(|field| &**field)
        .ok_or_else(|| Error::NoColumn {
            path: path.to_path_buf(),
            column: name.to_owned(),
            available: fields.iter().map(|field| field.name().to_owned()).collect(),
        })
}

/// The leaf under a top-level field, if it is but one.
fn only_leaf(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    let mut leaves = (0..schema.num_columns())
        .filter(|&leaf| schema.column(leaf).path().parts().first().map(String::as_str) == Some(name));
    leaves.next().filter(|_| leaves.next().is_none())
}

fn is_key(leaf: &ColumnDescriptor) -> bool {
    let plain = match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => integer.bit_width == 64,
        (None, ConvertedType::NONE | ConvertedType::INT_64 | ConvertedType::UINT_64) => true,
        // Times and decimals are INT64 too, but no keys.
        _ => false,
    };
    plain
        && leaf.physical_type() == Physical::INT64
        && leaf.max_rep_level() == 0
        && leaf.path().parts().len() == 1
}

/// A list has three levels (field, repeated group, element) and had two, or one, in files of old writers.
fn is_value(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.physical_type(), Physical::FLOAT | Physical::DOUBLE)
        && leaf.max_rep_level() == 1
        && leaf.path().parts().len() <= 3
}

/// A type in one line, for people: `group (List) { list: group { element: INT32 } }`.
fn describe(field: &Type) -> String {
    let info = field.get_basic_info();
    let logical = match (info.logical_type_ref(), info.converted_type()) {
        (Some(logical), _) => format!(" ({logical:?})"),
        (None, ConvertedType::NONE) => String::new(),
        (None, converted) => format!(" ({converted:?})"),
    };
    if field.is_primitive() {
        return format!("{}{logical}", field.get_physical_type());
    }
    let fields: Vec<String> = field
        .get_fields()
        .iter()
        .map(|field| format!("{}: {}", field.name(), describe(field)))
        .collect();
    format!("group{logical} {{ {} }}", fields.join(", "))
}
