//! The content of `result.json`, field by field as docs/formats/press-result.md describes it.
//!
//! Its invariant: every key that is written is read back, and no other.

use std::collections::BTreeMap;

use millpond_press_recorder::{Counters, LatencySummary, Load, Machine};
use serde::{Deserialize, Serialize};

/// The version of the schema.
pub const SCHEMA: u32 = 1;

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

/// Which table the report opens with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One line a point with target, load, outcome, percentiles and processor use.
    #[default]
    General,
    /// The columns of report R1, one table for each combination of the grid.
    R1,
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
    /// The file or the generator, in words.
    pub source: String,
    /// How many bodies the set holds.
    pub count: usize,
    /// How many of them are different.
    pub distinct: usize,
    /// Their size together.
    pub bytes: usize,
    /// What is checked of an answer, in words.
    pub check: String,
    /// The part of the answers that is checked, 1 for all.
    pub check_share: f64,
}

/// Where requests went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetName {
    /// `http` or `binary`.
    pub protocol: String,
    /// Host and port.
    pub address: String,
    /// The path or the method.
    pub path: String,
}

/// What the server said of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its process, if it runs on this machine.
    pub pid: Option<u32>,
    /// Its version.
    pub version: Option<String>,
    /// `dev` or `release`.
    pub build: Option<String>,
}

/// Processor time over a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Seconds of processor time.
    pub seconds: f64,
    /// Percent of one core.
    pub percent: f64,
}

/// Cumulated counts at one moment of a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Seconds since the first request.
    pub s: f64,
    /// Answers so far.
    pub answers: u64,
    /// Refusals so far.
    pub refused: u64,
    /// Wrong answers and errors so far.
    pub failed: u64,
}

/// One point: one load offered to one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its number, from 1.
    pub number: usize,
    /// The grid's values.
    pub grid: BTreeMap<String, String>,
    /// Where requests went.
    pub target: TargetName,
    /// What answered, if it said so.
    pub server: Option<Server>,
    /// Connections asked for.
    pub connections: usize,
    /// Requests each connection keeps outstanding.
    pub in_flight: usize,
    /// Threads of the load generator.
    pub client_threads: usize,
    /// The fixed number of requests, if that was asked for.
    pub requests_per_connection: Option<u64>,
    /// The fixed time, if that was asked for.
    pub duration_s: Option<f64>,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// From the first request to the end of the last one.
    pub us_total: u64,
    /// Answers a second over `us_total`.
    pub qps: f64,
    /// How everything ended.
    pub counters: Counters,
    /// Latencies of answers.
    pub latency: LatencySummary,
    /// Latencies of refusals.
    pub latency_refused: LatencySummary,
    /// Processor time of the server.
    pub server_cpu: Option<Cpu>,
    /// Processor time of the load generator.
    pub client_cpu: Option<Cpu>,
    /// Resident memory of the server.
    pub server_memory_bytes: Option<u64>,
    /// Resident memory of the load generator.
    pub client_memory_bytes: Option<u64>,
    /// Counts over time.
    pub series: Vec<Second>,
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
    /// The machine.
    pub machine: Machine,
    /// Its load before the first point.
    pub load_before: Option<Load>,
    /// Its load after the last one.
    pub load_after: Option<Load>,
    /// What was sent.
    pub requests: Requests,
    /// The points, in the order they ran.
    pub points: Vec<Point>,
}
