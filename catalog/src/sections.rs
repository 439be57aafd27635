//! The sections that describe a catalog, and what a call means that names nothing.
//!
//! They open nothing. Their invariant: in sections that pass [`Sections::check`] every name that one uses is defined by another.

use crate::{Library, ModelSection};
use millpond_engines_features as features;
use millpond_engines_ordered as ordered;
use millpond_pipelines::{self as pipelines, Description, Plan, RequestKind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a catalog is to hold, and its defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Sections {
    /// `[features.NAME]`
    pub features: BTreeMap<String, features::Section>,
    /// `[ordered.NAME]`
    pub ordered: BTreeMap<String, ordered::Section>,
    /// `[models.NAME]`
    pub models: BTreeMap<String, ModelSection>,
    /// `[onnxruntime]`: the library that models of that backend run on.
    pub onnxruntime: Library,
    /// `[pipelines.NAME]`
    pub pipelines: BTreeMap<String, Description>,
    /// The model of a call that names none; may be left out when there is one model.
    pub default_model: Option<String>,
    /// The pipeline of a call that names none; may be left out when one fits.
    pub default_pipeline: Option<String>,
    /// The store of a call that names none; may be left out when there is one store.
    pub default_store: Option<String>,
}

/// The paths that sections name.
pub fn paths_mut<'s>(
    features: &'s mut BTreeMap<String, features::Section>,
    ordered: &'s mut BTreeMap<String, ordered::Section>,
    models: &'s mut BTreeMap<String, ModelSection>,
    onnxruntime: &'s mut Library,
) -> impl Iterator<Item = &'s mut PathBuf> {
    let tables = features.values_mut().flat_map(|table| {
        let of_source = table.source.iter_mut().flat_map(|source| source.paths_mut());
        // A table that other servers have has no folder here.
        let own = Some(&mut table.path).filter(|path| !path.as_os_str().is_empty());
        let overlay = table.overlay.as_mut().and_then(|overlay| overlay.path.as_mut());
        own.into_iter().chain(of_source).chain(overlay)
    });
    let of_store = |store: &'s mut ordered::Section| {
        store
            .path
            .iter_mut()
            .chain(&mut store.follow_token_file)
            .chain(&mut store.follow_ca)
    };
    let stores = ordered.values_mut().flat_map(of_store);
    let models = models.values_mut();
    let files = models.flat_map(|model| model.backend.as_dyn_mut().paths_mut());
    let library = onnxruntime.library.as_mut();
    tables.chain(stores).chain(files).chain(library)
}

/// Something wrong, and where a stage is at fault, which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, its key, and what to do.
    pub text: String,
    /// The pipeline, the position of its stage, and the key.
    pub stage: Option<(String, usize, String)>,
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem { text, stage: None }
    }
}

impl Sections {
    /// What is known to be wrong before anything is opened.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), Problem> {
        for (name, table) in &self.features {
            table.check(&format!("features.{name}"))?;
        }
        for (name, store) in &self.ordered {
            store.check(&format!("ordered.{name}"))?;
        }
        self.onnxruntime.check()?;
        for (name, model) in &self.models {
            model.check(&format!("models.{name}"))?;
        }
        for (name, pipeline) in &self.pipelines {
            self.check_names(&pipeline.plan_among(name, &self.pipelines).map_err(unplanned)?)?;
        }
        if let Some(name) = &self.default_model {
            known("default_model", name, "models", &self.models)?;
        }
        if let Some(name) = &self.default_store {
            known("default_store", name, "ordered", &self.ordered)?;
        }
        if let Some(name) = &self.default_pipeline {
            known("default_pipeline", name, "pipelines", &self.pipelines)?;
        }
        Ok(())
    }

    fn check_names(&self, plan: &Plan) -> Result<(), Problem> {
        for (stage, name) in plan.names() {
            let at = &plan.stages[stage].name;
            let key = format!("pipelines.{}, stage {at:?}, key {}", plan.name, name.key);
            let found = match name.section {
                "ordered" => known(&key, name.name, name.section, &self.ordered),
                "features" => known(&key, name.name, name.section, &self.features),
                _ => known(&key, name.name, name.section, &self.models),
            };
            found.map_err(|text| Problem {
                text,
                stage: Some((plan.name.clone(), plan.stages[stage].origin, name.key.to_owned())),
            })?;
        }
        Ok(())
    }

    /// Takes out the ordered stores: another process has them, and calls of them go there.
    pub fn take_out_stores(&mut self) {
        (self.ordered, self.default_store) = (BTreeMap::new(), None);
    }

    /// A pipeline and its stage that reads an ordered store, and which, if there is one.
    pub fn stage_of_a_store(&self) -> Option<(&str, String, String)> {
        self.pipelines.iter().find_map(|(name, pipeline)| {
            let plan = pipeline.plan_among(name, &self.pipelines).ok()?;
            let (stage, store) = plan.names().find(|(_, name)| name.section == "ordered")?;
            let stage = plan.stages.get(stage)?.name.to_string();
            Some((name.as_str(), stage, store.name.to_owned()))
        })
    }

    /// Takes out a table, and the pipelines that look it up; returns their names.
    pub fn take_out_table(&mut self, table: &str) -> Vec<String> {
        let all = self.pipelines.clone();
        let reads = |name: &str, pipeline: &Description| {
            let plan = pipeline.plan_among(name, &all).ok();
            plan.is_some_and(|plan| {
                let mut names = plan.names().map(|(_, name)| name);
                names.any(|name| name.section == "features" && name.name == table)
            })
        };
        let taken = all.iter().filter(|(name, pipeline)| reads(name, pipeline));
        let taken: Vec<String> = taken.map(|(name, _)| name.clone()).collect();
        self.pipelines.retain(|name, _| !taken.contains(name));
        self.default_pipeline.take_if(|name| taken.contains(name));
        self.features.remove(table);
        taken
    }

    /// The model that a call without one means.
    pub fn model_default(&self) -> Option<&str> {
        self.default_model.as_deref().or_else(|| only(self.models.keys()))
    }

    /// The store that a call without one means.
    pub fn store_default(&self) -> Option<&str> {
        self.default_store
            .as_deref()
            .or_else(|| only(self.ordered.keys()))
    }

    /// The pipeline that a call of `kind` without one means.
    pub fn pipeline_default(&self, kind: RequestKind) -> Option<&str> {
        let is_of_kind = |name: &&String| {
            let pipeline = self.pipelines.get(*name);
            pipeline.is_some_and(|pipeline| pipeline.request == kind)
        };
        let named = self.default_pipeline.as_ref().filter(is_of_kind);
        named
            .map(String::as_str)
            .or_else(|| only(self.pipelines.keys().filter(is_of_kind)))
    }
}

/// A pipeline whose stages do not fit together.
fn unplanned(error: pipelines::Error) -> Problem {
    let text = error.to_string();
    let stage = match error {
        pipelines::Error::Description {
            pipeline,
            stage: Some(stage),
            ..
        } => Some((pipeline, stage.0, stage.1)),
        _ => None,
    };
    Problem { text, stage }
}

fn known<T>(key: &str, name: &str, section: &str, named: &BTreeMap<String, T>) -> Result<(), String> {
    if named.contains_key(name) {
        return Ok(());
    }
    let there: Vec<&str> = named.keys().map(String::as_str).collect();
    Err(format!(
        "{key} is {name:?}, which no [{section}.…] section defines; defined are {there:?}"
    ))
}

fn only<'n>(mut names: impl Iterator<Item = &'n String>) -> Option<&'n str> {
    let first = names.next()?;
    names.next().is_none().then_some(first)
}
