//! The content of `result.json`, field by field as docs/formats/press-result.md describes it.
//!
//! Its invariant: every key that is written is read back, and no other.

use std::collections::BTreeMap;
use std::fmt;

use millpond_press_recorder::{LoadAverage, Machine};
use millpond_press_verdict::{Comparison, Point, Search};
use serde::{Deserialize, Serialize};

/// The version of the schema.
pub const SCHEMA: u32 = 4;

/// The oldest version that is read: what it lacks has a value that says so.
pub const SCHEMA_MIN: u32 = 3;

/// How far the run came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has not ended, or its process died.
    #[default]
    Running,
    /// Every point was run.
    Complete,
    /// Someone stopped it.
    Interrupted,
    /// It could not go on; `failure` says why.
    Failed,
}

/// As `result.json` writes it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Which table the report opens with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One line a point with target, load, outcome, percentiles and processor use.
    #[default]
    General,
    /// The columns of report R1, one table for each combination of the grid.
    R1,
    /// The rows of report R2, one table for each load: targets side by side, and the report's own figures.
    R2,
    /// The columns of report R3, one table for each combination of the grid, with what the connections cost.
    R3,
    /// Targets side by side, with the ratio and its interval in the last column.
    Peers,
    /// The columns of report R4, one table for each combination of the grid: targets at each number of clients.
    R4,
    /// The columns of report R5, one table a target, with its own figures, and what it could not explain.
    R5,
}

/// A version and how it was compiled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The version.
    pub version: Option<String>,
    /// `dev` or `release`.
    pub build: Option<String>,
}

/// What was sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The target's name.
    pub target: String,
    /// The file or the generator, in words.
    pub source: String,
    /// How many bodies the set holds.
    pub count: usize,
    /// How many of them are different.
    pub distinct: usize,
    /// Their size together.
    pub bytes: usize,
    /// Keys of a request, the mean, where keys were drawn; absent too in results that were made before it was told.
    #[serde(default)]
    pub keys: Option<f64>,
    /// What is checked of an answer, in words.
    pub check: String,
    /// The part of the answers that is checked, 1 for all.
    pub check_share: f64,
}

/// What stands behind a target's name in [`LeftOut::target`] where only its loads beside antagonists are left out.
pub const BESIDE_ANTAGONISTS: &str = " beside antagonists";

/// An optional target that could not be started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Its name.
    pub target: String,
    /// The grid's values.
    pub grid: BTreeMap<String, String>,
    /// Why it was left out.
    pub reason: String,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How far it came.
    pub state: State,
    /// Why it failed.
    pub failure: Option<String>,
    /// The scenario's name.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// The table the report opens with.
    pub layout: Layout,
    /// When it started, UTC.
    pub started_at: String,
    /// How long it took, set-up included.
    pub wall_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// The overrides.
    pub set: Vec<String>,
    /// What requests and orders are derived from.
    pub seed: u64,
    /// The load generator.
    pub press: Build,
    /// The commit of the tree that the scenario lies in.
    #[serde(default)]
    pub commit: Option<String>,
    /// The machine.
    pub machine: Machine,
    /// Its load before the first point.
    pub load_before: Option<LoadAverage>,
    /// Its load after the last one.
    pub load_after: Option<LoadAverage>,
    /// What was sent, target by target.
    pub requests: Vec<Requests>,
    /// Where processes and threads were bound, in words: `client: core 1`.
    pub pinning: Vec<String>,
    /// Optional targets that could not be started; none in results from before there were any.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The points, in the order they ran.
    pub points: Vec<Point>,
    /// Targets held against each other, when there are several.
    pub comparisons: Vec<Comparison>,
    /// The search, for a run of `press search`.
    pub search: Option<Search>,
}
