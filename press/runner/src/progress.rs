//! A line a second on stderr, so that a long run is seen to go on.
//!
//! Its invariant: nothing here changes what is measured; figures are recent, not exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millpond_press_recorder::Live;
use millpond_press_report::Second;

/// The progress of one point.
pub(crate) struct Progress {
    /// Whether lines are written at all.
    shown: bool,
    /// What the point is, such as `log_level = 2, 100 connections`.
    name: String,
    threads: Vec<Arc<Live>>,
    /// The counts and the time of the last line, for the rate between two lines.
    last: (u64, Instant),
}

impl Progress {
    pub(crate) fn new(shown: bool, name: String, threads: Vec<Arc<Live>>) -> Progress {
        Progress {
            shown,
            name,
            threads,
            last: (0, Instant::now()),
        }
    }

    /// Writes how many connections are up.
    pub(crate) fn connecting(&self, connections: usize) {
        if self.shown {
            let up = self.sum(|live| &live.connected);
            eprintln!("press: {}: connecting, {up} of {connections}", self.name);
        }
    }

    /// Writes the rate since the last line, and the trouble so far.
    pub(crate) fn sending(&mut self) {
        let now = Instant::now();
        let answers = self.sum(|live| &live.answers);
        let (answers_before, then) = std::mem::replace(&mut self.last, (answers, now));
        if !self.shown {
            return;
        }
        let rate = (answers.saturating_sub(answers_before)) as f64 / (now - then).as_secs_f64().max(1e-9);
        // Percentiles of threads cannot be added; the worst is shown.
        let p99 = match self.threads.iter().map(|live| live.us_p99.load(Relaxed)).max() {
            None | Some(0) => "n/a".to_owned(),
            Some(us) => format!("{us} us"),
        };
        let refused = self.sum(|live| &live.refused);
        let failed = self.sum(|live| &live.failed);
        eprintln!(
            "press: {}: {rate:.0}/s, p99 {p99}, refused {refused}, errors {failed}",
            self.name
        );
    }

    /// The rate is counted from here.
    pub(crate) fn start(&mut self, start: Instant) {
        self.last = (0, start);
    }

    /// The counts so far, for the series.
    pub(crate) fn second(&self, since_start: Duration) -> Second {
        Second {
            s: since_start.as_secs_f64(),
            answers: self.sum(|live| &live.answers),
            refused: self.sum(|live| &live.refused),
            failed: self.sum(|live| &live.failed),
        }
    }

    fn sum(&self, figure: impl Fn(&Live) -> &AtomicU64) -> u64 {
        self.threads.iter().map(|live| figure(live).load(Relaxed)).sum()
    }
}
