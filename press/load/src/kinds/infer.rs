//! Runs of a model, in this process: batches of zeros, one at a time on each thread.
//!
//! Its invariant: a run that gives no output of as many rows is an error.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use millpond_backends_interface::{Backend as _, Instance, Model};
use millpond_backends_tract::Tract;
use millpond_tensor::Tensor;

use crate::check::Answer;
use crate::kind::{Description, Given, Operation, Takes, TargetKind, command_of};
use crate::local::{Local, commands, number};

/// The most rows of a batch.
const ROWS_MAX: usize = 65_536;

/// The rows of each request's batch, and the model once it is loaded.
pub(crate) struct Infer {
    rows: Vec<usize>,
    file: Option<PathBuf>,
    model: OnceLock<Arc<dyn Model>>,
}

/// What one thread works with.
pub(crate) struct State {
    model: Arc<dyn Model>,
    instance: Option<Result<Box<dyn Instance>, String>>,
}

impl TargetKind for Infer {
    const NAMES: &'static [&'static str] = &["infer"];
    const TAKES: Takes = Takes::LOCAL;

    fn texts(_: &Description<'_>, operation: &Operation) -> Result<Vec<String>, &'static str> {
        command_of(operation)
    }

    fn prepare(given: &Given<'_>) -> Result<Infer, String> {
        let read = |words: &[&[u8]]| match words {
            [b"run", rows] => usize::try_from(number(rows)?)
                .ok()
                .filter(|rows| (1..=ROWS_MAX).contains(rows)),
            _ => None,
        };
        Ok(Infer {
            rows: commands(given.set, "\"run 15\" (the rows of a batch)", read)?,
            file: given.target.files.map(Into::into),
            model: OnceLock::new(),
        })
    }
}

impl Local for Infer {
    type State = State;

    fn open(&self) -> Result<(), String> {
        let file = self.file.as_ref();
        let file = file.ok_or("a target of protocol \"infer\" needs `files`")?;
        let model = Tract.load(file).map_err(|error| error.to_string())?;
        self.model.get_or_init(|| model);
        Ok(())
    }

    fn state(&self) -> Result<State, String> {
        Ok(State {
            model: self.model.get().cloned().ok_or("its model was not loaded")?,
            instance: None,
        })
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn call<'s>(&self, index: usize, state: &'s mut State) -> Result<Answer<'s>, String> {
        run(self.rows[index], state)?;
        Ok(Answer::Bytes(&[]))
    }
}

fn run(rows: usize, state: &mut State) -> Result<(), String> {
    let State { model, instance } = state;
    let instance = instance.get_or_insert_with(|| model.instance().map_err(|error| error.to_string()));
    let instance = instance.as_mut().map_err(|error| error.clone())?;
    let is_batched = model.signature().batched;
    if !is_batched && rows != 1 {
        return Err(format!(
            "the model takes no batch; write \"run 1\", not \"run {rows}\""
        ));
    }
    let mut inputs = Vec::new();
    for port in &model.signature().inputs {
        // Sizes that are free besides the batch are 1.
        let mut shape: Vec<usize> = port.shape.iter().map(|dim| dim.unwrap_or(1)).collect();
        if let Some(first) = shape.first_mut().filter(|_| is_batched) {
            *first = rows;
        }
        inputs.push(Tensor::zeros(port.element_type, shape).map_err(|error| error.to_string())?);
    }
    let outputs = instance.run(inputs).map_err(|error| error.to_string())?;
    match outputs.first() {
        Some(output) if output.rows() == rows || !is_batched => Ok(()),
        _ => Err(format!("the model gave no output of {rows} rows")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_press_workload::RequestSet;

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        let read = |line: &str| {
            let set = RequestSet::from_bodies("t", [line]).unwrap();
            Infer::prepare(&Given::of(&set, 0)).map(|read| read.rows)
        };
        assert_eq!(read("run 15").unwrap(), [15]);
        assert!(read("run 0").unwrap_err().contains("request 1"));
    }
}
