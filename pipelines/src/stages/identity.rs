//! `identity = { from = "inputs.data" }`: what it takes. With keys for threads of its own (`instances`, `queue_max`) it passes through
//! their queue, as a stage that works would: to try what that costs.
//!
//! Its invariant: a tensor is shared with what gave it, and not copied.

use crate::planner::Place;
use crate::threads::ThreadKeys;
use crate::{Describe, Error, Form, Given, Kind, Opened, Opening, Stage, Step};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// The same value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as identity = { from = \"inputs.data\" }"
)]
pub struct Identity {
    /// What is passed on.
    from: Option<String>,
}

impl Describe for Identity {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        place.from("identity.from", self.from.as_deref(), &[Kind::Any])
    }

    fn reads(&self) -> Vec<&str> {
        self.from.as_deref().into_iter().collect()
    }

    fn follows(&self) -> bool {
        self.from.is_none()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, _: &str, given: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let gives = given.to_vec();
        match opening.at.keys == ThreadKeys::default() {
            true => Ok(Opened::of(Passing, gives)),
            false => opening.on_threads(Passing, gives),
        }
    }
}

struct Passing;

impl Stage for Passing {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        given.value(0).cloned().map(Step::Value)
    }
}
