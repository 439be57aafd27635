//! What the delays really were: drawn, and achieved from the end of the read to the beginning of the write.
//!
//! Its invariant: a sample is one answered request, in both lists at the same place.

use crate::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread keeps so many (256 MiB) and counts the rest.
const SAMPLES_MAX: usize = 16 * 1024 * 1024;

/// The delays of one serving thread.
#[derive(Default)]
pub(crate) struct Samples {
    drawn_ns: Vec<u64>,
    achieved_ns: Vec<u64>,
    /// Answers beyond what is kept.
    left_out: u64,
}

impl Samples {
    pub(crate) fn add(&mut self, drawn_ns: u64, achieved_ns: u64) {
        if self.drawn_ns.len() < SAMPLES_MAX {
            self.drawn_ns.push(drawn_ns);
            self.achieved_ns.push(achieved_ns);
        } else {
            self.left_out += 1;
        }
    }
}

/// Samples that the thread adds to and the end of the server reads.
pub(crate) type SharedSamples = Arc<Mutex<Samples>>;

/// The file that tells the delays once the server has ended.
pub(crate) struct Truth {
    path: PathBuf,
    parts: Vec<SharedSamples>,
}

impl Truth {
    /// Makes the file, so that one that cannot be written is told before the run and not after it.
    pub(crate) fn create(path: PathBuf) -> Result<Truth, Error> {
        let truth = Truth {
            path,
            parts: Vec::new(),
        };
        truth.write_text("")?;
        Ok(truth)
    }

    /// A list for one more serving thread.
    pub(crate) fn part(&mut self) -> SharedSamples {
        let part = SharedSamples::default();
        self.parts.push(Arc::clone(&part));
        part
    }

    /// Writes the file.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let mut all = Samples::default();
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            all.drawn_ns.append(&mut part.drawn_ns);
            all.achieved_ns.append(&mut part.achieved_ns);
            all.left_out += std::mem::take(&mut part.left_out);
        }
        let drawn = summary(&mut all.drawn_ns);
        let achieved = summary(&mut all.achieved_ns);
        let left_out = all.left_out;
        self.write_text(&format!(
            "{{\n  \"format\": 1,\n  \"drawn\": {drawn},\n  \"achieved\": {achieved},\n  \"left_out\": {left_out}\n}}\n"
        ))
    }

    fn write_text(&self, text: &str) -> Result<(), Error> {
        fs::write(&self.path, text).map_err(|source| Error::File {
            path: self.path.clone(),
            source,
        })
    }
}

/// The percentiles of a list as a JSON object; those of an empty list are null.
/// A percentile is the smallest value that at least that share of all values does not exceed.
fn summary(values_ns: &mut [u64]) -> String {
    values_ns.sort_unstable();
    let count = values_ns.len();
    let at = |per_mille: usize| values_ns.get((per_mille * count).div_ceil(1000).max(1) - 1);
    let us = |ns: Option<&u64>| ns.map_or("null".to_owned(), |ns| format!("{}.{:03}", ns / 1000, ns % 1000));
    let mut text = format!("{{ \"count\": {count}");
    for (name, per_mille) in [
        ("p50", 500),
        ("p90", 900),
        ("p95", 950),
        ("p99", 990),
        ("p99_9", 999),
        ("max", 1000),
    ] {
        // Writing into a text does not fail.
        let _written = write!(text, ", \"us_{name}\": {}", us(at(per_mille)));
    }
    let sum: u128 = values_ns.iter().map(|&ns| u128::from(ns)).sum();
    let mean_ns = sum.checked_div(count as u128).map(|mean| mean as u64);
    text + &format!(", \"us_mean\": {} }}", us(mean_ns.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let check = |mut values: Vec<u64>, expected: &str| assert_eq!(summary(&mut values), expected);
        check(
            (1..=1000).rev().map(|us| us * 1000).collect(),
            "{ \"count\": 1000, \"us_p50\": 500.000, \"us_p90\": 900.000, \"us_p95\": 950.000, \"us_p99\": 990.000, \
             \"us_p99_9\": 999.000, \"us_max\": 1000.000, \"us_mean\": 500.500 }",
        );
        check(
            vec![1_001, 2_500],
            "{ \"count\": 2, \"us_p50\": 1.001, \"us_p90\": 2.500, \"us_p95\": 2.500, \"us_p99\": 2.500, \
             \"us_p99_9\": 2.500, \"us_max\": 2.500, \"us_mean\": 1.750 }",
        );
        check(
            vec![],
            "{ \"count\": 0, \"us_p50\": null, \"us_p90\": null, \"us_p95\": null, \"us_p99\": null, \
             \"us_p99_9\": null, \"us_max\": null, \"us_mean\": null }",
        );
    }
}
