//! A file of recorded arrival times: one time in seconds a line, ascending, `#` begins a comment.
//!
//! Only the gaps count: the first arrival is moment 0, so times since an epoch do as well. Its invariant: a recording
//! has at least two different times, so that it has a mean rate.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::{ARRIVALS_MAX, Error};

/// The longest line that is read, in bytes.
const LINE_MAX: usize = 4_096;

/// Recorded arrivals as nanoseconds since the first one.
#[derive(Debug)]
pub(crate) struct Recording {
    times_ns: Vec<u64>,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// The file cannot be read, a line is no time or earlier than the one before, or there are fewer than two different
    /// times or more than [`ARRIVALS_MAX`].
    pub(crate) fn read(path: &Path) -> Result<Recording, Error> {
        let file = path.display();
        let read_error = |error: std::io::Error| {
            let expected = "give a text file with one time in seconds a line";
            Error::new(format!(
                "cannot read the recorded arrivals {file}: {error}; {expected}"
            ))
        };
        let mut reader = BufReader::new(File::open(path).map_err(read_error)?);
        let mut times_ns: Vec<u128> = Vec::new();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let limit = LINE_MAX as u64 + 1;
            let read = reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut line)
                .map_err(read_error)?;
            if read == 0 {
                break;
            }
            let refused = |expected: String| {
                let shown: String = String::from_utf8_lossy(line.trim_ascii())
                    .chars()
                    .take(60)
                    .collect();
                Error::new(format!(
                    "{file}, line {number}: found `{shown}`, expected {expected}"
                ))
            };
            if read > LINE_MAX {
                return Err(refused(format!("a line of at most {LINE_MAX} bytes")));
            }
            let Some(time_ns) = line_time_ns(&line).map_err(|expected| refused(expected.into()))? else {
                continue;
            };
            if times_ns.last().is_some_and(|&last| last > time_ns) {
                return Err(refused(
                    "a time no earlier than the one before: sort the file".into(),
                ));
            }
            if times_ns.len() == ARRIVALS_MAX {
                return Err(refused(format!("the end of the file after {ARRIVALS_MAX} times")));
            }
            times_ns.push(time_ns);
        }
        Recording::from_times(path, &times_ns)
    }

    fn from_times(path: &Path, times_ns: &[u128]) -> Result<Recording, Error> {
        let short = || {
            let (file, found) = (path.display(), times_ns.len());
            Error::new(format!(
                "{file} holds {found} arrivals at one moment or none, expected at least two different times"
            ))
        };
        let (&first, &last) = times_ns.first().zip(times_ns.last()).ok_or_else(short)?;
        if first == last {
            return Err(short());
        }
        // A line holds at most u64::MAX nanoseconds, so the difference fits.
        let times_ns = times_ns.iter().map(|&time| (time - first) as u64).collect();
        Ok(Recording { times_ns })
    }

    /// The mean gap in nanoseconds; more than 0.
    fn gap_ns(&self) -> f64 {
        let last = self.times_ns.last().copied().unwrap_or(1);
        last as f64 / (self.times_ns.len().max(2) - 1) as f64
    }

    /// The mean rate per second.
    pub(crate) fn rate_per_s(&self) -> f64 {
        1e9 / self.gap_ns()
    }

    /// The endless times in nanoseconds since the start, the recording repeated with a mean gap between its rounds and
    /// its time stretched by `stretch`.
    pub(crate) fn times_ns(&self, stretch: f64) -> impl Iterator<Item = u64> {
        let round_ns = self.gap_ns() * self.times_ns.len() as f64;
        (0u64..).flat_map(move |round| {
            self.times_ns
                .iter()
                .map(move |&time| ((round as f64 * round_ns + time as f64) * stretch) as u64)
        })
    }
}

/// The time of a line; none when it is blank or a comment; else what was expected.
fn line_time_ns(line: &[u8]) -> Result<Option<u128>, &'static str> {
    let expected = "an arrival time in seconds, 0 or more, such as 12.345";
    let text = std::str::from_utf8(line).map_err(|_| expected)?;
    let text = text.split('#').next().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    let time_ns = plain_ns(text).or_else(|| {
        let seconds: f64 = text.parse().ok()?;
        (seconds >= 0.0 && seconds.is_finite()).then_some((seconds * 1e9) as u128)
    });
    match time_ns {
        Some(time_ns) if time_ns <= u128::from(u64::MAX) => Ok(Some(time_ns)),
        _ => Err(expected),
    }
}

/// A plain decimal without the rounding of a float, which would cost times since an epoch their last digits.
fn plain_ns(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || !digits(whole) || !digits(part) {
        return None;
    }
    let mut ns: u128 = whole.parse().ok()?;
    for place in 0..9 {
        let digit = part.as_bytes().get(place).map_or(0, |byte| byte - b'0');
        ns = ns * 10 + u128::from(digit);
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::io::Write;

    fn read(text: &str) -> Result<Recording, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Recording::read(file.path())
    }

    #[test]
    fn times_count_from_the_first_and_keep_their_digits() {
        let recording = read("# a trace\n1700000000.000000001\n\n1700000000.5 # half\n1700000002\n").unwrap();
        assert_eq!(recording.times_ns, [0, 499_999_999, 1_999_999_999]);
        assert_eq!(read("0\n1e-3\n").unwrap().times_ns, [0, 1_000_000]);
    }

    #[test]
    fn a_recording_repeats_a_mean_gap_after_its_end() {
        let recording = read("0\n0.25\n1\n").unwrap();
        assert_eq!(recording.rate_per_s(), 2.0);
        let times: Vec<u64> = recording.times_ns(2.0).take(6).collect();
        let ms = [0, 500, 2_000, 3_000, 3_500, 5_000];
        assert_eq!(times, ms.map(|ms| ms * 1_000_000));
    }

    #[test]
    fn bad_recordings_say_what_and_where() {
        let said = |text: &str| read(text).expect_err("refused").to_string();
        assert!(said("0\nnoon\n").contains("line 2: found `noon`, expected an arrival time"));
        assert!(said("0\n2\n1\n").contains("line 3: found `1`, expected a time no earlier"));
        assert!(said("-1\n").contains("line 1"));
        assert!(said("inf\n").contains("line 1"));
        assert!(said("99999999999\n").contains("line 1"));
        assert!(said(&"1".repeat(5_000)).contains("at most 4096 bytes"));
        assert!(said("# none\n").contains("holds 0 arrivals"));
        assert!(said("3\n3\n").contains("holds 2 arrivals"));
        let absent = Recording::read(Path::new("no/such.txt"))
            .expect_err("refused")
            .to_string();
        assert!(absent.contains("no/such.txt"), "{absent}");
    }
}
