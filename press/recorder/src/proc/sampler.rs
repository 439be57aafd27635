//! Makes figures by the second of what `/proc` says.
//!
//! Its invariant: every figure is of the interval between two calls by this process's own clock, so a late call makes the
//! interval longer and no figure wrong.

use std::time::Instant;

use super::accelerator::{self, Nvml};
use super::host::{self, Counted};
use super::machine::{SocketQueues, distinct};
use super::reader::Reader;
use super::threads::Threads;
use crate::{LoadAverage, ResourceSecond, Resources, Side, Used};

/// Threads that a result names.
const THREADS_MAX: usize = 64;

/// The shortest interval that is divided by.
const SECONDS_MIN: f64 = 1e-6;

/// Watches the processes of both sides.
///
/// One thread owns it: it calls [`Sampler::tick_states`] some twenty times and [`Sampler::second`] once a second.
#[derive(Debug)]
pub struct Sampler {
    server: Vec<u32>,
    client: Vec<u32>,
    /// The server's port, whose queues are read; nothing once the table of sockets proved too large.
    port: Option<u16>,
    threads: Threads,
    reader: Reader,
    nvml: Option<&'static Nvml>,
    started: Instant,
    /// When the last interval ended, and the counters then.
    last: Instant,
    counted: Counted,
    seconds: Vec<ResourceSecond>,
}

impl Sampler {
    /// Watches the server's processes with all their descendants, the load generator's processes, and the queues of the
    /// server's `port`. Processes that are on other machines are left out by giving no number for them. Counting begins
    /// here, and again at [`Sampler::start`].
    pub fn new(server_pids: Vec<u32>, client_pids: Vec<u32>, port: Option<u16>) -> Sampler {
        let server = distinct(server_pids);
        let mut client = distinct(client_pids);
        client.retain(|pid| !server.contains(pid));
        let now = Instant::now();
        let mut sampler = Sampler {
            server,
            client,
            port,
            threads: Threads::default(),
            reader: Reader::default(),
            nvml: accelerator::nvml(),
            started: now,
            last: now,
            counted: Counted::default(),
            seconds: Vec::new(),
        };
        sampler.start();
        sampler
    }

    /// Begins to count anew: call it when the clock of the point starts.
    pub fn start(&mut self) {
        self.read(true);
        self.started = self.last;
        self.seconds.clear();
    }

    /// Looks once at what each thread of both sides does; of a side, at most 64 threads are looked at.
    pub fn tick_states(&mut self) {
        self.threads.look();
    }

    /// The figures since the last call or the start, which [`Sampler::finish`] gives again; `s` is the end of the interval
    /// on the load's time axis, in seconds.
    pub fn second(&mut self, s: f64) -> ResourceSecond {
        let (from, before) = (self.last, self.counted);
        self.read(false);
        let seconds = (self.last - from).as_secs_f64().max(SECONDS_MIN);
        let mut second = ResourceSecond {
            s,
            server: self.threads.used(Side::Server, seconds),
            client: self.threads.used(Side::Client, seconds),
            load_minute_1: LoadAverage::read().map(|load| load.minute_1),
            ..ResourceSecond::default()
        };
        fill_machine(&mut second, &before, &self.counted, seconds);
        if let Some(queues) = self.queues() {
            second.accept_queue = queues.accept;
            second.server_receive_queue_bytes = Some(queues.receive_bytes);
            second.send_queue_bytes = Some(queues.send_bytes);
        }
        if let Some(used) = self.nvml.and_then(Nvml::read) {
            second.accelerator_percent = Some(used.percent);
            second.accelerator_memory_bytes = Some(used.memory_bytes);
        }
        self.seconds.push(second.clone());
        second
    }

    /// Everything since the start, up to the last call of [`Sampler::second`] or, if there was none, up to now.
    pub fn finish(mut self) -> Resources {
        if self.seconds.is_empty() {
            self.read(false);
        }
        let seconds = (self.last - self.started).as_secs_f64().max(SECONDS_MIN);
        Resources {
            seconds: self.seconds,
            threads: self.threads.uses(seconds, THREADS_MAX),
        }
    }

    fn read(&mut self, is_start: bool) {
        self.threads
            .scan(&self.server, &self.client, is_start, &mut self.reader);
        self.counted = Counted::read(&self.server, &mut self.reader);
        self.last = Instant::now();
    }

    fn queues(&mut self) -> Option<SocketQueues> {
        let queues = host::socket_queues(
            &self.server,
            self.port?,
            host::SOCKETS_BYTES_MAX,
            &mut self.reader,
        );
        if queues.is_none() {
            // Thousands of connections rarely go away: reading on would cost the kernel a walk a second for nothing.
            self.port = None;
        }
        queues
    }
}

/// The figures of the machine and its network between two readings.
fn fill_machine(second: &mut ResourceSecond, before: &Counted, now: &Counted, seconds: f64) {
    let ticks = |of: fn(&super::machine::MachineTicks) -> u64| {
        // Ticks of 1/100 s: as many a second are as many percent.
        host::rate(now.ticks.as_ref().map(of), before.ticks.as_ref().map(of), seconds)
    };
    second.machine_percent = ticks(|ticks| ticks.busy);
    second.steal_percent = ticks(|ticks| ticks.steal);
    let cpu = |used: Option<Used>| used.map_or(0.0, |used| used.cpu_percent);
    let ours = cpu(second.server) + cpu(second.client);
    second.foreign_percent = second
        .machine_percent
        .zip(ticks(|ticks| ticks.interrupts))
        .map(|(busy, interrupts)| (busy - ours - interrupts).max(0.0));
    second.rx_bytes = host::rate(now.rx_bytes, before.rx_bytes, seconds);
    second.tx_bytes = host::rate(now.tx_bytes, before.tx_bytes, seconds);
    second.retransmits = host::rate(now.retransmits, before.retransmits, seconds);
    second.listen_overflows = host::rate(now.listen_overflows, before.listen_overflows, seconds);
}

#[cfg(test)]
mod tests;
