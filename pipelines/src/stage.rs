//! What a stage is: how it is described, what it takes and gives, and how it runs.
//!
//! It knows no kind of stage; those are listed in `stages`. Its invariant: a stage sees the values that its plan names, and the
//! tables, stores and models that it was opened with.

use crate::planner::Place;
use crate::{Error, Value, Wait};
use millpond_backends_interface::Port;
use millpond_engines_batcher::Batcher;
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_tensor::ElementType;
use std::sync::Arc;

/// What kind of value a stage takes or gives, as far as the plan knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// What the items are.
    pub kind: Kind,
    /// How many rows there are.
    pub rows: Rows,
    /// How many items a row has.
    pub per_row: PerRow,
}

/// What items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Texts.
    Texts,
    /// Keys of feature tables.
    Keys,
    /// Rows of floats, or what a model gives to a later stage.
    Floats,
    /// What the last stage gives: one float a row.
    Scores,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Texts => "texts",
            Kind::Keys => "keys",
            Kind::Floats => "floats",
            Kind::Scores => "scores",
        }
    }
}

/// How many rows a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One, whatever the request.
    One,
    /// One for each item or sample.
    Each,
}

/// How many items a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerRow {
    /// Exactly one.
    One,
    /// One, or several when the request gives a list: known when it comes.
    OneOrSeveral,
    /// Any number, none included.
    Several,
}

/// What a stage of the configuration names outside of its pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'d> {
    /// The key that names it, `lookup.table`.
    pub key: &'static str,
    /// The section of the configuration that defines it.
    pub section: &'static str,
    /// What it is called there.
    pub name: &'d str,
}

/// A stage as the configuration describes it.
pub trait Describe {
    /// Says through `place` what it takes, and returns the form of what it gives.
    ///
    /// # Errors
    /// [`Error::Description`], which names the stage, the key, and what to write instead.
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error>;

    /// The stages that its keys name, whether they fit or not.
    fn reads(&self) -> Vec<&str>;

    /// The tables, stores and models that its keys name.
    fn names(&self) -> Option<Name<'_>> {
        None
    }

    /// Finds what it works with. `given` are the tensors that it takes, in its plan's order; `None` is a text or a key.
    ///
    /// # Errors
    /// [`Error::Unfit`].
    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error>;
}

/// A stage that can run.
pub struct Opened {
    /// What runs.
    pub stage: Box<dyn Stage>,
    /// The tensor that it gives; `None` for texts and keys.
    pub gives: Option<Port>,
}

impl Opened {
    /// A stage that gives texts or keys.
    pub fn plain(stage: impl Stage + 'static) -> Opened {
        let stage = Box::new(stage);
        Opened { stage, gives: None }
    }

    /// The stage `name`, which gives f32 rows of `width`; `None` where that is known when it runs.
    pub fn floats(name: &str, width: Option<usize>, stage: impl Stage + 'static) -> Opened {
        let gives = Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, width],
        };
        Opened {
            stage: Box::new(stage),
            gives: Some(gives),
        }
    }
}

/// Where stages find what they name.
pub trait Parts {
    /// The feature table of that name.
    fn table(&self, name: &str) -> Option<Arc<Table>>;

    /// The ordered store of that name.
    fn store(&self, name: &str) -> Option<Store>;

    /// What runs the model of that name.
    fn model(&self, name: &str) -> Option<Arc<Batcher>>;
}

/// A pipeline that is being opened.
pub struct Opening<'p> {
    pub(crate) pipeline: &'p str,
    pub(crate) parts: &'p dyn Parts,
    /// Each table once, with its name.
    pub(crate) tables: Vec<(String, Arc<Table>)>,
    /// Its models, in the order in which requests wait for them.
    pub(crate) models: Vec<Model>,
}

/// A model that a pipeline runs.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) batcher: Arc<Batcher>,
    /// Bytes of a row of its input.
    pub(crate) row_bytes: usize,
}

impl Opening<'_> {
    /// A table, in the version that requests of this pipeline will read.
    ///
    /// # Errors
    /// [`Error::Unfit`] where there is none of that name.
    pub fn table(&mut self, name: &str) -> Result<Arc<Table>, Error> {
        let found = self.parts.table(name);
        let table = found.ok_or_else(|| self.missing("table", name))?;
        if !self.tables.iter().any(|(known, _)| known == name) {
            self.tables.push((name.to_owned(), Arc::clone(&table)));
        }
        Ok(table)
    }

    /// A store.
    ///
    /// # Errors
    /// As [`Opening::table`].
    pub fn store(&self, name: &str) -> Result<Store, Error> {
        self.parts.store(name).ok_or_else(|| self.missing("store", name))
    }

    /// A model that takes rows of `row_bytes` bytes.
    ///
    /// # Errors
    /// As [`Opening::table`].
    pub fn model(&mut self, name: &str, row_bytes: usize) -> Result<Arc<Batcher>, Error> {
        let found = self
            .parts
            .model(name)
            .ok_or_else(|| self.missing("model", name))?;
        self.models.push(Model {
            name: name.to_owned(),
            batcher: Arc::clone(&found),
            row_bytes,
        });
        Ok(found)
    }

    /// The error of something that does not fit.
    pub fn unfit(&self, problem: impl Into<String>) -> Error {
        Error::Unfit {
            pipeline: self.pipeline.to_owned(),
            problem: problem.into(),
        }
    }

    fn missing(&self, what: &str, name: &str) -> Error {
        self.unfit(format!("no {what} {name:?}"))
    }
}

/// One stage of a pipeline, ready to run for any number of requests at a time.
pub trait Stage: Send + Sync {
    /// Does its work for one request.
    ///
    /// # Errors
    /// A request, or something stored, that does not fit; it ends the request.
    fn run(&self, given: &Given<'_>) -> Result<Step, Error>;
}

/// What a stage came to.
pub enum Step {
    /// Its value is there.
    Value(Value),
    /// Its value is what a model gives.
    Wait(Wait),
    /// It has no value for this request; stages that take it are left out as well.
    Skip,
}

/// What a stage sees of one request.
pub struct Given<'r> {
    pub(crate) values: &'r [Option<Value>],
    pub(crate) takes: &'r [usize],
    /// Rows of the request.
    pub rows: usize,
}

impl<'r> Given<'r> {
    /// What it takes, in its plan's order.
    ///
    /// # Errors
    /// [`Error::Internal`] where its plan names fewer.
    pub fn value(&self, at: usize) -> Result<&'r Value, Error> {
        let value = self.takes.get(at).and_then(|at| self.values.get(*at)?.as_ref());
        value.ok_or_else(|| Error::not_given("all that it takes"))
    }

    /// All that it takes.
    pub fn values(&self) -> impl Iterator<Item = &'r Value> {
        let values = self.values;
        self.takes.iter().filter_map(move |at| values.get(*at)?.as_ref())
    }
}
