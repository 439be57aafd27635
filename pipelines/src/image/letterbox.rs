//! An image in a frame: scaled to fit, or as it is, with a border of one shade.
//!
//! Its invariant: the frame is exactly as large as asked for, and the image keeps its proportions in it.

use super::resize::scale;
use super::{Image, Kernel, Sample, Scaling, Size, apply, finished, image};
use millpond_tensor::Tensor;

/// The frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Letterbox {
    /// The frame's size; `None`: the image keeps its size.
    pub size: Option<Size>,
    /// The frame's sides are multiples of this.
    pub multiple: usize,
    /// Whether the image stands in the middle, or in the corner at the top left.
    pub centered: bool,
    /// Samples of the border.
    pub value: f32,
    /// How the image is scaled.
    pub scaling: Scaling,
}

impl Default for Letterbox {
    fn default() -> Letterbox {
        Letterbox {
            size: None,
            multiple: 1,
            centered: true,
            value: 114.0,
            scaling: Scaling::default(),
        }
    }
}

/// Where an image stands in its frame: a point `(x, y)` of it is at `x * scale.0 + left`, `y * scale.1 + top`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fit {
    frame: Size,
    inner: Size,
    left: usize,
    top: usize,
}

impl Letterbox {
    fn fit(&self, from: Size) -> Result<Fit, String> {
        let inner = match self.size {
            None => from,
            Some(frame) => {
                let [height, width] = [(frame.height, from.height), (frame.width, from.width)]
                    .map(|(frame, from)| frame as f64 / from as f64);
                let ratio = height.min(width);
                let side = |from: usize, most: usize| {
                    let side = (from as f64 * ratio).round_ties_even() as usize;
                    side.clamp(1, most.max(1))
                };
                Size {
                    height: side(from.height, frame.height),
                    width: side(from.width, frame.width),
                }
            }
        };
        let asked = self.size.unwrap_or(from);
        let up = |side: usize| {
            let next = side.checked_next_multiple_of(self.multiple.max(1));
            next.unwrap_or(usize::MAX)
        };
        let frame = Size {
            height: up(asked.height),
            width: up(asked.width),
        };
        let frame = frame.check()?;
        let before = |frame: usize, inner: usize| match self.centered {
            true => frame.saturating_sub(inner) / 2,
            false => 0,
        };
        Ok(Fit {
            frame,
            inner,
            left: before(frame.width, inner.width),
            top: before(frame.height, inner.height),
        })
    }
}

/// An image in a frame.
///
/// # Errors
/// A frame that is too large or empty, and what is no image.
pub fn letterbox(image: &Tensor, how: &Letterbox) -> Result<Tensor, String> {
    apply(how, image)
}

impl Kernel for Letterbox {
    fn run<T: Sample>(&self, given: Image<'_, T>) -> Result<Tensor, String> {
        let fit = self.fit(given.size)?;
        let channels = given.channels;
        let samples = fit.frame.samples(channels)?;
        let scaled;
        let inner = match fit.inner == given.size {
            true => given,
            false => {
                scaled = scale(given, fit.inner, self.scaling)?;
                image(&scaled, scaled.of().unwrap_or_default())?
            }
        };
        let mut out = vec![T::nearest(self.value); samples];
        let rows = out.chunks_exact_mut(fit.frame.width * channels).skip(fit.top);
        for (y, row) in rows.take(fit.inner.height).enumerate() {
            let from = fit.left * channels;
            if let Some(place) = row.get_mut(from..from + fit.inner.width * channels) {
                place.copy_from_slice(inner.row(y));
            }
        }
        finished(fit.frame, channels, out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::counted;
    use super::*;

    fn check(how: Letterbox, from: (usize, usize), expected: [usize; 6]) {
        let size = |(height, width)| Size { height, width };
        let fit = how.fit(size(from)).unwrap();
        let found = [
            fit.frame.height,
            fit.frame.width,
            fit.inner.height,
            fit.inner.width,
            fit.top,
            fit.left,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_image_is_scaled_into_its_frame() {
        let square = Letterbox {
            size: Some(Size {
                height: 640,
                width: 640,
            }),
            ..Letterbox::default()
        };
        check(square, (427, 640), [640, 640, 427, 640, 106, 0]);
        check(square, (1280, 320), [640, 640, 640, 160, 0, 240]);
        check(square, (65_535, 1), [640, 640, 640, 1, 0, 319]);
        let corner = Letterbox {
            centered: false,
            ..square
        };
        check(corner, (427, 640), [640, 640, 427, 640, 0, 0]);
        let padded = Letterbox {
            multiple: 32,
            centered: false,
            ..Letterbox::default()
        };
        check(padded, (427, 640), [448, 640, 427, 640, 0, 0]);
    }

    #[test]
    fn the_border_has_its_shade() {
        let how = Letterbox {
            multiple: 3,
            value: 9.0,
            ..Letterbox::default()
        };
        let framed = letterbox(&counted(1, 2, 1), &how).unwrap();
        assert_eq!(framed.shape(), [3, 3, 1]);
        assert_eq!(framed.of::<u8>(), Some(&[9, 9, 9, 0, 1, 9, 9, 9, 9][..]));
        let huge = Letterbox {
            multiple: usize::MAX,
            ..how
        };
        assert!(letterbox(&counted(2, 2, 1), &huge).is_err());
        // A pixel of very many channels, in a frame that one of three would fill.
        let deep = Tensor::new(vec![1, 1, 1 << 20], vec![0_u8; 1 << 20]).unwrap();
        let frame = Letterbox {
            multiple: 8192,
            ..how
        };
        let refused = letterbox(&deep, &frame).unwrap_err();
        assert!(
            refused.contains("8192 × 8192 pixels with 1048576 channels"),
            "{refused}"
        );
        let none = Letterbox {
            size: Some(Size { height: 0, width: 4 }),
            ..how
        };
        assert!(letterbox(&counted(2, 2, 1), &none).is_err());
    }
}
