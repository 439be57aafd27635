//! Requests at a fixed rate, whatever becomes of those before.
//!
//! It knows no server. Its invariant: a latency counts from when its request was to be sent.

use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Requests before the load, one after the other: connections are made, and clients know what is usual.
const WARM_UP: usize = 300;
/// The last part of a wait is spent looking at the clock: a timer of tokio is late by up to a millisecond.
const SPIN: Duration = Duration::from_millis(2);

/// A load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests a second.
    pub(super) qps: u32,
    pub(super) count: usize,
    /// Keys of a request, of so many rows.
    pub(super) keys: usize,
    pub(super) rows: u64,
}

/// What became of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) took: Duration,
    pub(super) ok: bool,
}

/// Offers a load on a runtime of this thread: in the order of the requests, what became of each. `make` makes what calls.
pub(super) fn run<C, F, M>(
    load: Load,
    make: impl FnOnce() -> M,
    event: impl Fn(usize),
) -> anyhow::Result<Vec<Sample>>
where
    M: Future<Output = anyhow::Result<C>>,
    C: Fn(Vec<u64>) -> F,
    F: Future<Output = bool> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let samples = runtime.block_on(async {
        let call = make().await?;
        for number in 0..WARM_UP {
            let _ = call(keys(load, number)).await;
        }
        let mut calls = JoinSet::new();
        let start = Instant::now() + Duration::from_millis(5);
        for number in 0..load.count {
            let due = start + Duration::from_secs(1) * number as u32 / load.qps;
            wait_until(due).await;
            event(number);
            let ended = call(keys(load, WARM_UP + number));
            calls.spawn(async move {
                let ok = ended.await;
                let took = due.elapsed();
                (number, Sample { took, ok })
            });
        }
        let mut samples: Vec<(usize, Sample)> = Vec::new();
        while let Some(ended) = calls.join_next().await {
            samples.push(ended?);
        }
        samples.sort_by_key(|(number, _)| *number);
        anyhow::Ok(samples.into_iter().map(|(_, sample)| sample).collect())
    });
    // Copies that a node has not answered yet are of no interest.
    runtime.shutdown_background();
    samples
}

async fn wait_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if left > SPIN {
        tokio::time::sleep(left - SPIN).await;
    }
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}

/// The keys of a request: the same in every run.
fn keys(load: Load, number: usize) -> Vec<u64> {
    let of = |place: usize| {
        let seed = (number * load.keys + place) as u64;
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % load.rows
    };
    (0..load.keys).map(of).collect()
}

/// Microseconds, the lowest first.
pub(super) fn us(samples: &[Sample]) -> Vec<f64> {
    let mut us: Vec<f64> = samples
        .iter()
        .map(|sample| sample.took.as_secs_f64() * 1e6)
        .collect();
    us.sort_by(f64::total_cmp);
    us
}

/// A percentile of figures in ascending order; no number where there is none.
pub(super) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(rank.saturating_sub(1).min(last))
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures_that_were_measured() {
        let check = |count: u32, percent, expected: f64| {
            let sorted: Vec<f64> = (1..=count).map(f64::from).collect();
            assert_eq!(percentile(&sorted, percent), expected, "{count}, {percent}");
        };
        check(1_000, 50.0, 500.0);
        check(1_000, 99.0, 990.0);
        check(1_000, 99.9, 999.0);
        check(1, 99.0, 1.0);
        assert!(percentile(&[], 99.0).is_nan());
    }
}
