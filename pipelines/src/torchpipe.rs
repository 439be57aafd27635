//! Configuration files of torchpipe, translated into sections of this configuration.
//!
//! It opens nothing: what it gives is checked like any other configuration. Its invariant: every key of the file is in a note, as
//! kept, changed or dropped, or the file is refused by that key's name.

mod chain;
mod expression;
mod file;
mod graph;
mod members;
mod own;
mod sizes;

pub use own::{Own, REQUEST};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::Table;

/// What a file became.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The sections `models` and `pipelines`: a pipeline for each root of the file, by the root's name.
    pub sections: Table,
    /// What became of each key, in the file's order.
    pub notes: Vec<Note>,
    /// The models that run registered backends, which stages have under `call`.
    pub own: Vec<Own>,
    /// The pipelines that take the request's number as [`REQUEST`], and whether a stage of ours reads their data.
    pub brings: BTreeMap<String, bool>,
}

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The node that has it.
    pub node: String,
    /// The key, and its value.
    pub key: String,
    /// In what way it lives on.
    pub outcome: Outcome,
    /// What it is now, or why it is gone.
    pub text: String,
}

/// In what way a key lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It means the same.
    Kept,
    /// It means nearly the same.
    Changed,
    /// Nothing acts on it.
    Dropped,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { node, key, text, .. } = self;
        let outcome = match self.outcome {
            Outcome::Kept => "kept",
            Outcome::Changed => "changed",
            Outcome::Dropped => "dropped",
        };
        write!(f, "{outcome}: {node}: {key}: {text}")
    }
}

/// A file that cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}; {hint}", place(node, key))]
pub struct Refused {
    /// The node, where it is known.
    pub node: String,
    /// Its key, where one is at fault.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl Refused {
    fn new(node: &str, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Refused {
        Refused {
            node: node.to_owned(),
            key: key.to_owned(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// The same, of that node.
    fn of(self, node: &str) -> Refused {
        let node = node.to_owned();
        Refused { node, ..self }
    }
}

fn place(node: &str, key: &str) -> String {
    match (node, key) {
        ("", "") => String::new(),
        ("", key) => format!("key `{key}`: "),
        (node, "") => format!("[{node}]: "),
        (node, key) => format!("[{node}], key `{key}`: "),
    }
}

/// Translates a file's text; `registered` names the backends that the program has.
///
/// # Errors
/// [`Refused`] for a text that is no TOML, and for what has no counterpart.
pub fn translate(text: &str, registered: &BTreeSet<String>) -> Result<Translation, Refused> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| {
        Refused::new("", "", error.to_string().trim_end().to_owned(), "write TOML")
    })?;
    translate_table(&file, registered)
}

/// Whether a text looks like a file of torchpipe: a table at its top names a backend, which Millpond's own sections do not.
pub fn looks_like(text: &str) -> bool {
    let is_node = |value: &toml::Value| value.get("backend").is_some_and(toml::Value::is_str);
    text.parse().is_ok_and(|file: Table| file.values().any(is_node))
}

/// Translates a file that was read already, or a dictionary, as [`translate`].
///
/// # Errors
/// As [`translate`].
pub fn translate_table(file: &Table, registered: &BTreeSet<String>) -> Result<Translation, Refused> {
    graph::translate(&file::nodes(file)?, registered)
}

#[cfg(test)]
mod tests;
