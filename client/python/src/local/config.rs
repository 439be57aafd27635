//! A configuration from Python: a dict of what the TOML file has, with functions and classes as backends; or the file.
//!
//! It opens nothing. Its invariant: a key that nobody reads is refused with its place, as in the file.

use crate::ending::detach;
use crate::failure::local_error;
use crate::local::backend::PythonBackend;
use crate::values::take::type_name;
use millpond_catalog::{Backend, Given, ModelSection};
use millpond_engines_batcher::BatcherOptions;
use millpond_pipelines::RequestKind;
use millpond_server::config::{Config, made};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use toml::{Table, Value};

/// What a dict of a pipeline may have besides the pipeline's own keys: sections that its stages name.
const SECTIONS: &[&str] = &["features", "ordered", "models", "onnxruntime", "pipelines"];
/// A pipeline's own keys.
const OWN: &[&str] = &["request", "inputs", "outputs", "stages"];
/// What messages call a configuration that is a dict.
const PLACE: &str = "the configuration";
/// The pipeline that a dict describes.
const NAME: &str = "pipeline";
/// The attribute that `millpond.backend` leaves: a dict of options.
const MARK: &str = "__millpond_backend__";
/// How deep dicts and lists may lie inside each other.
const DEPTH_MAX: usize = 16;

/// A configuration, and for what.
pub(crate) struct Read {
    pub(crate) config: Config,
    /// The pipeline to call.
    pub(crate) pipeline: String,
    /// The number that its backends know it by.
    pub(crate) owner: u64,
}

/// A backend that was found, for the model of that name.
pub(super) struct Found {
    pub(super) model: String,
    pub(super) marked: Py<PyAny>,
    pub(super) is_class: bool,
    pub(super) inputs: Vec<String>,
    pub(super) keys: Table,
}

pub(super) static OWNERS: AtomicU64 = AtomicU64::new(1);

/// Reads what `Pipeline` was given.
pub(crate) fn of_pipeline(given: &Bound<'_, PyAny>, pipeline: Option<String>) -> PyResult<Read> {
    let py = given.py();
    let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
    let Ok(dict) = given.cast::<PyDict>() else {
        let config = of_file(given)?;
        let pipeline = chosen(py, &config, pipeline)?;
        return Ok(Read {
            config,
            pipeline,
            owner,
        });
    };
    let mut walk = Walk::default();
    let mut table = walk.table(dict)?;
    let mut own = Table::new();
    for key in table.keys() {
        if !OWN.contains(&key.as_str()) && !SECTIONS.contains(&key.as_str()) {
            let known: Vec<&&str> = OWN.iter().chain(SECTIONS).collect();
            return Err(refused(
                py,
                format!("key {key:?} is unknown; expected one of {known:?}"),
            ));
        }
    }
    for key in OWN {
        own.extend(table.remove(*key).map(|value| ((*key).to_owned(), value)));
    }
    let is_own = !own.is_empty();
    if is_own {
        own.entry("request")
            .or_insert_with(|| Value::String("values".to_owned()));
        let pipelines = table
            .entry("pipelines")
            .or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(pipelines) = pipelines
            && pipelines.insert(NAME.to_owned(), Value::Table(own)).is_some()
        {
            let text = format!(
                "pipelines.{NAME} is the name of the pipeline that `stages` describes; choose another"
            );
            return Err(refused(py, text));
        }
    }
    let config = walk.finish(py, table, owner)?;
    let pipeline = match pipeline {
        None if is_own => NAME.to_owned(),
        pipeline => chosen(py, &config, pipeline)?,
    };
    Ok(Read {
        config,
        pipeline,
        owner,
    })
}

/// Reads what `serve` was given: all that the file may have.
pub(crate) fn of_server(given: &Bound<'_, PyAny>) -> PyResult<Config> {
    let Ok(dict) = given.cast::<PyDict>() else {
        return of_file(given);
    };
    let mut walk = Walk {
        is_served: true,
        ..Walk::default()
    };
    let table = walk.table(dict)?;
    walk.finish(given.py(), table, OWNERS.fetch_add(1, Ordering::Relaxed))
}

fn of_file(given: &Bound<'_, PyAny>) -> PyResult<Config> {
    let py = given.py();
    let Ok(path) = given.extract::<PathBuf>() else {
        let found = type_name(given);
        return Err(refused(
            py,
            format!("it is a {found}; expected a dict, or the path of a TOML file"),
        ));
    };
    detach(py, || Config::read(&path)).map_err(|error| local_error(py, "ConfigError", &error.to_string()))
}

/// The pipeline that is named, or the only one.
fn chosen(py: Python<'_>, config: &Config, named: Option<String>) -> PyResult<String> {
    let there: Vec<&String> = config.pipelines.keys().collect();
    let chosen = match (&named, there.as_slice()) {
        (Some(name), _) => config.pipelines.get_key_value(name).map(|(name, _)| name),
        (None, [only]) => Some(*only),
        (None, _) => config.default_pipeline.as_ref(),
    };
    chosen.cloned().ok_or_else(|| {
        let text = match named {
            Some(name) => format!("there is no pipeline {name:?}; there are {there:?}"),
            None => format!("it has the pipelines {there:?}; say which by pipeline=\"NAME\""),
        };
        refused(py, text)
    })
}

/// A configuration that cannot be used.
pub(super) fn refused(py: Python<'_>, text: String) -> PyErr {
    local_error(py, "ConfigError", &format!("{PLACE}: {text}"))
}

/// The way through a dict.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) found: Vec<Found>,
    /// Where it is: `stages.echo`.
    path: Vec<String>,
    /// Whether net threads will call the models.
    is_served: bool,
}

impl Walk {
    /// The file's form, with the backends that were found.
    pub(super) fn finish(self, py: Python<'_>, table: Table, owner: u64) -> PyResult<Config> {
        let parsed = Value::Table(table).try_into::<Config>();
        let mut config = parsed.map_err(|error| refused(py, error.to_string().trim_end().to_owned()))?;
        for found in self.found {
            let name = found.model.clone();
            let backend = PythonBackend::new(name.clone(), found.marked, found.is_class, found.inputs, owner);
            let mut section = ModelSection::given(Given::new("python", backend), found.keys)
                .map_err(|problem| refused(py, format!("models.{name}: {problem}")))?;
            // Nobody knows what it takes before a request is there.
            section.batcher.warm_up = Some(Vec::new());
            if self.is_served {
                // A net thread must not wait for the interpreter.
                section.batcher.inline_us_max = 0;
            }
            if config.models.insert(name.clone(), section).is_some() {
                let text =
                    format!("models.{name} is defined, and a stage with a backend has that name; rename one");
                return Err(refused(py, text));
            }
        }
        made(config, Path::new(""), PLACE).map_err(|error| local_error(py, "ConfigError", &error.to_string()))
    }

    fn place(&self) -> String {
        self.path.join(".")
    }

    pub(super) fn table(&mut self, dict: &Bound<'_, PyDict>) -> PyResult<Table> {
        let mut table = Table::new();
        for (key, value) in dict.copy()?.iter() {
            let Ok(key) = key.extract::<String>() else {
                let text = format!(
                    "{} has a key of type {}; expected str",
                    self.place(),
                    type_name(&key)
                );
                return Err(refused(dict.py(), text));
            };
            if value.is_none() {
                continue;
            }
            self.enter(dict.py(), key.clone())?;
            let value = match value.cast::<PyDict>() {
                Ok(section) if self.is_model() => self.model(section)?,
                Ok(stage) if self.is_stage() => self.stage(stage, None)?,
                _ => self.value(&value)?,
            };
            self.path.pop();
            // A model of Python's is no section of the file's.
            table.extend(value.map(|value| (key, value)));
        }
        Ok(table)
    }

    /// One step further in. A dict or list may hold itself.
    fn enter(&mut self, py: Python<'_>, key: String) -> PyResult<()> {
        self.path.push(key);
        match self.path.len() > DEPTH_MAX {
            true => Err(refused(py, format!("{} is nested too deep", self.place()))),
            false => Ok(()),
        }
    }

    fn value(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
        Ok(Some(if let Ok(dict) = value.cast::<PyDict>() {
            Value::Table(self.table(dict)?)
        } else if let Ok(truth) = value.cast::<PyBool>() {
            Value::Boolean(truth.is_true())
        } else if let Ok(int) = value.cast::<PyInt>() {
            let out_of_range = |_| refused(value.py(), format!("{} is out of range", self.place()));
            Value::Integer(int.extract().map_err(out_of_range)?)
        } else if let Ok(float) = value.cast::<PyFloat>() {
            Value::Float(float.value())
        } else if let Ok(text) = value.cast::<PyString>() {
            Value::String(text.to_str()?.to_owned())
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            let mut items = Vec::new();
            let are_stages = self.are_stages();
            for (at, item) in value.try_iter()?.enumerate() {
                let item = item?;
                self.enter(value.py(), at.to_string())?;
                let item = match item.cast::<PyDict>() {
                    Ok(stage) if are_stages => {
                        let name = stage.get_item("name")?.and_then(|name| name.extract().ok());
                        self.stage(stage, name)?
                    }
                    _ => self.value(&item)?,
                };
                self.path.pop();
                items.extend(item);
            }
            Value::Array(items)
        } else if let Ok(path) = value.extract::<PathBuf>() {
            Value::String(path.to_string_lossy().into_owned())
        } else {
            let (place, found) = (self.place(), type_name(value));
            let hint = match value.is_callable() {
                true => "; a function or class belongs under `backend`, marked with @millpond.backend",
                false => "",
            };
            return Err(refused(
                value.py(),
                format!("{place} is a {found}; expected what TOML has{hint}"),
            ));
        }))
    }

    /// `models.NAME`
    fn is_model(&self) -> bool {
        matches!(self.path.as_slice(), [section, _] if section == "models")
    }

    /// `stages`, of this pipeline or of another.
    fn are_stages(&self) -> bool {
        are_stages(&self.path)
    }

    /// `stages.NAME`, or one of a list of them.
    fn is_stage(&self) -> bool {
        self.path
            .split_last()
            .is_some_and(|(_, stages)| are_stages(stages))
    }

    /// A section of a model: Python's is taken out of it.
    fn model(&mut self, section: &Bound<'_, PyDict>) -> PyResult<Option<Value>> {
        let Some((marked, is_class, mut keys)) = self.marked(section)? else {
            return self.table(section).map(|table| Some(Value::Table(table)));
        };
        let rest = section.copy()?;
        rest.del_item("backend")?;
        keys.extend(self.table(&rest)?);
        let model = self.path.last().cloned().unwrap_or_default();
        let inputs = Vec::new();
        self.found.push(Found {
            model,
            marked,
            is_class,
            inputs,
            keys,
        });
        Ok(None)
    }

    /// A stage: one with a backend of Python's is a model of the stage's name, and a stage that runs it.
    fn stage(&mut self, stage: &Bound<'_, PyDict>, name: Option<String>) -> PyResult<Option<Value>> {
        let Some((marked, is_class, mut keys)) = self.marked(stage)? else {
            self.refuse_named(stage)?;
            return self.table(stage).map(|table| Some(Value::Table(table)));
        };
        let rest = stage.copy()?;
        rest.del_item("backend")?;
        let mut table = self.table(&rest)?;
        let own = BatcherOptions::KEYS.iter().chain(&["version"]);
        for key in own {
            keys.extend(table.remove(*key).map(|value| ((*key).to_owned(), value)));
        }
        let name = name.or_else(|| self.path.last().cloned()).unwrap_or_default();
        let model = match self.path.as_slice() {
            [_, pipeline, _, _] => format!("{pipeline}/{name}"),
            _ => name,
        };
        let mut run = Table::new();
        run.insert("model".to_owned(), Value::String(model.clone()));
        for key in ["from", "inputs"] {
            run.extend(table.remove(key).map(|value| (key.to_owned(), value)));
        }
        // The stage gives them in this order.
        let mut inputs: Vec<String> = match run.get("inputs") {
            Some(Value::Table(inputs)) => inputs.keys().cloned().collect(),
            _ => Vec::new(),
        };
        inputs.sort();
        table.insert("call".to_owned(), Value::Table(run));
        self.found.push(Found {
            model,
            marked,
            is_class,
            inputs,
            keys,
        });
        Ok(Some(Value::Table(table)))
    }

    /// Refuses the name of a backend in a stage: a model's section has it, and a stage names the model.
    fn refuse_named(&self, stage: &Bound<'_, PyDict>) -> PyResult<()> {
        let Some(backend) = stage.get_item("backend")? else {
            return Ok(());
        };
        let (place, name) = (self.place(), backend.str()?);
        let text = format!(
            "{place}.backend is {name:?}; expected a function or class that is marked with @millpond.backend; \
             a stage names a model of the section `models` by {{\"model\": {{\"model\": \"NAME\"}}}}"
        );
        Err(refused(stage.py(), text))
    }

    /// The marked function or class under `backend`, with its options; nothing where the backend is a name.
    fn marked(&mut self, section: &Bound<'_, PyDict>) -> PyResult<Option<(Py<PyAny>, bool, Table)>> {
        let Some(backend) = section
            .get_item("backend")?
            .filter(|backend| !backend.is_instance_of::<PyString>())
        else {
            return Ok(None);
        };
        let py = section.py();
        let mark = backend.getattr(MARK).ok();
        let Some(options) = mark.as_ref().and_then(|mark| mark.cast::<PyDict>().ok()) else {
            let (place, found) = (self.place(), type_name(&backend));
            let text = format!(
                "{place}.backend is a {found}; expected a function or class that is marked with @millpond.backend, or a backend's name"
            );
            return Err(refused(py, text));
        };
        let keys = self.table(options)?;
        let is_class = backend.is_instance_of::<PyType>();
        Ok(Some((backend.unbind(), is_class, keys)))
    }
}

fn are_stages(path: &[String]) -> bool {
    match path {
        [stages] => stages == "stages",
        [pipelines, _, stages] => pipelines == "pipelines" && stages == "stages",
        _ => false,
    }
}

/// How many calls may be in each of the program's own backends at a time.
pub(crate) fn instances(config: &Config) -> usize {
    let own = config.models.values();
    let own = own.filter(|model| matches!(model.backend, Backend::Given(_)));
    own.map(|model| model.batcher.instances)
        .min()
        .unwrap_or(usize::MAX)
}

/// Whether requests of the pipeline are values by name.
pub(crate) fn takes_values(config: &Config, pipeline: &str) -> bool {
    let found = config.pipelines.get(pipeline);
    found.is_some_and(|pipeline| pipeline.request == RequestKind::Values)
}
