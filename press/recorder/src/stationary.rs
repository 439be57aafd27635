//! Whether a load has settled, and whether a queue keeps growing.
//!
//! Both are tests of a series against its own noise, so that they neither wait for silence nor call noise a trend. Their
//! invariant: a series too short to say anything is never called stationary and never called growing.

use crate::stats::{mean, standard_error};

/// How many windows are looked at: the last ones.
const WINDOWS: usize = 8;

/// The rates of the two halves may differ by this part of their mean.
const RATE_TOLERANCE: f64 = 0.05;

/// The mean latencies of the two halves may differ by this part of their mean.
const LATENCY_TOLERANCE: f64 = 0.10;

/// Or both may differ by this many standard errors of their difference.
const ERRORS_TOLERANCE: f64 = 2.0;

/// A trend is one above this many of its standard errors.
const TREND_T: f64 = 3.0;

/// A series grows when its trend adds more than this part of its mean from end to end.
const GROWTH: f64 = 0.5;

/// What happened in one of several equally long slices of time, such as 125 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Answers in it.
    pub answers: u64,
    /// Nanoseconds of their latencies, summed.
    pub latency_ns_sum: u64,
}

/// Whether rate and latency have settled over the last eight windows.
///
/// The method is a comparison of means in the manner of Geweke's convergence test: the windows are cut in an earlier and a
/// later half of four, and the halves' means of the answers a window and of the windows' mean latencies are compared. A
/// figure is settled when the means differ by at most 5 % (rate) or 10 % (latency) of their common mean, or by less than
/// two standard errors of their difference as the scatter of the windows within the halves gives them. Fewer than eight
/// windows, or one of the eight without answers, are never stationary.
///
/// A slow trend inside the noise passes: the test bounds a warm-up, it does not judge a result.
pub fn is_stationary(windows: &[Window]) -> bool {
    let Some(first) = windows.len().checked_sub(WINDOWS) else {
        return false;
    };
    let windows = &windows[first..];
    if windows.iter().any(|window| window.answers == 0) {
        return false;
    }
    let rates: Vec<f64> = windows.iter().map(|window| window.answers as f64).collect();
    let latencies: Vec<f64> = windows
        .iter()
        .map(|window| window.latency_ns_sum as f64 / window.answers as f64)
        .collect();
    is_settled(&rates, RATE_TOLERANCE) && is_settled(&latencies, LATENCY_TOLERANCE)
}

fn is_settled(values: &[f64], tolerance: f64) -> bool {
    let (early, late) = values.split_at(values.len() / 2);
    let difference = (mean(early) - mean(late)).abs();
    let error = standard_error(early).hypot(standard_error(late));
    difference <= tolerance * mean(values) || difference < ERRORS_TOLERANCE * error
}

/// Whether `values`, equally spaced in time, grow to the end: their least squares line rises by more than three standard
/// errors of its slope, and from the first value to the last by more than half of the mean. Fewer than eight values never
/// grow.
pub fn is_growing(values: &[f64]) -> bool {
    if values.len() < WINDOWS || values.iter().any(|value| !value.is_finite()) {
        return false;
    }
    let n = values.len() as f64;
    let (x_mean, y_mean) = ((n - 1.0) / 2.0, mean(values));
    let points = || {
        let centred = |(i, y): (usize, &f64)| (i as f64 - x_mean, y - y_mean);
        values.iter().enumerate().map(centred)
    };
    let spread: f64 = points().map(|(x, _)| x * x).sum();
    let slope = points().map(|(x, y)| x * y).sum::<f64>() / spread;
    let residues: f64 = points().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let slope_error = (residues / (n - 2.0) / spread).sqrt();
    slope > TREND_T * slope_error && slope * (n - 1.0) > GROWTH * y_mean.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight windows of (answers, mean latency in microseconds) by number.
    fn windows(of: impl Fn(usize) -> (u64, u64)) -> Vec<Window> {
        let window = |(answers, us)| Window {
            answers,
            latency_ns_sum: answers * us * 1_000,
        };
        (0..WINDOWS).map(|i| window(of(i))).collect()
    }

    /// Scatter between -100 and 100 without a trend.
    const NOISE: [i64; 8] = [40, -90, 70, -20, -60, 95, -80, 45];

    fn noisy(base: u64, i: usize, per_mille: i64) -> u64 {
        base.saturating_add_signed(base as i64 * NOISE[i % 8] * per_mille / 100_000)
    }

    #[test]
    fn settled_series_are_told_from_moving_ones() {
        let check = |name: &str, expected: bool, of: &dyn Fn(usize) -> (u64, u64)| {
            assert_eq!(is_stationary(&windows(of)), expected, "{name}");
        };
        check("flat", true, &|_| (1_000, 200));
        check("noisy", true, &|i| (noisy(1_000, i, 30), noisy(200, i, 100)));
        check("very noisy", true, &|i| {
            (noisy(1_000, i, 400), noisy(200, i + 3, 400))
        });
        check("rate within 5 %", true, &|i| (1_000 + 10 * i as u64, 200));
        check("rate rising", false, &|i| (500 + 100 * i as u64, 200));
        check("rate rising in noise", false, &|i| {
            (noisy(500 + 100 * i as u64, i, 30), 200)
        });
        check("latency decaying", false, &|i| {
            (1_000, 100 + (2_000.0 * 0.6f64.powi(i as i32)) as u64)
        });
        check("a step in the middle", false, &|i| {
            (1_000, if i < 4 { 400 } else { 200 })
        });
        check("a step in the first half", false, &|i| {
            (if i < 2 { 800 } else { 1_000 }, if i < 3 { 320 } else { 200 })
        });
        check("a pause", false, &|i| (if i == 6 { 0 } else { 1_000 }, 200));
        check("nothing", false, &|_| (0, 0));
    }

    #[test]
    fn only_the_last_eight_windows_count() {
        let mut series = windows(|i| (100 * i as u64 + 1, 5_000));
        assert!(!is_stationary(&series));
        series.extend(windows(|i| (noisy(1_000, i, 20), 200)));
        assert!(is_stationary(&series));
        assert!(!is_stationary(&series[9..]), "seven are too few");
        assert!(!is_stationary(&[]));
    }

    #[test]
    fn growth_is_told_from_noise_and_from_a_full_queue() {
        let check = |name: &str, expected: bool, of: &dyn Fn(usize) -> f64| {
            let values: Vec<f64> = (0..16).map(of).collect();
            assert_eq!(is_growing(&values), expected, "{name}");
        };
        let noise = |i: usize| NOISE[i % 8] as f64;
        check("rising", true, &|i| 10.0 * i as f64);
        check("rising in noise", true, &|i| 100.0 * i as f64 + 2.0 * noise(i));
        check("flat", false, &|_| 64.0);
        check("empty", false, &|_| 0.0);
        check("noise", false, &|i| 100.0 + noise(i));
        check("rising by a tenth", false, &|i| 1_000.0 + 6.0 * i as f64);
        check("falling", false, &|i| 1_000.0 - 60.0 * i as f64);
        check("full from the third value on", false, &|i| {
            if i < 2 { 300.0 } else { 1_000.0 }
        });
        check("not a number", false, &|i| {
            if i == 3 { f64::NAN } else { i as f64 }
        });
        assert!(
            !is_growing(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
            "seven are too few"
        );
    }
}
