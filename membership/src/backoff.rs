//! How long etcd is left alone after a failure: exponential backoff with full jitter. Its invariant: no wait is longer than `most`,
//! and waits are drawn evenly below a ceiling that doubles, so that the nodes of a cluster do not all come back at once.

use std::time::Duration;

/// The waits of one membership.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
    /// The state of SplitMix64: enough for spreading.
    random: u64,
}

impl Backoff {
    pub(crate) fn new(first: Duration, most: Duration, seed: u64) -> Backoff {
        Backoff {
            first,
            most,
            failures: 0,
            random: seed,
        }
    }

    /// An attempt failed: the wait before the next.
    pub(crate) fn failed(&mut self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        let ceiling = self.first.saturating_mul(doubled).min(self.most);
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let part = millpond_nodes::hash(self.random);
        let ceiling_ns = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        let wait_ns = (u128::from(ceiling_ns) * u128::from(part)) >> 64;
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(ceiling_ns))
    }

    /// An attempt worked.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_spread_below_a_ceiling_that_doubles() {
        let (first, most) = (Duration::from_millis(100), Duration::from_millis(500));
        let mut sums = [Duration::ZERO; 5];
        for seed in 0..1000 {
            let mut backoff = Backoff::new(first, most, seed);
            for (sum, ceiling_ms) in sums.iter_mut().zip([100, 200, 400, 500, 500]) {
                let wait = backoff.failed();
                assert!(wait <= Duration::from_millis(ceiling_ms));
                *sum += wait;
            }
            backoff.worked();
            assert!(backoff.failed() <= first);
        }
        for (sum, ceiling_ms) in sums.into_iter().zip([100, 200, 400, 500, 500]) {
            let mean_ms = sum.as_secs_f64();
            assert!(
                (0.4..0.6).contains(&(mean_ms / f64::from(ceiling_ms))),
                "{mean_ms} of {ceiling_ms}"
            );
        }
    }
}
