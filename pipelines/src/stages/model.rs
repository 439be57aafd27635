//! `model = { model = "ranker", input = "x" }`: what a model gives for a value, by the model's batcher; for a model of several
//! inputs `inputs = { x = "a", mask = "b" }`. Its outputs are read as `STAGE.OUTPUT` where it has several. For items and samples
//! the last stage is a model.
//!
//! It runs over all items of a value at once, and keeps their offsets. Its invariant: a model that cannot take what its stage
//! gives is refused when the pipeline opens; what is known only when a request runs is checked before its model runs.

use crate::planner::Place;
use crate::{
    Describe, Error, Form, Given, Items, Kept, Kind, Name, Opened, Opening, PerRow, Rows, Stage, Step, Value,
    Wait,
};
use millpond_backends_interface::{Port, Signature};
use millpond_engines_batcher::Batcher;
use millpond_tensor::{Bytes, Tensor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a model's input can be made of.
const KINDS: &[Kind] = &[Kind::Floats, Kind::Tensors, Kind::Texts];

/// A tensor a row; of the last stage one score a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as model = { model = \"ranker\" }")]
pub struct Model {
    /// The model.
    model: String,
    /// The stage whose tensor goes in, where the model has one input; the stage before when left out.
    input: Option<String>,
    /// What goes into each input of the model.
    #[serde(default)]
    inputs: BTreeMap<String, String>,
}

impl Describe for Model {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.check_named("model.model", &self.model)?;
        if self.input.is_some() && !self.inputs.is_empty() {
            let hint = "write input for a model of one input, or inputs with the names of all";
            return Err(place.error("model.input", "there is both input and inputs", hint));
        }
        let is_values = place.request() == crate::RequestKind::Values;
        let kinds = if is_values { KINDS } else { &[Kind::Floats] };
        let mut form = match self.inputs.is_empty() {
            true => place.from("model.input", self.input.as_deref(), kinds)?,
            false => Form {
                kind: Kind::Floats,
                rows: Rows::One,
                per_row: PerRow::One,
            },
        };
        for (input, from) in &self.inputs {
            let given = place.take_of(&format!("model.inputs.{input}"), from, kinds)?;
            if given.rows == Rows::Each {
                form.rows = Rows::Each;
            }
            if given.per_row != PerRow::One {
                form.per_row = given.per_row;
            }
        }
        if !is_values && form.rows == Rows::One {
            let input = self.input.as_ref().or_else(|| self.inputs.values().next());
            let input = input.map_or("what stands before it".to_owned(), |input| format!("`{input}`"));
            let problem = format!("{input} has one row, but a score is due for each item or sample");
            let hint = "assemble it with a column looked up for items or samples.J";
            return Err(place.error("model.input", problem, hint));
        }
        let kind = match place.is_scores() {
            true => Kind::Scores,
            false => Kind::Floats,
        };
        Ok(match is_values {
            true => Form { kind, ..form },
            false => Form {
                kind,
                rows: Rows::Each,
                per_row: PerRow::One,
            },
        })
    }

    fn reads(&self) -> Vec<&str> {
        let inputs = self.inputs.values().map(String::as_str);
        self.input.as_deref().into_iter().chain(inputs).collect()
    }

    fn follows(&self) -> bool {
        self.input.is_none() && self.inputs.is_empty()
    }

    fn names(&self) -> Option<Name<'_>> {
        Some(Name {
            key: "model.model",
            section: "models",
            name: &self.model,
        })
    }

    fn open(&self, stage: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let row_bytes = given.iter().flatten().map(|given| {
            // Rows of strings have no size that is known before they are there.
            let width = given.element_type.bytes().unwrap_or(0);
            given.row_len().unwrap_or(0).saturating_mul(width)
        });
        let batcher = opening.model(&self.model, row_bytes.fold(0, usize::saturating_add))?;
        let signature = batcher.model().signature().clone();
        let order = self.order(stage, &signature, opening)?;
        for (input, given) in order.iter().map(|at| &signature.inputs[*at]).zip(given) {
            let fits = |given: &&Port| {
                input.may_fit(given) || (!signature.batched && input.may_fit(&item_of(given)))
            };
            if let Some(given) = given.as_ref().filter(|given| !fits(given)) {
                let problem = format!(
                    "stage {stage:?}: model {:?} takes {input}, and is given {given}",
                    self.model
                );
                return Err(opening.unfit(problem));
            }
        }
        let outputs = self.outputs(stage, &signature, opening)?;
        let gives = outputs.iter().map(|at| {
            Some(Port {
                name: stage.to_owned(),
                ..signature.outputs.get(*at)?.clone()
            })
        });
        let gives = gives.collect();
        let is_scores = opening.is_scores();
        let running = Running {
            pipeline: opening.pipeline().to_owned(),
            batcher,
            signature,
            order,
            outputs,
            is_scores,
        };
        Ok(Opened::of(running, gives))
    }
}

impl Model {
    /// For each value that the stage takes the input of the model that it goes into.
    fn order(&self, stage: &str, signature: &Signature, opening: &Opening<'_>) -> Result<Vec<usize>, Error> {
        let known = || {
            let names: Vec<String> = signature.inputs.iter().map(Port::to_string).collect();
            names.join(", ")
        };
        let unfit = |problem: String| {
            let model = &self.model;
            opening.unfit(format!("stage {stage:?}: model {model:?} {problem}"))
        };
        if self.inputs.is_empty() {
            return match signature.inputs.len() {
                1 => Ok(vec![0]),
                count => {
                    let problem = format!(
                        "has {count} inputs ({}); write inputs = {{ NAME = \"STAGE\" }}",
                        known()
                    );
                    Err(unfit(problem))
                }
            };
        }
        if let Some(missing) = signature
            .inputs
            .iter()
            .find(|port| !self.inputs.contains_key(&port.name))
        {
            return Err(unfit(format!("takes {missing} too; add it to inputs")));
        }
        let position = |name: &String| {
            let found = signature.inputs.iter().position(|port| port.name == *name);
            found.ok_or_else(|| unfit(format!("has no input {name:?}; it takes {}", known())))
        };
        self.inputs.keys().map(position).collect()
    }

    /// The outputs that others read, by their position.
    fn outputs(
        &self,
        stage: &str,
        signature: &Signature,
        opening: &Opening<'_>,
    ) -> Result<Vec<usize>, Error> {
        let names: Vec<&str> = signature.outputs.iter().map(|port| port.name.as_str()).collect();
        let model = &self.model;
        if opening.outputs().is_empty() {
            return match names.len() {
                1 => Ok(vec![0]),
                count => {
                    let problem = format!(
                        "stage {stage:?}: model {model:?} has {count} outputs; read them by name: {}",
                        names
                            .iter()
                            .map(|name| format!("{stage}.{name}"))
                            .collect::<Vec<_>>()
                            .join(", ")
                    );
                    Err(opening.unfit(problem))
                }
            };
        }
        let position = |output: &String| {
            let found = names.iter().position(|name| name == output);
            found.ok_or_else(|| {
                opening.unfit(format!(
                    "stage {stage:?}: model {model:?} has no output {output:?}; it gives {names:?}"
                ))
            })
        };
        opening.outputs().iter().map(position).collect()
    }
}

struct Running {
    pipeline: String,
    batcher: Arc<Batcher>,
    signature: Signature,
    /// The input for each value that it takes.
    order: Vec<usize>,
    /// The outputs that it gives.
    outputs: Vec<usize>,
    is_scores: bool,
}

/// A row of what is given, without its dimension.
fn item_of(given: &Port) -> Port {
    let shape = given.shape.iter().skip(1).copied().collect();
    Port {
        shape,
        ..given.clone()
    }
}

/// The rows of a value as one tensor.
fn tensor(value: &Value) -> Result<Tensor, Error> {
    match &value.items {
        Items::Tensor(tensor) => Ok(tensor.clone()),
        Items::Bytes(bytes) => strings(bytes),
        Items::Tensors(tensors) => Tensor::stack(tensors).ok_or_else(|| {
            let shape = |tensor: &Tensor| format!("{}{:?}", tensor.element_type(), tensor.shape());
            let first = tensors.first().map(shape);
            let other = tensors.iter().map(shape).find(|other| Some(other) != first.as_ref());
            let problem = match (first, other) {
                (Some(first), Some(other)) => format!(
                    "a model takes items of one shape, and this request gives it {first} and {other}; resize them first"
                ),
                _ => "a model takes at least one item, and this request gives it none".to_owned(),
            };
            Error::Request { problem }
        }),
        Items::Keys(_) => Err(Error::not_given("numbers or texts")),
    }
}

fn strings(bytes: &Bytes) -> Result<Tensor, Error> {
    Tensor::new(vec![bytes.len()], bytes.clone()).map_err(|error| Error::Internal {
        problem: error.to_string(),
    })
}

impl Stage for Running {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        if given.request_rows() == Some(0) {
            return Ok(Step::Skip);
        }
        if given.request_rows().is_none() {
            let count = given.values().count();
            match given.values().filter(|value| value.items.is_empty()).count() {
                0 => {}
                empty if empty == count && self.are_rows(given) => return self.nothing(given),
                empty if self.signature.batched => {
                    let model = self.batcher.name();
                    let problem = format!(
                        "model {model:?}: {empty} of its {count} inputs have no items, and the others have; give all as many"
                    );
                    return Err(Error::Request { problem });
                }
                _ => {}
            }
        }
        let [0] = self.order.as_slice() else {
            return self.wait(given, self.ordered(given)?);
        };
        let input = self.input(0, given.value(0)?)?;
        let mut ports = self.signature.inputs.iter();
        if let Some(port) = ports.find(|port| !port.fits(input.shape())) {
            let (model, shape) = (self.batcher.name(), input.shape());
            let problem = format!("model {model:?} takes {port}; this request gives it {shape:?}");
            return Err(Error::Request { problem });
        }
        self.wait(given, vec![input])
    }

    fn finish(&self, mut outputs: Vec<Tensor>, kept: Kept) -> Result<Step, Error> {
        if let [only] = self.outputs.as_slice() {
            return match *only < outputs.len() {
                true => self.value(outputs.swap_remove(*only), &kept).map(Step::Value),
                false => Err(Error::not_given("an output of its model")),
            };
        }
        let value = |at: &usize| {
            let output = outputs.get(*at).cloned();
            self.value(
                output.ok_or_else(|| Error::not_given("an output of its model"))?,
                &kept,
            )
        };
        self.outputs
            .iter()
            .map(value)
            .collect::<Result<_, _>>()
            .map(Step::Values)
    }
}

impl Running {
    /// A value as the input at `at` takes it: of a model without a batch the only row without its dimension, where the input has one less.
    fn input(&self, at: usize, value: &Value) -> Result<Tensor, Error> {
        let tensor = tensor(value)?;
        let port = self.signature.inputs.get(at).filter(|_| !self.signature.batched);
        let is_item =
            port.is_some_and(|port| tensor.rows() == 1 && tensor.shape().len() == port.shape.len() + 1);
        let item = is_item.then(|| tensor.item(0)).flatten();
        Ok(item.unwrap_or(tensor))
    }

    /// Whether the values are rows, of which there may be none. A model without a batch also takes whole tensors: a first size of
    /// 0 is then a size like any other.
    fn are_rows(&self, given: &Given<'_>) -> bool {
        let is_rows = |(at, value): (&usize, &Value)| {
            let rank = self.signature.inputs.get(*at).map(|port| port.shape.len());
            let is_list = match &value.items {
                Items::Tensor(tensor) => rank.is_some_and(|rank| tensor.shape().len() == rank + 1),
                Items::Tensors(_) => true,
                Items::Bytes(_) | Items::Keys(_) => rank == Some(0),
            };
            is_list || value.offsets.is_some()
        };
        self.signature.batched || self.order.iter().zip(given.values()).any(is_rows)
    }

    /// What it takes, in the model's order.
    fn ordered(&self, given: &Given<'_>) -> Result<Vec<Tensor>, Error> {
        let mut inputs = Vec::with_capacity(self.order.len());
        for at in 0..self.signature.inputs.len() {
            let from = self.order.iter().position(|input| *input == at);
            let from = from.ok_or_else(|| Error::not_given("all inputs of its model"))?;
            inputs.push(self.input(at, given.value(from)?)?);
        }
        Ok(inputs)
    }

    fn wait(&self, given: &Given<'_>, inputs: Vec<Tensor>) -> Result<Step, Error> {
        if given.request_rows().is_none() || inputs.len() > 1 {
            // What a request of values holds was checked by nobody.
            self.signature.check_ordered(&inputs).map_err(|error| {
                let problem = format!("model {:?}: {error}", self.batcher.name());
                Error::Request { problem }
            })?;
        }
        let rows = self.signature.rows(&inputs);
        let kept = Kept {
            rows: given.request_rows().or(self.signature.batched.then_some(rows)),
            offsets: given.values().find_map(|value| value.offsets.clone()),
            ..Kept::default()
        };
        Ok(Step::Wait(Wait::new(&self.batcher, inputs, rows).keeping(kept)))
    }

    /// What it gives for no items: tensors without rows, in the rows that there are.
    fn nothing(&self, given: &Given<'_>) -> Result<Step, Error> {
        let offsets = given.values().find_map(|value| value.offsets.clone());
        let empty = |at: &usize| {
            let port = self.signature.outputs.get(*at);
            let port = port.ok_or_else(|| Error::not_given("an output of its model"))?;
            let mut shape: Vec<usize> = port.shape.iter().map(|size| size.unwrap_or(0)).collect();
            match shape.first_mut() {
                Some(first) => *first = 0,
                None => shape.push(0),
            }
            let tensor = Tensor::zeros(port.element_type, shape).map_err(|error| Error::Internal {
                problem: error.to_string(),
            })?;
            Ok(Value {
                items: Items::Tensor(tensor),
                offsets: offsets.clone(),
            })
        };
        let mut values: Vec<Value> = self.outputs.iter().map(empty).collect::<Result<_, Error>>()?;
        Ok(match values.len() {
            1 => values.pop().map_or(Step::Skip, Step::Value),
            _ => Step::Values(values),
        })
    }

    /// An output: of a request's items or samples as many rows as it has, behind the last stage as many floats; of values as many
    /// rows as went in, where the model has a batch.
    fn value(&self, output: Tensor, kept: &Kept) -> Result<Value, Error> {
        let Some(rows) = kept.rows else {
            return Ok(Value::rows(Items::Tensor(output)));
        };
        let is_scores = !self.is_scores || output.f32().is_some_and(|scores| scores.len() == rows);
        if is_scores && output.rows() == rows {
            return Ok(Value {
                items: Items::Tensor(output),
                offsets: kept.offsets.clone(),
            });
        }
        let (element_type, shape) = (output.element_type(), output.shape());
        let problem = format!(
            "a model of pipeline {:?} gave {element_type}{shape:?} for {rows} rows",
            self.pipeline
        );
        Err(Error::Internal { problem })
    }
}
