//! What a campaign did, counted: rounds, faults by kind, calls, puts.
//!
//! Its invariant: a count is of what happened, never of what was planned.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Counts of a campaign; threads share it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls sent by callers that behave.
    pub calls: AtomicU64,
    /// Calls answered with a result.
    pub answered: AtomicU64,
    /// Calls answered with an error that the faults explain.
    pub refused: AtomicU64,
    /// Calls whose connection closed instead.
    pub closed: AtomicU64,
    /// Puts acknowledged.
    pub puts: AtomicU64,
    /// Puts read back after a restart and found whole.
    pub puts_checked: AtomicU64,
    /// Most memory of a server and its processes, in bytes.
    pub resident_bytes_max: AtomicU64,
    /// Longest stop, in milliseconds.
    pub stop_ms_max: AtomicU64,
    /// Longest lie of `/readyz`, in milliseconds.
    pub lie_ms_max: AtomicU64,
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    /// Counts one of a kind: "round kill", "fault pause".
    pub fn count(&self, kind: impl Into<String>) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        *kinds.entry(kind.into()).or_default() += 1;
    }

    /// How many of a kind there were.
    pub fn of(&self, kind: &str) -> u64 {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(kind).copied().unwrap_or(0)
    }

    /// Adds to a count.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Raises a maximum.
    pub fn raise(maximum: &AtomicU64, value: u64) {
        maximum.fetch_max(value, Ordering::Relaxed);
    }

    /// Raises a maximum of milliseconds.
    pub fn raise_ms(maximum: &AtomicU64, took: Duration) {
        Tally::raise(maximum, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    /// The summary, a line a subject.
    pub fn summary(&self) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for prefix in ["round", "fault", "left out"] {
            let listed: Vec<String> = kinds
                .iter()
                .filter_map(|(kind, count)| Some(format!("{} {count}", kind.strip_prefix(prefix)?.trim())))
                .collect();
            if !listed.is_empty() {
                let _ = writeln!(text, "{prefix}s: {}", listed.join(", "));
            }
        }
        let _ = writeln!(
            text,
            "calls: {} sent, {} answered, {} refused, {} with a connection that closed",
            get(&self.calls),
            get(&self.answered),
            get(&self.refused),
            get(&self.closed)
        );
        let _ = writeln!(
            text,
            "puts: {} acknowledged, {} times one was looked for after a restart",
            get(&self.puts),
            get(&self.puts_checked)
        );
        let _ = writeln!(
            text,
            "most memory: {:.1} MiB; longest stop: {} ms; longest lie of /readyz: {} ms",
            get(&self.resident_bytes_max) as f64 / f64::from(1 << 20),
            get(&self.stop_ms_max),
            get(&self.lie_ms_max)
        );
        text
    }
}
