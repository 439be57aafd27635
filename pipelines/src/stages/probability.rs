//! `softmax = {}` and `sigmoid = {}`: what a model gives as probabilities. How is in `numeric`.
//!
//! Its invariant: shapes and rows stay as they are.

use super::by_item::{IMAGES, at_stage, reads_from};
use crate::planner::Place;
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, Stage, Step, numeric};
use millpond_backends_interface::Port;
use millpond_tensor::Tensor;
use serde::Deserialize;

/// What is computed of one tensor.
type Function = fn(&Tensor) -> Result<Tensor, String>;

macro_rules! probabilities {
    ($(#[$doc:meta] $name:ident $key:literal $expecting:literal $function:path,)*) => {$(
        #[$doc]
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, expecting = $expecting)]
        pub struct $name {
            /// What gives the floats; the stage before when left out.
            from: Option<String>,
        }

        impl Describe for $name {
            fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
                let from = place.from(concat!($key, ".from"), self.from.as_deref(), IMAGES)?;
                let kind = if from.kind == Kind::Scores { Kind::Floats } else { from.kind };
                Ok(Form { kind, ..from })
            }

            reads_from!();

            fn open(&self, stage: &str, given: &[Option<Port>], _: &mut Opening<'_>) -> Result<Opened, Error> {
                let stage = stage.to_owned();
                let gives = given.first().cloned().flatten();
                let function = $function;
                Ok(Opened::of(Computing { stage, function }, vec![gives]))
            }
        }
    )*};
}

probabilities! {
    /// Shares of 1 along the last dimension.
    Softmax "softmax" "a table, as softmax = {}" numeric::softmax,
    /// Each float between 0 and 1.
    Sigmoid "sigmoid" "a table, as sigmoid = {}" numeric::sigmoid,
}

struct Computing {
    stage: String,
    function: Function,
}

impl Stage for Computing {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let computed = match &from.items {
            Items::Tensors(items) => {
                let items: Result<_, String> = items.iter().map(self.function).collect();
                items.map(Items::Tensors)
            }
            _ => (self.function)(from.tensor()?).map(Items::Tensor),
        };
        let items = computed.map_err(|problem| at_stage(&self.stage, &problem))?;
        Ok(Step::Value(from.with(items)))
    }
}
