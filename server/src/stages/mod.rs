//! Runs a pipeline's stages for one request: the only place where engines meet.
//!
//! Everything up to the model runs here, on the net thread; the model's input goes to its batcher. Its invariant: one
//! request reads one version of each table, from its first stage to its last.

mod assemble;
mod hash;
mod lookup;
mod scan;
mod subject;

pub use subject::Subject;

use crate::Error;
use crate::engines::Engines;
use millpond_backends_interface::Port;
use millpond_engines_features::{Handle, Table};
use millpond_engines_infer::Batcher;
use millpond_engines_infer::pipeline::{Action, Plan, RequestKind};
use millpond_engines_ordered::Store;
use millpond_tensor::Tensor;
use millpond_wire_schema::{Code, Status};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A plan with its tables, stores and model found and measured.
pub struct Prepared {
    plan: Plan,
    /// Each table once, with its name.
    tables: Vec<(String, Arc<Handle>)>,
    /// For every stage: the table it reads (an index into `tables`) or the store it scans.
    parts: Vec<Part>,
    /// The stage that gives the model's input.
    input: usize,
    /// Bytes of a row of it.
    input_row_bytes: usize,
    /// The model's name.
    pub model: String,
    /// Runs the model.
    pub batcher: Arc<Batcher>,
}

/// A port for messages: `x: f32[rows, 112]`.
fn shown(port: &Port) -> String {
    let size = |size: &Option<usize>| size.map_or("rows".to_owned(), |size| size.to_string());
    let shape: Vec<String> = port.shape.iter().map(size).collect();
    format!(
        "{}: {}[{}]",
        port.name,
        port.element_type.as_str(),
        shape.join(", ")
    )
}

enum Part {
    None,
    Table(usize),
    Store(Store),
}

/// What a stage has given.
enum Output {
    Texts(Vec<String>),
    /// Without offsets one key a row; with them row i has keys `offsets[i]..offsets[i + 1]`.
    Keys {
        keys: Vec<u64>,
        offsets: Option<Vec<u32>>,
    },
    Floats {
        rows: usize,
        dim: usize,
        values: Vec<f32>,
    },
}

/// What goes to the model, and the table versions it was made from.
pub struct Input {
    /// f32, rows × width.
    pub tensor: Tensor,
    /// Rows of it.
    pub rows: usize,
    /// Table names and versions.
    pub versions: Vec<(String, u64)>,
}

impl Prepared {
    /// Finds a plan's parts among the engines.
    ///
    /// # Errors
    /// [`Error::Unfit`] when the model takes another width than the stages give, or is not of one f32 input and output.
    pub fn new(plan: Plan, engines: &Engines) -> Result<Prepared, Error> {
        let missing =
            |what: &str, name: &str| Error::Unfit(format!("pipelines.{}: no {what} {name:?}", plan.name));
        let mut tables: Vec<(String, Arc<Handle>)> = Vec::new();
        let mut parts = Vec::new();
        let mut model = None;
        for stage in &plan.stages {
            parts.push(match &stage.action {
                Action::Lookup { table, .. } => match tables.iter().position(|(name, _)| name == table) {
                    Some(at) => Part::Table(at),
                    None => {
                        let handle = engines.tables.get(table).ok_or_else(|| missing("table", table))?;
                        tables.push((table.clone(), Arc::clone(handle)));
                        Part::Table(tables.len() - 1)
                    }
                },
                Action::Scan { store, .. } => Part::Store(
                    engines
                        .stores
                        .get(store)
                        .ok_or_else(|| missing("store", store))?
                        .clone(),
                ),
                Action::Model { model: name, input } => {
                    model = Some((name.clone(), *input));
                    Part::None
                }
                Action::Hash { .. } | Action::Assemble { .. } => Part::None,
            });
        }
        let (model, input) = model.ok_or_else(|| missing("model stage", ""))?;
        let loaded = engines
            .models
            .get(&model)
            .ok_or_else(|| missing("model", &model))?;
        let batcher = Arc::clone(&loaded.batcher);
        let mut prepared = Prepared {
            plan,
            tables,
            parts,
            input,
            input_row_bytes: 0,
            model,
            batcher,
        };
        prepared.check_model()?;
        prepared.input_row_bytes = prepared.width(prepared.input).saturating_mul(size_of::<f32>());
        Ok(prepared)
    }

    fn check_model(&self) -> Result<(), Error> {
        let pipeline = &self.plan.name;
        let unfit = |problem: String| {
            Err(Error::Unfit(format!(
                "pipelines.{pipeline}: model {:?} {problem}",
                self.model
            )))
        };
        let signature = self.batcher.model().signature();
        let ([input], [output]) = (signature.inputs.as_slice(), signature.outputs.as_slice()) else {
            let (inputs, outputs) = (signature.inputs.len(), signature.outputs.len());
            return unfit(format!(
                "has {inputs} inputs and {outputs} outputs; a pipeline's model has one of each"
            ));
        };
        let width = self.width(self.input);
        if input.element_type.as_str() != "f32" || input.shape.len() != 2 || input.row_len() != Some(width) {
            return unfit(format!(
                "takes {}; its stage gives f32 rows of {width}",
                shown(input)
            ));
        }
        if output.element_type.as_str() != "f32" || output.row_len().is_some_and(|len| len != 1) {
            return unfit(format!("gives {}; expected one f32 a row", shown(output)));
        }
        Ok(())
    }

    /// Floats a row of a stage's output.
    fn width(&self, stage: usize) -> usize {
        match (&self.plan.stages[stage].action, &self.parts[stage]) {
            (Action::Assemble { columns }, _) => columns.iter().map(|column| self.width(*column)).sum(),
            (_, Part::Table(at)) => self.tables[*at].1.pin().dim(),
            _ => 0,
        }
    }

    /// What its requests look like.
    pub fn request(&self) -> RequestKind {
        self.plan.request
    }

    /// Its tables and the versions they serve now.
    pub fn versions(&self) -> Vec<(String, u64)> {
        let tables = self.tables.iter();
        tables
            .map(|(name, handle)| (name.clone(), handle.pin().version()))
            .collect()
    }

    /// Strings that each sample must have.
    pub fn sample_width(&self) -> usize {
        self.plan.sample_width
    }

    /// The fields of a user that its stages read.
    pub fn user_fields(&self) -> BTreeSet<&str> {
        self.plan.user_fields()
    }

    /// Bytes of the tensor that [`Prepared::run`] would make: a row for each of the subject's.
    pub fn input_bytes(&self, subject: &Subject<'_>) -> usize {
        self.input_row_bytes.saturating_mul(subject.rows())
    }

    /// Runs every stage before the model.
    ///
    /// # Errors
    /// A [`Status`] naming the key of the request, or the stored value, that does not fit.
    pub fn run(&self, subject: &Subject<'_>) -> Result<Input, Status> {
        subject.check(self.plan.request, self.plan.sample_width, &self.plan.name)?;
        let pinned: Vec<Arc<Table>> = self.tables.iter().map(|(_, handle)| handle.pin()).collect();
        let mut outputs: Vec<Output> = Vec::with_capacity(self.plan.stages.len());
        for (stage, part) in self.plan.stages.iter().zip(&self.parts) {
            let output = match (&stage.action, part) {
                (Action::Hash { slot, from, split }, _) => {
                    hash::run(subject, &outputs, slot, from, split.as_deref())?
                }
                (Action::Scan { prefix, limit, .. }, Part::Store(store)) => {
                    scan::run(subject, store, prefix, *limit)?
                }
                (Action::Lookup { keys, pool, .. }, Part::Table(at)) => {
                    lookup::run(&pinned[*at], &outputs[*keys], *pool, &stage.name)?
                }
                (Action::Assemble { columns }, _) => assemble::run(&outputs, columns, subject.rows())?,
                _ => break,
            };
            outputs.push(output);
        }
        let names = self.tables.iter().map(|(name, _)| name.clone());
        let versions = names.zip(pinned.iter().map(|table| table.version())).collect();
        match outputs.swap_remove(self.input) {
            Output::Floats { rows, dim, values } => {
                let tensor = Tensor::new(vec![rows, dim], values);
                let tensor = tensor.map_err(|error| Status::new(Code::Internal, error.to_string()))?;
                Ok(Input {
                    tensor,
                    rows,
                    versions,
                })
            }
            _ => Err(Status::new(Code::Internal, "the model's input is no floats")),
        }
    }
}
