//! The largest floats of each row, largest first, with their places.
//!
//! Its invariant: of equal floats the earlier is first, and NaN is smaller than all.

use super::rows;
use millpond_tensor::Tensor;
use std::cmp::Ordering;

/// The best of each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Where they stand in the row, i64.
    pub indices: Tensor,
    /// What they are.
    pub values: Tensor,
}

/// The `k` largest of the last dimension, or all where there are fewer.
///
/// # Errors
/// Elements of another type.
pub fn top_k(scores: &Tensor, k: usize) -> Result<Top, String> {
    let (floats, width) = rows("topk", scores)?;
    let k = k.min(width);
    let kept = floats.len() / width.max(1) * k;
    let (mut indices, mut values) = (Vec::with_capacity(kept), Vec::with_capacity(kept));
    let mut places: Vec<usize> = Vec::with_capacity(width);
    for row in floats.chunks_exact(width.max(1)) {
        places.clear();
        places.extend(0..width);
        let order = |a: &usize, b: &usize| larger(row[*a], row[*b]).then(a.cmp(b));
        if (1..width).contains(&k) {
            places.select_nth_unstable_by(k - 1, order);
        }
        places.truncate(k);
        places.sort_unstable_by(order);
        indices.extend(
            places
                .iter()
                .map(|place| i64::try_from(*place).unwrap_or(i64::MAX)),
        );
        values.extend(places.iter().map(|place| row[*place]));
    }
    let mut shape = scores.shape().to_vec();
    match shape.last_mut() {
        Some(last) => *last = k,
        None => shape.push(k),
    }
    let tensor = |error: millpond_tensor::Error| error.to_string();
    Ok(Top {
        indices: Tensor::new(shape.clone(), indices).map_err(tensor)?,
        values: Tensor::new(shape, values).map_err(tensor)?,
    })
}

/// Larger first, NaN last.
pub(super) fn larger(a: f32, b: f32) -> Ordering {
    let is_number = a.is_nan().cmp(&b.is_nan());
    is_number.then_with(|| b.partial_cmp(&a).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(width: usize, scores: &[f32], k: usize, indices: &[i64], values: &[f32]) {
        let rows = scores.len() / width.max(1);
        let scores = Tensor::new(vec![rows, width], scores.to_vec()).unwrap();
        let top = top_k(&scores, k).unwrap();
        let shape = [rows, k.min(width)];
        assert_eq!(
            (top.indices.shape(), top.values.shape()),
            (&shape[..], &shape[..])
        );
        assert_eq!(
            (top.indices.of(), top.values.f32()),
            (Some(indices), Some(values))
        );
    }

    #[test]
    fn the_best_come_first() {
        check(
            3,
            &[0.1, 0.7, 0.2, 5.0, -1.0, 5.0],
            2,
            &[1, 2, 0, 2],
            &[0.7, 0.2, 5.0, 5.0],
        );
        check(
            3,
            &[0.1, f32::NAN, -f32::INFINITY],
            2,
            &[0, 2],
            &[0.1, -f32::INFINITY],
        );
        check(2, &[1.0, 2.0], 9, &[1, 0], &[2.0, 1.0]);
        check(2, &[1.0, 2.0], 0, &[], &[]);
        check(0, &[], 3, &[], &[]);
        let scalar = top_k(&Tensor::new(vec![], vec![3.0_f32]).unwrap(), 1).unwrap();
        assert_eq!(
            (scalar.indices.of(), scalar.indices.shape()),
            (Some(&[0_i64][..]), &[1][..])
        );
    }
}
