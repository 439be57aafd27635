//! All kinds of stages, in one list: a stage is a file here and a line in it.

mod assemble;
mod bounds;
mod by_item;
mod call;
mod color;
mod crop;
mod decode;
mod groups;
pub(crate) mod hash;
mod identity;
mod layout;
mod letterbox;
mod lookup;
mod merge;
mod model;
mod nms;
mod normalise;
mod number;
pub(crate) mod pipeline;
mod probability;
mod resize;
mod scan;
mod template;
mod text_boxes;
mod topk;

use crate::filter::Filter;
use crate::threads::ThreadKeys;
use crate::{Declared, Describe, Error, Plan, RequestKind, planner};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

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
    /// The stages: a list, or a table by their names.
    #[serde(default)]
    pub stages: Stages,
}

/// The stages of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stages {
    stages: Vec<StageDescription>,
    /// They stand under their names, in no order.
    is_table: bool,
}

impl Stages {
    /// Whether they stand under their names, and run in the order of what they need.
    pub fn is_table(&self) -> bool {
        self.is_table
    }
}

impl Deref for Stages {
    type Target = [StageDescription];

    fn deref(&self) -> &[StageDescription] {
        &self.stages
    }
}

impl<'de> Deserialize<'de> for Stages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stages, D::Error> {
        deserializer.deserialize_any(StagesVisitor)
    }
}

struct StagesVisitor;

impl<'de> Visitor<'de> for StagesVisitor {
    type Value = Stages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of stages, or a table of them by name")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Stages, A::Error> {
        let mut stages = Vec::new();
        while let Some(stage) = access.next_element::<StageDescription>()? {
            stages.push(stage);
        }
        let is_table = false;
        Ok(Stages { stages, is_table })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Stages, A::Error> {
        let mut stages = Vec::new();
        while let Some((name, mut stage)) = access.next_entry::<String, StageDescription>()? {
            if !stage.name.is_empty() && stage.name != name {
                let problem = format!(
                    "stage `{name}` has the name {:?}; leave the key name out",
                    stage.name
                );
                return Err(A::Error::custom(problem));
            }
            stage.name = name;
            stages.push(stage);
        }
        let is_table = true;
        Ok(Stages { stages, is_table })
    }
}

impl Description {
    /// The stages with every name resolved.
    ///
    /// # Errors
    /// [`Error::Description`], which names the pipeline, the stage, the key, and what to write instead.
    pub fn plan(&self, name: &str) -> Result<Plan, Error> {
        self.plan_among(name, &BTreeMap::new())
    }

    /// As [`Description::plan`], where stages may name these other pipelines.
    ///
    /// # Errors
    /// As [`Description::plan`].
    pub fn plan_among(&self, name: &str, others: &BTreeMap<String, Description>) -> Result<Plan, Error> {
        planner::plan(name, self, others)
    }
}

macro_rules! stages {
    ($($key:ident: $description:ty,)*) => {
        /// One stage: a name, and what it does under exactly one key.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table with a key that says what the stage does, as { model = { model = \"ranker\" } }")]
        pub struct StageDescription {
            /// What later stages call its value.
            #[serde(default)]
            pub name: String,
            /// Stages that take what this one gives, where they name nothing themselves.
            #[serde(default)]
            pub(crate) next: Vec<String>,
            /// Whether it runs, by what others gave.
            #[serde(default)]
            pub(crate) filter: Filter,
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

            /// The other pipeline whose stages stand in its place.
            pub(crate) fn other(&self) -> Option<&pipeline::Other> {
                self.pipeline.as_ref().filter(|_| self.action().is_some())
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
    merge: merge::Merge,
    template: template::Template,
    decode: decode::Decode,
    resize: resize::Resize,
    crop: crop::Crop,
    letterbox: letterbox::Letterbox,
    normalise: normalise::Normalise,
    color: color::Color,
    layout: layout::Layout,
    model: model::Model,
    call: call::Call,
    softmax: probability::Softmax,
    sigmoid: probability::Sigmoid,
    topk: topk::TopK,
    nms: nms::Nms,
    text_boxes: text_boxes::TextBoxes,
    identity: identity::Identity,
    pipeline: pipeline::Other,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What stands under a key of a stage is no table: an example says how it is written, and can be read.
    #[test]
    fn what_is_no_table_is_refused_with_an_example() {
        for key in StageDescription::KEYS {
            let read =
                |text: &str| toml::from_str::<StageDescription>(text).map_err(|error| error.to_string());
            let refused = read(&format!("{key} = \"name\"")).unwrap_err();
            let expected = "invalid type: string \"name\", expected a table, as ";
            let (_, example) = refused.split_once(expected).unwrap();
            assert!(example.starts_with(&format!("{key} = {{")), "{refused}");
            read(example).unwrap();
        }
        let refused = toml::from_str::<Stages>("x = \"ranker\"")
            .unwrap_err()
            .to_string();
        let expected = "expected a table with a key that says what the stage does, as { model = { model = \"ranker\" } }";
        assert!(refused.contains(expected), "{refused}");
    }
}
