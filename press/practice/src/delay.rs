//! How long an answer is held back: the distributions and their draws.
//!
//! Its invariant: a draw is the quantile of one random number, so what is drawn has the distribution that is written here.

use crate::quantity::{duration, duration_above_zero, ns, or_refuse};
use crate::random::Random;
use std::str::FromStr;

const EXPECTED: &str = "a delay: constant:2ms, bimodal:1ms:20ms:0.05 (fast, slow, share of the slow) or exponential:2ms (its mean)";

/// A distribution of delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Delay {
    /// Always the same.
    Constant {
        /// The delay.
        ns: u64,
    },
    /// Mostly fast, sometimes slow.
    Bimodal {
        /// The usual delay.
        fast_ns: u64,
        /// The rare one.
        slow_ns: u64,
        /// How often it is the rare one, from 0 to 1.
        slow_share: f64,
    },
    /// Many short and few long ones; the share longer than t is exp(-t / mean).
    Exponential {
        /// The mean.
        mean_ns: u64,
    },
}

impl Delay {
    /// The delay that a share `at` (in [0, 1)) of all draws stays below or equals.
    pub(crate) fn quantile_ns(&self, at: f64) -> u64 {
        match *self {
            Delay::Constant { ns } => ns,
            Delay::Bimodal {
                fast_ns,
                slow_ns,
                slow_share,
            } => {
                if at < 1.0 - slow_share {
                    fast_ns
                } else {
                    slow_ns
                }
            }
            Delay::Exponential { mean_ns } => (-(-at).ln_1p() * mean_ns as f64).round() as u64,
        }
    }

    pub(crate) fn draw_ns(&self, random: &mut Random) -> u64 {
        self.quantile_ns(random.unit())
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Delay, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let delay = match parts[..] {
            ["constant", delay] => Some(Delay::Constant {
                ns: ns(duration(delay)?),
            }),
            ["exponential", mean] => Some(Delay::Exponential {
                mean_ns: ns(duration_above_zero(mean)?),
            }),
            ["bimodal", fast, slow, share] => {
                let (fast_ns, slow_ns) = (ns(duration(fast)?), ns(duration(slow)?));
                let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share
                    .filter(|_| fast_ns <= slow_ns)
                    .map(|slow_share| Delay::Bimodal {
                        fast_ns,
                        slow_ns,
                        slow_share,
                    })
            }
            _ => None,
        };
        or_refuse(delay, text, EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DRAWS: usize = 200_000;

    /// Draws with a fixed seed and gives them sorted.
    fn draws(text: &str) -> Vec<u64> {
        let delay: Delay = text.parse().unwrap();
        let mut random = Random::new(42, 0);
        let mut drawn: Vec<u64> = (0..DRAWS).map(|_| delay.draw_ns(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn a_constant_is_constant() {
        let drawn = draws("constant:2ms");
        assert!(drawn.iter().all(|&ns| ns == 2_000_000));
    }

    #[test]
    fn an_exponential_has_its_analytic_quantiles() {
        let drawn = draws("exponential:2ms");
        // -mean · ln(1 - q), written out; four standard errors of an order statistic are the room.
        for (q, expected_ns) in [
            (0.5, 1_386_294.4),
            (0.9, 4_605_170.2),
            (0.99, 9_210_340.4),
            (0.999, 13_815_510.6),
        ] {
            let got = drawn[(q * DRAWS as f64) as usize] as f64;
            let density = (1.0 - q) / 2e6;
            let error = (q * (1.0 - q) / DRAWS as f64).sqrt() / density;
            assert!(
                (got - expected_ns).abs() < 4.0 * error,
                "{q}: {got} instead of {expected_ns}"
            );
        }
        let mean = drawn.iter().sum::<u64>() as f64 / DRAWS as f64;
        assert!((mean - 2e6).abs() < 4.0 * 2e6 / (DRAWS as f64).sqrt(), "{mean}");
    }

    #[test]
    fn a_bimodal_has_two_values_in_their_shares() {
        let drawn = draws("bimodal:1ms:20ms:0.05");
        let slow = drawn.iter().filter(|&&ns| ns == 20_000_000).count();
        let fast = drawn.iter().filter(|&&ns| ns == 1_000_000).count();
        assert_eq!(slow + fast, DRAWS);
        let error = (0.05 * 0.95 / DRAWS as f64).sqrt();
        assert!(
            (slow as f64 / DRAWS as f64 - 0.05).abs() < 4.0 * error,
            "{slow} slow ones"
        );
        let never: Delay = "bimodal:1ms:20ms:0".parse().unwrap();
        let always: Delay = "bimodal:1ms:20ms:1".parse().unwrap();
        assert_eq!(never.quantile_ns(0.999_999), 1_000_000);
        assert_eq!(always.quantile_ns(0.0), 20_000_000);
    }

    #[test]
    fn what_is_no_delay_is_refused() {
        for wrong in [
            "",
            "constant",
            "constant:2",
            "constant:1ms:2ms",
            "uniform:1ms",
            "exponential:0ms",
            "bimodal:1ms:2ms",
            "bimodal:1ms:2ms:5",
            "bimodal:2ms:1ms:0.5",
        ] {
            assert!(wrong.parse::<Delay>().is_err(), "{wrong}");
        }
    }
}
