//! `[models.NAME]`: a backend with its own keys, and how its batches are made. All backends, in one list.
//!
//! A backend is a crate and a line here. Its invariant: every key of the section is its backend's, the batcher's, or refused.

use millpond_backends_interface as interface;
use millpond_backends_onnxruntime::OnnxRuntime;
use millpond_backends_plugin::Plugin;
use millpond_backends_practice::Practice;
use millpond_backends_python::Python;
use millpond_engines_batcher::BatcherOptions;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use toml::{Table, Value};

macro_rules! backends {
    ($($name:literal: $backend:ident,)*) => {
        /// One backend, with what its keys say.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Backend {
            $(#[doc = concat!("`backend = \"", $name, "\"`")] $backend($backend),)*
            /// The program's own.
            Given(Given),
        }

        impl Backend {
            /// What the configuration calls each, and its own keys; the first is the default.
            const ALL: &'static [(&'static str, &'static [&'static str])] = &[$(($name, $backend::KEYS),)*];

            fn read(name: &str, keys: Table) -> Result<Backend, String> {
                match name {
                    $($name => Value::Table(keys).try_into().map(Backend::$backend).map_err(words),)*
                    _ => {
                        let names = Backend::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>();
                        Err(format!("backend is {name:?}; expected one of {names:?}"))
                    }
                }
            }

            /// What the configuration calls it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Backend::$backend(_) => $name,)*
                    Backend::Given(given) => given.name,
                }
            }

            /// What checks and loads it.
            pub fn as_dyn(&self) -> &dyn interface::Backend {
                match self {
                    $(Backend::$backend(backend) => backend,)*
                    Backend::Given(given) => given,
                }
            }

            /// The same, to make its path whole.
            pub fn as_dyn_mut(&mut self) -> &mut dyn interface::Backend {
                match self {
                    $(Backend::$backend(backend) => backend,)*
                    Backend::Given(given) => given,
                }
            }
        }
    };
}

backends! {
    "onnxruntime": OnnxRuntime,
    "practice": Practice,
    "plugin": Plugin,
    "python": Python,
}

/// A backend that the program around the catalog has, and that no configuration can name: a function of Python's.
#[derive(Clone)]
pub struct Given {
    name: &'static str,
    backend: Arc<dyn interface::Backend + Send + Sync>,
}

impl Given {
    /// What logs call it, and what loads it.
    pub fn new(name: &'static str, backend: impl interface::Backend + Send + Sync + 'static) -> Given {
        let backend = Arc::new(backend);
        Given { name, backend }
    }
}

impl interface::Backend for Given {
    fn check(&self, at: &str, batch_size_max: usize) -> Result<(), String> {
        self.backend.check(at, batch_size_max)
    }

    fn load(&self) -> Result<Arc<dyn interface::Model>, interface::Error> {
        self.backend.load()
    }
}

/// The same object.
impl PartialEq for Given {
    fn eq(&self, other: &Given) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

impl Eq for Given {}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Given").field(&self.name).finish()
    }
}

/// One model of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub struct ModelSection {
    /// What runs it.
    pub backend: Backend,
    /// The number that answers carry; 1 when left out.
    pub version: u64,
    /// How its batches are made.
    pub batcher: BatcherOptions,
}

impl ModelSection {
    /// What runs its operators, where that is known: `cpu`, `cuda` or another execution provider of ONNX Runtime.
    pub fn provider(&self) -> Option<&'static str> {
        match &self.backend {
            Backend::OnnxRuntime(settings) => Some(settings.provider()),
            _ => None,
        }
    }
}

impl TryFrom<Table> for ModelSection {
    type Error = String;

    fn try_from(mut keys: Table) -> Result<ModelSection, String> {
        let read = |value: Value| value.try_into::<String>().map_err(words);
        let names = || Backend::ALL.iter().map(|(name, _)| *name);
        let backend = keys.remove("backend").map(read).transpose()?;
        let backend = backend.unwrap_or_else(|| Backend::ALL[0].0.to_owned());
        if !names().any(|name| name == backend) {
            let names = names().collect::<Vec<_>>();
            return Err(format!("backend is {backend:?}; expected one of {names:?}"));
        }
        let version = version(&mut keys)?;
        check_known(&backend, &keys)?;
        let (mut own, mut batcher) = (Table::new(), Table::new());
        for (key, value) in keys {
            let mut takers = Backend::ALL
                .iter()
                .filter(|(_, keys)| keys.contains(&key.as_str()));
            let taker = takers.clone().find(|(name, _)| *name == backend);
            match taker.or_else(|| takers.next()) {
                Some((name, _)) if *name == backend => own.insert(key, value),
                Some((other, _)) => {
                    return Err(format!(
                        "{key} is for backend {other:?}, and the backend is {backend:?}; leave it out"
                    ));
                }
                None => batcher.insert(key, value),
            };
        }
        Ok(ModelSection {
            backend: Backend::read(&backend, own)?,
            version,
            batcher: Value::Table(batcher).try_into().map_err(words)?,
        })
    }
}

fn version(keys: &mut Table) -> Result<u64, String> {
    keys.remove("version")
        .map_or(Ok(1), Value::try_into)
        .map_err(words)
}

/// Refuses a key that neither this backend nor another one nor the batcher has: what is misspelled is named before what does
/// not fit the backend, which may be the misspelled key's.
fn check_known(backend: &str, keys: &Table) -> Result<(), String> {
    let is_known = |key: &str| {
        Backend::ALL.iter().any(|(_, keys)| keys.contains(&key)) || BatcherOptions::KEYS.contains(&key)
    };
    let Some(key) = keys.keys().find(|key| !is_known(key)) else {
        return Ok(());
    };
    let own = Backend::ALL.iter().filter(|(name, _)| *name == backend);
    let known = own.flat_map(|(_, keys)| keys.iter()).chain(BatcherOptions::KEYS);
    let known: Vec<&str> = ["backend", "version"].iter().chain(known).copied().collect();
    Err(format!(
        "key {key:?} is unknown; for backend {backend:?} expected one of {known:?}"
    ))
}

impl ModelSection {
    /// A model of the program's own backend; the other keys of its section are `keys`.
    ///
    /// # Errors
    /// A key that is none of the batcher's, or its value.
    pub fn given(backend: Given, mut keys: Table) -> Result<ModelSection, String> {
        let version = version(&mut keys)?;
        let known = BatcherOptions::KEYS;
        if let Some(key) = keys.keys().find(|key| !known.contains(&key.as_str())) {
            let known: Vec<&str> = ["backend", "version"].iter().chain(known).copied().collect();
            return Err(format!("key {key:?} is unknown; expected one of {known:?}"));
        }
        Ok(ModelSection {
            backend: Backend::Given(backend),
            version,
            batcher: Value::Table(keys).try_into().map_err(words)?,
        })
    }

    /// What is known to be wrong before it is loaded. `at` is the section, as in `models.ranker`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        self.backend.as_dyn().check(at, self.batcher.batch_size_max)?;
        self.batcher.check(at)
    }
}

fn words(error: toml::de::Error) -> String {
    error.to_string().trim_end().to_owned()
}
