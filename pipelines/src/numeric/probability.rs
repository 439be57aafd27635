//! Softmax over the last dimension, and the sigmoid of each float.
//!
//! Its invariant: no result is larger than 1, and infinities have their limits.

use super::{rows, shaped};
use millpond_tensor::Tensor;

/// Shares of 1 for the floats of each row.
///
/// # Errors
/// Elements of another type, and rows with NaN.
pub fn softmax(logits: &Tensor) -> Result<Tensor, String> {
    let (floats, width) = rows("softmax", logits)?;
    let mut out = floats.to_vec();
    for (at, row) in out.chunks_exact_mut(width.max(1)).enumerate() {
        if row.iter().any(|logit| logit.is_nan()) {
            return Err(format!("row {at} of softmax has NaN"));
        }
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for logit in row.iter_mut() {
            // Where the largest is infinite, those that are share the row.
            *logit = if *logit == max { 1.0 } else { (*logit - max).exp() };
            sum += f64::from(*logit);
        }
        row.iter_mut()
            .for_each(|share| *share = (f64::from(*share) / sum) as f32);
    }
    shaped(logits, out)
}

/// `1 / (1 + exp(-x))` of each float. NaN stays NaN.
///
/// # Errors
/// Elements of another type.
pub fn sigmoid(logits: &Tensor) -> Result<Tensor, String> {
    let (floats, _) = rows("sigmoid", logits)?;
    let out = floats.iter().map(|logit| 1.0 / (1.0 + (-logit).exp()));
    shaped(logits, out.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const INFINITE: f32 = f32::INFINITY;

    fn check(function: impl Fn(&Tensor) -> Result<Tensor, String>, row: &[f32], expected: &[f32]) {
        let tensor = Tensor::new(vec![1, row.len()], row.to_vec()).unwrap();
        let found = function(&tensor).unwrap();
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        assert!(found.f32().unwrap().iter().zip(expected).all(near), "{found:?}");
        assert_eq!(found.shape(), tensor.shape());
    }

    #[test]
    fn softmax_gives_shares() {
        check(softmax, &[0.0, 0.0], &[0.5, 0.5]);
        check(
            softmax,
            &[1.0, 2.0, 3.0],
            &[0.090_030_57, 0.244_728_48, 0.665_240_94],
        );
        check(softmax, &[1000.0, 0.0], &[1.0, 0.0]);
        check(softmax, &[INFINITE, 1.0, INFINITE], &[0.5, 0.0, 0.5]);
        check(softmax, &[-INFINITE, -INFINITE], &[0.5, 0.5]);
        check(softmax, &[-INFINITE, 3.0], &[0.0, 1.0]);
        check(softmax, &[], &[]);
        let nan = Tensor::new(vec![2, 1], vec![1.0, f32::NAN]).unwrap();
        assert_eq!(softmax(&nan).unwrap_err(), "row 1 of softmax has NaN");
        let longs = Tensor::new(vec![1], vec![1_i64]).unwrap();
        assert_eq!(softmax(&longs).unwrap_err(), "softmax takes f32, not i64");
    }

    #[test]
    fn sigmoid_has_limits() {
        check(
            sigmoid,
            &[0.0, 1.0, -INFINITE, INFINITE, -200.0],
            &[0.5, 0.731_058_6, 0.0, 1.0, 0.0],
        );
        let nan = Tensor::new(vec![], vec![f32::NAN]).unwrap();
        assert!(sigmoid(&nan).unwrap().f32().unwrap()[0].is_nan());
    }
}
