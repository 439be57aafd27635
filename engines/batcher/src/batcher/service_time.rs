//! How long a run of so many rows keeps its instance, learnt from the runs there were. It takes no time itself and
//! knows no queue. Its one invariant: before a run was seen it says nothing, and what it cannot know from
//! the sizes it saw it assumes in favour of the request that asks.
//!
//! A run of `b` rows costs `a + c b`: what a run costs, and what a row costs, so that the speed-up of batching is
//! in it. `a` and `c` come from moving averages (weighted least squares), kept as means, variances and covariance. They are
//! averages of few runs, so they are in doubt by as much as those runs differ.

use std::time::Duration;

/// The weight of the newest run in the averages: the last sixteen or so count.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;

/// Standard errors that a run may take longer than its estimate. A queue asks often while the estimate moves about, and accepts
/// the request that comes when it is lowest: its minimum counts, not its mean.
const DOUBT_ERRORS: f64 = 2.0;

/// How far sizes must differ, relative to their mean and squared, before the slope between them is believed.
const SPREAD: f64 = 1.0 / 64.0;

/// One run: from its cut until its instance came for the next one, so that answering is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    pub rows: usize,
    pub took: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServiceTime {
    /// Up to as many runs as the averages remember.
    runs: f64,
    rows: f64,
    seconds: f64,
    rows_variance: f64,
    seconds_variance: f64,
    covariance: f64,
}

impl ServiceTime {
    pub(super) fn observe(&mut self, run: Measured) {
        self.runs = (self.runs + 1.0).min(1.0 / NEWEST_WEIGHT);
        let weight = 1.0 / self.runs;
        let rows_off = run.rows as f64 - self.rows;
        let seconds_off = run.took.as_secs_f64() - self.seconds;
        self.rows += weight * rows_off;
        self.seconds += weight * seconds_off;
        let kept = 1.0 - weight;
        self.rows_variance = kept * (self.rows_variance + weight * rows_off * rows_off);
        self.seconds_variance = kept * (self.seconds_variance + weight * seconds_off * seconds_off);
        self.covariance = kept * (self.covariance + weight * rows_off * seconds_off);
    }

    /// Seconds of a run of `rows` rows; `None` before anything was measured.
    pub(super) fn of(&self, rows: usize) -> Option<f64> {
        // Unknown, a larger run costs as much as those seen, and a smaller one its share of them.
        self.estimate(
            rows,
            |is_larger, slope_max| if is_larger { 0.0 } else { slope_max },
        )
    }

    fn estimate(&self, rows: usize, assumed: impl Fn(bool, f64) -> f64) -> Option<f64> {
        if self.runs == 0.0 {
            return None;
        }
        let rows_off = rows as f64 - self.rows;
        let slope = self.slope(|slope_max| assumed(rows_off > 0.0, slope_max));
        Some((self.seconds + slope * rows_off).max(0.0))
    }

    /// Seconds that each further row adds; `assumed` is what it is where that is unknown, of the most that it can be.
    fn slope(&self, assumed: impl Fn(f64) -> f64) -> f64 {
        // Without rows a run takes no less than nothing, and more rows take no less time than fewer.
        let slope_max = self.seconds / self.rows.max(1.0);
        let assumed = assumed(slope_max);
        let doubt = SPREAD * self.rows * self.rows;
        let slope = (self.covariance + doubt * assumed) / (self.rows_variance + doubt);
        slope.max(0.0).min(slope_max)
    }

    /// Seconds by which a run may take longer than [`ServiceTime::of`] says: more where runs of one size differ more.
    pub(super) fn doubt(&self) -> f64 {
        if self.runs == 0.0 {
            return 0.0;
        }
        // What the sizes of the runs do not explain.
        let unexplained = self.seconds_variance - self.slope(|slope_max| slope_max) * self.covariance;
        DOUBT_ERRORS * (unexplained.max(0.0) / self.runs).sqrt()
    }

    /// Seconds of a request of `rows` rows that runs alone, in chunks where it must.
    pub(super) fn of_chunks(&self, rows: usize, batch_size_max: usize) -> Option<f64> {
        in_chunks(rows, batch_size_max, |rows| self.of(rows))
    }

    /// The same, but what is unknown of other sizes is assumed against the request that asks.
    pub(super) fn of_chunks_at_most(&self, rows: usize, batch_size_max: usize) -> Option<f64> {
        let at_most = |is_larger, slope_max| if is_larger { slope_max } else { 0.0 };
        in_chunks(rows, batch_size_max, |rows| self.estimate(rows, at_most))
    }
}

fn in_chunks(rows: usize, batch_size_max: usize, of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let (whole, rest) = (rows / batch_size_max, rows % batch_size_max);
    let last = if rest > 0 { of(rest)? } else { 0.0 };
    Some(whole as f64 * of(batch_size_max)? + last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// Runs of these sizes under a model of `base + row * rows` microseconds, sixty-four times over.
    fn learnt(sizes: &[usize], base: u64, row: u64) -> ServiceTime {
        let mut time = ServiceTime::default();
        for rows in sizes.iter().cycle().take(64 * sizes.len()) {
            let took = Duration::from_micros(base + row * *rows as u64);
            time.observe(Measured { rows: *rows, took });
        }
        time
    }

    fn check(time: ServiceTime, rows: usize, expected_us: f64, within: f64) {
        let us = time.of(rows).unwrap() * 1e6;
        assert!(
            (us - expected_us).abs() <= within * expected_us.max(1.0),
            "{rows} rows: {us} us, expected {expected_us}"
        );
    }

    #[test]
    fn nothing_is_said_before_a_run_was_seen() {
        assert_eq!(ServiceTime::default().of(1), None);
    }

    #[test]
    fn what_a_run_and_a_row_cost_is_told_apart() {
        let time = learnt(&[1, 64, 16, 256, 3, 100], 1000, 10);
        for rows in [1, 16, 64, 256] {
            check(time, rows, 1000.0 + 10.0 * rows as f64, 0.1);
        }
        check(learnt(&[1, 64, 16, 256, 3, 100], 0, 10), 256, 2560.0, 0.1);
        check(learnt(&[1, 64, 16, 256, 3, 100], 1000, 0), 256, 1000.0, 0.01);
    }

    #[test]
    fn sizes_that_were_not_seen_are_assumed_in_the_requests_favour() {
        let time = learnt(&[32], 1000, 10);
        check(time, 32, 1320.0, 0.001);
        check(time, 256, 1320.0, 0.001);
        check(time, 8, 330.0, 0.001);
    }

    #[test]
    fn sizes_that_were_not_seen_are_at_most_in_proportion() {
        let time = learnt(&[32], 1000, 10);
        for (rows, us) in [(32, 1320.0), (256, 8.0 * 1320.0), (8, 1320.0)] {
            let most = time.of_chunks_at_most(rows, 256).unwrap() * 1e6;
            assert!(
                (most - us).abs() <= 0.001 * us,
                "{rows} rows: {most} us, expected {us}"
            );
        }
        let time = learnt(&[1, 64, 16, 256, 3, 100], 1000, 10);
        let (of, most) = (
            time.of_chunks(300, 256).unwrap(),
            time.of_chunks_at_most(300, 256).unwrap(),
        );
        assert!(of <= most && most < 1.2 * of, "{of} {most}");
    }

    #[test]
    fn a_model_that_becomes_slower_or_faster_is_followed() {
        for (before, after) in [(1000, 2000), (2000, 500)] {
            let mut time = learnt(&[1, 8], before, 0);
            for _ in 0..64 {
                for rows in [1, 8] {
                    let took = Duration::from_micros(after);
                    time.observe(Measured { rows, took });
                }
            }
            check(time, 8, after as f64, 0.02);
        }
    }

    #[test]
    fn it_is_in_doubt_by_what_sizes_do_not_explain() {
        let check = |time: ServiceTime, expected_us: f64, within: f64| {
            let us = time.doubt() * 1e6;
            assert!(
                (us - expected_us).abs() <= within,
                "{us} us, expected {expected_us}"
            );
        };
        check(ServiceTime::default(), 0.0, 0.0);
        check(learnt(&[8], 1000, 10), 0.0, 0.1);
        check(learnt(&[1, 64, 16, 256, 3, 100], 1000, 10), 0.0, 50.0);
        let mut time = ServiceTime::default();
        for took in [900, 1100].repeat(64).into_iter().map(Duration::from_micros) {
            time.observe(Measured { rows: 1, took });
        }
        // A hundred microseconds to either side, two standard errors of sixteen runs.
        check(time, 50.0, 2.0);
    }

    #[test]
    fn it_is_never_negative_and_grows_with_rows() {
        let mut time = ServiceTime::default();
        // Noise: the larger runs were the faster ones.
        for (rows, us) in [(1, 900), (2, 100), (3, 50), (1, 1000), (200, 10), (7, 0)] {
            time.observe(Measured {
                rows,
                took: Duration::from_micros(us),
            });
            let of: Vec<f64> = [0, 1, 2, 50, 1 << 40].map(|rows| time.of(rows).unwrap()).into();
            assert!(of[0] >= 0.0 && of.is_sorted(), "{of:?}");
        }
    }

    #[test]
    fn a_request_larger_than_a_batch_costs_its_chunks() {
        let time = learnt(&[1, 64, 16], 1000, 0);
        let us = time.of_chunks(130, 64).unwrap() * 1e6;
        assert!((us - 3000.0).abs() < 30.0, "{us}");
        assert_eq!(ServiceTime::default().of_chunks(130, 64), None);
    }
}
