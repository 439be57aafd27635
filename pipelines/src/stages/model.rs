//! `model = { model = "ranker", input = "x" }`: one score a row, by the model's batcher.
//!
//! Its invariant: the model takes what the stages give, or the pipeline does not open.

use crate::planner::Place;
use crate::stage::Opening;
use crate::{Describe, Error, Form, Given, Kind, Name, Opened, PerRow, Rows, Stage, Step, Wait};
use millpond_backends_interface::Signature;
use millpond_engines_batcher::Batcher;
use millpond_tensor::ElementType;
use serde::Deserialize;
use std::sync::Arc;

/// One score a row; always the last stage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The model.
    model: String,
    /// The stage whose floats go in.
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
        if !place.is_last() {
            let hint = "move it behind all others; a pipeline has one model";
            return Err(place.error("model", "it is not the last stage", hint));
        }
        Ok(Form {
            kind: Kind::Scores,
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

    fn open(&self, _stage: &str, widths: &[usize], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let width = widths.first().copied().unwrap_or(0);
        let batcher = opening.model(&self.model, width.saturating_mul(size_of::<f32>()))?;
        match problem(batcher.model().signature(), width) {
            Some(problem) => Err(opening.unfit(format!("model {:?} {problem}", self.model))),
            None => Ok(Opened {
                stage: Box::new(Running { batcher }),
                width: 1,
            }),
        }
    }
}

/// Why a model of that signature cannot score rows of `width` floats, if it cannot.
fn problem(signature: &Signature, width: usize) -> Option<String> {
    let ([input], [output]) = (signature.inputs.as_slice(), signature.outputs.as_slice()) else {
        let (inputs, outputs) = (signature.inputs.len(), signature.outputs.len());
        return Some(format!(
            "has {inputs} inputs and {outputs} outputs; a pipeline's model has one of each"
        ));
    };
    if input.element_type != ElementType::F32 || input.shape.len() != 2 || input.row_len() != Some(width) {
        return Some(format!("takes {input}; its stage gives f32 rows of {width}"));
    }
    if !signature.batched {
        return Some(format!(
            "takes {input} without a batch; a pipeline's model scores rows"
        ));
    }
    if output.element_type != ElementType::F32 || output.row_len() != Some(1) {
        return Some(format!("gives {output}; expected one f32 a row"));
    }
    None
}

struct Running {
    batcher: Arc<Batcher>,
}

impl Stage for Running {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        if given.rows == 0 {
            return Ok(Step::Skip);
        }
        let inputs = vec![given.value(0)?.tensor()?.clone()];
        Ok(Step::Wait(Wait::new(&self.batcher, inputs, given.rows)))
    }
}
