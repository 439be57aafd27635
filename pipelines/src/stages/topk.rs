//! `topk = { k = 5 }`: the largest floats of each row and where they stand: `NAME.values` and `NAME.indices`.
//!
//! How is in `numeric`. Its invariant: both outputs have the rows of what it takes.

use super::by_item::{at_stage, reads_from};
use crate::planner::Place;
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, Stage, Step, numeric};
use millpond_backends_interface::Port;
use millpond_tensor::ElementType;
use serde::Deserialize;

/// The best of each row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as topk = { k = 5 }")]
pub struct TopK {
    /// What gives the floats; the stage before when left out.
    from: Option<String>,
    /// How many; all where there are fewer.
    k: usize,
}

impl Describe for TopK {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        if self.k == 0 {
            return Err(place.error("topk.k", "it is 0", "write how many to keep of each row"));
        }
        let from = place.from("topk.from", self.from.as_deref(), &[Kind::Floats])?;
        let kind = Kind::Floats;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let mut gives = Vec::new();
        let mut outputs = Vec::new();
        for output in opening.outputs() {
            let (indices, element_type) = match output.as_str() {
                "indices" => (true, ElementType::I64),
                "values" => (false, ElementType::F32),
                other => {
                    let problem =
                        format!("stage {stage:?} has no output {other:?}; it gives indices and values");
                    return Err(opening.unfit(problem));
                }
            };
            outputs.push(indices);
            let taken = given.first().and_then(Option::as_ref);
            gives.push(taken.map(|port| {
                let mut shape = port.shape.clone();
                if let Some(last) = shape.last_mut() {
                    *last = last.map(|last| last.min(self.k));
                }
                let name = output.clone();
                Port {
                    name,
                    element_type,
                    shape,
                }
            }));
        }
        if outputs.is_empty() {
            let problem =
                format!("stage {stage:?} has 2 outputs; read them by name: {stage}.indices, {stage}.values");
            return Err(opening.unfit(problem));
        }
        let best = Best {
            stage: stage.to_owned(),
            k: self.k,
            outputs,
        };
        Ok(Opened::of(best, gives))
    }
}

struct Best {
    stage: String,
    k: usize,
    /// Of each output that is read, whether it is the indices.
    outputs: Vec<bool>,
}

impl Stage for Best {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let top =
            numeric::top_k(from.tensor()?, self.k).map_err(|problem| at_stage(&self.stage, &problem))?;
        let value = |indices: &bool| {
            let tensor = if *indices { &top.indices } else { &top.values };
            from.with(Items::Tensor(tensor.clone()))
        };
        Ok(Step::Values(self.outputs.iter().map(value).collect()))
    }
}
