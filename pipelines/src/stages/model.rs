//! `model = { model = "ranker", input = "x" }`: what a model gives for a tensor, by the model's batcher. The last stage is a model.
//!
//! Its invariant: a model that cannot take what its stage gives is refused when the pipeline opens; what is known only when a
//! request runs is checked before its model runs.

use crate::planner::Place;
use crate::stage::Opening;
use crate::{Describe, Error, Form, Given, Kind, Name, Opened, PerRow, Rows, Stage, Step, Wait};
use millpond_backends_interface::{Port, Signature};
use millpond_engines_batcher::Batcher;
use serde::Deserialize;
use std::sync::Arc;

/// A tensor a row; of the last stage one score a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The model.
    model: String,
    /// The stage whose tensor goes in.
    input: String,
}

impl Describe for Model {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("model.model", &self.model)?;
        let input = place.take("model.input", &self.input, Kind::Floats)?;
        if input.rows == Rows::One {
            let problem = format!(
                "`{}` has one row, but a score is due for each item or sample",
                self.input
            );
            let hint = "assemble it with a column looked up for items or samples.J";
            return Err(place.error("model.input", problem, hint));
        }
        let kind = match place.is_last() {
            true => Kind::Scores,
            false => Kind::Floats,
        };
        Ok(Form {
            kind,
            rows: Rows::Each,
            per_row: PerRow::One,
        })
    }

    fn reads(&self) -> Vec<&str> {
        vec![&self.input]
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "model.model",
            section: "models",
            name: &self.model,
        })
    }

    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let [Some(given)] = given else {
            return Err(Error::not_given("one tensor"));
        };
        // Rows of strings have no size that is known before they are there.
        let width = given.element_type.bytes().unwrap_or(0);
        let row_bytes = given.row_len().unwrap_or(0).saturating_mul(width);
        let batcher = opening.model(&self.model, row_bytes)?;
        let signature = batcher.model().signature();
        let ([input], [output]) = (signature.inputs.as_slice(), signature.outputs.as_slice()) else {
            let (inputs, outputs) = (signature.inputs.len(), signature.outputs.len());
            return Err(opening.unfit(format!(
                "stage {stage:?}: model {:?} has {inputs} inputs and {outputs} outputs; a pipeline's model has one of each",
                self.model
            )));
        };
        if !input.may_fit(given) {
            let problem = format!(
                "stage {stage:?}: model {:?} takes {input}, and is given {given}",
                self.model
            );
            return Err(opening.unfit(problem));
        }
        let gives = Some(Port {
            name: stage.to_owned(),
            ..output.clone()
        });
        let signature = signature.clone();
        let stage = Box::new(Running { batcher, signature });
        Ok(Opened { stage, gives })
    }
}

struct Running {
    batcher: Arc<Batcher>,
    signature: Signature,
}

impl Stage for Running {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        if given.rows == 0 {
            return Ok(Step::Skip);
        }
        let input = given.value(0)?.tensor()?;
        let mut ports = self.signature.inputs.iter();
        if let Some(port) = ports.find(|port| !port.fits(input.shape())) {
            let (model, shape) = (self.batcher.name(), input.shape());
            let problem = format!("model {model:?} takes {port}; this request gives it {shape:?}");
            return Err(Error::Request { problem });
        }
        let inputs = vec![input.clone()];
        let rows = self.signature.rows(&inputs);
        Ok(Step::Wait(Wait::new(&self.batcher, inputs, rows)))
    }
}
