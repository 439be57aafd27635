//! Puts a configuration together: file, then environment, then flags.
//! Its invariant: whatever the last word came from, an error names it.

use super::Config;
use super::check;
use super::secret::without_tokens;
use crate::Error;
use millpond_catalog::Problem;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use toml::{Table, Value};

/// Prefix of environment variables: `MILLPOND__LOG__LEVEL=2` is `log.level = 2`.
const ENVIRONMENT_PREFIX: &str = "MILLPOND__";

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The file; none serves the defaults.
    pub file: Option<PathBuf>,
    /// Name and value of environment variables; only those with the prefix count.
    pub environment: Vec<(String, String)>,
    /// `key.path=value` flags, in order.
    pub flags: Vec<String>,
}

/// Reads, merges, checks.
///
/// # Errors
/// [`Error::Config`] naming the place, the key and a hint.
pub fn load(origin: &Origin) -> Result<Config, Error> {
    let (text, mut place) = match &origin.file {
        None => (String::new(), "the defaults".to_owned()),
        Some(file) => {
            let place = file.display().to_string();
            let text = std::fs::read_to_string(file).map_err(|error| {
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => "name an existing file",
                    std::io::ErrorKind::InvalidData => "save it as UTF-8",
                    _ => "name a file that this user may read",
                };
                Error::config(&place, format!("cannot be read: {error}; {hint}"))
            })?;
            (text, place)
        }
    };
    // The text itself first: its errors carry line and column.
    let mut config: Config = toml::from_str(&text).map_err(|error| refused(&place, &error))?;
    let overrides = overrides(origin)?;
    if !overrides.is_empty() {
        let mut table: Table = toml::from_str(&text).map_err(|error| refused(&place, &error))?;
        let over: Vec<&str> = overrides.iter().map(|(from, _, _)| from.as_str()).collect();
        place = format!("{place} with {}", over.join(", "));
        for (from, path, value) in overrides {
            set(&mut table, &path, value).map_err(|problem| Error::config(&from, problem))?;
            config = Value::Table(table.clone())
                .try_into()
                .map_err(|error| refused(&from, &error))?;
        }
    }
    let base = origin
        .file
        .as_ref()
        .and_then(|file| file.parent())
        .map(PathBuf::from)
        .unwrap_or_default();
    complete(config, &base, &place, &text)
}

/// Checks a configuration that a program made, as [`load`] does one that it read; paths are relative to `base`, and errors name `place`.
///
/// # Errors
/// As [`load`].
pub fn made(config: Config, base: &Path, place: &str) -> Result<Config, Error> {
    complete(config, base, place, "")
}

fn complete(mut config: Config, base: &Path, place: &str, text: &str) -> Result<Config, Error> {
    check::resolve_paths(&mut config, base);
    check::read_tokens(&mut config)
        .map_err(Problem::from)
        .and_then(|()| check::check(&config))
        .map_err(|problem| match line(text, &problem) {
            Some(line) => Error::config(place, format!("line {line}: {}", problem.text)),
            None => Error::config(place, problem.text),
        })?;
    Ok(config)
}

/// The line of the stage that is at fault, or of its key, where the file has it.
fn line(text: &str, problem: &Problem) -> Option<usize> {
    let (pipeline, stage, key) = problem.stage.as_ref()?;
    let document = DeTable::parse(text).ok()?;
    let pipelines = document.get_ref().get("pipelines")?.get_ref();
    let stages = pipelines.get(pipeline)?.get_ref().get("stages")?.get_ref();
    // A table has its stages in the order in which they were read.
    let mut found = match stages.as_table() {
        Some(table) => table.values().nth(*stage)?,
        None => stages.get(*stage)?,
    };
    for part in key.split('.') {
        found = found.get_ref().get(part).unwrap_or(found);
    }
    Some(text.get(..found.span().start)?.matches('\n').count() + 1)
}

/// What TOML says, which quotes the text that it stumbled over.
fn refused(place: &str, error: &toml::de::Error) -> Error {
    Error::config(place, without_tokens(error.to_string().trim_end()))
}

type Override = (String, Vec<String>, Value);

fn overrides(origin: &Origin) -> Result<Vec<Override>, Error> {
    let mut found = Vec::new();
    let mut environment: Vec<_> = origin.environment.iter().collect();
    environment.sort();
    for (name, value) in environment {
        if let Some(path) = name.strip_prefix(ENVIRONMENT_PREFIX) {
            let path = path.split("__").map(str::to_lowercase).collect();
            found.push((format!("environment variable {name}"), path, value_of(value)));
        }
    }
    for flag in &origin.flags {
        let from = without_tokens(&format!("--set {flag}"));
        let Some((path, value)) = flag.split_once('=') else {
            return Err(Error::config(
                &from,
                "expected key.path=value, as in --set log.level=2",
            ));
        };
        let path = path.trim().split('.').map(str::to_owned).collect();
        found.push((from, path, value_of(value.trim())));
    }
    Ok(found)
}

/// A number, boolean, array or quoted text as TOML reads it; anything else is text.
fn value_of(text: &str) -> Value {
    let document: Result<Table, _> = toml::from_str(&format!("value = {text}"));
    let parsed = document.ok().and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn set(table: &mut Table, path: &[String], value: Value) -> Result<(), String> {
    match path {
        [] => Err("no key is named".to_owned()),
        [key] => {
            table.insert(key.clone(), value);
            Ok(())
        }
        [section, rest @ ..] => {
            let entry = table
                .entry(section.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            match entry {
                Value::Table(inner) => set(inner, rest, value),
                _ => Err(format!("\"{section}\" is not a section")),
            }
        }
    }
}
