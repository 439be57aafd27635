//! A version of a table as a file that other programs read, and `build` too.
//!
//! A text is nowhere in a table: of keys that are texts the file has the hashes. Invariant: the file has its name only when it is whole.

mod parquet;
mod text;

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;

use millpond_engines_features::{Cell, Schema, Table};

use crate::error::Error;

/// Every format: how names end, and what writes it.
const FORMATS: [(&str, Open); 3] = [
    ("parquet", parquet::open),
    ("csv", text::open_csv),
    ("jsonl", text::open_jsonl),
];

/// The column of the keys.
const KEY: &str = "key";

type Open = fn(File, &Path, &Schema) -> Result<Box<dyn RowWriter>, Error>;

/// Writes rows in one format.
trait RowWriter {
    /// Adds a row: what it has in each column.
    fn push(&mut self, key: u64, row: &[Cell<'_>]) -> Result<(), Error>;

    /// Writes what is left, and syncs the file.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// A finished export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The file.
    pub path: PathBuf,
    /// The version.
    pub version: u64,
    /// Its rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exported {
            version, rows, bytes, ..
        } = self;
        write!(
            f,
            "version {version}: {rows} rows, {bytes} bytes, in {}",
            self.path.display()
        )
    }
}

/// Writes a version of a table, the highest unless `version` says which, to a file whose name tells its format.
///
/// # Errors
/// [`Error::Table`]: the version is not there, or damaged: it is read whole first. [`Error::ExportFormat`], [`Error::Write`],
/// [`Error::ExportNumber`]; no file appears then. A file or a link that is there already, be it one to nothing, is [`Error::Write`].
pub fn export(table_dir: &Path, version: Option<u64>, output: &Path) -> Result<Exported, Error> {
    let extension = output.extension().and_then(|extension| extension.to_str());
    let format = FORMATS.iter().find(|(name, _)| Some(*name) == extension);
    let (_, open) = format.ok_or_else(|| Error::ExportFormat {
        path: output.to_path_buf(),
        known: FORMATS.iter().map(|(name, _)| *name).collect(),
    })?;
    let table = Table::open_version(table_dir, version)?;
    table.verify()?;
    // Not whether it leads to anything: the rename would replace a link to nothing.
    if fs::symlink_metadata(output).is_ok() {
        let words = "it is there already; choose another name or remove it";
        let exists = std::io::Error::new(std::io::ErrorKind::AlreadyExists, words);
        return Err(Error::write(output)(exists));
    }
    if table.schema().columns.iter().any(|column| column.name == KEY) {
        return Err(Error::ColumnType {
            path: table.path().to_path_buf(),
            column: KEY.to_owned(),
            expected: "another name, as that of the keys is taken",
            found: "a column of the table".to_owned(),
        });
    }
    let unfinished = Unfinished::beside(output);
    let file = File::create_new(&unfinished.0).map_err(Error::write(output))?;
    let mut writer = open(file, output, table.schema())?;
    let (mut values, mut rows) = (vec![0.0; table.dim()], 0);
    table.each_row(&mut |key, row| {
        rows += 1;
        writer.push(key, &table.cells(row, &mut values))
    })?;
    table.check_whole()?;
    writer.finish()?;
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Opened before the rename: where it cannot be, no file appears.
    let folder = File::open(folder).map_err(Error::write(output))?;
    fs::rename(&unfinished.0, output)
        .and_then(|()| folder.sync_all())
        .map_err(Error::write(output))?;
    let metadata = fs::metadata(output).map_err(Error::write(output))?;
    Ok(Exported {
        path: output.to_path_buf(),
        version: table.version(),
        rows,
        bytes: metadata.len(),
    })
}

/// A file that goes unless it was renamed.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(output: &Path) -> Unfinished {
        let name = output.file_name().unwrap_or_default().display().to_string();
        Unfinished(output.with_file_name(format!(".{name}.{}.unfinished", process::id())))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is none of that name.
        let _ = fs::remove_file(&self.0);
    }
}
