//! Reads a log back: what a test needs to know that nothing was lost.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::PackedLatency;
use crate::buckets::NS_MAX;

/// What a compressed histogram begins with.
pub(super) const COOKIE_COMPRESSED: u32 = 0x1c84_9314;

/// What stands before the counts.
const HEAD_BYTES: usize = 40;

/// More than the counts of a histogram of ours can take: nine bytes for each of 27 389, and the head.
const INFLATED_BYTES_MAX: u64 = 256 << 10;

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogEntry {
    /// What recorded it, such as `thread-0`.
    pub(super) tag: Option<String>,
    /// Seconds from the log's BaseTime to the start of the interval.
    pub(super) start_s: f64,
    /// Length of the interval in seconds.
    pub(super) length_s: f64,
    /// The latencies, without sum and maximum.
    pub(super) latency: PackedLatency,
}

/// Reads what [`write_log`] wrote, in the order of its lines.
///
/// # Errors
/// A line is not of this format, or its histogram has other bounds than `Latency`; or the end of the file is missing.
pub(super) fn read_log(text: &str) -> Result<Vec<LogEntry>, String> {
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
                _ if index + 1 == last && !whole => cut(last),
                why => format!("line {} of the histogram log cannot be read: {why}", index + 1),
            })?;
            entries.push(entry);
        }
    }
    if !whole || announced.is_some_and(|announced: usize| announced > entries.len()) {
        return Err(cut(last));
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
    let steps = histogram.iter_recorded();
    let buckets = steps.map(|step| (step.value_iterated_to(), step.count_at_value()));
    Ok(PackedLatency {
        buckets: buckets.collect(),
        ..PackedLatency::default()
    })
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

fn cut(line: usize) -> String {
    format!("the histogram log is cut off after line {line}")
}
