//! What this machine allows a configuration, read from the kernel's own files: `millpond doctor`.
//!
//! It changes nothing and measures nothing. Its invariant: every finding that asks for a change says which file or command
//! makes it. Sources: proc(5), tcp(7), the kernel's documentation of sysctl; the memory of a connection is of
//! docs/performance.md.

mod facts;
mod memory;

use crate::config::{Config, check};
use crate::{ports, stores, tls};
pub use facts::Facts;
use serde::Serialize;
use std::fmt;

/// Files of the process that are no connections: listeners, epoll, tables, logs.
const FILES_BESIDE: u64 = 64;
/// Connections that wait to be accepted, as this server asks for.
const BACKLOG: u64 = 4096;
/// Bytes of memory that an idle connection takes: 230 in the server, the rest in the kernel.
const CONNECTION_BYTES: u64 = 230 + 3_800;
/// And one that speaks TLS in the server besides.
const TLS_BYTES: u64 = 3_500;
/// Clocks that are read without a system call.
const QUICK_CLOCKS: [&str; 3] = ["tsc", "kvm-clock", "arch_sys_counter"];

/// How a finding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Better,
    /// The configuration cannot be kept.
    Short,
}

impl fmt::Display for Standing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Standing::Good => "good",
            Standing::Better => "could be better",
            Standing::Short => "not enough",
        })
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What was found and, where it should change, what to do.
    pub text: String,
    /// What callers can make the server hold, of memory at worst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
}

type Look = fn(&Facts, &Config) -> Option<Finding>;

/// What is looked at, in this order. Nothing is said where the machine does not tell.
const LOOKS: [(&str, Look); 11] = [
    ("open files", files),
    ("open files of the machine", machine_files),
    ("connections waiting to be accepted", backlog),
    ("memory", memory),
    ("memory at worst", memory::at_worst),
    ("ports for connections from here", ports),
    ("processors", processors),
    ("clock", clock),
    ("processor frequency", governor),
    ("transparent huge pages", huge_pages),
    ("memory nodes", nodes),
];

/// Looks at everything that the machine tells.
pub fn examine(facts: &Facts, config: &Config) -> Vec<Finding> {
    let looked = LOOKS.iter().filter_map(|(what, look)| {
        let found = look(facts, config)?;
        Some(Finding { what, ..found })
    });
    looked.chain(certificate(config)).collect()
}

/// A finding; [`LOOKS`] has its name.
fn found(standing: Standing, text: impl Into<String>) -> Option<Finding> {
    Some(Finding {
        what: "",
        standing,
        text: text.into(),
        bytes_max: None,
    })
}

/// Good, or with what to do about it.
fn judged(is_good: bool, otherwise: Standing, text: String, fix: impl fmt::Display) -> Option<Finding> {
    match is_good {
        true => good(text),
        false => found(otherwise, format!("{text}{fix}")),
    }
}

fn good(text: impl Into<String>) -> Option<Finding> {
    found(Standing::Good, text)
}

fn better(text: impl Into<String>) -> Option<Finding> {
    found(Standing::Better, text)
}

fn short(text: impl Into<String>) -> Option<Finding> {
    found(Standing::Short, text)
}

/// A connection is a file of its process.
fn files(facts: &Facts, config: &Config) -> Option<Finding> {
    let hard = facts.files_max?;
    let connections = config.server.connections_max as u64;
    let processes = config.server.processes as u64;
    let needed = files_needed(config);
    let each = if processes > 1 { " in each process" } else { "" };
    let text = format!("{hard} may be open{each}, {needed} are needed");
    if hard >= needed {
        let beside = FILES_BESIDE.saturating_add(files_of_stores(config));
        let more = needed.saturating_sub(beside).saturating_sub(connections);
        return good(format!(
            "{text} (server.connections_max is {connections}, and as many as {more} more are being refused or linger)"
        ));
    }
    let within =
        |of_stores: u64| connections_within(hard.saturating_sub(FILES_BESIDE.saturating_add(of_stores)));
    let (fits, fits_spread) = (
        within(files_of_stores(config)),
        within(files_of_stores_max(config)),
    );
    // A tenth more than it takes: the kernel spreads connections by a hash.
    let spread = connections.saturating_mul(processes).saturating_mul(11);
    let several = match spread.div_ceil(fits_spread.saturating_mul(10).max(1)) {
        enough if fits_spread > 0 && takes_processes(config, enough) => {
            format!(
                ", or spread the same connections over processes: server.processes = {enough} with server.connections_max = {fits_spread}"
            )
        }
        _ => String::new(),
    };
    short(format!(
        "{text} for server.connections_max = {connections}; set LimitNOFILE={needed} in the systemd unit (or `ulimit -Hn {needed}` \
         as root, or --ulimit nofile={needed} for a container), or lower server.connections_max to {fits}{several}"
    ))
}

/// Files of the connections between as many processes as there may be, where they would have any.
fn files_of_stores_max(config: &Config) -> u64 {
    let mut several = config.clone();
    several.server.processes = check::PROCESSES_MAX;
    files_of_stores(&several)
}

/// Files of the connections between processes, in the one that has the stores of several.
fn files_of_stores(config: &Config) -> u64 {
    stores::of_process_0(config).map_or(0, |options| options.connections_open_max())
}

/// Files of the callers' connections of each process.
fn files_of_callers(config: &Config) -> u64 {
    ports::data_bounds(config).options.connections_open_max()
}

/// Files of one process at worst.
fn files_needed(config: &Config) -> u64 {
    files_of_callers(config)
        .saturating_add(files_of_stores(config))
        .saturating_add(FILES_BESIDE)
}

/// The highest `server.connections_max` that needs no more than so many files for connections.
fn connections_within(files: u64) -> u64 {
    let open_max = |connections: u64| {
        let mut config = Config::default();
        config.server.connections_max = connections as usize;
        ports::data_bounds(&config).options.connections_open_max()
    };
    let (mut fits, mut over) = (0, files.saturating_add(1));
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        match open_max(middle) <= files {
            true => fits = middle,
            false => over = middle,
        }
    }
    fits
}

/// Whether the configuration may say so many processes, as a start would judge it: an overlay, a pipeline that reads a store, a Unix socket and port 0 take
/// one alone.
fn takes_processes(config: &Config, processes: u64) -> bool {
    processes <= check::PROCESSES_MAX as u64 && check::check_shared(config).is_ok()
}

/// The files of all processes are files of the machine.
fn machine_files(facts: &Facts, config: &Config) -> Option<Finding> {
    let most = facts.machine_files_max?;
    let each = files_of_callers(config).saturating_add(FILES_BESIDE);
    let all = each.saturating_mul(config.server.processes as u64);
    let needed = all.saturating_add(files_of_stores(config));
    let text = format!("fs.file-max is {most}, all processes may need {needed}");
    let fix = format!("; sysctl -w fs.file-max={needed}, or lower server.connections_max");
    judged(most >= needed, Standing::Short, text, fix)
}

fn backlog(facts: &Facts, _: &Config) -> Option<Finding> {
    let most = facts.somaxconn?;
    let text = format!("net.core.somaxconn is {most}");
    let fix = format!(", so a storm of connects is cut at that; sysctl -w net.core.somaxconn={BACKLOG}");
    judged(most >= BACKLOG, Standing::Better, text, fix)
}

fn memory(facts: &Facts, config: &Config) -> Option<Finding> {
    let available = facts.memory_available_bytes?;
    let server = &config.server;
    let connections = (server.connections_max as u64).saturating_mul(server.processes as u64);
    let of_tls = server.tls.as_ref().map_or(0, |_| TLS_BYTES);
    let needed = connections.saturating_mul(CONNECTION_BYTES + of_tls);
    let text = format!(
        "{} MiB are available, {connections} idle connections take about {} MiB in server and kernel",
        available >> 20,
        needed >> 20
    );
    let otherwise = match needed > available {
        true => Standing::Short,
        false => Standing::Better,
    };
    let fix = "; lower server.connections_max, or add memory";
    judged(needed <= available / 2, otherwise, text, fix)
}

/// Ports are the limit of who connects from here, such as the press.
fn ports(facts: &Facts, _: &Config) -> Option<Finding> {
    let (first, last) = facts.local_ports?;
    let count = last.saturating_sub(first) + 1;
    let text = format!("{count} an address (net.ipv4.ip_local_port_range is {first} {last})");
    let fix = "; sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\"";
    judged(count >= 28_000, Standing::Better, text, fix)
}

/// Net threads of each process on that machine.
fn net_threads(facts: &Facts, config: &Config) -> u64 {
    match (config.server.threads, facts.processors) {
        (0, Some(allowed)) => (allowed / (config.server.processes as u64).max(1)).max(1),
        _ => ports::net_threads(&config.server) as u64,
    }
}

fn processors(facts: &Facts, config: &Config) -> Option<Finding> {
    let allowed = facts.processors?;
    let processes = config.server.processes as u64;
    let threads = net_threads(facts, config).saturating_mul(processes);
    let of = match processes {
        1 => String::new(),
        _ => format!(" in {processes} processes"),
    };
    let quota = facts.processor_quota.map_or(String::new(), |quota| {
        format!(", of which the control group allows {quota:.2}")
    });
    let text = format!("{allowed} may be used{quota}; {threads} net threads{of} (server.threads)");
    let fits = threads <= allowed && facts.processor_quota.is_none_or(|quota| quota >= threads as f64);
    let fix = ": they will take turns, and be stopped in the middle of calls; set server.threads to what there is, or raise cpu.max";
    judged(fits, Standing::Better, text, fix)
}

fn clock(facts: &Facts, _: &Config) -> Option<Finding> {
    let clock = facts.clock.as_deref()?;
    if QUICK_CLOCKS.contains(&clock) {
        return good(format!("{clock}, read without a system call"));
    }
    better(format!(
        "{clock}: every look at the time is a system call, three and more a request; boot with clocksource=tsc where the \
         machine has it (see /sys/devices/system/clocksource/clocksource0/available_clocksource)"
    ))
}

fn governor(facts: &Facts, _: &Config) -> Option<Finding> {
    match facts.governor.as_deref()? {
        "performance" => good("governor performance"),
        governor => better(format!(
            "governor {governor}: a request after a pause finds a slow processor; cpupower frequency-set -g performance"
        )),
    }
}

fn huge_pages(facts: &Facts, _: &Config) -> Option<Finding> {
    match facts.huge_pages.as_deref()? {
        "always" => better(
            "always: memory may be compacted in the middle of a call, and an idle connection's share grows; echo madvise > \
             /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        mode => good(mode),
    }
}

fn nodes(facts: &Facts, config: &Config) -> Option<Finding> {
    let nodes = facts.memory_nodes.filter(|nodes| *nodes > 1)?;
    if !config.server.cpus.is_empty() {
        let text = format!("{nodes}; server.cpus pins");
        return good(text);
    }
    let text = format!(
        "{nodes}, and nothing is pinned: memory of one is far from processors of another; run one server a node, each under \
         `numactl --cpunodebind=N --membind=N` (lscpu shows the nodes)"
    );
    better(text)
}

/// What a start would say of the files of TLS.
fn certificate(config: &Config) -> Vec<Finding> {
    let findings = match tls::read(&config.server) {
        Ok(None) => Vec::new(),
        Ok(Some(tls)) => {
            let warnings = tls::warnings(&tls)
                .into_iter()
                .map(|warning| match warning.hurts {
                    true => short(warning.text),
                    false => better(warning.text),
                });
            let mut findings: Vec<_> = warnings.collect();
            if findings.is_empty() {
                let days = tls.validity().days_left().unwrap_or_default();
                findings.push(good(format!("holds for {days} more days")));
            }
            findings
        }
        Err(error) => vec![short(error.to_string())],
    };
    let what = "TLS certificate";
    let findings = findings.into_iter().flatten();
    findings.map(|found| Finding { what, ..found }).collect()
}

#[cfg(test)]
mod tests;
