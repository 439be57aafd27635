//! The description of a pipeline: which stages turn a request into the tensor of a
//! model, and whether they fit together. It runs nothing: the stages that look up
//! features or scan events live in the server, which follows the [`Plan`] made here.
//! Its one invariant: in a [`Plan`] every stage reads only stages before it, of the
//! kind it needs.
//!
//! ```
//! let text = r#"
//!     request = "samples"
//!     [[stages]]
//!     name = "user_key"
//!     hash = { slot = "0", from = "samples.0" }
//!     [[stages]]
//!     name = "user_vec"
//!     lookup = { table = "embeddings", keys = "user_key" }
//!     [[stages]]
//!     name = "x"
//!     assemble = { columns = ["user_vec"] }
//!     [[stages]]
//!     name = "scores"
//!     model = { model = "ranker", input = "x" }
//! "#;
//! let pipeline: millpond_engines_infer::pipeline::Pipeline = toml::from_str(text)?;
//! let plan = pipeline.plan("r1")?;
//! assert_eq!(plan.stages.len(), 4);
//! assert_eq!(plan.sample_width, 1); // each sample is a list of one string
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plan;
mod planner;
mod references;
mod source;

pub use plan::{Action, KeysPerRow, Plan, PlannedStage, Rows, Value};
pub use source::{Source, Template};

use crate::Error;
use serde::Deserialize;

/// Rows a scan stage may ask for at most.
pub const SCAN_LIMIT_MAX: usize = 10_000;

/// One pipeline as the configuration describes it. Its name is the key it stands under.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// What requests look like.
    pub request: RequestKind,
    /// The stages, in the order they run.
    #[serde(default)]
    pub stages: Vec<StageSpec>,
}

/// What a request to a pipeline holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// `{user: map, items: [id, ..]}`: one user, a row an item.
    Rank,
    /// `{samples: [[string, ..], ..]}`: a row a sample.
    Samples,
}

/// One stage: a name and exactly one of the five actions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// What later stages call its output.
    pub name: String,
    /// Turns text into keys.
    pub hash: Option<HashSpec>,
    /// Reads the newest entries below a prefix of an ordered store.
    pub scan: Option<ScanSpec>,
    /// Reads rows of a feature table.
    pub lookup: Option<LookupSpec>,
    /// Puts rows side by side.
    pub assemble: Option<AssembleSpec>,
    /// Runs a model; always the last stage.
    pub model: Option<ModelSpec>,
}

/// `hash = { slot = "user", from = "user.id" }`: keys, by [`key_hash`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashSpec {
    /// The name space of the keys, the same as in training.
    pub slot: String,
    /// `user.FIELD`, `items`, `samples.J`, or the name of a scan stage.
    pub from: String,
    /// For `user.FIELD`: the text between the values, when they come as one string.
    pub split: Option<String>,
}

/// `scan = { store = "events", prefix = "u/{user.id}/", limit = 50 }`: a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    /// The ordered store.
    pub store: String,
    /// What the keys start with; `{user.FIELD}` stands for the request's value.
    pub prefix: String,
    /// How many of the newest entries, at most [`SCAN_LIMIT_MAX`].
    pub limit: usize,
}

/// `lookup = { table = "embeddings", keys = "history", pool = "mean" }`: rows of floats.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupSpec {
    /// The feature table.
    pub table: String,
    /// The hash stage whose keys are looked up.
    pub keys: String,
    /// How several keys of one row become one row of floats.
    #[serde(default)]
    pub pool: Pool,
}

/// How the rows of several keys become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// They do not: a row has one key.
    #[default]
    None,
    /// Their sum.
    Sum,
    /// Their sum divided by how many were found.
    Mean,
}

/// `assemble = { columns = ["user_vec", "item_vec"] }`: one row of floats after the other, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssembleSpec {
    /// Stages that give floats, in the model's order. One-row columns are repeated for every row.
    pub columns: Vec<String>,
}

/// `model = { model = "ranker", input = "x" }`: one score a row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The model.
    pub model: String,
    /// The stage whose floats go in.
    pub input: String,
}

impl Pipeline {
    /// Whether the stages fit together; the same checks as [`Pipeline::plan`].
    ///
    /// # Errors
    /// [`Error::Pipeline`], which names the pipeline, the stage, the key, and what to write instead.
    pub fn validate(&self, name: &str) -> Result<(), Error> {
        self.plan(name).map(drop)
    }

    /// The stages with every name resolved, ready to be followed.
    ///
    /// # Errors
    /// As [`Pipeline::validate`].
    pub fn plan(&self, name: &str) -> Result<Plan, Error> {
        planner::plan(name, self)
    }
}

/// The key of `value` in `slot`: FNV-1a, 64 bits, over the bytes of `slot`, one zero
/// byte, and the bytes of `value`. Trainers compute the same.
///
/// ```
/// use millpond_engines_infer::pipeline::key_hash;
/// assert_eq!(key_hash("", ""), 0xaf63_bd4c_8601_b7df); // FNV-1a of one zero byte
/// assert_ne!(key_hash("user", "1"), key_hash("film", "1"));
/// ```
pub fn key_hash(slot: &str, value: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = slot.bytes().chain(std::iter::once(0)).chain(value.bytes());
    bytes.fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}
