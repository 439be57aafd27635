//! A line a second on stderr, so that a long run is seen to go on.
//!
//! Its invariant: nothing here changes what is measured; figures are recent, not exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use millpond_press_recorder::Live;

/// The progress of one point.
pub(crate) struct Progress {
    /// Whether lines are written at all.
    shown: bool,
    /// What the point is, such as `redis, log_level = 2, 100 connections`.
    name: String,
    /// Answers, refusals and failures at the last line, and its time.
    last: ([u64; 3], Instant),
    /// Refusals and failures when the measurement began.
    before: [u64; 3],
}

impl Progress {
    pub(crate) fn new(shown: bool, name: String) -> Progress {
        Progress {
            shown,
            name,
            last: ([0; 3], Instant::now()),
            before: [0; 3],
        }
    }

    /// Writes how many connections are up.
    pub(crate) fn connecting(&self, lives: &[Arc<Live>], connections: usize) {
        if self.shown {
            let up = sum(lives, |live| &live.connected);
            eprintln!("press: {}: connecting, {up} of {connections}", self.name);
        }
    }

    /// The rate is counted from here.
    pub(crate) fn start(&mut self, lives: &[Arc<Live>]) {
        self.before = counts(lives);
        self.last = (self.before, Instant::now());
    }

    /// Writes the rate since the last line, and the trouble since the start.
    pub(crate) fn sending(&mut self, lives: &[Arc<Live>]) {
        let (now, counts) = (Instant::now(), counts(lives));
        let (counts_before, then) = std::mem::replace(&mut self.last, (counts, now));
        let seconds = (now - then).as_secs_f64();
        // The rest of a second at the end is too short for a rate.
        if !self.shown || seconds < 0.2 {
            return;
        }
        let rate = (counts[0] - counts_before[0]) as f64 / seconds;
        // Percentiles of threads cannot be added; the worst is shown.
        let p99 = match lives.iter().map(|live| live.us_p99.load(Relaxed)).max() {
            None | Some(0) => "n/a".to_owned(),
            Some(us) => format!("{us} us"),
        };
        let [_, refused, failed] = [0, 1, 2].map(|at| counts[at] - self.before[at]);
        eprintln!(
            "press: {}: {rate:.0}/s, p99 {p99}, refused {refused}, errors {failed}",
            self.name
        );
    }
}

fn counts(lives: &[Arc<Live>]) -> [u64; 3] {
    [
        sum(lives, |live| &live.answers),
        sum(lives, |live| &live.refused),
        sum(lives, |live| &live.failed),
    ]
}

fn sum(lives: &[Arc<Live>], figure: impl Fn(&Live) -> &AtomicU64) -> u64 {
    lives.iter().map(|live| figure(live).load(Relaxed)).sum()
}
