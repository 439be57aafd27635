//! One target with its connections up: loads are offered on it one after the other, without connecting again.
//!
//! Its invariant: a session that opened has at least one connection, and offers nothing by itself.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use millpond_press_recorder::{kernel_slab_bytes, memory_bytes, process_tree};
use millpond_press_verdict::Held;
use tokio::sync::watch;

use crate::Error;
use crate::crew::message::Task;
use crate::crew::{Connected, Crew};
use crate::measure::{Measured, Watched, measure};
use crate::progress::Progress;
use crate::scenario::{Load, TargetPlan};
use millpond_press_load::{Clock, Offer, Part, Plan};

/// Connects whose shortest stands for the way to the server and back, and how long one may take.
const CONNECTS: usize = 3;
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// A crew and what it needs to be measured.
pub(crate) struct Session {
    crew: Crew,
    clock: Clock,
    /// Nothing for a target in this process.
    opening: Option<Opened>,
}

/// What was found while the connections were opened.
struct Opened {
    connections: u64,
    took: Duration,
    connect_us_min: Option<f64>,
    /// Before the first of them.
    server_bytes: Option<u64>,
    kernel_bytes: Option<u64>,
}

/// How a session is opened.
pub(crate) struct Opening<'a> {
    pub(crate) connecting: Connecting<'a>,
    pub(crate) source: Source<'a>,
    /// The server's process, whose memory is watched.
    pub(crate) server_pid: Option<u32>,
    /// Whether the way to the server is measured with a few connections that ask nothing.
    pub(crate) asks_way: bool,
    pub(crate) shown: bool,
}

/// What connects where.
pub(crate) struct Connecting<'a> {
    pub(crate) target: &'a TargetPlan,
    pub(crate) load: &'a Load,
    pub(crate) seed: u64,
    pub(crate) connections: usize,
}

/// Where other processes take the same from.
pub(crate) struct Source<'a> {
    pub(crate) millpond: &'a Path,
    /// The scenario's file and the text that was read from it.
    pub(crate) scenario: &'a Path,
    pub(crate) text: &'a str,
    pub(crate) set: &'a [String],
    /// The target's number.
    pub(crate) target: usize,
}

impl Session {
    /// Starts the threads and opens the connections; nothing when someone stopped it meanwhile.
    pub(crate) async fn open(
        opening: &Opening<'_>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<Session>, Error> {
        let clock = Clock::start();
        let mut opened = opening.connecting.target.address.map(|address| Opened {
            connections: 0,
            took: Duration::ZERO,
            connect_us_min: opening.asks_way.then(|| connect_us_min(address)).flatten(),
            server_bytes: opening.server_pid.and_then(server_bytes),
            kernel_bytes: kernel_slab_bytes(),
        });
        let mut crew = opening.crew(clock)?;
        let begun = Instant::now();
        let Connecting {
            target, connections, ..
        } = opening.connecting;
        let progress = Progress::new(opening.shown, target.name.clone());
        let connected = crew
            .connected(stop, |lives| progress.connecting(lives, connections))
            .await?;
        if let Some(opened) = &mut opened {
            opened.took = begun.elapsed();
            let up = crew.lives.iter().map(|live| live.connected.load(Relaxed));
            opened.connections = up.sum();
        }
        match connected {
            Connected::Up => Ok(Some(Session {
                crew,
                clock,
                opening: opened,
            })),
            Connected::Interrupted => Ok(None),
            Connected::None(reason) => Err(Error::Absent {
                address: target.address_text.clone(),
                reason,
            }),
        }
    }

    /// Offers one load.
    pub(crate) async fn offer(
        &mut self,
        offer: &Offer,
        watched: &Watched,
        progress: &mut Progress,
        stop: &watch::Receiver<bool>,
    ) -> Result<Measured, Error> {
        measure(&mut self.crew, self.clock, offer, watched, progress, stop).await
    }

    /// What the connections took and keep, after a load on them.
    pub(crate) fn held(&self, measured: &Measured) -> Option<Held> {
        let opened = self.opening.as_ref()?;
        // Memory that shrank meanwhile says nothing of the connections.
        let grown = |before: Option<u64>, now: Option<u64>| now?.checked_sub(before?);
        Some(Held {
            opened: opened.connections,
            opening_s: opened.took.as_secs_f64(),
            server_bytes: grown(opened.server_bytes, measured.point.server_memory_bytes),
            kernel_bytes: grown(opened.kernel_bytes, measured.kernel_slab_bytes),
            server_connections: measured.server_connections,
            server_calls: measured.server_calls,
            connect_us_min: opened.connect_us_min,
            server_call_us_mean: measured.server_call_us_mean,
            server_queue_us_mean: measured.server_queue_us_mean,
        })
    }

    /// Threads of the load generator.
    pub(crate) fn client_threads(&self) -> usize {
        self.crew.len()
    }
}

/// Resident memory of a process and its descendants.
pub(crate) fn server_bytes(pid: u32) -> Option<u64> {
    process_tree(pid).into_iter().map(memory_bytes).sum()
}

/// The shortest of a few connects, which the kernels of both ends answer alone, as they do pings.
fn connect_us_min(address: SocketAddr) -> Option<f64> {
    let connect = |_| {
        let begun = Instant::now();
        let connected = TcpStream::connect_timeout(&address, CONNECT_MAX);
        connected.ok().map(|_| begun.elapsed().as_secs_f64() * 1e6)
    };
    (0..CONNECTS).filter_map(connect).reduce(f64::min)
}

impl Opening<'_> {
    /// The threads of a session, in this process or in as many as the scenario says.
    fn crew(&self, clock: Clock) -> Result<Crew, Error> {
        let connecting = &self.connecting;
        let processes = connecting.load.processes(connecting.connections);
        let Some(address) = connecting.target.address.filter(|_| processes > 1) else {
            return connecting.crew(clock, Part::WHOLE);
        };
        let epoch_ns = clock
            .epoch_ns()
            .map_err(|error| Error::ClientProcess(error.to_string()))?;
        let source = &self.source;
        let task = |index| Task {
            scenario: source.scenario.to_owned(),
            text: source.text.to_owned(),
            set: source.set.to_vec(),
            target: source.target,
            address,
            connections: connecting.connections,
            part: Part { index, of: processes },
            epoch_ns,
        };
        let tasks: Vec<Task> = (0..processes).map(task).collect();
        let threads = connecting.load.threads(connecting.connections);
        Crew::start_apart(source.millpond, &tasks, threads)
    }
}

impl Connecting<'_> {
    /// Those threads of a session that are in `part`.
    pub(crate) fn crew(&self, clock: Clock, part: Part) -> Result<Crew, Error> {
        Crew::start(self.target.prepared.as_ref(), self.plan(clock), part)
    }

    fn plan(&self, clock: Clock) -> Plan {
        let (target, load) = (self.target, self.load);
        Plan {
            checker: target.checker.clone(),
            address: target.address,
            tls: target.tls.clone(),
            source_addresses: load.keys.source_addresses.clone(),
            seed: self.seed,
            in_sequence: target.in_sequence,
            operation_of: target.operation_of.clone(),
            operations: target.operations.len(),
            connections: self.connections,
            in_flight: load.in_flight(target.kind.takes, &target.own),
            client_threads: match target.kind.takes.program {
                // It speaks with the program, whose callers the connections are.
                true => 1,
                false => load.threads(self.connections),
            },
            client_cpus: load.client_cpus(&target.own).to_vec(),
            connect_parallel: load.keys.connect_parallel,
            timeout: target.timeout,
            answer_bytes_max: target.answer_bytes_max,
            clock,
        }
    }
}

/// Keys written at a time.
const FILL_KEYS: u64 = 100_000;

/// Writes every key of the scenario into a target, before anything is measured.
pub(crate) fn fill(target: &TargetPlan, shown: bool) -> Result<(), Error> {
    let Some(fill) = &target.fill else { return Ok(()) };
    let mut first = 0;
    while first < fill.keys {
        let end = (first + FILL_KEYS).min(fill.keys);
        let written = fill.write(target, first..end);
        written.map_err(|reason| Error::target(&target.name, &reason))?;
        first = end;
        if shown {
            eprintln!("press: {}: filled {first} of {} keys", target.name, fill.keys);
        }
    }
    Ok(())
}
