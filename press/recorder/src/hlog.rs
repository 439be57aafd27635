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

use std::io::{self, Read as _, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::latency::NS_MAX;
use crate::{Error, Latency, PackedLatency, Tally};

/// What a compressed histogram begins with.
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;

/// What stands before the counts.
const HEAD_BYTES: usize = 40;

/// More than the counts of a histogram of ours can take: nine bytes for each of 27 389, and the head.
const INFLATED_BYTES_MAX: u64 = 256 << 10;

const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// What recorded it, such as `thread-0`.
    pub tag: Option<String>,
    /// Seconds from the log's BaseTime to the start of the interval.
    pub start_s: f64,
    /// Length of the interval in seconds.
    pub length_s: f64,
    /// The latencies; sum and maximum as the buckets say.
    pub latency: PackedLatency,
}

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
    let mut scratch = Latency::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut bytes = Vec::new();
    let seconds = tallies.iter().map(|(_, tally)| tally.seconds.len()).max();
    for second in 0..seconds.unwrap_or(0) {
        for (tag, (_, tally)) in tags.iter().zip(tallies) {
            let Some(of_thread) = tally.seconds.get(second) else {
                continue;
            };
            scratch.clear();
            of_thread.latency.add_to(&mut scratch);
            bytes.clear();
            serializer
                .serialize(scratch.histogram(), &mut bytes)
                .map_err(|error| io::Error::other(error.to_string()))?;
            let ms_max = scratch.histogram().max() as f64 / 1e6;
            let payload = STANDARD.encode(&bytes);
            writeln!(out, "Tag={tag},{second}.000,1.000,{ms_max:.3},{payload}")?;
        }
    }
    Ok(())
}

fn plain(tag: &str) -> String {
    tag.replace(|c: char| c == ',' || c.is_whitespace(), "_")
}

/// Reads what [`write_log`] wrote, in the order of its lines.
///
/// # Errors
/// [`Error::BadLog`] names the line that is not of this format or whose histogram has other bounds than [`Latency`];
/// [`Error::LogCut`] is a file whose end is missing.
pub fn read_log(text: &str) -> Result<Vec<LogEntry>, Error> {
    let mut entries = Vec::new();
    let mut announced = None;
    let mut deserializer = Deserializer::new();
    let whole = text.ends_with('\n') || text.is_empty();
    let last = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        if let Some(count) = line.strip_prefix("#[Intervals: ") {
            announced = count.strip_suffix(']').and_then(|count| count.parse().ok());
        } else if !(line.is_empty() || line.starts_with('#') || line.starts_with("\"StartTimestamp\"")) {
            let entry = entry(line, &mut deserializer).map_err(|why| match why {
                _ if index + 1 == last && !whole => Error::LogCut { line: last },
                why => Error::BadLog { line: index + 1, why },
            })?;
            entries.push(entry);
        }
    }
    if !whole || announced.is_some_and(|announced: usize| announced > entries.len()) {
        return Err(Error::LogCut { line: last });
    }
    Ok(entries)
}

fn entry(line: &str, deserializer: &mut Deserializer) -> Result<LogEntry, String> {
    let (tag, rest) = match line.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, rest) = tagged.split_once(',').ok_or("a tag and nothing behind it")?;
            (Some(tag.to_owned()), rest)
        }
        None => (None, line),
    };
    let fields: Vec<&str> = rest.split(',').collect();
    let &[start, length, _max, payload] = fields.as_slice() else {
        return Err(format!("{} fields, expected 4", fields.len()));
    };
    let seconds = |field: &str| {
        let number = field.parse::<f64>().ok();
        number
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| format!("{field:?} is no number of seconds"))
    };
    Ok(LogEntry {
        tag,
        start_s: seconds(start)?,
        length_s: seconds(length)?,
        latency: histogram(payload, deserializer)?,
    })
}

fn histogram(payload: &str, deserializer: &mut Deserializer) -> Result<PackedLatency, String> {
    let bytes = STANDARD
        .decode(payload)
        .map_err(|error| format!("the histogram is no base64: {error}"))?;
    let inflated = inflate(&bytes)?;
    let histogram: Histogram<u64> = deserializer
        .deserialize(&mut inflated.as_slice())
        .map_err(|error| format!("the histogram cannot be decoded: {error}"))?;
    let latency = Latency::from_histogram(&histogram).ok_or("the histogram has other bounds")?;
    Ok(latency.pack())
}

/// Takes the compression off and looks at the head, because the library allocates what the head asks for.
///
/// Compressed: cookie u32, length u32, zlib stream. Inside, all big-endian: cookie u32, length of the counts u32, offset
/// u32, digits u32, lowest value u64, highest value u64, ratio f64, counts.
fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let (head, stream) = bytes.split_at_checked(8).ok_or("the histogram has no head")?;
    if head.first_chunk() != Some(&COOKIE_COMPRESSED.to_be_bytes()) {
        return Err("the histogram is not of the compressed V2 encoding".into());
    }
    let mut inflated = Vec::new();
    ZlibDecoder::new(stream)
        .take(INFLATED_BYTES_MAX)
        .read_to_end(&mut inflated)
        .map_err(|error| format!("the histogram cannot be inflated: {error}"))?;
    let number = |at: usize| {
        let bytes = inflated.get(at..at + 8)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    };
    let word = |at: usize| number(at).map(|number| number >> 32);
    let (Some(length), Some(digits), Some(low), Some(high)) = (word(4), word(12), number(16), number(24))
    else {
        return Err("the histogram's head is cut off".into());
    };
    if (digits, low, high) != (3, 1, NS_MAX) {
        return Err(format!(
            "a histogram of {low} to {high} with {digits} digits, expected 1 to {NS_MAX} with 3"
        ));
    }
    if Some(length) != inflated.len().checked_sub(HEAD_BYTES).map(|rest| rest as u64) {
        return Err(format!(
            "the histogram says it has {length} bytes of counts, and has not"
        ));
    }
    Ok(inflated)
}

#[cfg(test)]
mod tests;
