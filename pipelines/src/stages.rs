//! All kinds of stages, in one list: a stage is a file here and a line in it.

mod assemble;
pub(crate) mod hash;
mod lookup;
mod model;
mod scan;

use crate::{Describe, Error, Plan, RequestKind, planner};
use serde::Deserialize;

/// One pipeline as the configuration describes it. Its name is the key it stands under.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What requests look like.
    pub request: RequestKind,
    /// The stages, in the order they run.
    #[serde(default)]
    pub stages: Vec<StageDescription>,
}

impl Description {
    /// The stages with every name resolved.
    ///
    /// # Errors
    /// [`Error::Description`], which names the pipeline, the stage, the key, and what to write instead.
    pub fn plan(&self, name: &str) -> Result<Plan, Error> {
        planner::plan(name, self)
    }
}

macro_rules! stages {
    ($($key:ident: $description:ty,)*) => {
        /// One stage: a name, and what it does under exactly one key.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct StageDescription {
            /// What later stages call its value.
            pub name: String,
            $($key: Option<$description>,)*
        }

        impl StageDescription {
            /// The keys that a stage can have.
            pub(crate) const KEYS: &[&str] = &[$(stringify!($key)),*];

            /// What it does, by key.
            pub(crate) fn actions(&self) -> Vec<(&'static str, &dyn Describe)> {
                let mut given: Vec<(&'static str, &dyn Describe)> = Vec::new();
                $(given.extend(self.$key.iter().map(|action| (stringify!($key), action as &dyn Describe)));)*
                given
            }

            /// The one thing that it does, if that is what it is.
            pub(crate) fn action(&self) -> Option<(&'static str, &dyn Describe)> {
                match self.actions().as_slice() {
                    [action] => Some(*action),
                    _ => None,
                }
            }
        }
    };
}

stages! {
    hash: hash::Hash,
    scan: scan::Scan,
    lookup: lookup::Lookup,
    assemble: assemble::Assemble,
    model: model::Model,
}
