//! Figures as people read them.
//!
//! Its invariant: a figure that is not finite reads `n/a`, and none is longer than 16 characters.

use millpond_press_recorder::LatencySummary;

use crate::Cpu;

/// What stands where a figure does not exist.
pub(crate) const ABSENT: &str = "n/a";

/// With `digits` behind the point; very large figures with an exponent.
pub(crate) fn fixed(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        ABSENT.into()
    } else if value.abs() >= 1e12 {
        format!("{value:.2e}")
    } else {
        format!("{value:.digits$}")
    }
}

/// With the digits of the first of `steps` that the value lies below, or none.
fn stepped(value: f64, steps: &[(f64, usize)]) -> String {
    let step = steps.iter().find(|(above, _)| value.abs() < *above);
    fixed(value, step.map_or(0, |(_, digits)| *digits))
}

/// Microseconds to three digits at least.
pub(crate) fn us(value: f64) -> String {
    stepped(value, &[(10.0, 2), (100.0, 1)])
}

/// A percentile of `latency`; where it is absent, how many samples there were.
pub(crate) fn us_of(figure: Option<f64>, latency: &LatencySummary) -> String {
    figure.map_or_else(|| format!("{ABSENT} ({})", latency.count), us)
}

/// A latency in microseconds as milliseconds, to three digits at least.
pub(crate) fn ms_of(figure: Option<f64>, latency: &LatencySummary) -> String {
    let ms = |us: f64| {
        stepped(
            us / 1_000.0,
            &[(0.1, 5), (1.0, 4), (10.0, 3), (100.0, 2), (1_000.0, 1)],
        )
    };
    figure.map_or_else(|| format!("{ABSENT} ({})", latency.count), ms)
}

/// Events a second.
pub(crate) fn rate(value: f64) -> String {
    stepped(value, &[(10.0, 2), (1_000.0, 1)])
}

/// A part of 100, without its sign.
pub(crate) fn percent(value: f64) -> String {
    stepped(value, &[(9.95, 1)])
}

/// Processor time in percent of one core.
pub(crate) fn cpu(cpu: Option<Cpu>) -> String {
    cpu.map_or_else(|| ABSENT.into(), |cpu| percent(cpu.percent))
}

/// A ratio to two digits behind the point, small ones to three.
pub(crate) fn ratio(value: f64) -> String {
    fixed(value, if value.abs() < 0.1 { 3 } else { 2 })
}

/// Three digits at most, no zeros at the end: for axes and sentences.
pub(crate) fn short(value: f64) -> String {
    let text = stepped(value, &[(9.995, 2), (99.95, 1)]);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

/// `1.5 k`, `20 M`.
pub(crate) fn thousands(value: f64) -> String {
    scaled(value, 1_000.0, &["", "\u{a0}k", "\u{a0}M", "\u{a0}G", "\u{a0}T"])
}

/// `12.5 MiB`.
pub(crate) fn bytes(value: f64) -> String {
    scaled(
        value,
        1_024.0,
        &["\u{a0}B", "\u{a0}KiB", "\u{a0}MiB", "\u{a0}GiB", "\u{a0}TiB"],
    )
}

/// Microseconds with the unit that suits: `80 µs`, `1.5 ms`, `2 s`.
pub(crate) fn duration(us: f64) -> String {
    let units = ["\u{a0}ns", "\u{a0}µs", "\u{a0}ms", "\u{a0}s"];
    scaled(us * 1_000.0, 1_000.0, &units)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    while value.abs() >= step * 0.9995 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    short(value) + units.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let check = |figure: String, expected: &str| assert_eq!(figure.replace('\u{a0}', " "), expected);
        check(us(0.2), "0.20");
        check(us(81.25), "81.2");
        check(us(2_480.4), "2480");
        check(us(f64::NAN), "n/a");
        check(us(1e300), "1.00e300");
        check(rate(3_450.55), "3451");
        check(rate(345.06), "345.1");
        check(rate(123_456.7), "123457");
        check(thousands(1_500.0), "1.5 k");
        check(thousands(999_990.0), "1 M");
        check(thousands(40.0), "40");
        check(duration(0.25), "250 ns");
        check(duration(999.9), "1 ms");
        check(duration(1_500.0), "1.5 ms");
        check(duration(20e6), "20 s");
        check(bytes(1_048_576.0), "1 MiB");
        check(percent(99.7), "100");
        check(percent(0.0), "0.0");
        check(ratio(0.034), "0.034");
        check(short(100.0), "100");
    }
}
