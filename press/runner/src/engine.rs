//! The load generator: threads with an event loop, connections and histograms of their own.
//!
//! A [`crew`] of threads opens the connections once and then offers one load after the other on them. Its [`threads`] are in
//! this process, or in several other [`processes`] that take orders by [`message`]s. Nothing on the path of a request is
//! shared, locked or allocated. Its invariant: every request taken from a schedule or a fixed number is counted
//! once, and nothing a server does stops a thread from ending when it is told to.

mod client_thread;
mod connecting;
mod connection;
mod counting;
pub(crate) mod crew;
mod handshake;
mod in_process_thread;
pub(crate) mod message;
mod offer;
mod poller;
mod processes;
mod receiving;
mod sending;
mod threads;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use millpond_press_recorder::{Live, Silence, Tally};
pub(crate) use offer::{Offer, Part};
use serde::{Deserialize, Serialize};

use crate::check::Checker;
use crate::system::monotonic_ns;
use crate::tls::Tls;

/// How often another process tells its figures: at every multiple of this.
pub(crate) const FIGURES_NS: u64 = 25_000_000;
/// Readings of two clocks, of which the closest pair counts.
const READINGS: usize = 9;

/// Nanoseconds since a moment that all threads share, those of other processes too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock {
            epoch: Instant::now(),
        }
    }

    /// The clock whose 0 is at this reading of the system's own.
    pub(crate) fn of(epoch_ns: u64) -> io::Result<Clock> {
        let (at, ns) = both_clocks()?;
        let since = Duration::from_nanos(ns.saturating_sub(epoch_ns));
        let epoch = at.checked_sub(since);
        Ok(Clock {
            epoch: epoch.ok_or_else(|| io::Error::other("the clock of the press is not this machine's"))?,
        })
    }

    /// Its 0 as the system's own clock reads it.
    pub(crate) fn epoch_ns(&self) -> io::Result<u64> {
        let (at, ns) = both_clocks()?;
        let since = at.saturating_duration_since(self.epoch);
        Ok(ns.saturating_sub(since.as_nanos() as u64))
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// One moment by both clocks, as well as it can be told.
fn both_clocks() -> io::Result<(Instant, u64)> {
    let mut closest = (Duration::MAX, Instant::now(), 0);
    for _ in 0..READINGS {
        let before = Instant::now();
        let ns = monotonic_ns()?;
        let width = before.elapsed();
        if width < closest.0 {
            closest = (width, before + width / 2, ns);
        }
    }
    Ok((closest.1, closest.2))
}

/// What all threads of a load generator share, and none of them changes.
pub(crate) struct Plan<P> {
    pub(crate) protocol: Arc<P>,
    pub(crate) checker: Arc<Checker>,
    /// Where to; nothing for targets in process.
    pub(crate) address: Option<SocketAddr>,
    /// What connections begin with, where they are encrypted.
    pub(crate) tls: Option<Tls>,
    /// Where connections come from, in turn; empty: wherever the system likes.
    pub(crate) source_addresses: Vec<IpAddr>,
    pub(crate) seed: u64,
    /// Whether requests go out in the order of the set, from a start of its own for each connection.
    pub(crate) in_sequence: bool,
    /// The operation of each request; empty when there is one.
    pub(crate) operation_of: Arc<Vec<u16>>,
    pub(crate) operations: usize,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// All of them, those of other processes too.
    pub(crate) client_threads: usize,
    pub(crate) client_cpus: Vec<usize>,
    pub(crate) connect_parallel: usize,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes_max: usize,
    pub(crate) clock: Clock,
}

/// How much is sent, once it is measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Amount {
    /// So many requests on each connection.
    Requests(u64),
    For(Duration),
}

/// One load, as one thread gets it.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// When sending begins.
    pub(crate) begin: u64,
    pub(crate) amount: Amount,
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
}

/// What a thread says, or the listener to another process.
pub(crate) enum Report {
    /// Its connections are up, or have failed to come up.
    Ready {
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
    Lost { at: usize, said: Option<String> },
}

/// What one thread hands over after a load.
#[derive(Serialize, Deserialize)]
pub(crate) struct Handed {
    pub(crate) tally: Tally,
    /// When its last measured request ended.
    pub(crate) last_end: Option<u64>,
    /// Requests sent in the measurement.
    pub(crate) sent: u64,
    /// Answers before the measurement, and requests that failed before it.
    pub(crate) warm_up_answers: u64,
    pub(crate) warm_up_failed: u64,
    /// Time spent in the measurement looking for work that was not there.
    pub(crate) idle: Duration,
    /// Where it got no answer; none where it has no connections.
    pub(crate) silences: Vec<Silence>,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_clock_that_went_through_its_epoch_tells_the_same_time() {
        let clock = Clock::start();
        let same = Clock::of(clock.epoch_ns().unwrap()).unwrap();
        // Whatever happens between two readings, they come in order, but for what the conversion cannot tell.
        let slack = 1_000_000;
        let (first, then, last) = (clock.now(), same.now(), clock.now());
        assert!(
            first <= then + slack && then <= last + slack,
            "{first} {then} {last}"
        );
        assert!(Clock::of(u64::MAX).unwrap().now() < 1_000_000_000);
    }
}
