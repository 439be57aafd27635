//! Rectangles cut out of an image, as detectors and users give them.
//!
//! Its invariant: a crop lies inside the image and has at least one pixel.

use super::{Image, Kernel, Sample, Size, apply, finished};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// Rectangles in one image at most, and quadrilaterals: what a detector gives beyond is noise.
const BOXES_MAX: usize = 10_000;

/// What coordinates count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Pixels of the image.
    #[default]
    Pixels,
    /// Its sides: 1 is the right or lower edge.
    Sides,
}

/// A rectangle to cut out, at least in part inside the image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crop {
    /// Left, top, right and bottom; the last two are beyond it.
    pub edges: [f32; 4],
    /// What they count.
    pub unit: Unit,
}

/// Boxes of one image, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum Boxes {
    /// Left, top, right, bottom.
    Rectangles(Vec<[f32; 4]>),
    /// Four corners from the top left on, clockwise.
    Quadrilaterals(Vec<[[f32; 2]; 4]>),
}

impl Boxes {
    /// Reads `[n, 4]`, `[n, 6]` with score and class behind, `[n, 8]` or `[n, 4, 2]` of f32, or one box without `n`.
    ///
    /// # Errors
    /// Other shapes, too many boxes, and numbers that are not finite.
    pub fn of(tensor: &Tensor) -> Result<Boxes, String> {
        let shape = tensor.shape();
        let Some(numbers) = tensor.f32() else {
            return Err(format!("boxes are f32, not {}", tensor.element_type()));
        };
        if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(format!("number {at} of the boxes is {}", numbers[at]));
        }
        let boxes = match *shape {
            [4] | [_, 4] => Boxes::Rectangles(numbers.as_chunks().0.to_vec()),
            [6] | [_, 6] => {
                let rows = numbers.as_chunks::<6>().0.iter();
                Boxes::Rectangles(
                    rows.map(|&[left, top, right, bottom, _, _]| [left, top, right, bottom])
                        .collect(),
                )
            }
            [8] | [4, 2] | [_, 8] | [_, 4, 2] => {
                Boxes::Quadrilaterals(numbers.as_chunks().0.as_chunks().0.to_vec())
            }
            _ => {
                return Err(format!(
                    "boxes are [n, 4], or [n, 4, 2] for corners, not {shape:?}"
                ));
            }
        };
        match boxes.len() {
            0..=BOXES_MAX => Ok(boxes),
            found => Err(format!("{found} boxes in one image; {BOXES_MAX} are the limit")),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Boxes::Rectangles(boxes) => boxes.len(),
            Boxes::Quadrilaterals(boxes) => boxes.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Crop {
    /// The whole pixels it holds, at least one: top and left, and their size.
    fn inside(&self, size: Size) -> (usize, usize, Size) {
        let [left, top, right, bottom] = self.edges;
        let span = |from: f32, to: f32, side: usize| {
            let pixels = match self.unit {
                Unit::Pixels => 1.0,
                Unit::Sides => side as f64,
            };
            // A cast saturates: what is beyond an edge is the edge.
            let [from, to] = [from, to].map(|edge| (f64::from(edge) * pixels).round() as usize);
            let from = from.min(side - 1);
            (from, to.clamp(from + 1, side) - from)
        };
        let (left, width) = span(left, right, size.width);
        let (top, height) = span(top, bottom, size.height);
        (top, left, Size { height, width })
    }
}

/// Cuts a rectangle out, its edges rounded to whole pixels and brought into the image.
///
/// # Errors
/// When it is no image.
pub fn crop(image: &Tensor, crop: &Crop) -> Result<Tensor, String> {
    apply(crop, image)
}

impl Kernel for Crop {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        let (top, left, size) = self.inside(image.size);
        let (from, to) = (left * image.channels, (left + size.width) * image.channels);
        let mut out = Vec::with_capacity(size.height * (to - from));
        for y in top..top + size.height {
            out.extend_from_slice(image.row(y).get(from..to).unwrap_or_default());
        }
        finished(size, image.channels, out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::counted;
    use super::*;

    fn check(edges: [f32; 4], unit: Unit, shape: [usize; 3], first: u8) {
        let cut = crop(&counted(4, 5, 2), &Crop { edges, unit }).unwrap();
        assert_eq!(
            (cut.shape(), cut.of::<u8>().unwrap()[0]),
            (&shape[..], first),
            "{edges:?}"
        );
    }

    #[test]
    fn a_rectangle_is_cut_out_inside_the_image() {
        check([1.0, 2.0, 3.0, 4.0], Unit::Pixels, [2, 2, 2], 22);
        check([0.6, 0.4, 2.4, 0.6], Unit::Pixels, [1, 1, 2], 2);
        check([-9.0, -9.0, 99.0, 99.0], Unit::Pixels, [4, 5, 2], 0);
        check([3.0, 3.0, 1.0, 1.0], Unit::Pixels, [1, 1, 2], 36);
        check([9.0, 9.0, 9.5, 9.5], Unit::Pixels, [1, 1, 2], 38);
        check([f32::MAX; 4], Unit::Sides, [1, 1, 2], 38);
        check([0.2, 0.25, 1.0, 1.0], Unit::Sides, [3, 4, 2], 12);
    }

    #[test]
    fn boxes_are_read_by_their_shape() {
        let boxes =
            |shape: &[usize]| Tensor::new(shape.to_vec(), vec![1.0_f32; shape.iter().product()]).unwrap();
        for (shape, len) in [(&[4][..], 1), (&[3, 4], 3), (&[0, 4], 0), (&[2, 6], 2)] {
            let boxes = boxes(shape);
            assert!(matches!(Boxes::of(&boxes), Ok(Boxes::Rectangles(of)) if of.len() == len));
        }
        for (shape, len) in [(&[8][..], 1), (&[4, 2], 1), (&[3, 8], 3), (&[2, 4, 2], 2)] {
            let boxes = boxes(shape);
            assert!(matches!(Boxes::of(&boxes), Ok(Boxes::Quadrilaterals(of)) if of.len() == len));
        }
        let refused = |tensor: &Tensor| Boxes::of(tensor).err().unwrap();
        assert!(refused(&boxes(&[3, 5])).contains("not [3, 5]"));
        assert!(refused(&boxes(&[10_001, 4])).contains("10000 are the limit"));
        let nan = Tensor::new(vec![1, 4], vec![0.0, f32::NAN, 1.0, 1.0]).unwrap();
        assert_eq!(refused(&nan), "number 1 of the boxes is NaN");
    }
}
