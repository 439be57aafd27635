//! What a checked pipeline looks like: every name resolved to the index of an earlier
//! stage. It checks nothing (`planner` does) and runs nothing.
//! Invariant: a [`PlannedStage`] refers to stages of smaller index only.

use super::{Pool, RequestKind, Source, Template};
use std::collections::BTreeSet;

/// A pipeline ready to be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pipeline's name.
    pub name: String,
    /// What its requests look like.
    pub request: RequestKind,
    /// Strings that each sample must have; 0 for `rank` requests.
    pub sample_width: usize,
    /// The stages in the order they run; the last one is the model.
    pub stages: Vec<PlannedStage>,
}

impl Plan {
    /// The fields of a user that its stages read.
    pub fn user_fields(&self) -> BTreeSet<&str> {
        let mut fields = BTreeSet::new();
        for stage in &self.stages {
            match &stage.action {
                Action::Hash {
                    from: Source::User(field),
                    ..
                } => {
                    fields.insert(field.as_str());
                }
                Action::Scan { prefix, .. } => fields.extend(prefix.fields()),
                _ => {}
            }
        }
        fields
    }
}

/// One stage of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// Its name.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// What it gives.
    pub value: Value,
}

/// What a stage does; stages are named by their index in [`Plan::stages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Texts to keys.
    Hash {
        /// The name space.
        slot: String,
        /// Where the texts are.
        from: Source,
        /// What stands between the values of one text.
        split: Option<String>,
    },
    /// The newest entries below a prefix.
    Scan {
        /// The ordered store.
        store: String,
        /// What their keys start with.
        prefix: Template,
        /// How many.
        limit: usize,
    },
    /// Keys to rows of floats.
    Lookup {
        /// The feature table.
        table: String,
        /// The stage with the keys.
        keys: usize,
        /// How several keys become one row.
        pool: Pool,
    },
    /// Rows side by side.
    Assemble {
        /// The stages with the floats.
        columns: Vec<usize>,
    },
    /// The model.
    Model {
        /// Its name.
        model: String,
        /// The stage with its input.
        input: usize,
    },
}

/// What a stage gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A list of texts, in one row.
    Texts,
    /// Keys.
    Keys(Rows, KeysPerRow),
    /// A row of floats for each row.
    Floats(Rows),
    /// One float for each row of the request.
    Scores,
}

/// How many rows a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One, whatever the request.
    One,
    /// One for each item or sample.
    Each,
}

/// How many keys a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysPerRow {
    /// Exactly one.
    One,
    /// One, or several when the request gives a list: known when it comes.
    OneOrSeveral,
    /// Any number, none included.
    Several,
}
