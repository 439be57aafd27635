//! All kinds of stages, in one list: a stage is a file here and a line in it.

mod assemble;
mod call;
pub(crate) mod hash;
mod lookup;
mod model;
mod scan;

use crate::threads::ThreadKeys;
use crate::{Declared, Describe, Error, Plan, RequestKind, planner};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One pipeline as the configuration describes it. Its name is the key it stands under.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What requests look like.
    pub request: RequestKind,
    /// What is known of the values of requests; stages may read others where this is empty.
    #[serde(default)]
    pub inputs: BTreeMap<String, Declared>,
    /// What a request of values gets: stages, or outputs of them; those that nobody reads where this is empty.
    #[serde(default)]
    pub outputs: Vec<String>,
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
            /// Threads of a stage that has its own; 1 when left out.
            instances: Option<usize>,
            /// Requests that may wait for them.
            queue_max: Option<usize>,
            /// Bytes that those requests may hold.
            queue_bytes_max: Option<usize>,
            $($key: Option<$description>,)*
        }

        impl StageDescription {
            /// The keys that a stage can have.
            pub(crate) const KEYS: &[&str] = &[$(stringify!($key)),*];

            /// Its keys for threads of its own.
            pub(crate) fn threads(&self) -> ThreadKeys {
                ThreadKeys {
                    instances: self.instances,
                    queue_max: self.queue_max,
                    queue_bytes_max: self.queue_bytes_max,
                }
            }

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
    call: call::Call,
}
