//! Lookups in a feature table, in this process.
//!
//! Its invariant: a lookup with an absent key is an error.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use millpond_engines_features::Table;

use crate::check::Answer;
use crate::kind::{Given, Operation, Takes, TargetKind};
use crate::local::{Local, commands, number};
use crate::rows::KnownRows;

/// The prepared lookups, and the table once it is open.
pub(crate) struct Features {
    lookups: Vec<Vec<u64>>,
    /// The rows that they must get, where those are known.
    rows: Option<KnownRows>,
    folder: Option<PathBuf>,
    table: OnceLock<Arc<Table>>,
}

/// What one thread works in.
pub(crate) struct State {
    table: Arc<Table>,
    values: Vec<f32>,
    found: Vec<u8>,
}

impl TargetKind for Features {
    const NAMES: &'static [&'static str] = &["features"];
    const TAKES: Takes = Takes::LOCAL;

    fn verified(given: &Given<'_>) -> &'static str {
        match given.rows {
            Some(_) => "; every row is the one that was made",
            None => "",
        }
    }

    fn knows_rows(operations: &[Operation]) -> bool {
        !operations.is_empty()
    }

    fn prepare(given: &Given<'_>) -> Result<Features, String> {
        let keys = |words: &[&[u8]]| words.iter().map(|word| number(word)).collect();
        Ok(Features {
            lookups: commands(given.set, "\"{keys 100}\"", keys)?,
            rows: KnownRows::of(given.rows, given.mixed)?,
            folder: given.target.files.map(Into::into),
            table: OnceLock::new(),
        })
    }
}

impl Local for Features {
    type State = State;

    fn open(&self) -> Result<(), String> {
        let folder = self.folder.as_ref();
        let folder = folder.ok_or("a target of protocol \"features\" needs `files`")?;
        let table = Table::open_version(folder, None).map_err(|error| error.to_string())?;
        table.make_resident().map_err(|error| error.to_string())?;
        self.table.get_or_init(|| Arc::new(table));
        Ok(())
    }

    fn state(&self) -> Result<State, String> {
        Ok(State {
            table: self.table.get().cloned().ok_or("its table was not opened")?,
            values: Vec::new(),
            found: Vec::new(),
        })
    }

    fn len(&self) -> usize {
        self.lookups.len()
    }

    fn call<'s>(&self, index: usize, state: &'s mut State) -> Result<Answer<'s>, String> {
        let keys = &self.lookups[index];
        state.values.resize(keys.len() * state.table.dim(), 0.0);
        state.found.resize(keys.len().div_ceil(8), 0);
        let found = state.table.lookup(keys, &mut state.values, &mut state.found);
        if found < keys.len() {
            let absent = keys.len() - found;
            return Err(format!("{absent} of {} keys are not in the table", keys.len()));
        }
        Ok(Answer::Floats(&state.values))
    }

    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        match (&self.rows, answer) {
            (Some(rows), Answer::Floats(found)) => rows.compare_floats(index, found),
            _ => Ok(()),
        }
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
            Features::prepare(&Given::of(&set, 0)).map(|read| read.lookups)
        };
        assert_eq!(read("3 4").unwrap(), [[3, 4]]);
        assert!(read("x").unwrap_err().contains("{keys 100}"));
    }
}
