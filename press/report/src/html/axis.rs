//! Axes: where a value stands, and which round values are marked.
//!
//! Its invariant: any finite value has a place within the axis, there are at most nine marks, and they do not touch.

use crate::number;

/// Decades an axis may span; what is smaller stands at its low end.
const DECADES_MAX: f64 = 9.0;

/// An axis from 0 to 1.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Values with their words, lowest first.
    pub(crate) marks: Vec<(f64, String)>,
    /// What it measures.
    pub(crate) title: String,
}

impl Axis {
    /// From zero to a round value above all `values`.
    pub(crate) fn linear(values: impl Iterator<Item = f64>, title: &str) -> Axis {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let highest = if highest <= 0.0 { 1.0 } else { highest.min(1e15) };
        let step = round_step(highest / 4.0);
        let high = (highest / step).ceil() * step;
        let count = (high / step).round() as usize;
        Axis {
            low: 0.0,
            high,
            logarithmic: false,
            marks: (0..=count)
                .map(|index| index as f64 * step)
                .map(|value| (value, number::thousands(value)))
                .collect(),
            title: title.into(),
        }
    }

    /// Seconds from zero to just the last one.
    pub(crate) fn seconds(values: impl Iterator<Item = f64>) -> Axis {
        let last = values
            .filter(|value| value.is_finite() && *value < 1e12)
            .fold(0.0, f64::max);
        let mut axis = Axis::linear(std::iter::once(last), "seconds");
        if last > 0.0 {
            axis.high = last;
            axis.marks.retain(|&(value, _)| value <= last);
        }
        axis
    }

    /// Latencies in microseconds, by decades.
    pub(crate) fn latency(values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|&value| value.is_finite() && value > 0.0) {
            let value = value.clamp(1e-3, 1e12);
            low = low.min(value);
            high = high.max(value);
        }
        if high <= 0.0 {
            (low, high) = (10.0, 1_000.0);
        }
        low = low.max(high / 10f64.powf(DECADES_MAX));
        let (mut low, high) = (round_below(low), round_step(high));
        if high / low < 4.9 {
            low = round_below(low * 0.99);
        }
        Axis {
            low,
            high,
            logarithmic: true,
            marks: decades(low, high)
                .into_iter()
                .map(|value| (value, number::duration(value)))
                .collect(),
            title: "latency".into(),
        }
    }

    /// Percentiles by how few samples lie [`beyond`] them: 0, 50, 90, 99 and so on, as far as `values` go.
    pub(crate) fn percentile(values: impl Iterator<Item = f64>) -> Axis {
        let highest = values.filter(|value| value.is_finite()).fold(100.0, f64::max);
        let high = highest.min(1e7);
        let marks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        Axis {
            low: 1.0,
            high,
            logarithmic: true,
            marks: marks
                .into_iter()
                .filter(|&percentile| beyond(percentile) <= high * 1.001)
                .map(|percentile| (beyond(percentile), format!("{percentile}")))
                .collect(),
            title: "percentile".into(),
        }
    }

    /// Where `value` stands between 0 and 1; nothing for what is not finite.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(share.clamp(0.0, 1.0))
    }
}

/// 1 / (1 - p): how many samples one beyond the percentile stands for.
pub(crate) fn beyond(percentile: f64) -> f64 {
    let part = (1.0 - percentile.clamp(0.0, 100.0) / 100.0).max(1e-9);
    1.0 / part
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|&step| step >= least * 0.999);
    step.unwrap_or(10.0 * decade)
}

fn round_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let mut rounds = [5.0, 2.0, 1.0].into_iter().map(|digit| digit * decade);
    rounds.find(|&round| round <= value * 1.001).unwrap_or(decade)
}

/// Round values from `low` to `high`: as many to the decade as there is room for.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let within = |value: &f64| *value >= low * 0.999 && *value <= high * 1.001;
    for digits in [&[1.0, 2.0, 5.0][..], &[1.0]] {
        let marks: Vec<f64> = (first..=last)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(within)
            .collect();
        if marks.len() <= 7 {
            return marks;
        }
    }
    (first..=last)
        .step_by(2)
        .map(|power| 10f64.powi(power))
        .filter(within)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis) -> Vec<String> {
        axis.marks
            .iter()
            .map(|(_, words)| words.replace('\u{a0}', " "))
            .collect()
    }

    #[test]
    fn marks_are_round() {
        let linear = Axis::linear([3_470.0, f64::NAN].into_iter(), "");
        assert_eq!(words(&linear), ["0", "1 k", "2 k", "3 k", "4 k"]);
        let latency = Axis::latency([80.0, 2_300.0].into_iter());
        assert_eq!(
            words(&latency),
            ["50 µs", "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]
        );
        let wide = Axis::latency([3.0, 9e6].into_iter());
        assert_eq!(
            words(&wide),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
        );
        let percentile = Axis::percentile([beyond(99.95)].into_iter());
        assert_eq!(words(&percentile), ["0", "50", "90", "99", "99.9"]);
    }

    #[test]
    fn any_values_make_an_axis() {
        let strange = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e300, 5.0];
        for count in 0..=strange.len() {
            let values = || strange.iter().take(count).copied();
            for axis in [
                Axis::linear(values(), ""),
                Axis::seconds(values()),
                Axis::latency(values()),
                Axis::percentile(values()),
            ] {
                assert!(axis.low < axis.high, "{axis:?}");
                assert!((2..=9).contains(&axis.marks.len()), "{axis:?}");
                for value in strange {
                    assert!(axis.at(value).is_none_or(|at| (0.0..=1.0).contains(&at)));
                }
            }
        }
    }
}
