//! Durations and rates as they stand on a command line: `2ms`, `100us`, `1.5s`.
//!
//! Its invariant: a value without a unit is refused, so that nobody has to guess it.

use std::time::Duration;

const DURATION: &str = "a duration with its unit, such as 500ns, 100us, 2ms or 1.5s, of an hour at most";
const ABOVE_ZERO: &str = "a duration above zero with its unit, such as 500ns, 100us, 2ms or 1.5s";
const RATE: &str = "a rate in requests a second from 0.001 to 10000000, such as 5000";
/// Longer is a slip of the keys.
const DURATION_NS_MAX: f64 = 3_600e9;

/// What was read, or the message that names what would do.
pub(crate) fn or_refuse<T>(read: Option<T>, text: &str, expected: &str) -> Result<T, String> {
    read.ok_or_else(|| format!("{text:?} is not {expected}"))
}

/// Reads a duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    or_refuse(read(text), text, DURATION)
}

/// Reads a duration that is not zero: for a period, or for work that is asked for.
pub(crate) fn duration_above_zero(text: &str) -> Result<Duration, String> {
    or_refuse(read(text).filter(|read| !read.is_zero()), text, ABOVE_ZERO)
}

fn read(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let ns = number.parse::<f64>().ok()? * unit_ns;
    (0.0..=DURATION_NS_MAX)
        .contains(&ns)
        .then(|| Duration::from_nanos(ns.round() as u64))
}

/// Reads a rate in requests a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    or_refuse(
        rate.filter(|rate| (0.001..=10_000_000.0).contains(rate)),
        text,
        RATE,
    )
}

/// A duration as the loops count it.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_their_unit() {
        let check =
            |text: &str, expected: Option<u64>| assert_eq!(duration(text).ok().map(ns), expected, "{text}");
        check("500ns", Some(500));
        check("100us", Some(100_000));
        check("1.5ms", Some(1_500_000));
        check("1s", Some(1_000_000_000));
        check("0ms", Some(0));
        for wrong in [
            "", "5", "ms", "-1ms", "1h", "1 ms", "2hours", "99999s", "NaNs", "infs",
        ] {
            check(wrong, None);
        }
        assert!(duration_above_zero("0us").is_err());
        assert!(duration_above_zero("1us").is_ok());
    }

    #[test]
    fn rates_are_above_zero() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(rate(text).ok(), expected, "{text}");
        check("5000", Some(5000.0));
        check("0.5", Some(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "5k", "1e9"] {
            check(wrong, None);
        }
    }
}
