//! What the threads of a load generator share, what they are told, and what they hand over.
//!
//! Nothing is done here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use millpond_press_recorder::{Live, Silence, Tally};
use serde::{Deserialize, Serialize};

use crate::{Checker, Clock, Tls};

/// What all threads of a load generator share, and none of them changes.
pub struct Plan {
    /// What a right answer is.
    pub checker: Arc<Checker>,
    /// Where to; nothing for targets in process.
    pub address: Option<SocketAddr>,
    /// What connections begin with, where they are encrypted.
    pub tls: Option<Tls>,
    /// Where connections come from, in turn; empty: wherever the system likes.
    pub source_addresses: Vec<IpAddr>,
    /// What the order of each connection's requests is derived from.
    pub seed: u64,
    /// Whether requests go out in the order of the set, from a start of its own for each connection.
    pub in_sequence: bool,
    /// The operation of each request; empty when there is one.
    pub operation_of: Arc<Vec<u16>>,
    /// How many operations there are; 0 where they have no names.
    pub operations: usize,
    /// Connections of all threads.
    pub connections: usize,
    /// Requests a connection keeps outstanding at most.
    pub in_flight: usize,
    /// All of them, those of other processes too.
    pub client_threads: usize,
    /// The core of each thread, in turn; empty: anywhere.
    pub client_cpus: Vec<usize>,
    /// Connections being made at the same time.
    pub connect_parallel: usize,
    /// How long a request, or a connection attempt, may take.
    pub timeout: Duration,
    /// The largest answer that is awaited.
    pub answer_bytes_max: usize,
    /// The load's clock.
    pub clock: Clock,
}

/// How much is sent, once it is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Amount {
    /// So many requests on each connection.
    Requests(u64),
    /// As many as there are in this time.
    For(Duration),
}

/// One load, as one thread gets it.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// When sending begins.
    pub(crate) begin: u64,
    pub(crate) amount: Amount,
    /// How long after the end of a schedule what waited until then may still be sent.
    pub(crate) late_max: Duration,
    pub(crate) pace: Pace,
}

/// What decides when a request is sent.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    /// The answer before it, and a pause.
    Closed { think_ns: u64 },
    /// A schedule: nanoseconds from the begin of the warm-up, and from the start of the measurement.
    Open { warm_up: Vec<u64>, measured: Vec<u64> },
}

/// What a thread is told.
pub(crate) enum Command {
    /// Offer this load; when it is over, hand the tally over and wait.
    Offer(Phase),
    /// Close everything and end.
    Leave,
}

/// What all threads see at once.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Commands sent so far, so that a thread looks for one only when there is one.
    pub(crate) commands: AtomicU64,
    /// When the measurement begins; 0 while that is not known.
    pub(crate) measure_from: AtomicU64,
    /// Drop everything.
    pub(crate) stop: AtomicBool,
    /// The process of a program that makes the calls; 0 where there is none.
    pub(crate) program: AtomicU32,
}

/// What a thread says, or the listener to another process.
pub enum Report {
    /// Its connections are up, or have failed to come up.
    Ready {
        /// Connections that are up.
        opened: u64,
        /// Why the first of the others did not open.
        failure: Option<String>,
    },
    /// One load is over.
    Done(Box<Handed>),
    /// It cannot go on.
    Broken(String),
    /// A process made ready for a load.
    Prepared,
    /// The process at this place is gone, with these last words.
    Lost {
        /// Its place among the processes.
        at: usize,
        /// What it said last, if it did.
        said: Option<String>,
    },
}

/// What one thread hands over after a load.
#[derive(Serialize, Deserialize)]
pub struct Handed {
    /// Its counts and histograms.
    pub tally: Tally,
    /// When its last measured request ended.
    pub last_end: Option<u64>,
    /// Requests sent in the measurement.
    pub sent: u64,
    /// Answers before the measurement.
    pub warm_up_answers: u64,
    /// Requests that failed before the measurement.
    pub warm_up_failed: u64,
    /// Time spent in the measurement looking for work that was not there.
    pub idle: Duration,
    /// Where it got no answer; none where it has no connections.
    pub silences: Vec<Silence>,
}

/// What a thread needs to speak with the crew.
pub(crate) struct Line {
    /// Its number among all threads, those of other processes too.
    pub(crate) index: usize,
    pub(crate) commands: std::sync::mpsc::Receiver<Command>,
    pub(crate) reports: tokio::sync::mpsc::Sender<Report>,
    pub(crate) control: Arc<Control>,
    pub(crate) live: Arc<Live>,
}
