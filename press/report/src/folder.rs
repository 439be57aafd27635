//! The folder of one run on disk.
//!
//! Its invariant: a reader, or a crash, finds each file either whole or absent; nothing is removed that a run did not write.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::{
    Error, Layout, RunResult, SCHEMA, SCHEMA_MIN, controller_csv, html, points_csv, report, series_csv,
};

/// A larger file is not read: no run comes near it.
const RESULT_BYTES_MAX: u64 = 1 << 30;

/// A result folder being written.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder and its parents. An existing folder must be empty, or with `force` hold an earlier result, whose
    /// files are then removed.
    ///
    /// # Errors
    /// The folder is in use, or cannot be made.
    pub fn create(path: &Path, force: bool) -> Result<Folder, Error> {
        fs::create_dir_all(path).map_err(io("create", path))?;
        let names = entries(path)?;
        if !names.is_empty() {
            if !force {
                return Err(Error::Unfit(format!(
                    "the result folder {} is not empty; give another --out, or --force to replace an earlier result",
                    path.display()
                )));
            }
            if read_loosely(&path.join("result.json")).is_none() {
                return Err(Error::Unfit(format!(
                    "{} is not empty and holds no result.json of a press run, so --force does not replace it; give another --out",
                    path.display()
                )));
            }
            for name in names.iter().filter(|name| is_ours(name)) {
                let file = path.join(name);
                fs::remove_file(&file).map_err(io("remove", &file))?;
            }
        }
        Ok(Folder {
            path: path.to_owned(),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes file `name` whole: temporary name, flush to disk, rename.
    ///
    /// # Errors
    /// The disk refuses; an older file of that name is then untouched.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let partial = self.path.join(format!(".{name}.partial"));
        let whole = self.path.join(name);
        let mut file = File::create(&partial).map_err(io("create", &partial))?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // What is left of it would take room on a disk that has none.
            let _ = fs::remove_file(&partial);
            return Err(io("write", &whole)(error));
        }
        fs::rename(&partial, &whole).map_err(io("write", &whole))
    }

    /// The folder of an earlier run, as it is.
    pub fn of(path: &Path) -> Folder {
        Folder {
            path: path.to_owned(),
        }
    }

    /// Writes `result.json` and `report.md`, as after every point.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn save(&self, run: &RunResult) -> Result<(), Error> {
        let mut json = serde_json::to_vec_pretty(run)
            .map_err(|error| damaged(&self.path.join("result.json"), &error.to_string()))?;
        json.push(b'\n');
        self.write("result.json", &json)?;
        self.write("report.md", report(run).as_bytes())
    }

    /// Draws all that is drawn from a result: `report.md`, `report.html`, `points.csv`, `series.csv`, and in the layout of
    /// report R3 `controller.csv`.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn draw(&self, run: &RunResult) -> Result<(), Error> {
        self.write("report.md", report(run).as_bytes())?;
        self.write("report.html", html(std::slice::from_ref(run)).as_bytes())?;
        self.write("points.csv", points_csv(run).as_bytes())?;
        self.write("series.csv", series_csv(run).as_bytes())?;
        match run.layout {
            Layout::R3 => self.write("controller.csv", controller_csv(run).as_bytes()),
            Layout::General | Layout::R1 | Layout::R2 | Layout::Peers | Layout::R4 | Layout::R5 => Ok(()),
        }
    }
}

/// Reads the result of an earlier run. One that has not ended, or was interrupted, is a result like any other; its report
/// opens with that.
///
/// # Errors
/// There is none, or it is of another schema, cut off or damaged.
pub fn read(folder: &Path) -> Result<RunResult, Error> {
    let path = folder.join("result.json");
    let bytes = read_bounded(&path)?;
    let shown = path.display();
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| match error.is_eof() {
        true => Error::Unfit(format!(
            "{shown} is cut off after {} bytes; copy it again, or run the scenario again",
            bytes.len()
        )),
        false => damaged(&path, &error.to_string()),
    })?;
    let newest = u64::from(SCHEMA);
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if (u64::from(SCHEMA_MIN)..=newest).contains(&schema) => {}
        Some(schema) if schema > newest => {
            return Err(Error::Unfit(format!(
                "{shown} is a result of schema {schema}, made by a newer version; update millpond, this one reads schema {SCHEMA}"
            )));
        }
        Some(schema) => {
            return Err(Error::Unfit(format!(
                "{shown} is a result of schema {schema}, made by an older version; this one reads schemas {SCHEMA_MIN} to {SCHEMA}: \
                 run the scenario again"
            )));
        }
        None => return Err(damaged(&path, "it names no schema")),
    }
    // From the text, not from the value: a message then tells the line.
    serde_json::from_slice(&bytes).map_err(|error| damaged(&path, &error.to_string()))
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::Unfit(format!(
        "{} is not a result of schemas {SCHEMA_MIN} to {SCHEMA}: {reason}; run the scenario again with this version",
        path.display()
    ))
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, Error> {
    let missing = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::Unfit(format!(
            "cannot read {}: there is no such file; give the folder of a press run",
            path.display()
        )),
        _ => io("read", path)(error),
    };
    let file = File::open(path).map_err(missing)?;
    let mut bytes = Vec::new();
    file.take(RESULT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(io("read", path))?;
    if bytes.len() as u64 > RESULT_BYTES_MAX {
        let reason = format!("it is larger than {} MiB", RESULT_BYTES_MAX >> 20);
        return Err(damaged(path, &reason));
    }
    Ok(bytes)
}

/// Whether the file is a result of any schema.
fn read_loosely(path: &Path) -> Option<u64> {
    let value: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    value.get("points")?.as_array()?;
    value.get("schema")?.as_u64()
}

fn entries(path: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(io("read", path))? {
        let entry = entry.map_err(io("read", path))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Whether a run writes files of this name.
fn is_ours(name: &str) -> bool {
    let between = |prefix: &str, suffix: &str| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix(suffix))
            .filter(|middle| !middle.is_empty())
    };
    let numbered = |prefix: &str, suffix: &str| {
        between(prefix, suffix).is_some_and(|middle| middle.bytes().all(|byte| byte.is_ascii_digit()))
    };
    matches!(
        name,
        "result.json"
            | "report.md"
            | "report.html"
            | "points.csv"
            | "series.csv"
            | "controller.csv"
            | "scenario.toml"
            | "bars.json"
    ) || numbered("latency-", ".hlog")
        || numbered("latency-", ".csv")
        || numbered("refused-", ".csv")
        || between("server-", ".log").is_some()
        || between("program-", ".log").is_some()
        || between("antagonists-", ".log").is_some()
        || between(".", ".partial").is_some_and(is_ours)
}

fn io<'a>(action: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    move |source| {
        // The system's words for a file in a folder's place would send the reader the wrong way.
        let source = if source.kind() == ErrorKind::AlreadyExists {
            std::io::Error::other("a file of that name is in the way")
        } else {
            source
        };
        Error::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests;
