//! The folder of one run on disk.
//!
//! Its invariant: a reader, or a crash, finds each file either whole or absent; nothing is removed that a run did not write.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::{Error, RunResult, SCHEMA, report};

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
                return Err(Error::NotEmpty {
                    path: path.to_owned(),
                });
            }
            if read_loosely(&path.join("result.json")).is_none() {
                return Err(Error::NotAResult {
                    path: path.to_owned(),
                });
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
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(io("write", &partial))?;
        fs::rename(&partial, &whole).map_err(io("write", &whole))
    }

    /// Writes `result.json` and the report drawn from it.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn save(&self, run: &RunResult) -> Result<(), Error> {
        let mut json = serde_json::to_vec_pretty(run).map_err(|error| Error::BadResult {
            path: self.path.join("result.json"),
            reason: error.to_string(),
        })?;
        json.push(b'\n');
        self.write("result.json", &json)?;
        self.write("report.md", report(run).as_bytes())
    }
}

/// Reads the result of an earlier run.
///
/// # Errors
/// There is none, or it is of another schema or damaged.
pub fn read(folder: &Path) -> Result<RunResult, Error> {
    let path = folder.join("result.json");
    let bytes = fs::read(&path).map_err(io("read", &path))?;
    let bad = |reason: String| Error::BadResult {
        path: path.clone(),
        reason,
    };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => return Err(bad(format!("it is of schema {schema}"))),
        None => return Err(bad("it names no schema".into())),
    }
    serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
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
    let numbered = |prefix: &str, suffix: &str| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix(suffix))
            .is_some_and(|middle| !middle.is_empty())
    };
    matches!(name, "result.json" | "report.md" | "scenario.toml")
        || numbered("latency-", ".csv")
        || numbered("refused-", ".csv")
        || numbered("server-", ".log")
        || numbered(".", ".partial")
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::{Point, Second, Server, State};

    fn run() -> RunResult {
        let mut point = Point {
            number: 1,
            connections: 10,
            qps: 12.25,
            ..Point::default()
        };
        point.grid.insert("log_level".into(), "2".into());
        point.counters.ok = 7;
        point.counters.refused.insert(30_101, 3);
        point
            .counters
            .errors
            .insert(millpond_press_recorder::ErrorKind::TooLarge, 2);
        point.latency.us_p50 = Some(81);
        point.server = Some(Server {
            pid: Some(9),
            version: None,
            build: Some("dev".into()),
        });
        point.series.push(Second {
            s: 1.0,
            answers: 7,
            refused: 3,
            failed: 2,
        });
        RunResult {
            schema: SCHEMA,
            state: State::Complete,
            points: vec![point],
            ..RunResult::default()
        }
    }

    #[test]
    fn what_is_saved_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("a/b");
        let folder = Folder::create(&out, false).unwrap();
        folder.save(&run()).unwrap();
        assert_eq!(read(&out).unwrap(), run());
        assert_eq!(fs::read_to_string(out.join("report.md")).unwrap(), report(&run()));
        let names = entries(&out).unwrap();
        assert!(names.iter().all(|name| !name.ends_with(".partial")), "{names:?}");
    }

    #[test]
    fn a_folder_in_use_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine.txt"), "precious").unwrap();
        let said = Folder::create(dir.path(), false)
            .expect_err("refused")
            .to_string();
        assert!(said.contains("is not empty"), "{said}");
        let said = Folder::create(dir.path(), true).expect_err("refused").to_string();
        assert!(said.contains("holds no result.json"), "{said}");
        assert!(dir.path().join("mine.txt").exists());
        let file = dir.path().join("mine.txt");
        let said = Folder::create(&file, true).expect_err("refused").to_string();
        assert!(said.contains("in the way"), "{said}");
    }

    #[test]
    fn force_replaces_an_earlier_result_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path(), false).unwrap();
        folder.save(&run()).unwrap();
        folder.write("latency-0001.csv", b"us,count\n").unwrap();
        fs::write(dir.path().join("notes.txt"), "precious").unwrap();
        assert!(Folder::create(dir.path(), false).is_err());
        Folder::create(dir.path(), true).unwrap();
        assert_eq!(entries(dir.path()).unwrap(), ["notes.txt"]);
    }

    #[test]
    fn a_strange_result_is_refused_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let said = |text: &str| {
            fs::write(dir.path().join("result.json"), text).unwrap();
            read(dir.path()).expect_err("refused").to_string()
        };
        assert!(said("{").contains("EOF"));
        assert!(said("{}").contains("names no schema"));
        assert!(said(r#"{"schema":9}"#).contains("schema 9"));
        assert!(said(r#"{"schema":1}"#).contains("missing field"));
        assert!(
            read(&dir.path().join("absent"))
                .expect_err("refused")
                .to_string()
                .contains("cannot read")
        );
    }
}
