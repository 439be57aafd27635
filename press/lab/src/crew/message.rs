//! What a press and the processes of its load generator say to each other: one JSON object a line.
//!
//! Nothing is sent here. Its invariant: whatever decides what a request is and when it is due is in a [`Task`] or an
//! [`Offer`], so that a process needs nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millpond_press_recorder::Live;
use serde::{Deserialize, Serialize};

use millpond_press_load::{Handed, Offer, Part};

/// How often another process tells its figures: at every multiple of this.
pub(crate) const FIGURES_NS: u64 = 25_000_000;

/// What a process is a part of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The scenario's file, for messages, and the text that was read from it.
    pub(crate) scenario: PathBuf,
    pub(crate) text: String,
    pub(crate) set: Vec<String>,
    pub(crate) target: usize,
    /// The target's address, which a name may give differently each time it is asked.
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) part: Part,
    /// Where the load's clock is 0, in nanoseconds of the system's own.
    pub(crate) epoch_ns: u64,
}

/// A line to a process. The end of the input is the farewell.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Connect; this comes first.
    Take(Box<Task>),
    /// Make ready for this load, and say so.
    Prepare(Offer),
    /// Offer it.
    Begin { begin: u64, measure_from: u64 },
    /// Now it is known when the measurement begins.
    MeasureFrom(u64),
    /// Drop everything and hand over.
    Stop,
}

/// A line from a process.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// As [`millpond_press_load::Report::Ready`], of one thread.
    Ready { opened: u64, failure: Option<String> },
    /// The load of [`Order::Prepare`] can begin.
    Prepared,
    /// The figures of its threads.
    Live(Vec<[u64; FIGURES]>),
    /// As [`millpond_press_load::Report::Done`], of one thread.
    Done(Box<Handed>),
    /// It cannot go on.
    Broken(String),
}

const FIGURES: usize = 8;

fn figures(live: &Live) -> [&AtomicU64; FIGURES] {
    [
        &live.connected,
        &live.answers,
        &live.refused,
        &live.failed,
        &live.sent,
        &live.outstanding,
        &live.latency_ns_sum,
        &live.us_p99,
    ]
}

/// The figures of one thread, as [`Said::Live`] tells them.
pub(crate) fn told(live: &Live) -> [u64; FIGURES] {
    figures(live).map(|figure| figure.load(Relaxed))
}

/// Lays down what was told of one thread.
pub(crate) fn lay_down(live: &Live, told: [u64; FIGURES]) {
    for (figure, value) in figures(live).into_iter().zip(told) {
        figure.store(value, Relaxed);
    }
}
