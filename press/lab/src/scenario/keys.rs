//! The keys of a scenario file, as TOML gives them.
//!
//! Nothing is checked here but names and types. Its invariant: a key that is not listed is refused.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use millpond_press_load::{Description, KINDS, Operation, Rules, TargetKind};
use millpond_press_report::Layout;
use millpond_press_verdict::Op;
use millpond_press_workload::{Arrivals, Popularity, Samples, Sizes};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) scenario: About,
    pub(crate) target: Option<Target>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
    #[serde(default)]
    pub(crate) requests: Requests,
    pub(crate) keys: Option<Keys>,
    #[serde(default)]
    pub(crate) check: Rules,
    /// A scenario whose figures all come from commands has none.
    #[serde(default)]
    pub(crate) load: Load,
    pub(crate) slo: Option<String>,
    #[serde(default)]
    pub(crate) search: Search,
    #[serde(default)]
    pub(crate) boost: Boost,
    #[serde(default)]
    pub(crate) grid: BTreeMap<String, Vec<toml::Value>>,
    pub(crate) server: Option<Server>,
    #[serde(default)]
    pub(crate) bar: Vec<BarKeys>,
    #[serde(default)]
    pub(crate) figure: Vec<FigureKeys>,
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
    #[serde(default = "one")]
    pub(crate) repeats: usize,
    /// Everything so many times, servers included; each round has its repeats.
    #[serde(default = "one")]
    pub(crate) rounds: usize,
    /// Files that must be made before, each with the command that makes it.
    #[serde(default)]
    pub(crate) needs: BTreeMap<PathBuf, String>,
    /// A point in which the hypervisor took more, in percent of a core, is offered again.
    pub(crate) steal_percent_max: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PidFrom {
    Infos,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    pub(crate) name: Option<String>,
    #[serde(default = "http", deserialize_with = "kind")]
    pub(crate) protocol: &'static TargetKind,
    #[serde(default)]
    pub(crate) address: String,
    /// With it connections are TLS 1.3, to a server whose certificate this file's certificates sign.
    pub(crate) tls_ca: Option<PathBuf>,
    /// The name in that certificate; the host of the address when left out.
    pub(crate) tls_name: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) operations: Vec<Operation>,
    pub(crate) fill: Option<Operation>,
    /// Requests and answers of its own, in the place of the scenario's.
    #[serde(default)]
    pub(crate) requests: OwnRequests,
    /// In process: the folder of a feature table or of an ordered store, or the file of a model.
    pub(crate) files: Option<PathBuf>,
    #[serde(default = "timeout_ms")]
    pub(crate) timeout_ms: u64,
    #[serde(default = "answer_bytes_max")]
    pub(crate) answer_bytes_max: usize,
    pub(crate) server_pid_from: Option<PidFrom>,
    pub(crate) server_pid: Option<u32>,
    /// The target that has the same server.
    pub(crate) server_of: Option<String>,
    pub(crate) metrics: Option<String>,
    pub(crate) server: Option<Server>,
    /// What makes the calls, for the kind that is a program.
    pub(crate) program: Option<ProgramKeys>,
    /// Whether the run goes on without it where it cannot be started.
    #[serde(default)]
    pub(crate) optional: bool,
    /// Where its load differs from that of the others.
    #[serde(default)]
    pub(crate) load: OwnLoad,
    /// What disturbs every second of its loads.
    pub(crate) antagonists: Option<AntagonistKeys>,
}

/// Programs that are run beside a load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AntagonistKeys {
    /// One of them.
    pub(crate) command: Vec<String>,
    /// The core of each.
    pub(crate) cpus: Vec<usize>,
    /// How it is installed, for where it is not.
    pub(crate) install: Option<String>,
}

impl File {
    /// Files of requests and of their answers that a target is sent.
    pub(crate) fn request_files<'f>(&'f self, target: &'f Target) -> (Option<&'f Path>, Option<&'f Path>) {
        let (all, own) = (&self.requests, &target.requests);
        match &own.file {
            Some(file) => (Some(file), own.expected.as_deref()),
            None => (all.file.as_deref(), all.expected.as_deref()),
        }
    }
}

/// A kind by its name.
fn kind<'de, D: Deserializer<'de>>(name: D) -> Result<&'static TargetKind, D::Error> {
    let name = String::deserialize(name)?;
    TargetKind::named(&name).ok_or_else(|| {
        let known: Vec<String> = KINDS.iter().map(|kind| format!("`{}`", kind.name())).collect();
        let known = known.join(", ");
        D::Error::custom(format!("unknown variant `{name}`, expected one of {known}"))
    })
}

impl Target {
    /// Its name in results.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.protocol.name())
    }

    /// What its kind may ask.
    pub(crate) fn description(&self) -> Description<'_> {
        Description {
            address: &self.address,
            method: self.method.as_deref(),
            path: self.path.as_deref(),
            headers: &self.headers,
            operations: &self.operations,
            files: self.files.as_deref(),
            answer_bytes_max: self.answer_bytes_max,
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requests {
    pub(crate) file: Option<PathBuf>,
    pub(crate) expected: Option<PathBuf>,
    pub(crate) generate: Option<Samples>,
    pub(crate) count: Option<usize>,
    pub(crate) bytes: Option<Sizes>,
    pub(crate) distinct_min: Option<usize>,
}

/// What one target is sent where it is not what the others are.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnRequests {
    pub(crate) file: Option<PathBuf>,
    pub(crate) expected: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) popularity: Popularity,
    #[serde(default = "value_bytes")]
    pub(crate) value_bytes: Sizes,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) connections: Vec<usize>,
    /// Requests a second; with it the loop is open.
    #[serde(default)]
    pub(crate) rate: Vec<f64>,
    /// The same for each connection: what is offered is this times the connections.
    #[serde(default)]
    pub(crate) rate_per_connection: Vec<f64>,
    pub(crate) arrivals: Option<Arrivals>,
    #[serde(default)]
    pub(crate) think_ms: f64,
    pub(crate) requests_per_connection: Option<u64>,
    pub(crate) duration_s: Option<f64>,
    /// As many requests as this times the rate, in an open loop.
    pub(crate) requests_times_rate: Option<f64>,
    pub(crate) warmup_s_max: Option<f64>,
    pub(crate) in_flight: Option<usize>,
    /// Processes that the threads are spread over, `client_threads` in each.
    #[serde(default = "one")]
    pub(crate) processes: usize,
    #[serde(default = "one")]
    pub(crate) client_threads: usize,
    #[serde(default)]
    pub(crate) client_cpus: Vec<usize>,
    #[serde(default = "connect_parallel")]
    pub(crate) connect_parallel: usize,
    #[serde(default)]
    pub(crate) source_addresses: Vec<std::net::IpAddr>,
    /// Whether each point has connections of its own.
    #[serde(default)]
    pub(crate) reconnect: bool,
}

impl Load {
    /// How long a load is: in an open loop a number of requests takes about as many seconds as it is times the rate.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.duration_s.or(self.requests_times_rate)
    }

    /// The number of requests at a rate, where that is fixed.
    pub(crate) fn requests(&self, rate: Option<f64>) -> Option<u64> {
        Some((self.requests_times_rate? * rate?).round().max(1.0) as u64)
    }
}

/// Rates that rise until the SLO is missed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Boost {
    /// From `load.rate_per_connection` on, each connection's pause shrinks step by step, as in report R3.
    pub(crate) auto: bool,
    /// How long the first rate is offered; the others for `load.duration_s`.
    pub(crate) first_s: Option<f64>,
    /// What a pause above two seconds shrinks by.
    pub(crate) step_s: f64,
    /// What a shorter one shrinks by.
    pub(crate) fine_step_ms: f64,
    /// The shortest pause.
    pub(crate) pause_ms_min: f64,
    /// Rates behind the first one that misses the SLO are left out, also where `auto` is false.
    pub(crate) until_missed: bool,
}

impl Default for Boost {
    fn default() -> Boost {
        Boost {
            auto: false,
            first_s: None,
            step_s: 1.0,
            fine_step_ms: 5.0,
            pause_ms_min: 5.0,
            until_missed: false,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Search {
    pub(crate) rate_start: f64,
    pub(crate) rate_max: f64,
    pub(crate) resolution: f64,
    pub(crate) point_s: f64,
    pub(crate) repeats: usize,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            rate_start: 1_000.0,
            rate_max: 10_000_000.0,
            resolution: 0.03,
            point_s: 3.0,
            repeats: 3,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// Commands that are run to their end before it starts, such as one that builds a table.
    #[serde(default)]
    pub(crate) prepare: Vec<Vec<String>>,
    pub(crate) command: Vec<String>,
    pub(crate) config: Option<String>,
    /// A URL that answers 200, or `tcp://HOST:PORT` that takes a connection.
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
    /// The network that it is reached over, where it has one of its own.
    pub(crate) namespace: Option<NamespaceKeys>,
}

/// A network namespace that a server runs in, and the two addresses of the network to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceKeys {
    /// What the system calls it; its interfaces are called after it.
    pub(crate) name: String,
    /// The server's end.
    pub(crate) server: Ipv4Addr,
    /// The load generator's.
    pub(crate) client: Ipv4Addr,
}

/// A program that makes the calls; docs/formats/press-program.md is how it speaks with press.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramKeys {
    /// Commands that are run to their end before it is started, such as one that installs what it needs.
    #[serde(default)]
    pub(crate) prepare: Vec<Vec<String>>,
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) cpus: Vec<usize>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default = "ready_timeout_s")]
    pub(crate) ready_timeout_s: f64,
}

/// What is started: a server or a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The section that it stands in.
    pub(crate) section: &'static str,
    pub(crate) prepare: &'a [Vec<String>],
    pub(crate) command: &'a [String],
    pub(crate) config: Option<&'a str>,
    pub(crate) cpus: &'a [usize],
    pub(crate) env: &'a BTreeMap<String, String>,
}

impl Server {
    pub(crate) fn launch(&self) -> Launch<'_> {
        Launch {
            section: "server",
            prepare: &self.prepare,
            command: &self.command,
            config: self.config.as_deref(),
            cpus: &self.cpus,
            env: &self.env,
        }
    }
}

impl ProgramKeys {
    pub(crate) fn launch(&self) -> Launch<'_> {
        Launch {
            section: "program",
            prepare: &self.prepare,
            command: &self.command,
            config: None,
            cpus: &self.cpus,
            env: &self.env,
        }
    }
}

/// One promise; see docs/press.md.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BarKeys {
    pub(crate) name: String,
    /// A formula.
    pub(crate) value: String,
    pub(crate) op: Op,
    pub(crate) limit: f64,
    #[serde(default)]
    pub(crate) of: Conditioned,
}

/// Whose figures a bar is made of, which decides what spoils them.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Conditioned {
    #[default]
    Server,
    /// That the press was the limit, or that nothing settled, is no fault of them.
    Press,
    /// Connections are meant to be refused: that their further requests are never sent is no fault of them.
    Refusals,
    /// No noise changes them.
    Counts,
}

/// A figure that a command gives, once a round.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureKeys {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    /// Whether it runs before the servers of the round are stopped, and not after.
    #[serde(default)]
    pub(crate) serving: bool,
}

/// The load of one target beside others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnLoad {
    pub(crate) connections: Option<usize>,
    pub(crate) in_flight: Option<usize>,
    /// Requests a second; with it the target's loop is open.
    pub(crate) rate: Option<f64>,
    /// The same for several loads, in the place of `load.rate`.
    #[serde(default)]
    pub(crate) rates: Vec<f64>,
    /// The rate is so many times what the target `over` answered in this repeat.
    pub(crate) times: Option<f64>,
    pub(crate) over: Option<String>,
    /// The cores of the threads that send to it, in the place of `load.client_cpus`.
    #[serde(default)]
    pub(crate) client_cpus: Vec<usize>,
}

impl OwnLoad {
    /// Whether a schedule decides, and not the answers.
    pub(crate) fn is_open(&self) -> bool {
        self.rate.is_some() || self.times.is_some() || !self.rates.is_empty()
    }
}

fn seed() -> u64 {
    1
}
fn http() -> &'static TargetKind {
    &KINDS[0]
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
fn value_bytes() -> Sizes {
    Sizes::Constant(40)
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
