//! What stages share that work item by item: on images mostly, each of a shape of its own.
//!
//! Its invariant: they give as many items as they take, in the same rows, and an error names the stage and the item.

use crate::image::SAMPLES_MAX;
use crate::{Error, Given, Items, Kind, Stage, Step, Value};
use millpond_tensor::Tensor;

/// What a stage of images takes: a tensor an item, or the rows of one tensor.
pub(super) const IMAGES: &[Kind] = &[Kind::Tensors, Kind::Floats];

/// `reads` and `follows` of a stage with a key `from`.
macro_rules! reads_from {
    () => {
        fn reads(&self) -> Vec<&str> {
            self.from.as_deref().into_iter().collect()
        }

        fn follows(&self) -> bool {
            self.from.is_none()
        }
    };
}
pub(super) use reads_from;

/// A stage that does the same to each item.
pub(super) struct EachItem<F> {
    stage: String,
    work: F,
}

impl<F: Fn(&Tensor) -> Result<Tensor, String> + Send + Sync> EachItem<F> {
    pub(super) fn new(stage: &str, work: F) -> EachItem<F> {
        let stage = stage.to_owned();
        EachItem { stage, work }
    }
}

impl<F: Fn(&Tensor) -> Result<Tensor, String> + Send + Sync> Stage for EachItem<F> {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let mut made = Made::default();
        for (at, item) in items(from)?.iter().enumerate() {
            let item = (self.work)(item).and_then(|item| made.push(item));
            item.map_err(|problem| at_item(&self.stage, at, &problem))?;
        }
        Ok(Step::Value(from.with(Items::Tensors(made.items))))
    }
}

/// What a stage has made: no more samples than one image may have.
#[derive(Default)]
pub(super) struct Made {
    pub(super) items: Vec<Tensor>,
    samples: usize,
}

impl Made {
    pub(super) fn push(&mut self, item: Tensor) -> Result<(), String> {
        self.samples = self.samples.saturating_add(item.len());
        if self.samples > SAMPLES_MAX {
            return Err(format!(
                "it and the items before it have {} samples; {SAMPLES_MAX} in one request are the limit",
                self.samples
            ));
        }
        self.items.push(item);
        Ok(())
    }
}

/// The items of a value of tensors; of one tensor, its rows.
pub(super) fn items(value: &Value) -> Result<Vec<Tensor>, Error> {
    match &value.items {
        Items::Tensors(items) => Ok(items.clone()),
        _ => {
            let tensor = value.tensor()?;
            Ok((0..tensor.rows()).filter_map(|at| tensor.item(at)).collect())
        }
    }
}

/// The error of one item of a request.
pub(super) fn at_item(stage: &str, at: usize, problem: &str) -> Error {
    let problem = format!("stage {stage:?}, item {at}: {problem}");
    Error::Request { problem }
}

/// The error of a request as a whole.
pub(super) fn at_stage(stage: &str, problem: &str) -> Error {
    let problem = format!("stage {stage:?}: {problem}");
    Error::Request { problem }
}
