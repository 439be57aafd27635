//! What was opened, by name, and the next catalog beside it.
//!
//! It serves nothing. Its invariant: when a catalog is built, every reference between its parts holds, sizes fit, and every byte
//! of its tables was read.

use crate::versions::{self, Served};
use crate::{Error, ModelSection, Past, Sections, Serving, StoreFailures};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::{self as features, Hidden, Lost, Overlay, Table, hidden_by, lost_without};
use millpond_engines_ordered::{self as ordered, Store};
use millpond_pipelines::{Parts, Pipeline};
use millpond_threads::{LeftOut, LineLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the parts get of the machine and of the server around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Processors for instances of models, in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// Bytes of puts that may wait for each store, and of upserts for each overlay.
    pub put_bytes_max: usize,
    /// How long a change waits for the calls that hold what it took away.
    pub drain: Duration,
    /// Which node of the map this server is: versions that were built for another one are refused.
    pub node: Option<String>,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources {
            cpus: Vec::new(),
            put_bytes_max: ordered::Options::default().queue_bytes_max,
            drain: Duration::from_secs(10),
            node: None,
        }
    }
}

/// A model with its threads.
#[derive(Clone)]
pub struct LoadedModel {
    /// Runs it.
    pub batcher: Arc<Batcher>,
    /// The number that answers carry.
    pub version: u64,
}

/// Everything that answers.
#[derive(Default)]
pub struct Catalog {
    /// Feature tables by name.
    pub tables: BTreeMap<String, Arc<Table>>,
    /// What is kept of each table beside the version that serves.
    pub past: BTreeMap<String, Past>,
    /// Ordered stores by name.
    pub stores: BTreeMap<String, Store>,
    /// Models by name.
    pub models: BTreeMap<String, LoadedModel>,
    /// Pipelines by name.
    pub pipelines: BTreeMap<String, Arc<Pipeline>>,
    /// What the log says of stores that cannot write.
    pub store_failures: Arc<StoreFailures>,
    /// How often the log is told of tables whose files were cut.
    cut_tables: Arc<LineLimit>,
    sections: Sections,
}

impl Catalog {
    /// Opens what the sections describe, logging what was found; what `before` has under the same section is shared, but for
    /// the model `anew`. Pipelines are opened anew, because they hold what they were opened with.
    pub(crate) fn open(
        mut sections: Sections,
        before: &Catalog,
        anew: Option<&str>,
        resources: &Resources,
    ) -> Result<Catalog, Error> {
        sections.onnxruntime.choose().map_err(Error::Unfit)?;
        let mut next = Catalog {
            store_failures: Arc::clone(&before.store_failures),
            cut_tables: Arc::clone(&before.cut_tables),
            ..Catalog::default()
        };
        let old = &before.sections;
        for (name, section) in &mut sections.features {
            let (table, past) =
                versions::open(name, section, Served::of(before, name), resources.put_bytes_max)?;
            if section.spread {
                check_node(name, &table, resources.node.as_deref())?;
            }
            // What is the newest now may not be when it is opened again, by a way back.
            section.version = Some(table.version());
            next.tables.insert(name.clone(), table);
            next.past.insert(name.clone(), past);
        }
        if let Some((name, _)) = old
            .ordered
            .iter()
            .find(|(name, section)| sections.ordered.get(*name) != Some(section))
        {
            return Err(Error::Unfit(format!(
                "ordered.{name}: a store stays as it was opened, because its folder has one log; change it by a restart"
            )));
        }
        for (name, section) in &sections.ordered {
            let store = match before.stores.get(name) {
                Some(store) => store.clone(),
                None => open_store(name, section, resources.put_bytes_max)?,
            };
            next.stores.insert(name.clone(), store);
        }
        for (name, section) in &sections.models {
            let model = match kept(name, section, &old.models, &before.models) {
                Some(model) if anew != Some(name) => model,
                _ => load_model(name, section, resources)?,
            };
            next.models.insert(name.clone(), model);
        }
        for (name, pipeline) in &sections.pipelines {
            let opened = Pipeline::open(pipeline.plan_among(name, &sections.pipelines)?, &next)?;
            let opened = match before.pipelines.get(name) {
                Some(before) => opened.counting_on(before),
                None => opened,
            };
            next.pipelines.insert(name.clone(), Arc::new(opened));
        }
        next.sections = sections;
        Ok(next)
    }

    /// Runs every model that `before` does not have at its warm-up sizes, then looks whether a table's file was cut meanwhile.
    pub(crate) fn warm(&self, before: &Catalog) -> Result<(), Error> {
        for (name, model) in self.models_beside(before) {
            let sizes = model.batcher.options().warm_up_sizes();
            for run in model.batcher.warm_up(&sizes)? {
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
        let kept = |name: &String, table| before.tables.get(name).is_some_and(|old| Arc::ptr_eq(old, table));
        for (name, table) in self.tables.iter().filter(|(name, table)| !kept(name, table)) {
            table.check_lengths().map_err(Error::part("features", name))?;
        }
        Ok(())
    }

    /// Logs that a file of a table was cut while it was served: a line a second at most.
    pub fn note_cut(&self, table: &str, error: &features::Error) {
        if let Some(LeftOut(left_out)) = self.cut_tables.admits() {
            tracing::error!(table, %error, left_out, "a file of a feature table was cut");
        }
    }

    /// The version of that number of a table, where it serves or is held.
    pub fn version(&self, table: &str, version: u64) -> Option<&Arc<Table>> {
        self.versions(table).find(|table| table.version() == version)
    }

    /// The versions of a table that answer calls which name them: the one that serves, then those that are held.
    pub fn versions<'c>(&'c self, table: &str) -> impl Iterator<Item = &'c Arc<Table>> {
        let held = self.past.get(table).into_iter().flat_map(|past| &past.held);
        self.tables.get(table).into_iter().chain(held)
    }

    /// What the version that a table serves does not show of the upserts that were folded into others, if anything. Reads manifests.
    pub fn hidden(&self, table: &str) -> Option<Hidden> {
        let (serves, overlay, served_max) = self.of_folds(table)?;
        hidden_by(serves, overlay, served_max)
    }

    /// What of the folded upserts would be nowhere any more if a version of a table were deleted, if anything. Reads manifests.
    pub fn lost_without(&self, table: &str, version: u64) -> Option<Lost> {
        let (serves, overlay, served_max) = self.of_folds(table)?;
        lost_without(serves.path().parent()?, version, overlay, served_max)
    }

    /// What a table serves, the overlay over it, and the highest version that ever served.
    fn of_folds(&self, table: &str) -> Option<(&Arc<Table>, Option<&Overlay>, u64)> {
        let serves = self.tables.get(table)?;
        let served_max = self.past.get(table).map_or(serves.version(), |past| past.highest);
        Some((serves, serves.overlay().map(|overlay| &**overlay), served_max))
    }

    /// What each table serves.
    pub fn serving(&self) -> BTreeMap<String, Serving> {
        let serving = self.tables.iter().map(|(name, table)| {
            let version = table.version();
            let past = self.past.get(name);
            let serving = Serving {
                version,
                before: past.and_then(|past| past.before),
                highest: past.map_or(version, |past| past.highest.max(version)),
            };
            (name.clone(), serving)
        });
        serving.collect()
    }

    /// The models that `other` does not have.
    pub(crate) fn models_beside<'c>(
        &'c self,
        other: &'c Catalog,
    ) -> impl Iterator<Item = (&'c String, &'c LoadedModel)> {
        self.models.iter().filter(|(name, model)| {
            let same = |other: &LoadedModel| Arc::ptr_eq(&other.batcher, &model.batcher);
            !other.models.get(*name).is_some_and(same)
        })
    }

    /// What it was opened from; of each table the version that was opened.
    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// The threads of stages that have their own, each under the names of its pipeline and stage.
    pub fn stage_threads(&self) -> impl Iterator<Item = &Arc<Batcher>> {
        self.pipelines.values().flat_map(|pipeline| pipeline.threads())
    }

    /// Lets every count begin at zero.
    pub fn forget_counts(&self) {
        for model in self.models.values() {
            model.batcher.forget_counts();
        }
        for pipeline in self.pipelines.values() {
            pipeline.forget_counts();
        }
        self.tables.values().for_each(|table| table.forget_counts());
    }

    /// Ends every model and store at the same time: finishes what they have taken in, for as long as there is time. Returns those
    /// that have not ended.
    pub fn stop_by(&self, until: Instant) -> Vec<String> {
        self.models.values().for_each(|model| model.batcher.begin_stop());
        self.stage_threads().for_each(|threads| threads.begin_stop());
        self.stores.values().for_each(Store::begin_close);
        self.overlays().for_each(|(_, overlay)| overlay.begin_close());
        let mut left = Vec::new();
        for (name, model) in &self.models {
            if !model.batcher.stop_by(until) {
                left.push(format!("a run of models.{name}"));
            }
        }
        for threads in self.stage_threads().filter(|threads| !threads.stop_by(until)) {
            left.push(format!("a run of stage {}", threads.name()));
        }
        for (name, store) in &self.stores {
            if let Err(error) = store.close_by(until) {
                tracing::error!(store = name, %error, "the store was not closed in order");
                left.push(format!("ordered.{name}"));
            }
        }
        for (name, overlay) in self.overlays() {
            if let Err(error) = overlay.close_by(until) {
                tracing::error!(table = name, %error, "the overlay was not closed in order");
                left.push(format!("features.{name}.overlay"));
            }
        }
        left
    }

    /// The overlays of tables that have one, by the tables' names.
    pub fn overlays(&self) -> impl Iterator<Item = (&String, &Arc<Overlay>)> {
        self.tables
            .iter()
            .filter_map(|(name, table)| Some((name, table.overlay()?)))
    }
}

/// Where pipelines find what they name.
impl Parts for Catalog {
    fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.tables.get(name).cloned()
    }

    fn store(&self, name: &str) -> Option<Store> {
        self.stores.get(name).cloned()
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        self.models.get(name).map(|model| Arc::clone(&model.batcher))
    }
}

/// What serves under that name already, if its section is the same.
fn kept<S: PartialEq, T: Clone>(
    name: &str,
    section: &S,
    sections: &BTreeMap<String, S>,
    opened: &BTreeMap<String, T>,
) -> Option<T> {
    sections.get(name).filter(|old| *old == section)?;
    opened.get(name).cloned()
}

/// Refuses a version that was built for another node of the map than this server is.
fn check_node(name: &str, table: &Table, node: Option<&str>) -> Result<(), Error> {
    match (table.node(), node) {
        (Some(share), Some(node)) if share.name != node => Err(Error::Unfit(format!(
            "features.{name}: version {} was built for node {share}; this server is node {node:?} (nodes.name): build it with `--map FILE --node \
             {node}`, or correct features.{name}.path",
            table.version(),
        ))),
        _ => Ok(()),
    }
}

/// Opens a store, and logs what its log held.
fn open_store(name: &str, section: &ordered::Section, put_bytes_max: usize) -> Result<Store, Error> {
    let opened = section.open(put_bytes_max);
    let (store, recovery) = opened.map_err(Error::part("ordered", name))?;
    let Some(recovery) = recovery else {
        tracing::info!(store = name, durability = "memory", "store opened, empty");
        return Ok(store);
    };
    for damaged in &recovery.damaged {
        tracing::warn!(store = name, "passed over a checkpoint: {damaged}");
    }
    if let Some(torn) = &recovery.torn_tail {
        tracing::warn!(store = name, file = %torn.file.display(), offset = torn.offset, bytes = torn.bytes, "torn tail cut from the log");
    }
    if let Some(memory_bytes_max) = section.memory_bytes_max.filter(|max| store.entry_bytes() > *max) {
        let bytes = store.entry_bytes();
        let told = match section.eviction {
            ordered::Eviction::None => "store is over its limit and takes nothing that grows it",
            _ => "store is over its limit: entries are evicted until it is not",
        };
        tracing::warn!(
            store = name,
            bytes,
            memory_bytes_max,
            eviction = section.eviction.as_str(),
            "{told}"
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

fn load_model(name: &str, section: &ModelSection, resources: &Resources) -> Result<LoadedModel, Error> {
    let started = Instant::now();
    let loaded = section.backend.as_dyn().load();
    let loaded = loaded.map_err(Error::part("models", name))?;
    let options = BatcherOptions {
        cpus: resources.cpus.clone(),
        ..section.batcher.clone()
    };
    let batcher = Arc::new(Batcher::start(name, loaded, options)?);
    let (version, backend) = (section.version, section.backend.name());
    let ms = started.elapsed().as_millis() as u64;
    tracing::info!(model = name, version, backend, ms, "model loaded");
    Ok(LoadedModel { batcher, version })
}
