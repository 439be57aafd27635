//! What this machine allows a configuration, read from the kernel's own files: `millpond doctor`.
//!
//! It changes nothing and measures nothing. Its invariant: every finding that asks for a change says which file or command
//! makes it. Sources: proc(5), tcp(7), the kernel's documentation of sysctl; the memory of a connection is of
//! docs/performance.md.

mod facts;
mod memory;

use crate::config::{Config, check};
use crate::{ports, tls};
pub use facts::Facts;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What was found and, where it should change, what to do.
    pub text: String,
}

impl Finding {
    fn new(what: &'static str, standing: Standing, text: String) -> Finding {
        Finding { what, standing, text }
    }
}

/// Looks at everything that the machine tells.
pub fn examine(facts: &Facts, config: &Config) -> Vec<Finding> {
    let found = [
        files(facts, config),
        machine_files(facts, config),
        backlog(facts),
        memory(facts, config),
        memory::finding(facts, config),
        ports(facts),
        processors(facts, config),
        clock(facts),
        governor(facts),
        huge_pages(facts),
        nodes(facts, config),
    ];
    found.into_iter().flatten().chain(certificate(config)).collect()
}

/// A connection is a file of its process.
fn files(facts: &Facts, config: &Config) -> Option<Finding> {
    let hard = facts.files_max?;
    let connections = config.server.connections_max as u64;
    let processes = config.server.processes as u64;
    let needed = files_needed(config);
    let what = "open files";
    let each = if processes > 1 { " in each process" } else { "" };
    if hard >= needed {
        let text = format!(
            "{hard} may be open{each}, {needed} are needed (server.connections_max is {connections}, and as many as {} more are being \
             refused or linger)",
            needed.saturating_sub(FILES_BESIDE).saturating_sub(connections)
        );
        return Some(Finding::new(what, Standing::Good, text));
    }
    let room = connections_within(hard.saturating_sub(FILES_BESIDE));
    // A tenth more than it takes: the kernel spreads connections by a hash.
    let spread = connections.saturating_mul(processes).saturating_mul(11);
    let several = match spread.div_ceil(room.saturating_mul(10).max(1)) {
        enough if room > 0 && takes_processes(config, enough) => {
            format!(
                ", or spread the same connections over processes: server.processes = {enough} with server.connections_max = {room}"
            )
        }
        _ => String::new(),
    };
    Some(Finding::new(
        what,
        Standing::Short,
        format!(
            "{hard} may be open{each}, {needed} are needed for server.connections_max = {connections}; set LimitNOFILE={needed} in the \
             systemd unit (or `ulimit -Hn {needed}` as root, or --ulimit nofile={needed} for a container), or lower \
             server.connections_max to {room}{several}"
        ),
    ))
}

/// Files of one process at worst.
fn files_needed(config: &Config) -> u64 {
    ports::data_bounds(config)
        .connections_open_max()
        .saturating_add(FILES_BESIDE)
}

/// The highest `server.connections_max` that needs no more than so many files for connections.
fn connections_within(files: u64) -> u64 {
    let open_max = |connections: u64| {
        let mut config = Config::default();
        config.server.connections_max = connections as usize;
        ports::data_bounds(&config).connections_open_max()
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

/// Whether the configuration may say so many processes, as a start would judge it: an ordered store, a Unix socket and port 0
/// have one.
fn takes_processes(config: &Config, processes: u64) -> bool {
    processes <= check::PROCESSES_MAX as u64 && check::check_shared(config).is_ok()
}

/// The files of all processes are files of the machine.
fn machine_files(facts: &Facts, config: &Config) -> Option<Finding> {
    let found = facts.machine_files_max?;
    let needed = files_needed(config).saturating_mul(config.server.processes as u64);
    let what = "open files of the machine";
    let text = format!("fs.file-max is {found}, all processes may need {needed}");
    if found >= needed {
        return Some(Finding::new(what, Standing::Good, text));
    }
    let text = format!("{text}; sysctl -w fs.file-max={needed}, or lower server.connections_max");
    Some(Finding::new(what, Standing::Short, text))
}

fn backlog(facts: &Facts) -> Option<Finding> {
    let found = facts.somaxconn?;
    let what = "connections waiting to be accepted";
    if found >= BACKLOG {
        return Some(Finding::new(
            what,
            Standing::Good,
            format!("net.core.somaxconn is {found}"),
        ));
    }
    let text = format!(
        "net.core.somaxconn is {found}, so a storm of connects is cut at that; sysctl -w net.core.somaxconn={BACKLOG}"
    );
    Some(Finding::new(what, Standing::Better, text))
}

fn memory(facts: &Facts, config: &Config) -> Option<Finding> {
    let available = facts.memory_available_bytes?;
    let server = &config.server;
    let connections = (server.connections_max as u64).saturating_mul(server.processes as u64);
    let of_tls = server.tls.as_ref().map_or(0, |_| TLS_BYTES);
    let needed = connections.saturating_mul(CONNECTION_BYTES + of_tls);
    let mib = |bytes: u64| bytes >> 20;
    let text = format!(
        "{} MiB are available, {connections} idle connections take about {} MiB in server and kernel",
        mib(available),
        mib(needed)
    );
    if needed <= available / 2 {
        return Some(Finding::new("memory", Standing::Good, text));
    }
    let standing = if needed > available {
        Standing::Short
    } else {
        Standing::Better
    };
    let text = format!("{text}; lower server.connections_max, or add memory");
    Some(Finding::new("memory", standing, text))
}

/// Ports are the limit of who connects from here, such as the press.
fn ports(facts: &Facts) -> Option<Finding> {
    let (first, last) = facts.local_ports?;
    let count = last.saturating_sub(first) + 1;
    let what = "ports for connections from here";
    let text = format!("{count} an address (net.ipv4.ip_local_port_range is {first} {last})");
    if count >= 28_000 {
        return Some(Finding::new(what, Standing::Good, text));
    }
    let text = format!("{text}; sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\"");
    Some(Finding::new(what, Standing::Better, text))
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
    let of = if processes > 1 {
        format!(" in {processes} processes")
    } else {
        String::new()
    };
    let quota = facts.processor_quota.map_or(String::new(), |quota| {
        format!(", of which the control group allows {quota:.2}")
    });
    let text = format!("{allowed} may be used{quota}; {threads} net threads{of} (server.threads)");
    let is_cut = facts.processor_quota.is_some_and(|quota| quota < threads as f64);
    if threads > allowed || is_cut {
        let text = format!(
            "{text}: they will take turns, and be stopped in the middle of calls; set server.threads to what there is, or raise cpu.max"
        );
        return Some(Finding::new("processors", Standing::Better, text));
    }
    Some(Finding::new("processors", Standing::Good, text))
}

fn clock(facts: &Facts) -> Option<Finding> {
    let clock = facts.clock.as_deref()?;
    if QUICK_CLOCKS.contains(&clock) {
        return Some(Finding::new(
            "clock",
            Standing::Good,
            format!("{clock}, read without a system call"),
        ));
    }
    let text = format!(
        "{clock}: every look at the time is a system call, three and more a request; boot with clocksource=tsc where the \
         machine has it (see /sys/devices/system/clocksource/clocksource0/available_clocksource)"
    );
    Some(Finding::new("clock", Standing::Better, text))
}

fn governor(facts: &Facts) -> Option<Finding> {
    let governor = facts.governor.as_deref()?;
    if governor == "performance" {
        return Some(Finding::new(
            "processor frequency",
            Standing::Good,
            "governor performance".into(),
        ));
    }
    let text = format!(
        "governor {governor}: a request after a pause finds a slow processor; cpupower frequency-set -g performance"
    );
    Some(Finding::new("processor frequency", Standing::Better, text))
}

fn huge_pages(facts: &Facts) -> Option<Finding> {
    let mode = facts.huge_pages.as_deref()?;
    if mode != "always" {
        return Some(Finding::new(
            "transparent huge pages",
            Standing::Good,
            mode.into(),
        ));
    }
    let text = "always: memory may be compacted in the middle of a call, and an idle connection's share grows; echo madvise > \
                /sys/kernel/mm/transparent_hugepage/enabled";
    Some(Finding::new(
        "transparent huge pages",
        Standing::Better,
        text.into(),
    ))
}

fn nodes(facts: &Facts, config: &Config) -> Option<Finding> {
    let nodes = facts.memory_nodes.filter(|nodes| *nodes > 1)?;
    let what = "memory nodes";
    if !config.server.cpus.is_empty() {
        let text = format!("{nodes}; server.cpus pins");
        return Some(Finding::new(what, Standing::Good, text));
    }
    let text = format!(
        "{nodes}, and nothing is pinned: memory of one is far from processors of another; run one server a node, each under \
         `numactl --cpunodebind=N --membind=N` (lscpu shows the nodes)"
    );
    Some(Finding::new(what, Standing::Better, text))
}

/// What a start would say of the files of TLS.
fn certificate(config: &Config) -> Vec<Finding> {
    let what = "TLS certificate";
    let tls = match tls::read(&config.server) {
        Ok(None) => return Vec::new(),
        Ok(Some(tls)) => tls,
        Err(error) => return vec![Finding::new(what, Standing::Short, error.to_string())],
    };
    let warnings = tls::warnings(&tls);
    if warnings.is_empty() {
        let days = tls.validity().days_left().unwrap_or_default();
        return vec![Finding::new(
            what,
            Standing::Good,
            format!("holds for {days} more days"),
        )];
    }
    let found = warnings.into_iter().map(|warning| {
        let standing = if warning.hurts {
            Standing::Short
        } else {
            Standing::Better
        };
        Finding::new(what, standing, warning.text)
    });
    found.collect()
}

#[cfg(test)]
mod tests;
