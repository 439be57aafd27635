//! A scenario: what to send, where, how much, and what a right answer is.
//!
//! Nothing is opened, bound or started here, except that the request files are read. Its invariant: a scenario that loads
//! can be run; everything impossible is refused with the file, the line or key, and the mend.

mod checks;
mod keys;
mod text;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

pub(crate) use keys::{Check, PidFrom, Protocol, Server};
use millpond_press_report::Layout;
use millpond_press_workload::RequestSet;

use crate::probe::Url;
use crate::{Error, grid};

/// How much each connection sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Requests(u64),
    For(Duration),
}

/// Where the number of the server's process comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerPid {
    Unknown,
    Given(u32),
    Infos,
}

#[derive(Debug)]
pub(crate) struct Scenario {
    /// The file, byte for byte, for the result folder.
    pub(crate) text: String,
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) layout: Layout,
    pub(crate) seed: u64,
    pub(crate) protocol: Protocol,
    pub(crate) address_text: String,
    pub(crate) address: SocketAddr,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes_max: usize,
    pub(crate) server_pid: ServerPid,
    pub(crate) requests: RequestSet,
    /// Where the requests come from, in words.
    pub(crate) requests_source: String,
    pub(crate) expected: Option<RequestSet>,
    pub(crate) check: Check,
    pub(crate) connections: Vec<usize>,
    pub(crate) amount: Amount,
    pub(crate) in_flight: usize,
    pub(crate) client_threads: usize,
    pub(crate) client_cpus: Vec<usize>,
    pub(crate) warmup_requests: u64,
    pub(crate) connect_parallel: usize,
    /// Every combination of the grid's values; one empty one when there is no grid.
    pub(crate) grid: Vec<BTreeMap<String, String>>,
    /// The server to start, and where it says that it is ready.
    pub(crate) server: Option<(Server, Url)>,
}

/// Reads and checks a scenario and its overrides.
pub(crate) fn load(path: &Path, overrides: &[String]) -> Result<Scenario, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::ReadScenario {
        path: path.to_owned(),
        source,
    })?;
    let name = path.display().to_string();
    let file = text::parse(&name, &text, overrides)?;
    let bad = |message: String| Error::Scenario {
        place: name.clone(),
        message,
    };
    checks::check(&file).map_err(bad)?;
    grid::check(&file.grid, file.server.as_ref()).map_err(bad)?;

    let bodies = read_bodies(&file, bad)?;
    let address = resolve(&file.target.address).map_err(bad)?;
    let ready = file
        .server
        .as_ref()
        .map(|server| Url::parse(&server.ready))
        .transpose();
    let ready = ready.map_err(|message| bad(format!("server.ready: {message}")))?;
    Ok(Scenario::of(file, text, bodies, address, ready))
}

/// The requests, where they come from in words, and the expected answers.
type Bodies = (RequestSet, String, Option<RequestSet>);

fn read_bodies(file: &keys::File, bad: impl Fn(String) -> Error) -> Result<Bodies, Error> {
    let (requests, requests_source) = load_requests(file).map_err(|error| match error {
        Trouble::Words(message) => bad(message),
        Trouble::Workload(error) => Error::Requests(error),
    })?;
    let expected = file
        .requests
        .expected
        .as_deref()
        .map(RequestSet::load)
        .transpose()?;
    if let Some(expected) = &expected
        && expected.len() != requests.len()
    {
        return Err(bad(format!(
            "requests.expected holds {} lines for {} requests; it needs one line a request",
            expected.len(),
            requests.len()
        )));
    }
    Ok((requests, requests_source, expected))
}

impl Scenario {
    fn of(
        file: keys::File,
        text: String,
        bodies: Bodies,
        address: SocketAddr,
        ready: Option<Url>,
    ) -> Scenario {
        let (requests, requests_source, expected) = bodies;
        let (method, path) = method_and_path(&file.target);
        let load = &file.load;
        Scenario {
            name: file.scenario.name,
            title: file.scenario.title,
            layout: file.scenario.layout,
            seed: file.scenario.seed,
            protocol: file.target.protocol,
            address_text: file.target.address,
            address,
            method,
            path,
            timeout: Duration::from_millis(file.target.timeout_ms),
            answer_bytes_max: file.target.answer_bytes_max,
            server_pid: match (file.target.server_pid, file.target.server_pid_from) {
                (Some(pid), _) => ServerPid::Given(pid),
                (None, Some(PidFrom::Infos)) => ServerPid::Infos,
                (None, None) => ServerPid::Unknown,
            },
            requests,
            requests_source,
            expected,
            check: file.check,
            connections: load.connections.clone(),
            amount: match (load.requests_per_connection, load.duration_s) {
                (Some(requests), _) => Amount::Requests(requests),
                (None, seconds) => Amount::For(Duration::from_secs_f64(seconds.unwrap_or_default())),
            },
            in_flight: load.in_flight,
            client_threads: load.client_threads,
            client_cpus: load.client_cpus.clone(),
            warmup_requests: load.warmup_requests,
            connect_parallel: load.connect_parallel,
            grid: grid::combinations(&file.grid),
            server: file.server.zip(ready),
            text,
        }
    }
}

enum Trouble {
    Words(String),
    Workload(millpond_press_workload::Error),
}

fn load_requests(file: &keys::File) -> Result<(RequestSet, String), Trouble> {
    let requests = &file.requests;
    let (set, source) = match (&requests.file, &requests.generate) {
        (Some(path), None) => (
            RequestSet::load(path).map_err(Trouble::Workload)?,
            path.display().to_string(),
        ),
        (None, Some(samples)) => {
            let set = samples.generate(file.scenario.seed).map_err(Trouble::Workload)?;
            let columns = samples.features.len();
            (
                set,
                format!(
                    "generated, {} samples of {columns} features each",
                    samples.samples
                ),
            )
        }
        _ => {
            return Err(Trouble::Words(
                "[requests] needs one of `file` and `generate`, and not both".into(),
            ));
        }
    };
    if set.distinct() < requests.distinct_min {
        return Err(Trouble::Words(format!(
            "requests.distinct_min is {}, but {source} holds {} distinct requests; add requests or lower it",
            requests.distinct_min,
            set.distinct()
        )));
    }
    Ok((set, source))
}

/// The method and the path; each follows from the other where only one is given.
fn method_and_path(target: &keys::Target) -> (String, String) {
    let path = target.path.clone();
    let method = target.method.clone();
    let last = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let method = method.or_else(|| path.as_ref().map(last)).unwrap_or_default();
    let path = path.unwrap_or_else(|| format!("/service/{method}"));
    (method, path)
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = address.to_socket_addrs().map_err(|error| {
        format!("target.address {address:?} is no host and port ({error}); write it as \"127.0.0.1:13500\"")
    })?;
    found
        .next()
        .ok_or_else(|| format!("target.address {address:?} has no address"))
}

#[cfg(test)]
mod tests;
