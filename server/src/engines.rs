//! Opens what the configuration names: tables, stores, models, pipelines; and warms them.
//!
//! It serves nothing. Its invariant: when [`Engines::open`] returns, every reference between them holds, and sizes fit.

use crate::Error;
use crate::config::{self, Behaviour, Config};
use millpond_backends_interface::{Backend as _, Model};
use millpond_backends_practice::Practice;
use millpond_backends_tract::Tract;
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::Handle;
use millpond_engines_ordered::{Options, Store};
use millpond_pipelines::{Parts, Pipeline};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model with its threads.
pub struct LoadedModel {
    /// Runs it.
    pub batcher: Arc<Batcher>,
    /// The number that answers carry.
    pub version: u64,
}

/// Everything that answers.
pub struct Engines {
    /// Feature tables by name.
    pub tables: BTreeMap<String, Arc<Handle>>,
    /// Ordered stores by name.
    pub stores: BTreeMap<String, Store>,
    /// Models by name.
    pub models: BTreeMap<String, LoadedModel>,
    /// Pipelines by name.
    pub pipelines: BTreeMap<String, Arc<Pipeline>>,
}

impl Engines {
    /// Opens everything, logging what was found.
    ///
    /// # Errors
    /// The first thing that cannot be opened, or does not fit another.
    pub fn open(config: &Config) -> Result<Engines, Error> {
        let mut engines = Engines {
            tables: BTreeMap::new(),
            stores: BTreeMap::new(),
            models: BTreeMap::new(),
            pipelines: BTreeMap::new(),
        };
        for (name, table) in &config.features {
            let wrap = |source| Error::Features {
                name: name.clone(),
                source,
            };
            let handle = Handle::open(&table.path, table.version).map_err(wrap)?;
            let pinned = handle.pin();
            tracing::info!(
                table = name,
                version = pinned.version(),
                rows = pinned.rows(),
                dim = pinned.dim(),
                "table opened"
            );
            engines.tables.insert(name.clone(), Arc::new(handle));
        }
        for (name, store) in &config.ordered {
            engines
                .stores
                .insert(name.clone(), open_store(name, store, &config.server)?);
        }
        for (name, model) in &config.models {
            engines
                .models
                .insert(name.clone(), load_model(name, model, config)?);
        }
        for (name, pipeline) in &config.pipelines {
            let opened = Pipeline::open(pipeline.plan(name)?, &engines)?;
            engines.pipelines.insert(name.clone(), Arc::new(opened));
        }
        Ok(engines)
    }

    /// Makes tables resident, which checks every byte of them.
    ///
    /// # Errors
    /// A damaged table.
    pub fn make_resident(&self) -> Result<(), Error> {
        for (name, handle) in &self.tables {
            let started = Instant::now();
            handle.pin().make_resident().map_err(|source| Error::Features {
                name: name.clone(),
                source,
            })?;
            tracing::info!(
                table = name,
                ms = started.elapsed().as_millis() as u64,
                "table resident, checksums right"
            );
        }
        Ok(())
    }

    /// Looks whether a table's file was cut since it was opened: models may have taken long to warm.
    ///
    /// # Errors
    /// A damaged table.
    pub fn check_tables(&self) -> Result<(), Error> {
        for (name, handle) in &self.tables {
            handle.pin().check_lengths().map_err(|source| Error::Features {
                name: name.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Runs every model at its warm-up sizes.
    ///
    /// # Errors
    /// A model that fails.
    pub fn warm(&self, config: &Config) -> Result<(), Error> {
        for (name, model) in &self.models {
            let sizes = config.models.get(name).map(config::Model::warm_up_sizes);
            let sizes = sizes.unwrap_or_default();
            let warm_up = model.batcher.warm_up(&sizes)?;
            for run in &warm_up.runs {
                let (first_us, second_us) = (run.first.as_micros() as u64, run.second.as_micros() as u64);
                tracing::info!(
                    model = name,
                    instance = run.instance,
                    rows = run.rows,
                    first_us,
                    second_us,
                    "model warm"
                );
            }
        }
        Ok(())
    }

    /// Lets every count begin at zero.
    pub fn forget_counts(&self) {
        for model in self.models.values() {
            model.batcher.forget_counts();
        }
    }
}

/// Where pipelines find what they name.
impl Parts for Engines {
    fn table(&self, name: &str) -> Option<Arc<Handle>> {
        self.tables.get(name).cloned()
    }

    fn store(&self, name: &str) -> Option<Store> {
        self.stores.get(name).cloned()
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        self.models.get(name).map(|model| Arc::clone(&model.batcher))
    }
}

fn store_options(config: &config::Ordered, server: &config::Server) -> Options {
    Options {
        durability: config.durability.into(),
        queue_max: config.queue_max,
        segment_bytes_max: config.segment_bytes_max,
        memory_bytes_max: config.memory_bytes_max,
        // Admission counts more for a put than its store does, so this is never what refuses one.
        queue_bytes_max: server.in_flight_bytes_max,
    }
}

/// Opens a store as `serve` and `millpond ordered load` both do.
pub(crate) fn open_store(
    name: &str,
    config: &config::Ordered,
    server: &config::Server,
) -> Result<Store, Error> {
    let options = store_options(config, server);
    let Some(path) = &config.path else {
        tracing::info!(store = name, durability = "memory", "store opened, empty");
        return Ok(Store::in_memory(options));
    };
    let opened = Store::open(path, options);
    let (store, recovery) = opened.map_err(|source| Error::Ordered {
        name: name.to_owned(),
        source,
    })?;
    if let Some(torn) = &recovery.torn_tail {
        tracing::warn!(store = name, file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes, "torn tail cut from the log");
    }
    if let Some(max) = config.memory_bytes_max.filter(|max| store.memory_bytes() > *max) {
        let bytes = store.memory_bytes();
        tracing::warn!(
            store = name,
            bytes,
            memory_bytes_max = max,
            "store is over its limit and takes nothing that grows it"
        );
    }
    tracing::info!(
        store = name,
        durability = store.durability().as_str(),
        keys = store.len(),
        "store opened: {recovery}"
    );
    Ok(store)
}

fn load_model(name: &str, model: &config::Model, config: &Config) -> Result<LoadedModel, Error> {
    let started = Instant::now();
    let (backend, loaded) = load_backend(name, model)?;
    let options = BatcherOptions {
        instances: model.instances,
        batch_size_max: model.batch_size_max,
        queue_max: model.queue_max,
        queue_bytes_max: model.queue_bytes_max,
        cpus: config.server.cpus.clone(),
    };
    let batcher = Arc::new(Batcher::start(name, loaded, options)?);
    tracing::info!(
        model = name,
        version = model.version,
        backend,
        ms = started.elapsed().as_millis() as u64,
        "model loaded"
    );
    Ok(LoadedModel {
        batcher,
        version: model.version,
    })
}

/// The backend's name and the model, from its file or from what the configuration says of it.
fn load_backend(name: &str, model: &config::Model) -> Result<(&'static str, Arc<dyn Model>), Error> {
    match model.backend {
        config::Backend::Tract => {
            let path = model.path.as_deref().unwrap_or(Path::new(""));
            let loaded = Tract.load(path).map_err(|source| Error::Model {
                name: name.to_owned(),
                source,
            })?;
            Ok((Tract.name(), loaded))
        }
        config::Backend::Practice => Ok((Practice::NAME, practice(model).model())),
    }
}

/// What the keys of a practice model say; the check has seen that those without a default are there.
fn practice(model: &config::Model) -> Practice {
    let micros = |us: Option<u64>| Duration::from_micros(us.unwrap_or_default());
    Practice {
        behaviour: match model.behaviour {
            Some(Behaviour::Compute) => millpond_backends_practice::Behaviour::Compute,
            Some(Behaviour::Wait) | None => millpond_backends_practice::Behaviour::Wait,
        },
        run: micros(model.us),
        row: micros(model.us_per_row),
        width: model.width.unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_queue_holds_what_admission_lets_in() {
        let server = config::Server {
            in_flight_bytes_max: 1 << 30,
            ..config::Server::default()
        };
        let options = store_options(&config::Ordered::at("events".into()), &server);
        assert_eq!(options.queue_bytes_max, 1 << 30);
    }
}
