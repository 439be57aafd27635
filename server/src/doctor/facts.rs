//! What the kernel says of this machine and process, read from files.
//! Its invariant: a file that is not there, or says something else, leaves its fact out.

use crate::config::machine::parse_list;
use std::fs;
use std::path::Path;

/// What was found; what could not be read is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Files this process may have open at most.
    pub files_max: Option<u64>,
    /// Files that all processes may have open at most.
    pub machine_files_max: Option<u64>,
    /// Connections that may wait at a listening socket.
    pub somaxconn: Option<u64>,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Memory that the buffers of all TCP sockets may take.
    pub tcp_memory_bytes: Option<u64>,
    /// The first and the last port of outgoing connections.
    pub local_ports: Option<(u64, u64)>,
    /// Processors this process may run on.
    pub processors: Option<u64>,
    /// Processors' worth of time that the control group allows.
    pub processor_quota: Option<f64>,
    /// What the time is read from.
    pub clock: Option<String>,
    /// What decides the frequency of the first processor.
    pub governor: Option<String>,
    /// When the kernel makes large pages by itself.
    pub huge_pages: Option<String>,
    /// Groups of processors with memory of their own.
    pub memory_nodes: Option<u64>,
}

impl Facts {
    /// Reads them below `root`, which is `/` but in tests.
    pub fn read(root: &Path) -> Facts {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let word = |path: &str| text(path).map(|text| text.trim().to_owned());
        let status = text("proc/self/status");
        Facts {
            files_max: text("proc/self/limits").as_deref().and_then(open_files),
            machine_files_max: word("proc/sys/fs/file-max").and_then(|word| word.parse().ok()),
            somaxconn: word("proc/sys/net/core/somaxconn").and_then(|word| word.parse().ok()),
            memory_available_bytes: text("proc/meminfo").as_deref().and_then(available),
            tcp_memory_bytes: text("proc/sys/net/ipv4/tcp_mem")
                .zip(text("proc/self/smaps"))
                .and_then(|(memory, maps)| tcp_memory(&memory, &maps)),
            local_ports: text("proc/sys/net/ipv4/ip_local_port_range")
                .as_deref()
                .and_then(pair),
            processors: status.as_deref().and_then(allowed),
            processor_quota: text("sys/fs/cgroup/cpu.max").as_deref().and_then(quota),
            clock: word("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: word("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            huge_pages: text("sys/kernel/mm/transparent_hugepage/enabled")
                .as_deref()
                .and_then(chosen),
            memory_nodes: text("sys/devices/system/node/online").as_deref().and_then(listed),
        }
    }
}

/// `Max open files  1024  20000  files`: the last number.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let hard = line.split_whitespace().nth(4)?;
    if hard == "unlimited" {
        return Some(u64::MAX);
    }
    hard.parse().ok()
}

/// `MemAvailable:  123 kB`
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// `low pressure high`, in pages of as many bytes as the process's own have: `KernelPageSize:  4 kB`.
fn tcp_memory(memory: &str, maps: &str) -> Option<u64> {
    let pages: u64 = memory.split_whitespace().nth(2)?.parse().ok()?;
    let line = maps.lines().find(|line| line.starts_with("KernelPageSize:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(kib)?.checked_mul(1024)
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// `Cpus_allowed_list:  0-3,7`
fn allowed(status: &str) -> Option<u64> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    listed(list)
}

/// How many numbers a list like `0-3,7` has.
fn listed(list: &str) -> Option<u64> {
    parse_list(list).map(|numbers| numbers.len() as u64)
}

/// `200000 100000`: two processors' worth; `max 100000`: no limit.
fn quota(max: &str) -> Option<f64> {
    let (quota, period) = max.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// `always [madvise] never`: what stands in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
