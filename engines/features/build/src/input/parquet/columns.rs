//! Which leaves of a Parquet schema hold the keys and the numbers.
//!
//! Reads no data. Invariant: the leaves found have types that `cells` can read, so nothing is guessed later.

use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

use crate::error::Error;
use crate::input::{BYTES_HINT, Columns, Wanted};

const KEY_TYPES: &str = "INT64, signed or unsigned, or a string, not in a list";
const VALUE_TYPES: &str = "float, double or float16, or a list of them";
const BYTES_TYPES: &str = "binary or a string, not in a list, as the column holds bytes";

/// The leaves, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaves {
    pub(super) key: usize,
    pub(super) key_name: String,
    /// For each source its leaves.
    pub(super) sources: Vec<Vec<usize>>,
}

impl Leaves {
    pub(super) fn find(schema: &SchemaDescriptor, wanted: &Wanted<'_>, path: &Path) -> Result<Leaves, Error> {
        let fields = schema.root_schema().get_fields();
        let names: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
        let Columns { key, sources } = wanted.find(path, &names, false)?;
        let leaf = |at: usize, expected, fits: fn(&ColumnDescriptor) -> bool| {
            only_leaf(schema, &names[at])
                .filter(|&leaf| fits(&schema.column(leaf)))
                .ok_or_else(|| Error::ColumnType {
                    path: path.to_path_buf(),
                    column: names[at].clone(),
                    expected,
                    found: describe(&fields[at]),
                })
        };
        let of_source = |(number, source): (usize, &Vec<usize>)| {
            let leaves = source.iter().map(|&at| match wanted.is_bytes(number) {
                true => leaf(at, BYTES_TYPES, is_bytes),
                false if leaf(at, VALUE_TYPES, is_bytes).is_ok() => leaf(at, BYTES_HINT, is_value),
                false => leaf(at, VALUE_TYPES, is_value),
            });
            leaves.collect()
        };
        Ok(Leaves {
            key: leaf(key, KEY_TYPES, is_key)?,
            key_name: names[key].clone(),
            sources: sources
                .iter()
                .enumerate()
                .map(of_source)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The leaf under a top-level field, if it is but one.
fn only_leaf(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    let mut leaves = (0..schema.num_columns())
        .filter(|&leaf| schema.column(leaf).path().parts().first().map(String::as_str) == Some(name));
    leaves.next().filter(|_| leaves.next().is_none())
}

fn is_key(leaf: &ColumnDescriptor) -> bool {
    let fits = match (
        leaf.physical_type(),
        leaf.logical_type_ref(),
        leaf.converted_type(),
    ) {
        (Physical::INT64, Some(LogicalType::Integer(integer)), _) => integer.bit_width == 64,
        (Physical::INT64, None, kind) => matches!(
            kind,
            ConvertedType::NONE | ConvertedType::INT_64 | ConvertedType::UINT_64
        ),
        (Physical::BYTE_ARRAY, Some(LogicalType::String), _) => true,
        (Physical::BYTE_ARRAY, None, kind) => kind == ConvertedType::UTF8,
        // Times and decimals are INT64 too, but no keys.
        _ => false,
    };
    fits && leaf.max_rep_level() == 0 && leaf.path().parts().len() == 1
}

fn is_bytes(leaf: &ColumnDescriptor) -> bool {
    let is_binary = match leaf.physical_type() {
        Physical::BYTE_ARRAY => !matches!(leaf.converted_type(), ConvertedType::DECIMAL),
        Physical::FIXED_LEN_BYTE_ARRAY => {
            let is_float = matches!(leaf.logical_type_ref(), Some(LogicalType::Float16));
            let is_number = matches!(
                leaf.converted_type(),
                ConvertedType::DECIMAL | ConvertedType::INTERVAL
            );
            !is_float && !is_number
        }
        _ => false,
    };
    is_binary && leaf.max_rep_level() == 0 && leaf.path().parts().len() == 1
}

/// A list has three levels (field, repeated group, element) and had two, or one, in files of old writers.
fn is_value(leaf: &ColumnDescriptor) -> bool {
    let is_number = match leaf.physical_type() {
        Physical::FLOAT | Physical::DOUBLE => true,
        Physical::FIXED_LEN_BYTE_ARRAY => matches!(leaf.logical_type_ref(), Some(LogicalType::Float16)),
        _ => false,
    };
    let levels = leaf.path().parts().len();
    is_number && (leaf.max_rep_level() == 1 && levels <= 3 || leaf.max_rep_level() == 0 && levels == 1)
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
