//! Builds feature tables from Parquet files, or of random rows.
//!
//! Input is one file with a key column (INT64, signed or unsigned: the bits are the key) and a vector column (list of
//! float or double, every row of the same length). Not a converter of anything else: a row that a table cannot hold is an error with its
//! number. The one invariant: a version appears whole, or not at all.
//!
//! ```
//! use millpond_engines_features_build::{BuildOptions, MEMORY_BYTES, build, verify};
//! # use std::sync::Arc;
//! # use parquet::data_type::{FloatType, Int64Type};
//! # use parquet::file::writer::SerializedFileWriter;
//! # use parquet::schema::parser::parse_message_type;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let input = dir.path().join("films.parquet");
//! // A file of two rows: 7 → [1, 2] and 8 → [3, 4].
//! # let schema = "message films { required int64 key;
//! #     required group vector (LIST) { repeated group list { required float element; } } }";
//! # let schema = Arc::new(parse_message_type(schema)?);
//! # let file = std::fs::File::create(&input)?;
//! # let mut writer = SerializedFileWriter::new(file, schema, Default::default())?;
//! # let mut group = writer.next_row_group()?;
//! # let mut keys = group.next_column()?.ok_or("no key column")?;
//! # keys.typed::<Int64Type>().write_batch(&[7, 8], None, None)?;
//! # keys.close()?;
//! # let mut vectors = group.next_column()?.ok_or("no vector column")?;
//! # let values = [1.0, 2.0, 3.0, 4.0];
//! # vectors.typed::<FloatType>().write_batch(&values, Some(&[1; 4]), Some(&[0, 1, 0, 1]))?;
//! # vectors.close()?;
//! # group.close()?;
//! # writer.close()?;
//!
//! let options = BuildOptions {
//!     input,
//!     out_dir: dir.path().join("tables"),
//!     name: "films".to_owned(),
//!     version: None,
//!     key_column: "key".to_owned(),
//!     value_column: "vector".to_owned(),
//!     numbers: None,
//!     base: None,
//!     remove: None,
//!     shards: 1,
//!     memory_bytes: MEMORY_BYTES,
//! };
//! let summary = build(&options, &mut |progress| eprintln!("{progress}"))?;
//! assert_eq!((summary.version, summary.rows, summary.dim), (1, 2, 2));
//! println!("{}", verify(&summary.path)?);
//! # Ok(())
//! # }
//! ```

mod columns;
mod error;
mod inspect;
mod random;
mod rows;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millpond_engines_features as features;
use millpond_engines_features::write::Writer;
use millpond_engines_features::{Column, NotFinite, Schema, Table};

pub use error::{Error, Problem};
pub use inspect::{Inspection, inspect, verify};
pub use millpond_engines_features::write::{MEMORY_BYTES, Summary};
pub use millpond_engines_features::{Numbers, ShardInfo, VersionInfo, delete_version, version_infos};
pub use random::{RandomOptions, random};

use rows::Rows;

const PROGRESS_ROWS: u64 = 100_000;

/// What to build from what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// The Parquet file.
    pub input: PathBuf,
    /// The folder of all tables; the version appears in `out_dir/name/`.
    pub out_dir: PathBuf,
    /// The table's name.
    pub name: String,
    /// The version's number; `None` is one more than the highest present, or 1.
    pub version: Option<u64>,
    /// The column of the keys, `key` by custom.
    pub key_column: String,
    /// The column of the vectors, `vector` by custom.
    pub value_column: String,
    /// How the numbers of a row are stored: as 32-bit floats, or as the base of a delta has them, where it is not said.
    pub numbers: Option<Numbers>,
    /// Builds a delta: what the input has is put into that version, of which everything else stays.
    pub base: Option<Base>,
    /// A Parquet file whose keys a delta removes from its base.
    pub remove: Option<PathBuf>,
    /// Shard files, 1 to 1,024.
    pub shards: u32,
    /// Bytes of rows that are put in order at a time; fewer take more reading.
    pub memory_bytes: usize,
}

/// The version that a delta changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The highest there is.
    Newest,
    /// This one.
    Version(u64),
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows read so far.
    pub rows: u64,
    /// Rows in the input.
    pub rows_total: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rows", self.rows, self.rows_total)
    }
}

/// Builds a version of a table. `progress` is called every 100,000 rows and at the last.
///
/// # Errors
/// Every case of [`Error`]; no version appears then, and no other is touched.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(Progress)) -> Result<Summary, Error> {
    let path = &options.input;
    let rows = Rows::open(path, &options.key_column, Some(&options.value_column))?;
    let rows_total = rows.rows_total;
    let mut writer = None;
    rows.each(&mut |row, key, vector| {
        // The first row tells the dimension.
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(create(options, vector.len())?),
        };
        writer
            .push(key, vector)
            .map_err(|error| in_row(error, path, row))?;
        let rows = row + 1;
        if rows % PROGRESS_ROWS == 0 || rows == rows_total {
            progress(Progress { rows, rows_total });
        }
        Ok(())
    })?;
    let mut writer = match (writer, options.base) {
        (Some(writer), _) => writer,
        // A delta may only remove; the dimension is its base's.
        (None, Some(_)) if options.remove.is_some() => create(options, 0)?,
        (None, _) => return Err(Error::Empty { path: path.clone() }),
    };
    if let Some(path) = &options.remove {
        let keys = Rows::open(path, &options.key_column, None)?;
        keys.each(&mut |_, key, _| writer.remove(key).map(drop).map_err(Error::from))?;
    }
    writer.finish().map_err(|error| match error {
        features::Error::DuplicateKey { key } => duplicate(&rows, path, key),
        other => other.into(),
    })
}

/// Writes a version that has all rows of another, the highest unless `of` says which, and is no delta.
///
/// # Errors
/// [`Error::Table`] as the engine says it.
pub fn compact(
    table_dir: &Path,
    of: Option<u64>,
    version: Option<u64>,
    shards: u32,
    memory_bytes: usize,
) -> Result<Summary, Error> {
    let table = Table::open_version(table_dir, of)?;
    let version = version.map_or_else(|| next_version(table_dir), Ok)?;
    let folded = features::write::compact(&table, table_dir, version, shards, memory_bytes);
    Ok(folded?)
}

/// Reads the input again for the second row that has a key.
fn duplicate(rows: &Rows<'_>, path: &Path, key: u64) -> Error {
    let mut first = None;
    let found = rows.each(&mut |row, other, _| match first {
        Some(first) if key == other => Err(Error::Row {
            path: path.to_path_buf(),
            row,
            problem: Problem::DuplicateKey { key, first },
        }),
        _ => {
            first = first.or((key == other).then_some(row));
            Ok(())
        }
    });
    // A file that changed meanwhile has no such row any more.
    found
        .err()
        .unwrap_or(Error::Table(features::Error::DuplicateKey { key }))
}

fn create(options: &BuildOptions, dim: usize) -> Result<Writer, Error> {
    let table_dir = &options.out_dir.join(&options.name);
    let version = options.version.map_or_else(|| next_version(table_dir), Ok)?;
    let writer = match options.base {
        Some(base) => {
            let base = match base {
                Base::Newest => None,
                Base::Version(version) => Some(version),
            };
            let base = Table::open_version(table_dir, base)?;
            check_base(options, &base, dim)?;
            Writer::create_delta(table_dir, version, Arc::new(base), options.shards)?
        }
        None => {
            let column = Column {
                name: options.value_column.clone(),
                numbers: options.numbers.unwrap_or(Numbers::F32),
                dim,
            };
            let schema = Schema {
                columns: vec![column],
                not_finite: NotFinite::Refused,
                default_row: None,
            };
            Writer::create(table_dir, &options.name, version, schema, options.shards)?
        }
    };
    Ok(writer
        .source(options.input.display().to_string())
        .memory_bytes(options.memory_bytes))
}

/// A delta has the columns of its base.
fn check_base(options: &BuildOptions, base: &Table, dim: usize) -> Result<(), Error> {
    let column = &options.value_column;
    let [only] = base.schema().columns.as_slice() else {
        return Err(Error::Base {
            path: base.path().to_path_buf(),
            problem: "it has several columns, and the input has one".to_owned(),
        });
    };
    let numbers = options.numbers.unwrap_or(only.numbers);
    // A delta that only removes has no row that says how long it is.
    let dim = if dim == 0 { only.dim } else { dim };
    if (only.name.as_str(), only.numbers, only.dim) == (column, numbers, dim) {
        return Ok(());
    }
    Err(Error::Base {
        path: base.path().to_path_buf(),
        problem: format!(
            "its column is {:?}, {} of {}, that of the delta {column:?}, {dim} of {}",
            only.name,
            only.dim,
            only.numbers.as_str(),
            numbers.as_str()
        ),
    })
}

fn next_version(table_dir: &Path) -> Result<u64, Error> {
    match features::versions(table_dir) {
        Ok(versions) => versions
            .last()
            .and_then(|version| version.checked_add(1))
            .ok_or_else(|| Error::NoNextVersion {
                path: table_dir.to_path_buf(),
            }),
        Err(features::Error::NoVersions { .. }) => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Adds the row's number to what a writer refuses because of the row.
fn in_row(error: features::Error, path: &Path, row: u64) -> Error {
    let problem = match error {
        features::Error::NotFinite { position, value, .. } => Problem::NotFinite {
            position,
            value: value.into(),
        },
        features::Error::Dim { expected, found, .. } => Problem::Dim { expected, found },
        other => return Error::Table(other),
    };
    Error::Row {
        path: path.to_path_buf(),
        row,
        problem,
    }
}
