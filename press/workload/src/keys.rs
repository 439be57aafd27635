//! Which key a request asks for: the popularity of keys.
//!
//! Keys are numbers; how they are written is the template's matter. Its invariant: a drawn key is in `0..count`, or, under
//! `latest`, among the `count` newest of the keys inserted so far.

use serde::Deserialize;

use crate::order::common_divisor;
use crate::ranks::Ranks;
use crate::{Error, Random};

/// The largest number of keys: 10^12.
pub const KEYS_MAX: u64 = 1_000_000_000_000;

/// How requests spread over the keys. In a description: `"uniform"`, `{ zipf = 0.99 }`, `{ latest = 0.99 }` or
/// `{ hotspot = { keys = 0.1, requests = 0.9 } }`.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Popularity {
    /// Every key alike.
    #[default]
    Uniform,
    /// Zipf's law: the key of rank `k` (from 1) in proportion to `1 / k^exponent`. The ranks are scattered over the key
    /// space by a fixed permutation, the same for every seed, so that popular keys are not neighbours.
    Zipf(f64),
    /// YCSB's "latest" (Cooper et al. 2010): the newest key is the most popular, the others by the Zipf rank of their
    /// distance back from it; writes insert new keys. Not scattered: age is the order of the keys.
    Latest(f64),
    /// YCSB's "hotspot": a share of the keys gets a share of the requests, uniformly within and without. The hot keys are
    /// scattered like Zipf ranks, where YCSB takes the first ones.
    Hotspot {
        /// The share of the keys that is hot, above 0 and up to 1; at least one key is.
        keys: f64,
        /// The share of the requests that goes to hot keys, 0 to 1.
        requests: f64,
    },
}

/// The keys of a run, ready to draw from.
#[derive(Debug, Clone)]
pub struct Keys {
    count: u64,
    /// Keys inserted after the first `count`.
    inserted: u64,
    shape: Shape,
}

#[derive(Debug, Clone)]
enum Shape {
    Uniform,
    Zipf(Ranks, Scatter),
    Latest(Ranks),
    /// The ranks below `hot` are drawn with probability `requests`.
    Hotspot {
        hot: u64,
        requests: f64,
        scatter: Scatter,
    },
}

impl Keys {
    /// The keys `0..count`.
    ///
    /// A Zipf law of up to 4,000,000 keys takes 8 bytes a key (an exact table); larger ones take none.
    ///
    /// # Errors
    /// `count` is 0 or above [`KEYS_MAX`], an exponent is negative or not finite, or a share is outside its range.
    pub fn new(count: u64, popularity: &Popularity) -> Result<Keys, Error> {
        if count == 0 || count > KEYS_MAX {
            return Err(Error::setting(
                "the number of keys",
                count,
                format!("1 to {KEYS_MAX}"),
            ));
        }
        let shape = match *popularity {
            Popularity::Uniform => Shape::Uniform,
            Popularity::Zipf(exponent) => Shape::Zipf(ranks("zipf", count, exponent)?, Scatter::new(count)),
            Popularity::Latest(exponent) => Shape::Latest(ranks("latest", count, exponent)?),
            Popularity::Hotspot { keys, requests } => {
                if !(keys > 0.0 && keys <= 1.0) {
                    let expected = "a share of the keys, above 0 and at most 1, such as 0.1";
                    return Err(Error::setting("hotspot.keys", keys, expected));
                }
                if !(0.0..=1.0).contains(&requests) {
                    let expected = "a share of the requests, 0 to 1, such as 0.9";
                    return Err(Error::setting("hotspot.requests", requests, expected));
                }
                Shape::Hotspot {
                    hot: ((count as f64 * keys).round() as u64).clamp(1, count),
                    requests,
                    scatter: Scatter::new(count),
                }
            }
        };
        Ok(Keys {
            count,
            inserted: 0,
            shape,
        })
    }

    /// Draws a key: in `0..count`, or under `latest` one of the `count` newest.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Uniform => random.below(self.count),
            Shape::Zipf(ranks, scatter) => scatter.key(ranks.draw(random)),
            Shape::Latest(ranks) => self.count + self.inserted - 1 - ranks.draw(random),
            Shape::Hotspot {
                hot,
                requests,
                scatter,
            } => {
                // Without cold keys every request is for a hot one.
                let rank = if *hot == self.count || random.unit() < *requests {
                    random.below(*hot)
                } else {
                    hot + random.below(self.count - hot)
                };
                scatter.key(rank)
            }
        }
    }

    /// Makes the next key the newest and returns it: `count`, then `count + 1` and so on. Only `latest` draws it again.
    pub fn insert(&mut self) -> u64 {
        let key = self.count + self.inserted;
        self.inserted += 1;
        key
    }

    /// Whether writes insert new keys: under `latest` only.
    pub fn grows(&self) -> bool {
        matches!(self.shape, Shape::Latest(_))
    }
}

fn ranks(key: &str, count: u64, exponent: f64) -> Result<Ranks, Error> {
    if !exponent.is_finite() || exponent < 0.0 {
        let expected = "a finite exponent of 0 (uniform) or more, such as 0.99";
        return Err(Error::setting(key, exponent, expected));
    }
    Ranks::new(count, exponent)
}

/// The fixed permutation from ranks to keys: `rank × step mod count`, with `step` prime to `count` (so it is one to one)
/// and near the golden section of it (so neighbouring ranks fall far apart, and any first ranks spread evenly).
#[derive(Debug, Clone)]
struct Scatter {
    step: u64,
    count: u64,
}

impl Scatter {
    fn new(count: u64) -> Scatter {
        let golden = (count as f64 * 0.618_033_988_749_894_8) as u64;
        let mut step = golden.max(1);
        // 1 is prime to everything, so this ends.
        while common_divisor(step, count) != 1 {
            step = if step >= count { 1 } else { step + 1 };
        }
        Scatter { step, count }
    }

    fn key(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.count)) as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn draws(count: u64, popularity: &Popularity, draws: usize) -> Vec<u64> {
        let mut keys = Keys::new(count, popularity).unwrap();
        let mut random = Random::new(3);
        (0..draws).map(|_| keys.draw(&mut random)).collect()
    }

    #[test]
    fn descriptions_are_names_or_tables() {
        let read = |text: &str| serde_json::from_str::<Popularity>(text);
        assert_eq!(read(r#""uniform""#).unwrap(), Popularity::Uniform);
        assert_eq!(read(r#"{"zipf":1}"#).unwrap(), Popularity::Zipf(1.0));
        assert_eq!(read(r#"{"latest":0.99}"#).unwrap(), Popularity::Latest(0.99));
        assert_eq!(
            read(r#"{"hotspot":{"keys":0.1,"requests":0.9}}"#).unwrap(),
            Popularity::Hotspot {
                keys: 0.1,
                requests: 0.9
            }
        );
        assert!(read(r#"{"hotspot":{"keys":0.1}}"#).is_err());
        assert!(read(r#"{"gauss":1}"#).is_err());
    }

    #[test]
    fn the_scatter_is_one_to_one_and_parts_hot_keys() {
        for count in [1, 2, 6, 30, 1_000, 30_030] {
            let scatter = Scatter::new(count);
            let mut keys: Vec<u64> = (0..count).map(|rank| scatter.key(rank)).collect();
            keys.sort_unstable();
            assert!(keys.into_iter().eq(0..count), "{count}");
        }
        let scatter = Scatter::new(KEYS_MAX);
        let mut hot: Vec<u64> = (0..1_000).map(|rank| scatter.key(rank)).collect();
        hot.sort_unstable();
        assert!(
            hot.windows(2)
                .all(|pair| pair[1] - pair[0] > KEYS_MAX / 1_000 / 4)
        );
    }

    #[test]
    fn zipf_keeps_its_popularity_when_scattered() {
        let drawn = draws(1_000, &Popularity::Zipf(1.0), 100_000);
        let scatter = Scatter::new(1_000);
        let times = |rank| {
            let key = scatter.key(rank);
            drawn.iter().filter(|&&drawn| drawn == key).count()
        };
        assert!((12_800..13_900).contains(&times(0)), "{}", times(0));
        assert!((1_150..1_550).contains(&times(9)), "{}", times(9));
    }

    #[test]
    fn a_hotspot_gets_its_share() {
        let popularity = Popularity::Hotspot {
            keys: 0.1,
            requests: 0.9,
        };
        let drawn = draws(10_000, &popularity, 100_000);
        let scatter = Scatter::new(10_000);
        let hot: std::collections::HashSet<u64> = (0..1_000).map(|rank| scatter.key(rank)).collect();
        let share = drawn.iter().filter(|key| hot.contains(key)).count();
        assert!(share.abs_diff(90_000) < 500, "{share}");
        assert!(drawn.iter().all(|&key| key < 10_000));
        let all = Popularity::Hotspot {
            keys: 1.0,
            requests: 0.5,
        };
        assert!(draws(3, &all, 100).iter().all(|&key| key < 3));
    }

    #[test]
    fn latest_follows_the_newest_key() {
        let mut keys = Keys::new(100, &Popularity::Latest(0.99)).unwrap();
        let mut random = Random::new(3);
        for round in 0..50 {
            assert_eq!(keys.insert(), 100 + round);
            let newest = 100 + round;
            let drawn: Vec<u64> = (0..500).map(|_| keys.draw(&mut random)).collect();
            assert!(drawn.iter().all(|&key| key > newest - 100 && key <= newest));
            // The sum of k^-0.99 up to 100 is 5.28: the newest key takes about a fifth of the draws.
            let share = drawn.iter().filter(|&&key| key == newest).count();
            assert!((55..140).contains(&share), "{share}");
        }
        assert!(keys.grows());
        assert_eq!(keys.insert(), 150);
    }

    #[test]
    fn uniform_draws_are_even_and_single_keys_work() {
        let drawn = draws(10, &Popularity::Uniform, 100_000);
        for key in 0..10 {
            let times = drawn.iter().filter(|&&drawn| drawn == key).count();
            assert!(times.abs_diff(10_000) < 500, "{times}");
        }
        for popularity in [
            Popularity::Uniform,
            Popularity::Zipf(0.99),
            Popularity::Latest(0.99),
        ] {
            assert_eq!(draws(1, &popularity, 5), [0; 5]);
        }
    }

    #[test]
    fn impossible_keys_are_refused_by_name() {
        let said =
            |count, popularity: Popularity| Keys::new(count, &popularity).expect_err("refused").to_string();
        assert!(said(0, Popularity::Uniform).contains("the number of keys is 0"));
        assert!(said(KEYS_MAX + 1, Popularity::Uniform).contains("1 to 1000000000000"));
        assert!(said(10, Popularity::Zipf(-1.0)).contains("zipf is -1"));
        assert!(said(10, Popularity::Latest(f64::NAN)).contains("latest is NaN"));
        let hotspot = |keys, requests| said(10, Popularity::Hotspot { keys, requests });
        assert!(hotspot(0.0, 0.5).contains("hotspot.keys is 0"));
        assert!(hotspot(0.5, 1.5).contains("hotspot.requests is 1.5"));
    }
}
