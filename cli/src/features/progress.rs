//! How far a build is, on stderr.
//!
//! On a terminal it is one line that is written over and wiped at the end; elsewhere a line every few seconds, none of a short build. Its
//! invariant: what it says of the time that is left follows from what was read so far, and from nothing else.

use millpond_engines_features_build::Progress;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// Says how far a build is.
pub(super) struct Shown {
    started: Instant,
    /// When it is said next.
    due: Instant,
    every: Duration,
    is_terminal: bool,
    /// Whether anything was said yet.
    was_shown: bool,
}

impl Shown {
    pub(super) fn new() -> Shown {
        let (started, is_terminal) = (Instant::now(), stderr().is_terminal());
        let (first, every) = match is_terminal {
            true => (Duration::from_millis(500), Duration::from_millis(200)),
            false => (Duration::from_secs(3), Duration::from_secs(5)),
        };
        Shown {
            started,
            due: started + first,
            every,
            is_terminal,
            was_shown: false,
        }
    }

    /// Says it where the time has come, or where a build that was shown has read everything.
    pub(super) fn show(&mut self, progress: Progress) {
        let now = Instant::now();
        let is_read = progress.share >= 1.0;
        if now < self.due && !(is_read && self.was_shown) {
            return;
        }
        let text = line(progress, now - self.started);
        match self.is_terminal {
            true => eprint!("\r\x1b[K{text}"),
            false => eprintln!("{text}"),
        }
        (self.due, self.was_shown) = (now + self.every, true);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.is_terminal && self.was_shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// Rows, rate, and the time that reading the rest will take at that rate.
fn line(progress: Progress, elapsed: Duration) -> String {
    let Progress { rows, share } = progress;
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = grouped((rows as f64 / seconds) as u64);
    let begun = format!("{} rows, {rate} a second", grouped(rows));
    if share >= 1.0 {
        return format!("{begun}; all are read, the table is being written");
    }
    if share <= 0.0 {
        return begun;
    }
    let left = (seconds * (1.0 - share) / share).ceil() as u64;
    let left = match left {
        0..120 => format!("{left} s"),
        120..7200 => format!("{} min", left.div_ceil(60)),
        _ => format!("{} h", left.div_ceil(3600)),
    };
    format!("{begun}; {:.0} % of the input, about {left} left", share * 100.0)
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_rows_rate_and_what_is_left() {
        let check = |rows, share, seconds, expected: &str| {
            let progress = Progress { rows, share };
            assert_eq!(line(progress, Duration::from_secs(seconds)), expected);
        };
        check(
            999,
            0.25,
            1,
            "999 rows, 999 a second; 25 % of the input, about 3 s left",
        );
        check(
            1_234_567,
            0.1,
            10,
            "1,234,567 rows, 123,456 a second; 10 % of the input, about 90 s left",
        );
        check(
            1000,
            0.01,
            10,
            "1,000 rows, 100 a second; 1 % of the input, about 17 min left",
        );
        check(
            1000,
            0.0001,
            10,
            "1,000 rows, 100 a second; 0 % of the input, about 28 h left",
        );
        check(0, 0.0, 0, "0 rows, 0 a second");
        check(
            1_000_000,
            1.0,
            4,
            "1,000,000 rows, 250,000 a second; all are read, the table is being written",
        );
    }
}
