//! What a stage finds when its pipeline opens: tables, stores, models, and threads of its own.
//!
//! It runs nothing. Its invariant: a pipeline holds all that its stages found, for as long as it lives.

use crate::Error;
use crate::stage::Stage;
use crate::threads::{ThreadKeys, Threads};
use millpond_backends_interface::Port;
use millpond_engines_batcher::Batcher;
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_tensor::ElementType;
use std::sync::Arc;

/// A stage that can run.
pub struct Opened {
    pub(crate) work: Work,
    /// The tensors that it gives, of which the first is its value; `None` for other items, and where that is known when it runs.
    pub gives: Vec<Option<Port>>,
}

/// What runs, and where.
pub(crate) enum Work {
    /// On the thread that brings the request, or that what it takes came from.
    Here(Box<dyn Stage>),
    /// On threads of its own.
    Threads(Threads),
}

impl Opened {
    /// A stage that gives no tensor, or one of which nothing is known yet.
    pub fn plain(stage: impl Stage + 'static) -> Opened {
        Opened::of(stage, vec![None])
    }

    /// A stage that gives tensors.
    pub fn of(stage: impl Stage + 'static, gives: Vec<Option<Port>>) -> Opened {
        let work = Work::Here(Box::new(stage));
        Opened { work, gives }
    }

    /// The stage `name`, which gives f32 rows of `width`; `None` where that is known when it runs.
    pub fn floats(name: &str, width: Option<usize>, stage: impl Stage + 'static) -> Opened {
        let gives = Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, width],
        };
        Opened::of(stage, vec![Some(gives)])
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
    /// The threads of its stages.
    pub(crate) threads: Vec<Arc<Batcher>>,
    /// Of the stage that is being opened.
    pub(crate) at: Here<'p>,
}

/// The stage that is being opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Here<'p> {
    pub(crate) name: &'p str,
    pub(crate) keys: ThreadKeys,
    /// Which of its outputs others read by name.
    pub(crate) outputs: &'p [String],
    /// Whether it gives the scores of a request.
    pub(crate) scores: bool,
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
    /// [`Error::Unfit`] where there is none of that name, or it holds bytes.
    pub fn table(&mut self, name: &str) -> Result<Arc<Table>, Error> {
        let found = self.parts.table(name);
        let table = found.ok_or_else(|| self.missing("table", name))?;
        if let Some(column) = table.schema().bytes_column() {
            return Err(self.unfit(format!(
                "table {name:?} holds bytes in its column {:?}, which no stage reads; name a table of numbers",
                column.name
            )));
        }
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

    /// Has `stage` run on threads of its own, as many as its key `instances` says: for work that takes long, of which no thread that
    /// brings requests may do any. What it gives is as [`Opened::gives`].
    ///
    /// # Errors
    /// [`Error::Unfit`] where they cannot start.
    pub fn on_threads(
        &mut self,
        stage: impl Stage + 'static,
        gives: Vec<Option<Port>>,
    ) -> Result<Opened, Error> {
        let name = format!("{}/{}", self.pipeline, self.at.name);
        let threads = Threads::start(name, self.at.keys, Box::new(stage));
        let threads = threads.map_err(|problem| self.unfit(problem))?;
        self.threads.push(Arc::clone(&threads.batcher));
        let work = Work::Threads(threads);
        Ok(Opened { work, gives })
    }

    /// Whether the stage gives the scores of a request, one float a row.
    pub fn is_scores(&self) -> bool {
        self.at.scores
    }

    /// Which outputs of the stage others read by name; none where they read the stage as a whole.
    pub fn outputs(&self) -> &[String] {
        self.at.outputs
    }

    /// The pipeline's name.
    pub fn pipeline(&self) -> &str {
        self.pipeline
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
