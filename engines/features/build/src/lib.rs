//! Builds feature tables from Parquet files, or of random rows.
//!
//! Input is one file with a key column (INT64, signed or unsigned: the bits are the key) and a vector column (list of
//! float or double, every row of the same length). Not a converter of anything else: a row that a table cannot hold is an error with its
//! number. The one invariant: a version appears whole, or not at all.
//!
//! ```
//! use millpond_engines_features_build::{BuildOptions, build, verify};
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
//!     shards: 1,
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

use millpond_engines_features as features;
use millpond_engines_features::write::Writer;

pub use error::{Error, Problem};
pub use inspect::{Inspection, inspect, verify};
pub use millpond_engines_features::ShardInfo;
pub use millpond_engines_features::write::Summary;
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
    /// Shard files, 1 to 1,024.
    pub shards: u32,
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
    let table_dir = options.out_dir.join(&options.name);
    let rows = Rows::open(path, &options.key_column, &options.value_column)?;
    let rows_total = rows.rows_total;
    let mut writer = None;
    rows.each(&mut |row, key, vector| {
        // The first row tells the dimension.
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(create(options, &table_dir, vector.len(), rows_total)?),
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
    let writer = writer.ok_or_else(|| Error::Empty { path: path.clone() })?;
    Ok(writer.finish()?)
}

fn create(options: &BuildOptions, table_dir: &Path, dim: usize, rows_total: u64) -> Result<Writer, Error> {
    let version = match options.version {
        Some(version) => version,
        None => next_version(table_dir)?,
    };
    let BuildOptions { name, shards, .. } = options;
    Ok(Writer::create(
        table_dir, name, version, dim, *shards, rows_total,
    )?)
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
        features::Error::DuplicateKey { key } => Problem::DuplicateKey { key },
        features::Error::Dim { expected, found, .. } => Problem::Dim { expected, found },
        other => return Error::Table(other),
    };
    Error::Row {
        path: path.to_path_buf(),
        row,
        problem,
    }
}
