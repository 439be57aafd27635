//! How large values are, and the value that belongs to a key.
//!
//! Its invariant: the value of a key depends on the seed, the key and the sizes alone, so a loader, a mix and the check of
//! an answer agree on it without keeping any; and it is letters and digits only, safe in every text protocol, but for rows of
//! numbers, which a template escapes.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::weights::{check_weights, choose};
use crate::{DIM_MAX, Error, Random, RandomRows};

/// The largest size: 16 MiB.
pub const SIZE_MAX: usize = 16 << 20;

/// The distribution of sizes in bytes. In a description: `40`, `{ uniform = [10, 100] }`,
/// `{ lognormal = { median = 100, sigma = 0.8, max = 10000 } }`, `{ pareto = { min = 20, shape = 1.3, max = 100000 } }`
/// or `{ choice = [[40, 0.9], [400, 0.1]] }`; and `{ rows = { seed = 7, dim = 10 } }`, which says the bytes too.
#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sizes {
    /// Always this size.
    Constant(usize),
    /// Every size from the first to the second alike, both included.
    Uniform(usize, usize),
    /// The logarithm of the size is normal, as of sizes that grow by factors.
    Lognormal {
        /// Half of the sizes are below; in bytes.
        median: f64,
        /// The standard deviation of the logarithm; 0 is constant.
        sigma: f64,
        /// Larger ones count as this; in bytes.
        max: usize,
    },
    /// Pareto sizes: heavy-tailed, as of values in caches.
    Pareto {
        /// The smallest and most frequent, at least 1; in bytes.
        min: usize,
        /// The tail index, above 0; the smaller the heavier the tail.
        shape: f64,
        /// Larger ones count as this; in bytes.
        max: usize,
    },
    /// Some sizes, each with its weight.
    Choice(Vec<(usize, f64)>),
    /// That of a row of numbers, which is the value.
    Rows(RandomRows),
}

impl Default for Sizes {
    /// 100 bytes, a field of YCSB.
    fn default() -> Sizes {
        Sizes::Constant(100)
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sizes, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads a plain number as a constant and a table by its name, so that an error inside the table is not lost.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Sizes;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a size in bytes such as 40, or a distribution such as { uniform = [10, 100] }")
    }

    fn visit_u64<E: serde::de::Error>(self, size: u64) -> Result<Sizes, E> {
        usize::try_from(size).map(Sizes::Constant).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, size: i64) -> Result<Sizes, E> {
        usize::try_from(size)
            .map(Sizes::Constant)
            .map_err(|_| E::custom(format!("size {size}, expected 0 or more")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sizes, A::Error> {
        // The derived reader of the tables, by `remote = "Self"`.
        let sizes = Sizes::deserialize(MapAccessDeserializer::new(&mut map))?;
        if map.next_key::<IgnoredAny>()?.is_some() {
            return Err(serde::de::Error::custom("more than one distribution of sizes"));
        }
        Ok(sizes)
    }
}

impl Sizes {
    /// Checks the numbers.
    ///
    /// # Errors
    /// A size is above [`SIZE_MAX`], a range is empty, a parameter of a distribution is outside its range, or no weight of
    /// a choice is above 0.
    pub fn check(&self) -> Result<(), Error> {
        let size = |key: &str, size: usize, least: usize| {
            if size > SIZE_MAX || size < least {
                let expected = format!("bytes, {least} to {SIZE_MAX}");
                return Err(Error::setting(format!("sizes{key}"), size, expected));
            }
            Ok(())
        };
        match self {
            Sizes::Constant(constant) => size("", *constant, 0),
            Sizes::Uniform(from, to) => {
                size(".uniform[0]", *from, 0)?;
                size(".uniform[1]", *to, *from)
            }
            Sizes::Lognormal { median, sigma, max } => {
                size(".lognormal.max", *max, 1)?;
                if !(*median > 0.0 && *median <= *max as f64) {
                    let expected = format!("bytes, above 0 and at most max ({max})");
                    return Err(Error::setting("sizes.lognormal.median", median, expected));
                }
                if !(sigma.is_finite() && *sigma >= 0.0) {
                    let expected = "a finite number of 0 or more, such as 0.8";
                    return Err(Error::setting("sizes.lognormal.sigma", sigma, expected));
                }
                Ok(())
            }
            Sizes::Pareto { min, shape, max } => {
                size(".pareto.min", *min, 1)?;
                size(".pareto.max", *max, *min)?;
                if !(shape.is_finite() && *shape > 0.0) {
                    let expected = "a finite number above 0, such as 1.3";
                    return Err(Error::setting("sizes.pareto.shape", shape, expected));
                }
                Ok(())
            }
            Sizes::Choice(choices) => {
                for (choice, _) in choices {
                    size(".choice", *choice, 0)?;
                }
                check_weights("sizes.choice", choices.iter().map(|&(_, weight)| weight))
            }
            Sizes::Rows(rows) if !(1..=DIM_MAX).contains(&rows.dim) => {
                let expected = format!("numbers, 1 to {DIM_MAX}");
                Err(Error::setting("sizes.rows.dim", rows.dim, expected))
            }
            Sizes::Rows(_) => Ok(()),
        }
    }

    /// The smallest size it may draw, in bytes.
    pub fn least(&self) -> usize {
        match self {
            Sizes::Constant(size) | Sizes::Uniform(size, _) => *size,
            Sizes::Lognormal { .. } => 1,
            Sizes::Pareto { min, max, .. } => *min.min(max),
            Sizes::Choice(choices) => {
                let drawn = choices.iter().filter(|&&(_, weight)| weight > 0.0);
                drawn.map(|&(size, _)| size).min().unwrap_or(0)
            }
            Sizes::Rows(rows) => rows.bytes(),
        }
    }

    /// Draws a size in bytes; sizes that [`Sizes::check`] refuses give a size that means nothing.
    pub fn draw(&self, random: &mut Random) -> usize {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Uniform(from, to) => {
                let span = to.saturating_sub(*from) as u64 + 1;
                from + random.below(span) as usize
            }
            Sizes::Lognormal { median, sigma, max } => {
                let size = median * (sigma * normal(random)).exp();
                (size.round() as usize).clamp(1, (*max).max(1))
            }
            Sizes::Pareto { min, shape, max } => {
                // `1 - unit` is never 0.
                let size = *min as f64 * (1.0 - random.unit()).powf(-1.0 / shape);
                (size as usize).min(*max)
            }
            Sizes::Choice(choices) => {
                let weights = choices.iter().map(|&(_, weight)| weight);
                let chosen = choose(weights, random);
                choices.get(chosen).map_or(0, |&(size, _)| size)
            }
            Sizes::Rows(rows) => rows.bytes(),
        }
    }
}

/// A number of the standard normal distribution (Box and Muller 1958); the second of the pair is not kept, so that two
/// numbers are drawn each time.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (-random.unit()).ln_1p()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Appends the value that belongs to `key` to `out`: its size and its bytes (ASCII letters and digits) depend on `seed`,
/// `key` and `sizes` alone. A row has a seed of its own.
pub fn value_of(seed: u64, key: u64, sizes: &Sizes, out: &mut Vec<u8>) {
    if let Sizes::Rows(rows) = sizes {
        return rows.write(key, out);
    }
    let mut random = Random::of(seed, b"value of", key);
    let mut left = sizes.draw(&mut random);
    out.reserve(left);
    while left > 0 {
        let bytes = random.next_u64().to_le_bytes();
        let taken = left.min(bytes.len());
        let letters = bytes
            .iter()
            .take(taken)
            .map(|&byte| LETTERS[(usize::from(byte) * LETTERS.len()) >> 8]);
        out.extend(letters);
        left -= taken;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn read(text: &str) -> Result<Sizes, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn draws(text: &str) -> Vec<usize> {
        let sizes = read(text).unwrap();
        sizes.check().unwrap();
        let mut random = Random::new(21);
        let mut drawn: Vec<usize> = (0..20_000).map(|_| sizes.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn descriptions_are_numbers_or_tables() {
        assert_eq!(read("40").unwrap(), Sizes::Constant(40));
        assert_eq!(read(r#"{"uniform":[10,100]}"#).unwrap(), Sizes::Uniform(10, 100));
        assert_eq!(
            read(r#"{"choice":[[40,0.9],[400,0.1]]}"#).unwrap(),
            Sizes::Choice(vec![(40, 0.9), (400, 0.1)])
        );
        assert!(matches!(
            read(r#"{"lognormal":{"median":100,"sigma":0.8,"max":10000}}"#),
            Ok(Sizes::Lognormal { max: 10_000, .. })
        ));
        assert_eq!(
            read(r#"{"rows":{"seed":7,"dim":10}}"#).unwrap(),
            Sizes::Rows(RandomRows { seed: 7, dim: 10 })
        );
        let said = |text: &str| read(text).expect_err("refused").to_string();
        assert!(said(r#"{"pareto":{"min":1,"form":2}}"#).contains("unknown field `form`"));
        assert!(said(r#"{"normal":1}"#).contains("unknown variant `normal`"));
        assert!(said(r#"{"constant":1,"uniform":[1,2]}"#).contains("more than one distribution"));
        assert!(said("-1").contains("size -1, expected 0 or more"));
        assert!(said(r#""big""#).contains("a size in bytes such as 40"));
    }

    #[test]
    fn drawn_sizes_follow_their_distribution() {
        let uniform = draws(r#"{"uniform":[10,100]}"#);
        assert_eq!((uniform[0], uniform[19_999]), (10, 100));
        assert!(uniform[10_000].abs_diff(55) < 3, "{}", uniform[10_000]);
        let lognormal = draws(r#"{"lognormal":{"median":100,"sigma":0.8,"max":1000}}"#);
        assert!(lognormal[10_000].abs_diff(100) < 4, "{}", lognormal[10_000]);
        // One standard deviation up is 100 e^0.8 = 222.6.
        assert!(lognormal[16_827].abs_diff(223) < 10, "{}", lognormal[16_827]);
        assert_eq!(lognormal[19_999], 1_000);
        let pareto = draws(r#"{"pareto":{"min":20,"shape":1.3,"max":5000}}"#);
        // The median of a Pareto law is 20 × 2^(1/1.3) = 34.1.
        assert_eq!((pareto[0], pareto[19_999]), (20, 5_000));
        assert!(pareto[10_000].abs_diff(34) < 2, "{}", pareto[10_000]);
        let choice = draws(r#"{"choice":[[400,0.1],[40,0.9],[1,0]]}"#);
        let large = choice.iter().filter(|&&size| size == 400).count();
        assert!(large.abs_diff(2_000) < 220, "{large}");
        assert_eq!(choice[0], 40);
    }

    #[test]
    fn impossible_sizes_are_refused_by_name() {
        let said = |text: &str| read(text).unwrap().check().expect_err("refused").to_string();
        assert!(said("99999999").contains("sizes is 99999999, expected bytes, 0 to 16777216"));
        assert!(said(r#"{"uniform":[100,10]}"#).contains("sizes.uniform[1] is 10"));
        assert!(
            said(r#"{"lognormal":{"median":0,"sigma":1,"max":9}}"#).contains("sizes.lognormal.median is 0")
        );
        assert!(
            said(r#"{"lognormal":{"median":1,"sigma":-1,"max":9}}"#).contains("sizes.lognormal.sigma is -1")
        );
        assert!(said(r#"{"pareto":{"min":0,"shape":1,"max":9}}"#).contains("sizes.pareto.min is 0"));
        assert!(said(r#"{"pareto":{"min":1,"shape":0,"max":9}}"#).contains("sizes.pareto.shape is 0"));
        assert!(said(r#"{"choice":[]}"#).contains("a sum of weights of 0"));
        assert!(said(r#"{"choice":[[1,-1]]}"#).contains("a weight of -1"));
        assert!(
            said(r#"{"rows":{"seed":1,"dim":0}}"#).contains("sizes.rows.dim is 0, expected numbers, 1 to")
        );
    }

    #[test]
    fn the_value_of_a_key_is_its_own() {
        let value = |seed, key| {
            let mut out = Vec::new();
            value_of(seed, key, &Sizes::Uniform(10, 100), &mut out);
            out
        };
        assert_eq!(value(1, 2), value(1, 2));
        assert_ne!(value(1, 2), value(1, 3));
        assert_ne!(value(1, 2), value(2, 2));
        for key in 0..100 {
            let value = value(1, key);
            assert!((10..=100).contains(&value.len()));
            assert!(value.iter().all(u8::is_ascii_alphanumeric));
        }
    }

    /// A golden: a store loaded by an older press must still check.
    #[test]
    fn the_first_value_of_a_seed_is_fixed() {
        let mut out = b"kept ".to_vec();
        value_of(1, 0, &Sizes::Constant(12), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), "kept mk6CcRzb1neE");
    }
}
