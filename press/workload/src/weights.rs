//! Choices in proportion to weights.
//!
//! Its invariant: what has the weight 0 is never chosen, unless all have.

use crate::{Error, Random};

/// Refuses weights that are negative, not finite or all 0.
pub(crate) fn check_weights(key: &str, weights: impl Iterator<Item = f64>) -> Result<(), Error> {
    let mut total = 0.0;
    for weight in weights {
        if !weight.is_finite() || weight < 0.0 {
            let expected = "finite weights of 0 or more";
            return Err(Error::setting(key, format!("a weight of {weight}"), expected));
        }
        total += weight;
    }
    if !(total > 0.0 && total.is_finite()) {
        let expected = "at least one weight above 0 and a finite sum";
        return Err(Error::setting(
            key,
            format!("a sum of weights of {total}"),
            expected,
        ));
    }
    Ok(())
}

/// An index in proportion to the weights; the last one above 0 when rounding passes the end.
pub(crate) fn choose(weights: impl Iterator<Item = f64> + Clone, random: &mut Random) -> usize {
    let mut left = random.unit() * weights.clone().sum::<f64>();
    let mut chosen = 0;
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            chosen = index;
            if left < weight {
                break;
            }
            left -= weight;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_the_weights() {
        let mut random = Random::new(2);
        let mut counts = [0usize; 4];
        for _ in 0..40_000 {
            counts[choose([0.0, 3.0, 1.0, 0.0].into_iter(), &mut random)] += 1;
        }
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!(counts[1].abs_diff(30_000) < 450, "{counts:?}");
    }
}
