//! What is held to a kind when a request runs, and the words for one that is not of it.
//!
//! It looks at no value. Its invariant: the words say what the stage takes and, where its kind says too little, how to give it.

use crate::stage::Kind;

/// A value whose kind is known only when a request runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Which of the values that the stage takes.
    pub at: usize,
    /// The stage's key that names it.
    pub key: String,
    /// What the stage can take.
    pub kinds: Vec<Kind>,
    /// What a message calls that, and what to give, where the kinds say too little.
    pub words: Option<Words>,
}

/// What a stage takes, in words of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// `encoded images`.
    pub expected: &'static str,
    /// How a caller gives them.
    pub hint: &'static str,
}

impl Check {
    /// What the stage takes, for a message.
    pub(crate) fn expected(&self) -> String {
        match &self.words {
            Some(words) => words.expected.to_owned(),
            None => {
                let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
                kinds.join(" or ")
            }
        }
    }

    /// How a caller gives that, behind what was found.
    pub(crate) fn hint(&self) -> String {
        let words = self.words.as_ref();
        words.map_or_else(String::new, |words| format!("; {}", words.hint))
    }
}
