//! The log of an HdrHistogram: one line for each second of each thread, for `HistogramLogProcessor` and its relatives.
//!
//! ```text
//! #[StartTime: 1700000000.000 (seconds since epoch)]
//! #[BaseTime: 1700000000.000 (seconds since epoch)]
//! #[MaxValueDivisor: 1000000.000]
//! #[Intervals: 2]
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! Tag=thread-0,0.000,1.000,1.482,HISTFAAA…
//! Tag=thread-1,0.000,1.000,1.120,HISTFAAA…
//! ```
//!
//! Starts and lengths are seconds after BaseTime, maxima milliseconds, values inside the histograms nanoseconds. Intervals
//! is a comment of ours, so that a file cut between two lines is noticed. Its invariant: what is read back has the buckets
//! that were written.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use crate::Tally;
use crate::buckets::NS_MAX;

const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";

/// Writes the seconds of every tally, each under its tag, that began together at `start`. Tallies must be finished; tags
/// are written without commas and white space, which the format forbids.
///
/// # Errors
/// Those of `out`.
pub fn write_log(out: &mut impl Write, start: SystemTime, tallies: &[(String, &Tally)]) -> io::Result<()> {
    let since = start.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let intervals: usize = tallies.iter().map(|(_, tally)| tally.seconds.len()).sum();
    writeln!(out, "#[StartTime: {since:.3} (seconds since epoch)]")?;
    writeln!(out, "#[BaseTime: {since:.3} (seconds since epoch)]")?;
    writeln!(out, "#[MaxValueDivisor: 1000000.000]")?;
    writeln!(out, "#[Intervals: {intervals}]")?;
    writeln!(out, "{LEGEND}")?;
    let tags: Vec<String> = tallies.iter().map(|(tag, _)| plain(tag)).collect();
    let mut histogram = Histogram::<u64>::new_with_bounds(1, NS_MAX, 3).map_err(io::Error::other)?;
    let mut serializer = V2DeflateSerializer::new();
    let mut bytes = Vec::new();
    let seconds = tallies.iter().map(|(_, tally)| tally.seconds.len()).max();
    for second in 0..seconds.unwrap_or(0) {
        for (tag, (_, tally)) in tags.iter().zip(tallies) {
            let Some(of_thread) = tally.seconds.get(second) else {
                continue;
            };
            histogram.reset();
            for &(ns, samples) in &of_thread.latency.buckets {
                histogram.saturating_record_n(ns, samples);
            }
            bytes.clear();
            serializer
                .serialize(&histogram, &mut bytes)
                .map_err(|error| io::Error::other(error.to_string()))?;
            let ms_max = histogram.max() as f64 / 1e6;
            let payload = STANDARD.encode(&bytes);
            writeln!(out, "Tag={tag},{second}.000,1.000,{ms_max:.3},{payload}")?;
        }
    }
    Ok(())
}

fn plain(tag: &str) -> String {
    tag.replace(|c: char| c == ',' || c.is_whitespace(), "_")
}

#[cfg(test)]
mod reading;
#[cfg(test)]
mod tests;
