//! A point as it was measured, and what was made of it: what the rules of this crate read and write.
//!
//! Nothing is computed here. The fields are those of `result.json` (docs/formats/press-result.md). Its invariant: every key that is
//! written is read back, and no other.

use std::collections::BTreeMap;
use std::fmt;

use millpond_press_recorder::{Counters, Interference, Interval, LatencySummary, Resources};
use serde::{Deserialize, Serialize};

/// Where requests went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetName {
    /// Its name in the scenario; the protocol where none was given.
    pub name: String,
    /// `http`, `native`, `resp`, `memcached`, `echo`, `features`, `ordered`, `infer` (these three without a network) or `program`.
    pub protocol: String,
    /// Host and port; empty in process.
    pub address: String,
    /// The path, the method or the first operation, in words.
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
    /// What its models run on, each once: `cpu`, `cuda`.
    #[serde(default)]
    pub providers: Vec<String>,
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

/// One second of a point; counts are of this second alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Seconds from the start of the clock to the end of this second.
    pub s: f64,
    /// Answers.
    pub answers: u64,
    /// Refusals.
    pub refused: u64,
    /// Wrong answers and errors.
    pub failed: u64,
    /// Requests sent and not answered at its end.
    pub outstanding: u64,
    /// Mean latency, if there was an answer.
    pub us_mean: Option<f64>,
    /// Median latency, if there are samples enough.
    pub us_p50: Option<f64>,
    /// 99th percentile of the latency.
    pub us_p99: Option<f64>,
    /// The largest latency.
    pub us_max: Option<f64>,
}

/// How requests were offered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// `closed` (each connection waits for its answers) or `open` (a schedule decides).
    pub kind: LoadKind,
    /// Connections asked for.
    pub connections: usize,
    /// Requests a connection keeps outstanding at most.
    pub in_flight: usize,
    /// Open loop: requests a second asked for.
    pub rate: Option<f64>,
    /// Open loop: `constant`, `poisson`, `pareto`, `bursts` or `recorded`.
    pub arrivals: Option<String>,
    /// Closed loop: the pause of a connection between an answer and its next request.
    pub think_ms: Option<f64>,
    /// The fixed number of requests, if that was asked for.
    pub requests_per_connection: Option<u64>,
    /// The time that the load lasts, if no number of each connection was asked for.
    pub duration_s: Option<f64>,
    /// Open loop: the number of requests, if that was asked for; the time follows from it.
    #[serde(default)]
    pub requests: Option<u64>,
    /// What ran beside it on purpose.
    #[serde(default)]
    pub antagonists: Option<Antagonists>,
}

/// Programs that are run beside a load so that they disturb it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Antagonists {
    /// The command of one.
    pub command: String,
    /// The core of each.
    pub cores: Vec<usize>,
    /// The cores of what they disturb; any where there is none.
    pub beside: Vec<usize>,
    /// What they do to it, by what the cores share.
    pub interference: Interference,
}

/// Whether clients wait for answers before they send again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// They do.
    #[default]
    Closed,
    /// A schedule decides.
    Open,
}

/// The load before the clock started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmUp {
    /// How long it took.
    pub seconds: f64,
    /// Answers in it; they are in no other figure.
    pub answers: u64,
    /// Requests in it that failed, which are in no other figure either; 0 in results of schema 3.
    #[serde(default)]
    pub failed: u64,
    /// Whether rate and latency had become stationary when it ended; false when the limit ended it.
    pub stationary: bool,
}

/// The connections of a point: what opening them took, and what they keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Connections that were up when the first load on them began.
    pub opened: u64,
    /// How long it took until each was up or had failed once.
    pub opening_s: f64,
    /// What the server's resident memory, that of all its processes, grew by from before the first of them to the end of
    /// the point.
    pub server_bytes: Option<u64>,
    /// What the kernel's slab memory of the load generator's machine grew by meanwhile, reclaimable or not.
    pub kernel_bytes: Option<u64>,
    /// Connections that the server counts itself at the end of the point.
    pub server_connections: Option<u64>,
    /// Calls that the server answered with a result within the point, by its own count.
    pub server_calls: Option<u64>,
    /// The shortest of a few connects to the server's port before the load.
    pub connect_us_min: Option<f64>,
    /// The mean time from the read of a call to its answer within the point, by the server's own count.
    #[serde(default)]
    pub server_call_us_mean: Option<f64>,
    /// The part of that mean in which a call waited in the server's queue; nothing where the server does not part its calls.
    #[serde(default)]
    pub server_queue_us_mean: Option<f64>,
}

/// Where the mean latency of a point went, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// The whole of it.
    pub whole: f64,
    /// The work on a request: as the server counts it, or in process the call.
    pub service: f64,
    /// What it waited for the server to begin; in process for the calls before it. Nothing where the server does not say.
    pub queue: Option<f64>,
    /// The rest: over a socket the way and the load generator, in process how late the load generator itself was.
    pub rest: f64,
}

impl Point {
    /// Where the mean latency went; nothing where the server does not count its calls, for programs, and in process in a closed
    /// loop, which waits for nothing.
    pub fn split(&self) -> Option<Split> {
        let whole = self.latency.us_mean?;
        if !self.target.address.is_empty() {
            let held = self.held?;
            let (call, queue) = (held.server_call_us_mean?, held.server_queue_us_mean);
            return Some(Split {
                whole,
                service: (call - queue.unwrap_or(0.0)).max(0.0),
                queue,
                rest: (whole - call).max(0.0),
            });
        }
        let service = self.service.us_mean?;
        // What its own thread took to wake up is nobody's queue.
        let rest = self.lateness.us_mean.unwrap_or(0.0);
        let is_timed = self.target.protocol != "program" && self.offered.kind == LoadKind::Open;
        is_timed.then(|| Split {
            whole,
            service,
            queue: Some((whole - service - rest).max(0.0)),
            rest,
        })
    }
}

/// Whether a point can be believed; of several points the last of these that applies to any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Judgement {
    /// The figures are the server's.
    #[default]
    Valid,
    /// Something else on the machine took part.
    EnvDrift,
    /// Rate or latency did not settle, or a queue grew to the end.
    Unstable,
    /// The load generator could not keep up: the figures are its own.
    GeneratorBound,
    /// More than one in a hundred requests failed, refusals not counted.
    Failing,
}

/// As `result.json` writes it.
impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What limited the rate or made the latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The evidence does not say.
    #[default]
    Unknown,
    /// The offered load was met with room to spare.
    Offered,
    /// Processor time of the server.
    ServerCpu,
    /// Processor time of the load generator.
    ClientCpu,
    /// The network between them.
    Wire,
    /// Requests or connections waited in a queue.
    Queueing,
    /// A timer, or threads that slept.
    Timer,
    /// Threads waited for each other.
    Lock,
    /// The disk.
    Disk,
}

/// As `result.json` writes it.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The judgement of a point with its reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether the figures can be believed.
    pub judgement: Judgement,
    /// What bounded them.
    pub bound: Bound,
    /// One sentence that names the bound with its evidence.
    pub sentence: String,
    /// The evidence, one observation a line.
    pub evidence: Vec<String>,
}

/// A stage of the server's own work, from its metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// `queue`, `batch_wait`, `compute`, `write`, as the server names it.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Mean time in it.
    pub us_mean: f64,
}

/// One operation of a mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationResult {
    /// Its name in the scenario.
    pub name: String,
    /// Answers that count.
    pub answers: u64,
    /// Refusals.
    pub refused: u64,
    /// Wrong answers and errors.
    pub failed: u64,
    /// Latencies from the intended send time.
    pub latency: LatencySummary,
}

/// What became of the scenario's SLO at a point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SloOutcome {
    /// The SLO, as it was written.
    pub slo: String,
    /// Whether every part of it held.
    pub met: bool,
    /// The parts that did not, in words with their figures.
    pub failures: Vec<String>,
}

/// One point: one load offered to one target, once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its number, from 1.
    pub number: usize,
    /// Which repeat of the same load it is, from 1.
    pub repeat: usize,
    /// The grid's values.
    pub grid: BTreeMap<String, String>,
    /// Where requests went.
    pub target: TargetName,
    /// What answered, if it said so.
    pub server: Option<Server>,
    /// How requests were offered.
    pub offered: Offered,
    /// Threads of the load generator.
    pub client_threads: usize,
    /// When its clock started, in seconds since 1970, UTC.
    pub started_unix_s: f64,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// The load before the clock.
    pub warm_up: WarmUp,
    /// From the start of the clock to the end of the last request.
    pub us_total: u64,
    /// The longest time within it in which requests waited and no answer came, if it was 100 ms or more; else 0.
    #[serde(default)]
    pub us_silent_max: u64,
    /// Answers a second over `us_total`.
    pub qps: f64,
    /// Requests sent a second over the time in which requests were sent.
    pub sent_per_s: f64,
    /// Its connections; nothing in process.
    pub held: Option<Held>,
    /// How everything ended.
    pub counters: Counters,
    /// Latencies of answers, from the intended send time (closed loop: from the moment the request could be sent).
    pub latency: LatencySummary,
    /// The same answers from the moment the request was handed to the kernel.
    pub service: LatencySummary,
    /// How late the load generator itself was: from the moment a request was due and a connection was free to its sending.
    pub lateness: LatencySummary,
    /// Latencies of refusals.
    pub latency_refused: LatencySummary,
    /// By operation, where the scenario has several.
    pub operations: Vec<OperationResult>,
    /// Processor time of the server.
    pub server_cpu: Option<Cpu>,
    /// Processor time of the load generator, without what it spent looking for work that was not there; with a program that makes
    /// the calls.
    pub client_cpu: Option<Cpu>,
    /// Processor time of the antagonists.
    #[serde(default)]
    pub antagonists_cpu: Option<Cpu>,
    /// Resident memory of the server.
    pub server_memory_bytes: Option<u64>,
    /// Resident memory of the load generator.
    pub client_memory_bytes: Option<u64>,
    /// Second by second.
    pub series: Vec<Second>,
    /// Latency at percentiles for a curve: `[percentile, us]`, as far as ten samples lie beyond.
    pub curve: Vec<(f64, f64)>,
    /// What was used meanwhile.
    pub resources: Resources,
    /// The server's own split of its work, if it has one.
    pub stages: Vec<Stage>,
    /// Whether it can be believed, and what bounded it.
    pub verdict: Verdict,
    /// What became of the SLO.
    pub slo: Option<SloOutcome>,
}

/// Two targets held against each other under the same load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The target above the line.
    pub target: String,
    /// The target below it: the first one of the scenario.
    pub baseline: String,
    /// The load and the grid, in words.
    pub load: String,
    /// `qps`, `latency p50`, `latency p99` or `server cpu per request`.
    pub figure: String,
    /// The ratio of the paired repeats, with its 95 % interval.
    pub ratio: Interval,
    /// Pairs that are not in it, because one of the two was `FAILING`; 0 in results of schema 3.
    #[serde(default)]
    pub left_out: usize,
}

/// What a search came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The target it was made against.
    pub target: String,
    /// The SLO.
    pub slo: String,
    /// The highest rate that met it in most of its attempts, requests a second; nothing when none did.
    pub rate_met: Option<f64>,
    /// The lowest rate that missed it; nothing when none did within the bounds.
    pub rate_missed: Option<f64>,
    /// The rate of the curve's knee: where latency per throughput turns up most sharply.
    pub rate_knee: Option<f64>,
    /// Every rate that was tried, in order, with the number of its point.
    pub tried: Vec<Tried>,
    /// One sentence that answers the question.
    pub sentence: String,
}

/// One step of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Requests a second that were offered.
    pub rate: f64,
    /// The point.
    pub point: usize,
    /// Whether it met the SLO.
    pub met: bool,
}
