//! The keys of a scenario file, as TOML gives them.
//!
//! Nothing is checked here but names and types. Its invariant: a key that is not listed is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millpond_press_report::Layout;
use millpond_press_workload::Samples;
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) scenario: About,
    pub(crate) target: Target,
    pub(crate) requests: Requests,
    #[serde(default)]
    pub(crate) check: Check,
    pub(crate) load: Load,
    #[serde(default)]
    pub(crate) grid: BTreeMap<String, Vec<toml::Value>>,
    pub(crate) server: Option<Server>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) layout: Layout,
    #[serde(default = "seed")]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Http,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PidFrom {
    Infos,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    #[serde(default = "http")]
    pub(crate) protocol: Protocol,
    pub(crate) address: String,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    #[serde(default = "timeout_ms")]
    pub(crate) timeout_ms: u64,
    #[serde(default = "answer_bytes_max")]
    pub(crate) answer_bytes_max: usize,
    pub(crate) server_pid_from: Option<PidFrom>,
    pub(crate) server_pid: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requests {
    pub(crate) file: Option<PathBuf>,
    pub(crate) expected: Option<PathBuf>,
    pub(crate) generate: Option<Samples>,
    #[serde(default = "one")]
    pub(crate) distinct_min: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    #[serde(default = "scores")]
    pub(crate) field: String,
    pub(crate) length_of: Option<String>,
    #[serde(default)]
    pub(crate) min: f32,
    #[serde(default = "score_max")]
    pub(crate) max: f32,
    #[serde(default = "tolerance")]
    pub(crate) tolerance: f32,
    #[serde(default = "share")]
    pub(crate) share: f64,
}

impl Default for Check {
    fn default() -> Check {
        Check {
            field: scores(),
            length_of: None,
            min: 0.0,
            max: score_max(),
            tolerance: tolerance(),
            share: share(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) connections: Vec<usize>,
    pub(crate) requests_per_connection: Option<u64>,
    pub(crate) duration_s: Option<f64>,
    #[serde(default = "one")]
    pub(crate) in_flight: usize,
    #[serde(default = "one")]
    pub(crate) client_threads: usize,
    #[serde(default)]
    pub(crate) client_cpus: Vec<usize>,
    #[serde(default)]
    pub(crate) warmup_requests: u64,
    #[serde(default = "connect_parallel")]
    pub(crate) connect_parallel: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) command: Vec<String>,
    pub(crate) config: Option<String>,
    pub(crate) ready: String,
    #[serde(default)]
    pub(crate) cpus: Vec<usize>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default = "ready_timeout_s")]
    pub(crate) ready_timeout_s: f64,
    #[serde(default = "stop_timeout_s")]
    pub(crate) stop_timeout_s: f64,
    #[serde(default = "output_bytes_max")]
    pub(crate) output_bytes_max: u64,
}

fn seed() -> u64 {
    1
}
fn http() -> Protocol {
    Protocol::Http
}
fn timeout_ms() -> u64 {
    10_000
}
fn answer_bytes_max() -> usize {
    8 << 20
}
fn one() -> usize {
    1
}
fn scores() -> String {
    "scores".into()
}
fn score_max() -> f32 {
    1.0
}
fn tolerance() -> f32 {
    1e-4
}
fn share() -> f64 {
    1.0
}
fn connect_parallel() -> usize {
    64
}
fn ready_timeout_s() -> f64 {
    60.0
}
fn stop_timeout_s() -> f64 {
    30.0
}
fn output_bytes_max() -> u64 {
    16 << 20
}
