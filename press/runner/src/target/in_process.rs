//! The engines of the product called in this process: feature lookups, the ordered store, a model. No network.
//!
//! What they cost here is what a server cannot be faster than; the difference to the same requests over a socket is the
//! network's. Its invariant: a call that did not do its whole work, such as a lookup with an absent key, is an error.

use std::path::Path;
use std::sync::Arc;

use millpond_backends_interface::{Backend as _, Instance, Model};
use millpond_backends_tract::Tract;
use millpond_engines_features::{Handle, Table};
use millpond_engines_ordered::{Durability, Options, Put, Scan, Store};
use millpond_press_workload::RequestSet;
use millpond_tensor::Tensor;

use super::rows::KnownRows;
use super::{Answer, words};
use crate::scenario::Protocol;

/// A target without a network.
pub(crate) trait Local: Send + Sync + 'static {
    /// What one thread works in.
    type Room;

    fn room(&self) -> Self::Room;

    /// How many requests there are.
    fn len(&self) -> usize;

    /// Does request `index`; the answer's bytes lie in the room.
    fn call<'r>(&self, index: usize, room: &'r mut Self::Room) -> Result<Answer<'r>, String>;

    /// Checks what only the engine's requests can know of the answer to request `index`, after its time was taken.
    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<(), String>;
}

/// One request, read.
#[derive(Debug, PartialEq)]
enum Command {
    Lookup(Vec<u64>),
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Scan(Vec<u8>, usize),
    /// Rows of one batch.
    Run(usize),
}

/// The prepared requests.
pub(crate) struct LocalRequests {
    commands: Vec<Command>,
    /// The rows that requests look up, where they are known.
    rows: Option<KnownRows>,
}

impl LocalRequests {
    /// Reads the commands; the error names the request and shows how it is written.
    pub(crate) fn new(protocol: Protocol, requests: &RequestSet) -> Result<LocalRequests, String> {
        let commands = requests.iter().enumerate().map(|(number, line)| {
            let words: Vec<&[u8]> = words(line).collect();
            read(protocol, &words).ok_or_else(|| {
                let how = match protocol {
                    Protocol::Features => "\"{keys 100}\"",
                    Protocol::Ordered => "\"get {key}\", \"put {key} {value}\" or \"scan {key} 10\"",
                    _ => "\"run 15\" (the rows of a batch)",
                };
                format!("request {} is no command; write it as {how}", number + 1)
            })
        });
        Ok(LocalRequests {
            commands: commands.collect::<Result<_, _>>()?,
            rows: None,
        })
    }

    /// With the rows that every request must get.
    pub(crate) fn with_rows(self, rows: Option<KnownRows>) -> LocalRequests {
        LocalRequests { rows, ..self }
    }
}

fn read(protocol: Protocol, words: &[&[u8]]) -> Option<Command> {
    let number = |word: &&[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    match (protocol, words) {
        (_, []) => None,
        (Protocol::Features, keys) => {
            let keys: Option<Vec<u64>> = keys.iter().map(number).collect();
            Some(Command::Lookup(keys?))
        }
        (Protocol::Ordered, [b"get", key]) => Some(Command::Get(key.to_vec())),
        (Protocol::Ordered, [b"put", key, value]) => Some(Command::Put(key.to_vec(), value.to_vec())),
        (Protocol::Ordered, [b"scan", key, limit]) => {
            Some(Command::Scan(key.to_vec(), usize::try_from(number(limit)?).ok()?))
        }
        (Protocol::Infer, [b"run", rows]) => {
            let rows = usize::try_from(number(rows)?).ok()?;
            (1..=65_536).contains(&rows).then_some(Command::Run(rows))
        }
        _ => None,
    }
}

/// The engine that answers.
enum Engine {
    Features(Arc<Table>),
    Ordered(Store),
    Infer(Arc<dyn Model>),
}

/// An engine with its requests.
pub(crate) struct InProcess {
    requests: Arc<LocalRequests>,
    engine: Engine,
}

/// What one thread works in.
pub(crate) struct Room {
    values: Vec<f32>,
    found: Vec<u8>,
    bytes: Vec<u8>,
    instance: Option<Result<Box<dyn Instance>, String>>,
}

impl InProcess {
    /// Opens the engine; the error names the file.
    pub(crate) fn open(
        protocol: Protocol,
        files: Option<&Path>,
        requests: Arc<LocalRequests>,
    ) -> Result<InProcess, String> {
        let needed =
            || files.ok_or_else(|| format!("a target of protocol \"{}\" needs `files`", protocol.as_str()));
        let engine = match protocol {
            Protocol::Features => {
                let table = Handle::open(needed()?, None)
                    .map_err(|error| error.to_string())?
                    .pin();
                table.make_resident().map_err(|error| error.to_string())?;
                Engine::Features(table)
            }
            Protocol::Ordered => Engine::Ordered(match files {
                Some(dir) => {
                    Store::open(dir, Options::default())
                        .map_err(|error| error.to_string())?
                        .0
                }
                None => Store::in_memory(Options {
                    durability: Durability::Memory,
                    ..Options::default()
                }),
            }),
            _ => Engine::Infer(Tract.load(needed()?).map_err(|error| error.to_string())?),
        };
        Ok(InProcess { requests, engine })
    }

    /// Writes what `requests` hold into the store, one after the other.
    pub(crate) fn fill(&self, requests: &LocalRequests) -> Result<(), String> {
        let mut room = self.room();
        requests
            .commands
            .iter()
            .try_for_each(|command| self.perform(command, &mut room).map(|_| ()))
    }

    fn perform<'r>(&self, command: &Command, room: &'r mut Room) -> Result<Answer<'r>, String> {
        room.bytes.clear();
        match (&self.engine, command) {
            (Engine::Features(table), Command::Lookup(keys)) => {
                room.values.resize(keys.len() * table.dim(), 0.0);
                room.found.resize(keys.len().div_ceil(8), 0);
                let found = table.lookup(keys, &mut room.values, &mut room.found);
                if found < keys.len() {
                    let absent = keys.len() - found;
                    return Err(format!("{absent} of {} keys are not in the table", keys.len()));
                }
                return Ok(Answer::Floats(&room.values));
            }
            (Engine::Ordered(store), Command::Get(key)) => match store.get(key) {
                Some(found) => room.bytes.extend_from_slice(&found.value),
                None => return Err(format!("key \"{}\" is not in the store", key.escape_ascii())),
            },
            (Engine::Ordered(store), Command::Put(key, value)) => {
                let put = Put {
                    entries: vec![(key.clone(), value.clone())],
                    if_version: None,
                    if_absent: false,
                };
                store.put_wait(put).map_err(|error| error.to_string())?;
            }
            (Engine::Ordered(store), Command::Scan(start, limit)) => {
                let scan = Scan {
                    start: Some(start.clone()),
                    end: None,
                    prefix: None,
                    limit: *limit,
                };
                store.scan(&scan, &mut |_, value| room.bytes.extend_from_slice(value));
            }
            (Engine::Infer(model), Command::Run(rows)) => run_model(model.as_ref(), *rows, room)?,
            _ => return Err("the command belongs to another engine".into()),
        }
        Ok(Answer::Bytes(&room.bytes))
    }
}

fn run_model(model: &dyn Model, rows: usize, room: &mut Room) -> Result<(), String> {
    let instance = room
        .instance
        .get_or_insert_with(|| model.instance().map_err(|error| error.to_string()));
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

impl Local for InProcess {
    type Room = Room;

    fn room(&self) -> Room {
        Room {
            values: Vec::new(),
            found: Vec::new(),
            bytes: Vec::new(),
            instance: None,
        }
    }

    fn len(&self) -> usize {
        self.requests.commands.len()
    }

    fn call<'r>(&self, index: usize, room: &'r mut Room) -> Result<Answer<'r>, String> {
        self.perform(&self.requests.commands[index], room)
    }

    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        match (&self.requests.rows, answer) {
            (Some(rows), Answer::Floats(found)) => rows.compare_floats(index, found),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        let set = |line: &str| RequestSet::from_bodies("t", [line]).unwrap();
        let read =
            |protocol, line| LocalRequests::new(protocol, &set(line)).map(|mut read| read.commands.remove(0));
        assert_eq!(
            read(Protocol::Features, "3 4").unwrap(),
            Command::Lookup(vec![3, 4])
        );
        assert_eq!(
            read(Protocol::Ordered, "scan k 10").unwrap(),
            Command::Scan(b"k".to_vec(), 10)
        );
        assert_eq!(read(Protocol::Infer, "run 15").unwrap(), Command::Run(15));
        assert!(read(Protocol::Features, "x").unwrap_err().contains("{keys 100}"));
        assert!(
            read(Protocol::Ordered, "del k")
                .unwrap_err()
                .contains("scan {key} 10")
        );
        assert!(read(Protocol::Infer, "run 0").unwrap_err().contains("request 1"));
    }

    #[test]
    fn a_store_answers_with_what_it_was_filled_with() {
        let of = |lines: [&str; 2]| {
            let set = RequestSet::from_bodies("t", lines).unwrap();
            Arc::new(LocalRequests::new(Protocol::Ordered, &set).unwrap())
        };
        let target = InProcess::open(Protocol::Ordered, None, of(["get 1", "get 2"])).unwrap();
        target.fill(&of(["put 1 a", "put 3 c"])).unwrap();
        let mut room = target.room();
        assert!(matches!(target.call(0, &mut room), Ok(Answer::Bytes(b"a"))));
        assert!(target.call(1, &mut room).unwrap_err().contains("\"2\" is not"));
    }
}
