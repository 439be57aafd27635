//! What was seen that may not be: the one way in which a check of the campaign tells.
//!
//! Its invariant: nothing that was reported is dropped; a round with findings keeps its folder.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// An acknowledged put, or one that a reader has seen, is not there.
    PutLost,
    /// A put is there in part, with another value, or although it was refused.
    PutWrong,
    /// An acknowledged upsert, or one that a lookup has shown, is not there, or what it removed is.
    UpsertLost,
    /// An upsert is there in part, mixed with another, or although it was refused.
    UpsertWrong,
    /// A feature table mixed versions, served a wrong one, or a build that was killed left half a version.
    Version,
    /// A call was not answered, answered twice, or answered something else than it asked.
    Answer,
    /// The server takes more memory than is documented.
    Memory,
    /// `/readyz` did not tell the truth in time.
    Ready,
    /// The process did not end when told, or with a status that nothing explains.
    Stop,
    /// The server did not start, died by itself, or panicked.
    Died,
    /// After the faults the server did not serve as before.
    Service,
}

/// One broken promise.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Which one.
    pub broken: Broken,
    /// The round's number.
    pub round: u64,
    /// What was seen, in words.
    pub seen: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = f.precision().unwrap_or(usize::MAX);
        let seen: String = self.seen.chars().take(letters).collect();
        write!(f, "{:?} in round {}: {seen}", self.broken, self.round)
    }
}

/// The findings of a round, told of by any of its threads.
#[derive(Debug)]
pub struct Findings {
    round: u64,
    found: Mutex<Vec<Finding>>,
}

impl Findings {
    /// None yet, of this round.
    pub fn new(round: u64) -> Findings {
        Findings {
            round,
            found: Mutex::new(Vec::new()),
        }
    }

    /// Tells of one.
    pub fn tell(&self, broken: Broken, seen: impl Into<String>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.push(Finding {
            broken,
            round: self.round,
            seen: seen.into(),
        });
    }

    /// All of them.
    pub fn into_inner(self) -> Vec<Finding> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
