//! What a run used while it ran: processor time, waiting, memory and bytes, second by second and thread by thread.
//!
//! These are the figures a verdict is made from. Its invariant: a figure that could not be read is absent, never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which side of the wire something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The server under test, all its processes.
    Server,
    /// The load generator.
    Client,
}

/// What one side used within one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Processor time, in percent of one core.
    pub cpu_percent: f64,
    /// The busiest thread's processor time, in percent of one core.
    pub cpu_percent_thread_max: f64,
    /// Time its threads were runnable but waited for a core, summed over threads, in percent of the interval.
    pub wait_percent: f64,
    /// Context switches a second that its threads made by blocking.
    pub switches_voluntary: f64,
    /// Context switches a second that the kernel forced on its threads.
    pub switches_involuntary: f64,
    /// Resident memory at the end of the interval.
    pub memory_bytes: u64,
}

/// One interval, about a second long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSecond {
    /// Seconds from the first request to the end of the interval.
    pub s: f64,
    /// The server, when its process is known and on this machine.
    pub server: Option<Used>,
    /// The load generator.
    pub client: Option<Used>,
    /// Busy processor time of the whole machine, in percent of one core.
    pub machine_percent: Option<f64>,
    /// Runnable tasks of the machine, mean of the last minute.
    pub load_minute_1: Option<f64>,
    /// The part of it that is neither server, client nor interrupts, in percent of one core.
    pub foreign_percent: Option<f64>,
    /// Time the hypervisor took away, summed over cores, in percent of one core.
    pub steal_percent: Option<f64>,
    /// Bytes a second received on all interfaces of this network namespace, loopback included.
    pub rx_bytes: Option<f64>,
    /// Bytes a second sent on all interfaces, loopback included.
    pub tx_bytes: Option<f64>,
    /// TCP segments a second sent again.
    pub retransmits: Option<f64>,
    /// Connections a second that a full accept queue turned away (ListenOverflows + ListenDrops).
    pub listen_overflows: Option<f64>,
    /// Connections waiting in the accept queue of the server's port at the end of the interval.
    pub accept_queue: Option<u64>,
    /// Bytes the server's sockets hold that it has not read yet, at the end of the interval.
    pub server_receive_queue_bytes: Option<u64>,
    /// Bytes waiting to be sent or acknowledged on sockets from or to the server's port, at the end of the interval.
    pub send_queue_bytes: Option<u64>,
    /// Use of this machine's NVIDIA accelerators in percent of one, when there are any.
    pub accelerator_percent: Option<f64>,
    /// Their memory in use, by any process.
    pub accelerator_memory_bytes: Option<u64>,
}

/// One thread over the whole point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadUse {
    /// Whose thread it is.
    pub side: Side,
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name, as the kernel keeps it.
    pub name: String,
    /// Processor time in percent of one core.
    pub cpu_percent: f64,
    /// Time it was runnable but waited for a core (`schedstat`), in percent of the point.
    pub wait_percent: f64,
    /// Context switches by blocking, in all.
    pub switches_voluntary: u64,
    /// Context switches forced on it, in all.
    pub switches_involuntary: u64,
    /// What it was doing when looked at, as shares that add up to 1: `running`, `disk`, `futex`, `sleep` (nanosleep),
    /// `poll` (epoll, poll, select), `fsync`, `accept`, `receive`, `send`, `other`.
    pub states: BTreeMap<String, f64>,
}

/// Everything a point used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Interval by interval, on the load's own time axis.
    pub seconds: Vec<ResourceSecond>,
    /// The threads that did anything, busiest first, at most 64.
    pub threads: Vec<ThreadUse>,
}
