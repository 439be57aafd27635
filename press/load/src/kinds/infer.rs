//! Calls of a model, in this process: the batcher and the wait of pipelines that a server's `infer` has, without its network.
//!
//! Inputs are zeros, and each thread waits for its call. Its invariant: a run that gives no output of as many rows is an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use millpond_backends_interface::Backend as _;
use millpond_backends_tract::Tract;
use millpond_engines_batcher::{self as batcher, Batcher, BatcherOptions};
use millpond_pipelines::{Ask, Wait};
use millpond_tensor::Tensor;

use crate::TargetKind;
use crate::check::Answer;
use crate::kind::Given;
use crate::local::{Local, in_process, number};

pub(super) const KIND: TargetKind = in_process::<Infer>(&["infer"]);

/// The most rows of a batch.
const ROWS_MAX: usize = 65_536;

struct Infer;

/// What one thread calls with, and where it waits.
struct State {
    ask: Ask,
    told: SyncSender<Result<batcher::Answer, batcher::Error>>,
    waits: Receiver<Result<batcher::Answer, batcher::Error>>,
}

impl Default for State {
    fn default() -> State {
        let (told, waits) = sync_channel(1);
        let ask = Ask {
            source: 0,
            deadline: None,
            gone: Arc::default(),
            kept_bytes: 0,
        };
        State { ask, told, waits }
    }
}

impl Local for Infer {
    type Engine = Arc<Batcher>;
    type State = State;
    /// The rows of a batch.
    type Command = usize;
    const HOW: &'static str = "\"run 15\" (the rows of a batch)";

    fn prepare(_: &Given<'_>) -> Result<Infer, String> {
        Ok(Infer)
    }

    fn command(words: &[&[u8]]) -> Option<usize> {
        match words {
            [b"run", rows] => usize::try_from(number(rows)?)
                .ok()
                .filter(|rows| (1..=ROWS_MAX).contains(rows)),
            _ => None,
        }
    }

    fn open(files: Option<&PathBuf>) -> Result<Arc<Batcher>, String> {
        let file = files.ok_or("a target of protocol \"infer\" needs `files`")?;
        let model = Tract::at(file).load().map_err(|error| error.to_string())?;
        let started = Batcher::start("infer", model, BatcherOptions::default());
        Ok(Arc::new(started.map_err(|error| error.to_string())?))
    }

    fn call<'s>(batcher: &Arc<Batcher>, rows: &usize, state: &'s mut State) -> Result<Answer<'s>, String> {
        run(batcher, *rows, state)?;
        Ok(Answer::Bytes(&[]))
    }
}

fn run(batcher: &Arc<Batcher>, rows: usize, state: &State) -> Result<(), String> {
    let signature = batcher.model().signature();
    if !signature.batched && rows != 1 {
        return Err(format!(
            "the model takes no batch; write \"run 1\", not \"run {rows}\""
        ));
    }
    let mut inputs = Vec::new();
    for port in &signature.inputs {
        // Sizes that are free besides the batch are 1.
        let mut shape: Vec<usize> = port.shape.iter().map(|dim| dim.unwrap_or(1)).collect();
        if let Some(first) = shape.first_mut().filter(|_| signature.batched) {
            *first = rows;
        }
        inputs.push(Tensor::zeros(port.element_type, shape).map_err(|error| error.to_string())?);
    }
    let told = state.told.clone();
    let wait = Wait::new(batcher, inputs, rows);
    let (batcher, request) = wait.request(state.ask.clone(), move |answer| drop(told.send(answer)));
    batcher.submit(request).map_err(|(why, _)| why.to_string())?;
    let answer = state.waits.recv().map_err(|error| error.to_string())?;
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.outputs.first() {
        Some(output) if output.rows() == rows || !signature.batched => Ok(()),
        _ => Err(format!("the model gave no output of {rows} rows")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::local::InProcess;
    use millpond_press_workload::RequestSet;

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        let read = |line: &str| {
            let set = RequestSet::from_bodies("t", [line]).unwrap();
            InProcess::<Infer>::new(&Given::of(&set, 0)).map(|read| read.commands)
        };
        assert_eq!(read("run 15").unwrap(), [15]);
        assert!(read("run 0").unwrap_err().contains("request 1"));
    }
}
