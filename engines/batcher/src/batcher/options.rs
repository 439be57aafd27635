//! The keys of a model that say how it is run, and what no batcher can run with.
//!
//! It reads no file and knows no model. Its invariant: a refusal names the key, what was found and what is expected.

use super::ragged::{self, Ragged};
use super::sizes;
use serde::Deserialize;

/// How a model is run: these keys of `[models.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatcherOptions {
    /// Threads that run the model, each with an instance of its own; at most 1,024.
    pub instances: usize,
    /// Rows a run takes at most. A single request with more runs in chunks of it. A model without a batch runs one request at a time,
    /// and one that takes requests as they are so many requests.
    pub batch_size_max: usize,
    /// Row counts that runs have, ascending: a run of others is padded up to the next one by copies of its last row, which are cut off its outputs, and a batch is cut
    /// so that it fills one where that is not much smaller. The largest bounds runs as `batch_size_max` does. Empty: any number.
    pub batch_sizes: Vec<usize>,
    /// What becomes of requests that wait together and whose rows differ in length.
    pub ragged: Ragged,
    /// What a shorter row is padded with, of any type: with `ragged = "pad"`.
    pub pad_value: i64,
    /// Lengths that rows are padded to, ascending, the next one that holds them; a longer row keeps its length. Empty: to the longest of their run.
    pub pad_lengths: Vec<usize>,
    /// Microseconds that a free instance may wait for a batch to fill, from the submission of its first request, while measured arrivals say that it
    /// will fill in that time. 0: it never does.
    pub batch_delay_us_max: u64,
    /// Maximum requests that wait while all instances are busy. 0: no request waits.
    pub queue_max: usize,
    /// Bytes that requests may hold together while they wait and run, see [`Request::bytes`](super::Request::bytes); one that holds more is
    /// refused whatever waits. A run takes as much again for the rows that it joins.
    pub queue_bytes_max: usize,
    /// A thread runs what its turn asks of the model itself ([`Sweep`](super::Sweep)) while that is expected to take no longer, by what runs have
    /// taken; a run that uses ten times as much of the processor ends that for good. 0, or sizes that callers choose beside the batch: instances run everything.
    pub inline_us_max: u64,
    /// Row counts to run before the first request; 1, 16 and `batch_size_max` when left out.
    pub warm_up: Option<Vec<usize>>,
    /// Instance `i` runs on `cpus[i % cpus.len()]` only. Empty: wherever the kernel likes.
    #[serde(skip)]
    pub cpus: Vec<usize>,
}

/// Upper limit of `instances`.
const INSTANCES_MAX: usize = 1024;
/// Upper limit of `batch_delay_us_max`.
const BATCH_DELAY_US_MAX: u64 = 10_000_000;

impl BatcherOptions {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &[
        "instances",
        "batch_size_max",
        "batch_sizes",
        "ragged",
        "pad_value",
        "pad_lengths",
        "batch_delay_us_max",
        "queue_max",
        "queue_bytes_max",
        "inline_us_max",
        "warm_up",
    ];
}

/// One instance, 256 rows in runs of any size, no wait for batches to fill, 4,096 waiting requests, 256 MiB of them, 200 us on the thread that asks, no pinning.
impl Default for BatcherOptions {
    fn default() -> BatcherOptions {
        BatcherOptions {
            instances: 1,
            batch_size_max: 256,
            batch_sizes: Vec::new(),
            ragged: Ragged::Bucket,
            pad_value: 0,
            pad_lengths: Vec::new(),
            batch_delay_us_max: 0,
            queue_max: 4096,
            queue_bytes_max: 256 << 20,
            inline_us_max: 200,
            warm_up: None,
            cpus: Vec::new(),
        }
    }
}

impl BatcherOptions {
    /// What no batcher can run with. `at` is the section, as in `models.ranker`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        for (key, found) in [
            ("batch_size_max", self.batch_size_max),
            ("instances", self.instances),
            ("queue_bytes_max", self.queue_bytes_max),
        ] {
            if found == 0 {
                return Err(format!("{at}.{key} is 0; expected at least 1"));
            }
        }
        if self.instances > INSTANCES_MAX {
            return Err(format!(
                "{at}.instances is {}; expected at most {INSTANCES_MAX}: each is a thread",
                self.instances
            ));
        }
        if self.batch_delay_us_max > BATCH_DELAY_US_MAX {
            return Err(format!(
                "{at}.batch_delay_us_max is {}; expected at most {BATCH_DELAY_US_MAX} (ten seconds)",
                self.batch_delay_us_max
            ));
        }
        sizes::check(&self.batch_sizes, self.batch_size_max, at)?;
        ragged::check(self, at)?;
        let most = self.rows_max();
        let unfit = |rows: &&usize| !(1..=most).contains(*rows);
        match self.warm_up.iter().flatten().find(unfit) {
            None => Ok(()),
            Some(rows) => Err(format!(
                "{at}.warm_up holds {rows}; expected rows from 1 to the most that a run takes ({most})"
            )),
        }
    }

    /// Rows that a run takes at most.
    pub(super) fn rows_max(&self) -> usize {
        let largest = self.batch_sizes.last().copied();
        self.batch_size_max.min(largest.unwrap_or(usize::MAX))
    }

    /// The row counts to run before the first request.
    pub fn warm_up_sizes(&self) -> Vec<usize> {
        if let (None, false) = (&self.warm_up, self.batch_sizes.is_empty()) {
            return self.batch_sizes.clone();
        }
        let most = self.rows_max();
        self.warm_up.clone().unwrap_or_else(|| {
            let mut sizes = vec![1, 16.min(most), most];
            sizes.dedup();
            sizes
        })
    }
}
