//! How long a link waits before it tries to connect again: exponential backoff with full jitter.
//!
//! It knows no clock and no socket. Its invariant: no wait is longer than `most`, and every wait is drawn from zero to a
//! ceiling that doubles, so that the clients of a server that comes back do not all come at once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// When a connection that could not be made is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling of the wait after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The ceiling of every wait.
    pub most: Duration,
    /// The same seed draws the same waits. `None`, the default, draws different ones in every client, which is what
    /// spreads them.
    pub seed: Option<u64>,
}

impl Default for Backoff {
    /// 50 ms, doubling up to 5 s.
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(50),
            most: Duration::from_secs(5),
            seed: None,
        }
    }
}

/// The waits of one link.
#[derive(Debug)]
pub(crate) struct Waits {
    first: Duration,
    most: Duration,
    failures: u32,
    /// The state of SplitMix64 (Steele, Lea and Flood, 2014): enough for spreading, and no dependency.
    random: u64,
}

impl Waits {
    /// Waits for the link number `link` of a pool; each draws its own.
    pub(crate) fn new(backoff: &Backoff, link: usize) -> Waits {
        let seed = backoff
            .seed
            .unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Waits {
            first: backoff.first,
            most: backoff.most,
            failures: 0,
            random: seed ^ (link as u64).wrapping_mul(0xd1b5_4a32_d192_ed03),
        }
    }

    /// An attempt failed: the wait before the next.
    pub(crate) fn failed(&mut self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        let ceiling = self.first.saturating_mul(doubled).min(self.most);
        self.draw(ceiling)
    }

    /// A connection closed before it had proved anything. The first time that is taken for a server that restarts;
    /// from then on it is a failure, so that a server that closes whatever it accepts is not stormed.
    pub(crate) fn closed_unproven(&mut self) -> Duration {
        if self.failures == 0 {
            self.failures = 1;
            return Duration::ZERO;
        }
        self.failed()
    }

    /// A connection proved good.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// A short wait that no failure asks for: for connections that are opened again before anybody needs them.
    pub(crate) fn spread(&mut self) -> Duration {
        self.draw(self.first.min(self.most))
    }

    /// From zero to `ceiling`, evenly.
    fn draw(&mut self, ceiling: Duration) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let ceiling_ns = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
        let wait_ns = (u128::from(ceiling_ns) * u128::from(mixed)) >> 64;
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(ceiling_ns))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    const FIRST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(5);

    fn waits(seed: Option<u64>, link: usize) -> Waits {
        Waits::new(
            &Backoff {
                first: FIRST,
                most: MOST,
                seed,
            },
            link,
        )
    }

    #[test]
    fn the_ceiling_doubles_up_to_the_most_and_waits_lie_anywhere_below_it() {
        let ceilings = [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000];
        let mut sums = [Duration::ZERO; 9];
        for seed in 0..1000 {
            let mut waits = waits(Some(seed), 0);
            for (sum, ceiling_ms) in sums.iter_mut().zip(ceilings) {
                let wait = waits.failed();
                assert!(
                    wait <= Duration::from_millis(ceiling_ms),
                    "{wait:?} over {ceiling_ms} ms"
                );
                *sum += wait;
            }
        }
        // Full jitter: evenly from zero, so half the ceiling on average.
        for (sum, ceiling_ms) in sums.into_iter().zip(ceilings) {
            let share = (sum / 1000).as_secs_f64() / (ceiling_ms as f64 / 1000.0);
            assert!((0.45..0.55).contains(&share), "{share} of {ceiling_ms} ms");
        }
    }

    #[test]
    fn a_seed_repeats_itself_and_links_do_not_repeat_each_other() {
        let draw = |seed, link| {
            let mut waits = waits(seed, link);
            [waits.failed(), waits.failed(), waits.failed()]
        };
        assert_eq!(draw(Some(7), 0), draw(Some(7), 0));
        assert_ne!(draw(Some(7), 0), draw(Some(7), 1));
        assert_ne!(draw(Some(7), 0), draw(Some(8), 0));
        assert_ne!(draw(None, 0), draw(None, 0));
    }

    #[test]
    fn what_worked_begins_anew_and_one_early_close_is_free() {
        let mut waits = waits(Some(1), 0);
        for _ in 0..40 {
            assert!(waits.failed() <= MOST);
        }
        waits.worked();
        assert!(waits.failed() <= FIRST);
        waits.worked();
        assert_eq!(waits.closed_unproven(), Duration::ZERO);
        assert_ne!(waits.closed_unproven(), Duration::ZERO);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let backoff = Backoff {
            first: Duration::MAX,
            most: Duration::MAX,
            seed: None,
        };
        let mut waits = Waits::new(&backoff, usize::MAX);
        waits.failures = u32::MAX;
        assert!(waits.failed() < Duration::MAX);
    }
}
