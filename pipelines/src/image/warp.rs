//! Quadrilaterals cut out of an image and set upright, as text detectors give them: a perspective warp.
//!
//! Its invariant: a sample outside the image is the one at its edge.

use super::crop::Unit;
use super::resize::cubic_weights;
use super::{Image, Kernel, Sample, Size, apply, finished};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// How samples between pixels are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// Between two pixels each way.
    Bilinear,
    /// Between four pixels each way, with OpenCV's curve.
    #[default]
    Bicubic,
}

/// A quadrilateral to cut out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warp {
    /// Its corners from the top left on, clockwise.
    pub corners: [[f32; 2]; 4],
    /// What they count.
    pub unit: Unit,
    /// How samples are found.
    pub sampling: Sampling,
    /// A result at least so many times as high as wide is turned to the left by a right angle.
    pub tall_ratio: Option<f32>,
}

/// Cuts a quadrilateral out. The result is as wide and high as its longer sides.
///
/// # Errors
/// Corners that are not finite, a result that is too large, and what is no image.
pub fn warp(image: &Tensor, warp: &Warp) -> Result<Tensor, String> {
    apply(warp, image)
}

type Point = [f64; 2];

impl Kernel for Warp {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        let sides = match self.unit {
            Unit::Pixels => [1.0; 2],
            Unit::Sides => [image.size.width as f64, image.size.height as f64],
        };
        let corners = self
            .corners
            .map(|[x, y]| [f64::from(x) * sides[0], f64::from(y) * sides[1]]);
        if corners.iter().flatten().any(|number| !number.is_finite()) {
            return Err(format!("the corners {:?} are not finite", self.corners));
        }
        let size = size(corners).check()?;
        let plane = Plane::of(corners, size);
        let is_tall = |ratio: f32| size.height as f64 >= size.width as f64 * f64::from(ratio);
        let (size, is_turned) = match self.tall_ratio.is_some_and(is_tall) {
            true => (
                Size {
                    height: size.width,
                    width: size.height,
                },
                true,
            ),
            false => (size, false),
        };
        let mut out = Vec::with_capacity(size.samples(image.channels)?);
        for y in 0..size.height {
            for x in 0..size.width {
                let (x, y) = match is_turned {
                    true => (size.height - 1 - y, x),
                    false => (x, y),
                };
                let at = plane.at(x as f64, y as f64);
                match self.sampling {
                    Sampling::Bilinear => between(&image, at, |behind| [1.0 - behind, behind], &mut out),
                    Sampling::Bicubic => between(&image, at, cubic_weights, &mut out),
                }
            }
        }
        finished(size, image.channels, out)
    }
}

/// The longer ones of opposite sides, in whole pixels.
fn size([a, b, c, d]: [Point; 4]) -> Size {
    let long = |[ax, ay]: Point, [bx, by]: Point| (bx - ax).hypot(by - ay);
    let side = |one: f64, other: f64| (one.max(other) as usize).max(1);
    Size {
        height: side(long(a, d), long(b, c)),
        width: side(long(a, b), long(d, c)),
    }
}

/// A projection of the result's plane onto the image's.
struct Plane([f64; 8]);

impl Plane {
    /// That which brings the corners of a rectangle of `size` to `corners` (Heckbert, Fundamentals of Texture Mapping, 1989).
    fn of([a, b, c, d]: [Point; 4], size: Size) -> Plane {
        let [bx, by] = [b[0] - c[0], b[1] - c[1]];
        let [dx, dy] = [d[0] - c[0], d[1] - c[1]];
        let [sx, sy] = [a[0] - b[0] + c[0] - d[0], a[1] - b[1] + c[1] - d[1]];
        let area = bx * dy - dx * by;
        let (g, h) = match area == 0.0 {
            // Without area there is no perspective.
            true => (0.0, 0.0),
            false => ((sx * dy - dx * sy) / area, (bx * sy - sx * by) / area),
        };
        let [width, height] = [size.width as f64, size.height as f64];
        Plane([
            (b[0] - a[0] + g * b[0]) / width,
            (d[0] - a[0] + h * d[0]) / height,
            a[0],
            (b[1] - a[1] + g * b[1]) / width,
            (d[1] - a[1] + h * d[1]) / height,
            a[1],
            g / width,
            h / height,
        ])
    }

    fn at(&self, x: f64, y: f64) -> Point {
        let Plane([xx, xy, x0, yx, yy, y0, gx, gy]) = self;
        let depth = gx * x + gy * y + 1.0;
        [(xx * x + xy * y + x0) / depth, (yx * x + yy * y + y0) / depth]
    }
}

/// The pixel at a point: `TAPS` pixels each way around it, weighed by how far it lies behind the middle one.
pub(super) fn between<T: Sample, const TAPS: usize>(
    image: &Image<'_, T>,
    at: Point,
    weights: impl Fn(f64) -> [f64; TAPS],
    out: &mut Vec<T>,
) {
    let sides = [image.size.width, image.size.height];
    let mut taps = [[(0, 0.0_f32); TAPS]; 2];
    for ((taps, at), side) in taps.iter_mut().zip(at).zip(sides) {
        let floor = at.floor();
        let weights = weights(at - floor);
        for (tap, (place, weight)) in taps.iter_mut().zip(weights).enumerate() {
            // What is beyond an edge, or no number, saturates to a pixel inside.
            let behind = tap as f64 - (TAPS / 2 - 1) as f64;
            *place = (((floor + behind) as usize).min(side - 1), weight as f32);
        }
    }
    let [columns, rows] = taps;
    for channel in 0..image.channels {
        let of_row = |y: usize| {
            let row = image.row(y);
            let number = |&(x, weight): &(usize, f32)| {
                let sample = row.get(x * image.channels + channel).copied();
                sample.unwrap_or_default().number() * weight
            };
            columns.iter().map(number).sum::<f32>()
        };
        let number: f32 = rows.iter().map(|&(y, weight)| of_row(y) * weight).sum();
        out.push(T::nearest(number));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::counted;
    use super::*;

    fn check(corners: [[f32; 2]; 4], tall_ratio: Option<f32>, shape: [usize; 3], expected: &[u8]) {
        for sampling in [Sampling::Bilinear, Sampling::Bicubic] {
            let how = Warp {
                corners,
                unit: Unit::Pixels,
                sampling,
                tall_ratio,
            };
            let cut = warp(&counted(4, 5, 1), &how).unwrap();
            assert_eq!(
                (cut.shape(), cut.of::<u8>()),
                (&shape[..], Some(expected)),
                "{sampling:?}"
            );
        }
    }

    #[test]
    fn quadrilaterals_are_set_upright() {
        let upright = [[1.0, 1.0], [4.0, 1.0], [4.0, 3.0], [1.0, 3.0]];
        check(upright, None, [2, 3, 1], &[6, 7, 8, 11, 12, 13]);
        check(upright, Some(1.5), [2, 3, 1], &[6, 7, 8, 11, 12, 13]);
        // Two wide and three high, turned to the left.
        let tall = [[1.0, 0.0], [3.0, 0.0], [3.0, 3.0], [1.0, 3.0]];
        check(tall, None, [3, 2, 1], &[1, 2, 6, 7, 11, 12]);
        check(tall, Some(1.5), [2, 3, 1], &[2, 7, 12, 1, 6, 11]);
        // Its first corner at the bottom left: turned to the right.
        let lying = [[1.0, 3.0], [1.0, 0.0], [3.0, 0.0], [3.0, 3.0]];
        check(lying, None, [2, 3, 1], &[16, 11, 6, 17, 12, 7]);
    }

    #[test]
    fn odd_corners_give_something_or_are_refused() {
        let point = [[2.0, 2.0]; 4];
        check(point, None, [1, 1, 1], &[12]);
        let line = [[0.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 0.0]];
        check(line, None, [1, 4, 1], &[0, 1, 2, 3]);
        let outside = [[90.0, 90.0], [91.0, 90.0], [91.0, 91.0], [90.0, 91.0]];
        check(outside, None, [1, 1, 1], &[19]);
        let refused = |corner: f32| {
            let how = Warp {
                corners: [[0.0, 0.0], [corner, 0.0], [corner, corner], [0.0, corner]],
                unit: Unit::Sides,
                sampling: Sampling::Bilinear,
                tall_ratio: None,
            };
            warp(&counted(4, 5, 1), &how).unwrap_err()
        };
        assert!(refused(f32::NAN).contains("not finite"));
        assert!(refused(1e30).contains("too large"));
    }
}
