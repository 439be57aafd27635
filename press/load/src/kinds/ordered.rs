//! Gets, puts and scans of an ordered store, in this process.
//!
//! Its invariant: a get of an absent key is an error.

use std::path::PathBuf;

use millpond_engines_ordered::{Durability, Options, Put, Scan, Store};

use crate::TargetKind;
use crate::check::Answer;
use crate::kind::Given;
use crate::local::{Local, Unread, in_process, number};
use crate::protocol::words;

pub(super) const KIND: TargetKind = in_process::<Ordered>(&["ordered"]);

/// One request, read.
#[derive(Debug, PartialEq)]
enum Command {
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Scan(Vec<u8>, usize),
}

struct Ordered;

impl Local for Ordered {
    type Engine = Store;
    /// The values that were read.
    type State = Vec<u8>;
    type Command = Command;
    const HOW: &'static str = "\"get {key}\", \"put {key} {value}\" or \"scan {key} 10\"";
    const WRITES: bool = true;

    fn prepare(_: &Given<'_>) -> Result<Ordered, String> {
        Ok(Ordered)
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
        }
        Ok(Answer::Bytes(bytes))
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
        assert!(of(&["del k"]).err().unwrap().contains("scan {key} 10"));
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
}
