//! `millpond.build_table`: a version of a feature table from rows in memory, by the builder of `millpond features build`.
//!
//! It knows no rows of its own: `given` has the streams. Its invariant: Python's rows are read without the interpreter where their library
//! allows it, and a build that fails leaves no version.

mod given;

use crate::ending::detach;
use crate::failure::local_error;
use millpond_engines_features_build::notation::{self, Stored};
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Keys, NotFinite, Source, Summary, build,
};
use pyo3::prelude::*;
use std::path::PathBuf;

/// What `millpond.build_table` was given, by its keywords.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    out: PathBuf,
    name: String,
    version: Option<u64>,
    key_column: String,
    keys: Option<String>,
    slot: Option<String>,
    value_columns: Vec<String>,
    /// As `--column` has them.
    columns: Vec<String>,
    r#type: Option<String>,
    keep_not_finite: bool,
    /// Numbers, or the bytes of a row of bytes.
    default_row: Option<Vec<f32>>,
    duplicates: String,
    delta: bool,
    base: Option<u64>,
    shards: u32,
    memory: String,
}

/// The version that was built: its folder, table and number, rows, numbers of a row, shards and bytes.
type Built = (PathBuf, String, u64, u64, usize, u32, u64);

/// Builds a version of `rows`, without the keys of `remove` where it is a delta.
#[pyfunction]
pub(crate) fn build_table(
    py: Python<'_>,
    rows: Option<&Bound<'_, PyAny>>,
    remove: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<Built> {
    let wrong = |problem: String| local_error(py, "TableError", &problem);
    let mut options = build_options(options).map_err(wrong)?;
    options.given = rows.map(given::given).transpose()?.into_iter().collect();
    options.remove_given = remove.map(given::given).transpose()?.into_iter().collect();
    let built = detach(py, || build(&options, &mut |_| {}));
    let summary: Summary = built.map_err(|error| wrong(error.to_string()))?;
    Ok((
        summary.path,
        summary.name,
        summary.version,
        summary.rows,
        summary.dim,
        summary.shards,
        summary.bytes,
    ))
}

/// What the builder takes, checked as the command line checks it.
fn build_options(given: Options) -> Result<BuildOptions, String> {
    let of = |name: &str, problem: String| format!("{name}: {problem}");
    let mut columns = given
        .columns
        .iter()
        .map(|column| ColumnOptions::parse(column).map_err(|problem| of("columns", problem)))
        .collect::<Result<Vec<_>, _>>()?;
    if columns.is_empty() {
        columns.push(ColumnOptions::new(match given.value_columns.is_empty() {
            true => Source::Usual,
            false => Source::Columns(given.value_columns),
        }));
    } else if !given.value_columns.is_empty() {
        return Err("value_columns: expected none beside columns".to_owned());
    }
    let stored = given.r#type.as_deref().map(Stored::parse);
    let stored = stored.transpose().map_err(|problem| of("type", problem))?;
    for column in &mut columns {
        if let (None, Some(stored)) = (column.numbers, stored) {
            (column.numbers, column.width) = (Some(stored.numbers), stored.width);
        }
    }
    let keys = match (given.keys.as_deref(), given.slot) {
        (Some("u64"), Some(_)) => return Err("slot: expected none, as the keys are numbers".to_owned()),
        (Some("u64"), None) => Some(Keys::U64),
        (None, None) => None,
        (Some("text") | None, slot) => Some(Keys::Text {
            slot: slot.unwrap_or_default(),
        }),
        (Some(other), _) => return Err(format!("keys: expected \"u64\" or \"text\", found {other:?}")),
    };
    if given.delta && given.base.is_some() {
        return Err("base: expected none beside delta, which names the highest version".to_owned());
    }
    let newest = given.delta.then_some(Base::Newest);
    Ok(BuildOptions {
        version: given.version,
        key_column: given.key_column,
        keys,
        columns,
        not_finite: match given.keep_not_finite {
            true => NotFinite::Kept,
            false => NotFinite::Refused,
        },
        default_row: given.default_row,
        duplicates: notation::parse_duplicates(&given.duplicates)
            .map_err(|problem| of("duplicates", problem))?,
        base: given.base.map(Base::Version).or(newest),
        shards: given.shards,
        memory_bytes: notation::parse_memory(&given.memory).map_err(|problem| of("memory", problem))?,
        ..BuildOptions::new(given.out, given.name)
    })
}
