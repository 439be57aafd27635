//! Tensors with other sizes: padded behind what they have, or cut. It copies, and interprets no element. Its invariant: an element that
//! lies within both shapes keeps its place.

use crate::{Data, Elements, Tensor};

impl Tensor {
    /// A copy of this shape: elements within both shapes keep their places, and the others are `fill` (true for truth values that are not 0,
    /// strings without bytes). `None` where the number of dimensions differs, or so many elements cannot be counted.
    ///
    /// ```
    /// use millpond_tensor::Tensor;
    ///
    /// let ids = Tensor::new(vec![2, 2], vec![1_i64, 2, 3, 4])?;
    /// let padded = ids.resized(&[2, 3], 9).expect("two dimensions");
    /// assert_eq!(padded.of::<i64>(), Some(&[1, 2, 9, 3, 4, 9][..]));
    /// assert_eq!(padded.resized(&[2, 2], 0), Some(ids));
    /// # Ok::<(), millpond_tensor::Error>(())
    /// ```
    pub fn resized(&self, shape: &[usize], fill: i64) -> Option<Tensor> {
        let own = self.shape();
        if own.len() != shape.len() {
            return None;
        }
        let Some(last) = (0..own.len()).rev().find(|at| own[*at] != shape[*at]) else {
            return Some(self.clone());
        };
        let product = |sizes: &[usize]| {
            sizes
                .iter()
                .try_fold(1usize, |product, size| product.checked_mul(*size))
        };
        let len = product(shape)?;
        // Behind the last size that differs everything lies together.
        let inner = product(&shape[last + 1..])?;
        let (own_run, run) = (own[last].checked_mul(inner)?, shape[last].checked_mul(inner)?);
        let kept = own_run.min(run);
        let fill = Data::filled(self.element_type(), fill, run);
        let filled = fill.slice(0..run - kept);
        let outer = product(&shape[..last])?;
        let mut parts: Vec<Elements<'_>> = Vec::with_capacity(outer.saturating_mul(2).min(len));
        for at in 0..outer {
            match place(own, &shape[..last], at) {
                Some(at) => {
                    let start = at * own_run;
                    parts.push(self.elements().slice(start..start + kept));
                    parts.push(filled);
                }
                None => parts.push(fill.slice(0..run)),
            }
        }
        let data = match parts.is_empty() {
            true => Data::zeros(self.element_type(), 0),
            false => Data::concat(parts.iter().copied(), len)?,
        };
        Tensor::new(shape.to_vec(), data).ok()
    }
}

/// Where the block lies in a tensor of sizes `own` that is number `at` in one of sizes `outer`; `None` where it is not in there.
fn place(own: &[usize], outer: &[usize], at: usize) -> Option<usize> {
    let (mut rest, mut place, mut stride) = (at, 0, 1);
    for (own, size) in own.iter().zip(outer).rev() {
        let index = rest % size;
        rest /= size;
        if index >= *own {
            return None;
        }
        place += index * stride;
        stride *= own;
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Bytes, ElementType};

    fn check(from: &[usize], to: &[usize]) {
        let len: usize = from.iter().product();
        let tensor = Tensor::new(from.to_vec(), (1..=len as i32).collect::<Vec<i32>>()).unwrap();
        let found = tensor.resized(to, -1).unwrap();
        assert_eq!(found.shape(), to);
        // Each element by its indices, one after the other.
        let mut indices = vec![0; to.len()];
        for found in found.of::<i32>().unwrap() {
            let is_inside = indices.iter().zip(from).all(|(index, size)| index < size);
            let flat = indices
                .iter()
                .zip(from)
                .fold(0, |flat, (index, size)| flat * size + index);
            let expected = if is_inside { flat as i32 + 1 } else { -1 };
            assert_eq!(*found, expected, "{from:?} to {to:?} at {indices:?}");
            for at in (0..to.len()).rev() {
                indices[at] += 1;
                if indices[at] < to[at] {
                    break;
                }
                indices[at] = 0;
            }
        }
    }

    #[test]
    fn elements_keep_their_places() {
        for (from, to) in [
            (&[2, 3][..], &[2, 5][..]),
            (&[2, 5], &[2, 3]),
            (&[2, 3], &[4, 3]),
            (&[4, 3], &[2, 5]),
            (&[2, 2, 3], &[2, 4, 3]),
            (&[2, 3, 2, 2], &[2, 3, 4, 4]),
            (&[2, 3, 4, 4], &[2, 3, 1, 6]),
            (&[0, 3], &[2, 2]),
            (&[2, 3], &[0, 3]),
            (&[2, 3], &[2, 0]),
            (&[3], &[3]),
            (&[], &[]),
        ] {
            check(from, to);
        }
        let tensor = Tensor::new(vec![2, 2], vec![0.0f32; 4]).unwrap();
        assert_eq!(tensor.resized(&[4], 0), None);
        assert_eq!(tensor.resized(&[usize::MAX, 2], 0), None);
    }

    #[test]
    fn every_type_is_filled() {
        for &element_type in ElementType::ALL {
            let fill = i64::from(element_type != ElementType::Bytes);
            let none = Tensor::zeros(element_type, vec![1, 0]).unwrap();
            let one = none.resized(&[1, 1], fill).unwrap();
            let zero = Tensor::zeros(element_type, vec![1, 1]).unwrap();
            assert_eq!(one == zero, fill == 0, "{element_type}");
        }
        let strings = Tensor::new(vec![1, 2], Bytes::from_iter(["a", "b"])).unwrap();
        let padded = strings.resized(&[1, 3], 0).unwrap();
        assert_eq!(
            padded.strings().unwrap().iter().collect::<Vec<_>>(),
            [&b"a"[..], b"b", b""]
        );
    }
}
