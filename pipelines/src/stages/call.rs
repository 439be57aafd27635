//! `call = { model = "faces", from = "page" }`: what a model gives that takes requests as they are, whatever their values: a backend of the
//! program's own. Several values go in by name: `inputs = { page = "page", boxes = "detect" }`.
//!
//! Its invariant: values go in and come out whole, with their rows; nothing is joined with those of other requests.

use crate::packed::{pack, unpack};
use crate::planner::Place;
use crate::stage::{Given, Stage, Step};
use crate::wait::Kept;
use crate::{Describe, Error, Form, Kind, Name, Opened, Opening, PerRow, Rows, Wait};
use millpond_backends_interface::Port;
use millpond_engines_batcher::Batcher;
use millpond_tensor::Tensor;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whatever the model gives.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as call = { model = \"faces\" }")]
pub struct Call {
    /// The model.
    model: String,
    /// The stage or input whose value goes in.
    from: Option<String>,
    /// Those whose values go in by name, in the order of the names.
    #[serde(default)]
    inputs: BTreeMap<String, String>,
}

impl Describe for Call {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("call.model", &self.model)?;
        if self.inputs.is_empty() {
            place.from("call.from", self.from.as_deref(), &[Kind::Any])?;
        } else if self.from.is_some() {
            let problem = "it has `from` and `inputs`, and a model takes one value or several by name";
            return Err(place.error("call.from", problem, "leave one of them out"));
        }
        for (name, other) in &self.inputs {
            place.take(&format!("call.inputs.{name}"), other, Kind::Any)?;
        }
        Ok(Form {
            kind: Kind::Any,
            rows: Rows::Each,
            per_row: PerRow::Several,
        })
    }

    fn reads(&self) -> Vec<&str> {
        self.from
            .iter()
            .chain(self.inputs.values())
            .map(String::as_str)
            .collect()
    }

    fn follows(&self) -> bool {
        self.from.is_none() && self.inputs.is_empty()
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "call.model",
            section: "models",
            name: &self.model,
        })
    }

    fn open(&self, stage: &str, _given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let batcher = opening.model(&self.model, 0)?;
        let model = batcher.model();
        if !model.takes_requests() || !model.signature().inputs.is_empty() {
            let problem = format!(
                "stage {stage:?}: model {:?} takes tensors of declared types; run it by model = {{ model = {:?} }}",
                self.model, self.model
            );
            return Err(opening.unfit(problem));
        }
        Ok(Opened::plain(Calling(batcher)))
    }
}

struct Calling(Arc<Batcher>);

impl Stage for Calling {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let mut inputs = Vec::new();
        for value in given.values() {
            pack(value.clone(), &mut inputs)?;
        }
        Ok(Step::Wait(Wait::new(&self.0, inputs, 1)))
    }

    fn finish(&self, outputs: Vec<Tensor>, _kept: Kept) -> Result<Step, Error> {
        unpack(&mut outputs.into_iter()).map(Step::Value)
    }
}
