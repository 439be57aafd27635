//! Gets, puts, scans and batches of an ordered store, in this process.
//!
//! Its invariant: a get of an absent key is an error, in a batch too.

use std::path::PathBuf;

use millpond_engines_ordered::{Batch, Durability, Effect, Operation, Options, Put, Scan, Store};

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::Given;
use crate::known::{KnownAnswers, values_of_gets};
use crate::local::{Local, Unread, in_process, number};
use crate::protocol::words;

pub(super) const KIND: TargetKind = TargetKind {
    verified: |given| match is_batches(given) {
        true => given.values_in_words(),
        false => "",
    },
    ..in_process::<Ordered>(&["ordered"])
};

/// One request, read.
#[derive(Debug, PartialEq)]
enum Command {
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Scan(Vec<u8>, usize),
    Batch(Vec<Operation>),
}

/// The values that batches read, where they are known.
struct Ordered(KnownAnswers);

/// Whether every request is a batch.
fn is_batches(given: &Given<'_>) -> bool {
    let operations = given.target.operations;
    let mut commands = operations
        .iter()
        .filter_map(|operation| operation.command.as_deref());
    !operations.is_empty() && commands.all(|command| command.starts_with("batch "))
}

/// Reads what follows the word `batch`.
fn operations(words: &[&[u8]]) -> Result<Vec<Operation>, Unread> {
    let mut operations = Vec::new();
    let mut rest = words;
    loop {
        rest = match rest {
            [] if operations.is_empty() => return Err(Unread::Form),
            [] => return Ok(operations),
            [b"get", key, rest @ ..] => {
                operations.push(Operation::Get { key: key.to_vec() });
                rest
            }
            [b"put", key, value, rest @ ..] => {
                operations.push(Operation::Put {
                    key: key.to_vec(),
                    value: value.to_vec(),
                    if_version: None,
                    if_absent: false,
                    if_present: false,
                    ttl_ms: None,
                    keep_ttl: false,
                });
                rest
            }
            _ => return Err(Unread::Form),
        };
    }
}

/// What the gets of a batch read, where there is a value for each operation.
fn values_read(command: &[u8], values: &[Vec<u8>]) -> Option<Vec<u8>> {
    let words: Vec<&[u8]> = words(command).collect();
    let operations = operations(words.split_first().filter(|(first, _)| **first == b"batch")?.1).ok()?;
    let are_gets = operations
        .iter()
        .map(|operation| matches!(operation, Operation::Get { .. }));
    values_of_gets(are_gets, values)
}

impl Local for Ordered {
    type Engine = Store;
    /// The values that were read.
    type State = Vec<u8>;
    type Command = Command;
    const HOW: &'static str =
        "\"get {key}\", \"put {key} {value}\", \"scan {key} 10\" or \"batch\" and gets and puts";
    const WRITES: bool = true;

    fn prepare(given: &Given<'_>) -> Result<Ordered, String> {
        let is_known = is_batches(given);
        let values = KnownAnswers::of(given, |command, values| {
            is_known.then(|| values_read(command, values)).flatten()
        })?;
        Ok(Ordered(values))
    }

    fn command(request: &[u8]) -> Result<Command, Unread> {
        let limit = |word| number(word).and_then(|limit| usize::try_from(limit).ok());
        match words(request).collect::<Vec<_>>().as_slice() {
            [b"get", key] => Ok(Command::Get(key.to_vec())),
            [b"put", key, value] => Ok(Command::Put(key.to_vec(), value.to_vec())),
            [b"scan", key, word] => match limit(word) {
                Some(limit) => Ok(Command::Scan(key.to_vec(), limit)),
                None => Err(Unread::Form),
            },
            [b"batch", words @ ..] => operations(words).map(Command::Batch),
            _ => Err(Unread::Form),
        }
    }

    /// In memory where there is no folder.
    fn open(files: Option<&PathBuf>) -> Result<Store, String> {
        let Some(folder) = files else {
            return Ok(Store::in_memory(Options {
                durability: Durability::Memory,
                ..Options::default()
            }));
        };
        let opened = Store::open(folder, Options::default());
        Ok(opened.map_err(|error| error.to_string())?.0)
    }

    fn call<'s>(store: &Store, command: &Command, bytes: &'s mut Vec<u8>) -> Result<Answer<'s>, String> {
        bytes.clear();
        match command {
            Command::Get(key) => match store.get(key) {
                Some(found) => bytes.extend_from_slice(&found.value),
                None => return Err(format!("key \"{}\" is not in the store", key.escape_ascii())),
            },
            Command::Put(key, value) => {
                let put = Put {
                    entries: vec![(key.clone(), value.clone())],
                    ..Put::default()
                };
                store.write_wait(put).map_err(|error| error.to_string())?;
            }
            Command::Scan(start, limit) => {
                let scan = Scan {
                    start: Some(start.clone()),
                    limit: *limit,
                    ..Scan::default()
                };
                store.scan(&scan, &mut |_, value| bytes.extend_from_slice(value));
            }
            Command::Batch(operations) => {
                // The store takes what it writes; a server has as many copies of its own, from the bytes of the call.
                let written = store.write_wait(Batch::of(operations.clone()));
                let written = written.map_err(|error| error.to_string())?;
                for (effect, operation) in written.effects.iter().zip(operations) {
                    match effect {
                        Effect::Found(Some(found)) => bytes.extend_from_slice(&found.value),
                        Effect::Found(None) => {
                            let key = operation.key().escape_ascii();
                            return Err(format!("key \"{key}\" is not in the store"));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(Answer::Bytes(bytes))
    }

    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<Verified, String> {
        self.0.compare(index, answer).map(|()| Verified::Nothing)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kind::Target as _;
    use crate::local::InProcess;
    use millpond_press_workload::RequestSet;
    use std::sync::Arc;
    use std::time::Duration;

    fn of(lines: &[&str]) -> Result<Arc<InProcess<Ordered>>, String> {
        let set = RequestSet::from_bodies("t", lines.iter().copied()).unwrap();
        InProcess::new(&Given::of(&set, 0)).map(Arc::new)
    }

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        let read = of(&["scan k 10"]).unwrap();
        assert_eq!(read.commands, [Command::Scan(b"k".to_vec(), 10)]);
        for bad in ["del k", "batch", "batch get", "batch get 1 put 2", "batch del 1"] {
            assert!(of(&[bad]).err().unwrap().contains("scan {key} 10"), "{bad}");
        }
    }

    #[test]
    fn a_store_answers_with_what_it_was_filled_with() {
        let target = of(&["get 1", "get 2"]).unwrap();
        assert!(target.engine().is_err(), "before it is open");
        target.open(None).unwrap();
        let set = RequestSet::from_bodies("t", ["put 1 a", "put 3 c"]).unwrap();
        target.fill(&Given::of(&set, 0), None, Duration::ZERO).unwrap();
        let mut state = Vec::new();
        let mut get = |index: usize| {
            let answer = Ordered::call(target.engine()?, &target.commands[index], &mut state)?;
            assert!(matches!(answer, Answer::Bytes(b"a")));
            Ok::<(), String>(())
        };
        assert_eq!(get(0), Ok(()));
        assert!(get(1).unwrap_err().contains("\"2\" is not"));
    }

    #[test]
    fn a_batch_answers_what_its_gets_read() {
        let target = of(&["batch get 1 put 2 b get 2", "batch put 4 d get 5"]).unwrap();
        target.open(None).unwrap();
        let set = RequestSet::from_bodies("t", ["batch put 1 aa put 3 c"]).unwrap();
        target.fill(&Given::of(&set, 0), None, Duration::ZERO).unwrap();
        let mut state = Vec::new();
        let store = target.engine().unwrap();
        let answer = Ordered::call(store, &target.commands[0], &mut state).unwrap();
        assert!(matches!(answer, Answer::Bytes(b"aab")));
        let why = Ordered::call(store, &target.commands[1], &mut state).unwrap_err();
        assert!(why.contains("\"5\" is not"), "{why}");
    }

    #[test]
    fn the_values_that_a_batch_reads_are_known() {
        let values = [b"aa".to_vec(), b"b".to_vec(), b"c".to_vec()];
        let read = |command: &str| values_read(command.as_bytes(), &values);
        assert_eq!(read("batch get 1 put 2 b get 3"), Some(b"aac".to_vec()));
        assert_eq!(read("batch get 1"), None, "not a value for each");
        assert_eq!(read("get 1"), None);
    }
}
