//! A configuration of torchpipe's from Python, with the backends that the program has registered.
//!
//! It opens nothing. Its invariant: each model of a registered backend is made by the function that `millpond.torchpipe` gives for it.

use crate::ending::detach;
use crate::failure::local_error;
use crate::local::config::{Found, OWNERS, Walk, refused};
use crate::values::take::type_name;
use millpond_pipelines::torchpipe::{self, Own};
use millpond_server::config::Config;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use toml::Value;

/// A configuration, translated.
pub(crate) struct Read {
    pub(crate) config: Config,
    /// The pipelines, by the names of their first nodes.
    pub(crate) roots: Vec<String>,
    /// What became of each key.
    pub(crate) notes: Vec<String>,
    /// The pipelines that take the request's number, and whether a stage of ours reads their data.
    pub(crate) brings: BTreeMap<String, bool>,
    pub(crate) owner: u64,
}

/// Reads what `torchpipe.pipe` was given: a dict of dicts, or the path of a file. `make` gives the class of a registered backend's model.
pub(crate) fn read(
    given: &Bound<'_, PyAny>,
    registered: &BTreeSet<String>,
    make: &Bound<'_, PyAny>,
) -> PyResult<Read> {
    let py = given.py();
    let mut walk = Walk::default();
    let translated = match given.cast::<PyDict>() {
        Ok(dict) => torchpipe::translate_table(&walk.table(dict)?, registered),
        Err(_) => torchpipe::translate(&text(given)?, registered),
    };
    let translated = translated.map_err(|error| refused(py, error.to_string()))?;
    let roots = match translated.sections.get("pipelines") {
        Some(Value::Table(pipelines)) => pipelines.keys().cloned().collect(),
        _ => Vec::new(),
    };
    for own in translated.own {
        walk.found.push(found(own, make)?);
    }
    let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
    Ok(Read {
        config: walk.finish(py, translated.sections, owner)?,
        roots,
        notes: translated.notes.iter().map(ToString::to_string).collect(),
        brings: translated.brings,
        owner,
    })
}

/// The text of the file that was named.
fn text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = given.py();
    let Ok(path) = given.extract::<PathBuf>() else {
        let found = type_name(given);
        let text = format!("it is a {found}; expected a dict of dicts, or the path of a TOML file");
        return Err(refused(py, text));
    };
    let text = detach(py, || std::fs::read_to_string(&path));
    text.map_err(|error| local_error(py, "ConfigError", &format!("{}: {error}", path.display())))
}

/// The model of a registered backend: the class that `make` gives, and how large its batches may be.
fn found(own: Own, make: &Bound<'_, PyAny>) -> PyResult<Found> {
    let whole = |key: &str| own.section.get(key).and_then(Value::as_integer);
    let given = PyDict::new(make.py());
    given.set_item("instances", whole("instances"))?;
    given.set_item("batch_size_max", whole("batch_size_max"))?;
    given.set_item("is_read", own.is_read)?;
    given.set_item("is_split", own.is_split)?;
    let backend = PyString::new(make.py(), &own.backend);
    let made = make.call((backend, own.parameters.clone()), Some(&given))?;
    let (marked, batch_size_max): (Py<PyAny>, i64) = made.extract()?;
    let mut keys = own.section;
    keys.insert("batch_size_max".to_owned(), batch_size_max.into());
    Ok(Found {
        model: own.model,
        marked,
        is_class: true,
        inputs: own.inputs,
        keys,
    })
}
