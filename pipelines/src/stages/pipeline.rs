//! `pipeline = { pipeline = "other", inputs = { data = "x" } }`: the stages of another pipeline of values, in the place of this one.
//!
//! It never runs: the graph puts the other's stages in its place. Its invariant: its inputs are named as the other reads them.

use crate::planner::Place;
use crate::{Describe, Error, Form, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Another pipeline's stages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as pipeline = { pipeline = \"other\" }"
)]
pub struct Other {
    /// The other pipeline.
    pub(crate) pipeline: String,
    /// What the other's `inputs.NAME` are here; `data` is the stage before where this is left out.
    #[serde(default)]
    pub(crate) inputs: BTreeMap<String, String>,
}

impl Describe for Other {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        Err(place.error(
            "pipeline",
            "its stages are not there",
            "name a pipeline of the configuration",
        ))
    }

    fn reads(&self) -> Vec<&str> {
        self.inputs.values().map(String::as_str).collect()
    }

    fn follows(&self) -> bool {
        self.inputs.is_empty()
    }

    fn open(&self, _: &str, _: &[Option<Port>], _: &mut Opening<'_>) -> Result<Opened, Error> {
        Err(Error::not_given("the stages of another pipeline"))
    }
}
