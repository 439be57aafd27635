//! Lookups in a feature table, in this process.
//!
//! Its invariant: a lookup with an absent key is an error.

use std::path::PathBuf;

use millpond_engines_features::Table;

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::Given;
use crate::local::{Local, Unread, in_process, number};
use crate::protocol::words;
use crate::rows::KnownRows;

pub(super) const KIND: TargetKind = TargetKind {
    verified: |given| given.rows_in_words(),
    knows_rows: |operations| !operations.is_empty(),
    ..in_process::<Features>(&["features"])
};

/// The rows that lookups must get.
struct Features(KnownRows);

impl Local for Features {
    type Engine = Table;
    /// Values, and a bit a key that was found.
    type State = (Vec<f32>, Vec<u8>);
    /// The keys.
    type Command = Vec<u64>;
    const HOW: &'static str = "\"{keys 100}\"";

    fn prepare(given: &Given<'_>) -> Result<Features, String> {
        Ok(Features(KnownRows::of(given)?))
    }

    fn command(request: &[u8]) -> Result<Vec<u64>, Unread> {
        let keys: Option<Vec<u64>> = words(request).map(number).collect();
        keys.ok_or(Unread::Form)
    }

    fn open(files: Option<&PathBuf>) -> Result<Table, String> {
        let folder = files.ok_or("a target of protocol \"features\" needs `files`")?;
        let mut table = Table::open_version(folder, None).map_err(|error| error.to_string())?;
        table.make_resident().map_err(|error| error.to_string())?;
        Ok(table)
    }

    fn call<'s>(
        table: &Table,
        keys: &Vec<u64>,
        (values, found): &'s mut Self::State,
    ) -> Result<Answer<'s>, String> {
        values.resize(keys.len() * table.dim(), 0.0);
        found.resize(keys.len().div_ceil(8), 0);
        match keys.len() - table.lookup(keys, values, found) {
            0 => Ok(Answer::Floats(values)),
            absent => Err(format!("{absent} of {} keys are not in the table", keys.len())),
        }
    }

    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<Verified, String> {
        self.0.compare(index, answer)
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
            InProcess::<Features>::new(&Given::of(&set, 0)).map(|read| read.commands)
        };
        assert_eq!(read("3 4").unwrap(), [[3, 4]]);
        assert!(read("x").unwrap_err().contains("{keys 100}"));
    }
}
