//! Gets, puts and scans of an ordered store, in this process.
//!
//! Its invariant: a get of an absent key is an error.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use millpond_engines_ordered::{Durability, Options, Put, Scan, Store};

use crate::check::Answer;
use crate::kind::{Given, Takes, TargetKind};
use crate::local::{Local, commands, number};

/// One request, read.
#[derive(Debug, PartialEq)]
enum Command {
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>),
    Scan(Vec<u8>, usize),
}

/// The prepared commands, and the store once it is open.
pub(crate) struct Ordered {
    commands: Vec<Command>,
    /// In memory where there is none.
    folder: Option<PathBuf>,
    store: OnceLock<Arc<Store>>,
}

/// What one thread works in.
pub(crate) struct State {
    store: Arc<Store>,
    bytes: Vec<u8>,
}

impl TargetKind for Ordered {
    const NAMES: &'static [&'static str] = &["ordered"];
    const TAKES: Takes = Takes::LOCAL;

    fn prepare(given: &Given<'_>) -> Result<Ordered, String> {
        let how = "\"get {key}\", \"put {key} {value}\" or \"scan {key} 10\"";
        Ok(Ordered {
            commands: commands(given.set, how, read)?,
            folder: given.target.files.map(Into::into),
            store: OnceLock::new(),
        })
    }
}

fn read(words: &[&[u8]]) -> Option<Command> {
    match words {
        [b"get", key] => Some(Command::Get(key.to_vec())),
        [b"put", key, value] => Some(Command::Put(key.to_vec(), value.to_vec())),
        [b"scan", key, limit] => Some(Command::Scan(key.to_vec(), usize::try_from(number(limit)?).ok()?)),
        _ => None,
    }
}

impl Local for Ordered {
    type State = State;

    fn open(&self) -> Result<(), String> {
        let store = match &self.folder {
            Some(dir) => {
                let opened = Store::open(dir, Options::default());
                opened.map_err(|error| error.to_string())?.0
            }
            None => Store::in_memory(Options {
                durability: Durability::Memory,
                ..Options::default()
            }),
        };
        self.store.get_or_init(|| Arc::new(store));
        Ok(())
    }

    fn state(&self) -> Result<State, String> {
        Ok(State {
            store: self.store.get().cloned().ok_or("its store was not opened")?,
            bytes: Vec::new(),
        })
    }

    fn len(&self) -> usize {
        self.commands.len()
    }

    fn call<'s>(&self, index: usize, state: &'s mut State) -> Result<Answer<'s>, String> {
        perform(&self.commands[index], state)
    }

    fn fill(&self, requests: &Ordered) -> Result<(), String> {
        let mut state = self.state()?;
        let mut commands = requests.commands.iter();
        commands.try_for_each(|command| perform(command, &mut state).map(|_| ()))
    }
}

fn perform<'s>(command: &Command, state: &'s mut State) -> Result<Answer<'s>, String> {
    let State { store, bytes } = state;
    bytes.clear();
    match command {
        Command::Get(key) => match store.get(key) {
            Some(found) => bytes.extend_from_slice(&found.value),
            None => return Err(format!("key \"{}\" is not in the store", key.escape_ascii())),
        },
        Command::Put(key, value) => {
            let put = Put {
                entries: vec![(key.clone(), value.clone())],
                if_version: None,
                if_absent: false,
            };
            store.put_wait(put).map_err(|error| error.to_string())?;
        }
        Command::Scan(start, limit) => {
            let scan = Scan {
                start: Some(start.clone()),
                end: None,
                prefix: None,
                limit: *limit,
            };
            store.scan(&scan, &mut |_, value| bytes.extend_from_slice(value));
        }
    }
    Ok(Answer::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_press_workload::RequestSet;

    fn of(lines: &[&str]) -> Result<Ordered, String> {
        let set = RequestSet::from_bodies("t", lines.iter().copied()).unwrap();
        Ordered::prepare(&Given::of(&set, 0))
    }

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        let read = of(&["scan k 10"]).unwrap().commands.remove(0);
        assert_eq!(read, Command::Scan(b"k".to_vec(), 10));
        assert!(of(&["del k"]).err().unwrap().contains("scan {key} 10"));
    }

    #[test]
    fn a_store_answers_with_what_it_was_filled_with() {
        let target = of(&["get 1", "get 2"]).unwrap();
        assert!(target.state().is_err(), "before it is open");
        target.open().unwrap();
        target.fill(&of(&["put 1 a", "put 3 c"]).unwrap()).unwrap();
        let mut state = target.state().unwrap();
        assert!(matches!(target.call(0, &mut state), Ok(Answer::Bytes(b"a"))));
        assert!(target.call(1, &mut state).unwrap_err().contains("\"2\" is not"));
    }
}
