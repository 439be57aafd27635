//! Images as tensors, and what is done to them before and behind a model: pure functions, each of one image.
//!
//! An image is a tensor `[height, width, channels]` of u8 (0 to 255) or f32. Stages, requests and threads are elsewhere. Its
//! invariant: whatever the bytes and the parameters are, nothing panics, and no result has more than [`PIXELS_MAX`] pixels or
//! what its caller allows.
//!
//! ```
//! use millpond_pipelines::image::{Filter, Normalise, Resize, Scaling, resize};
//! use millpond_tensor::Tensor;
//!
//! let page = Tensor::new(vec![2, 2, 3], vec![255_u8; 12])?;
//! let small = Resize::to(1, 1, Scaling::of(Filter::Bilinear));
//! let small = resize(&page, &small)?;
//! let white = Normalise::new(&[0.5], &[0.5], None)?.run(&small)?;
//! assert_eq!(white.f32(), Some(&[1.0; 3][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod color;
mod crop;
mod decode;
mod exif;
mod jpeg;
mod layout;
mod letterbox;
mod normalise;
mod png;
mod resize;
mod warp;

pub use color::{Conversion, convert};
pub use crop::{Boxes, Crop, Unit, crop};
pub use decode::{Color, Decode, Orientation, decode};
pub use layout::{Layout, lay_out};
pub use letterbox::{Letterbox, letterbox};
pub use normalise::Normalise;
pub use resize::{Filter, Resize, Scaling, resize};
pub use warp::{Sampling, Warp, warp};

use millpond_tensor::{Data, Element, Elements, Tensor};
use std::fmt;

/// Pixels of an image at most, where nothing else is asked for.
pub const PIXELS_MAX: usize = 64 << 20;

/// Samples of an image at most, whatever its channels: four a pixel.
pub(crate) const SAMPLES_MAX: usize = 4 * PIXELS_MAX;

/// How large an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Size {
    /// Its pixels, if they are no more than `max`.
    fn pixels(self, max: usize) -> Option<usize> {
        let pixels = self.height.checked_mul(self.width)?;
        (pixels <= max).then_some(pixels)
    }

    /// The samples of an image of this size, before they are allocated.
    fn samples(self, channels: usize) -> Result<usize, String> {
        let pixels = self.pixels(PIXELS_MAX);
        let samples = pixels.and_then(|pixels| pixels.checked_mul(channels));
        samples.filter(|samples| *samples <= SAMPLES_MAX).ok_or_else(|| {
            format!("an image of {self} pixels with {channels} channels would be too large; {SAMPLES_MAX} samples are the limit")
        })
    }

    /// Refuses a result that would be empty or too large.
    fn check(self) -> Result<Size, String> {
        match self.pixels(PIXELS_MAX) {
            Some(1..) => Ok(self),
            Some(_) => Err(format!("an image of {self} pixels would be empty")),
            None => Err(format!(
                "an image of {self} pixels would be too large; {PIXELS_MAX} pixels are the limit"
            )),
        }
    }
}

/// Width first, as people say it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.width, self.height)
    }
}

/// What an element of an image can be.
pub(crate) trait Sample: Element + Copy + Default {
    /// As a number to compute with.
    fn number(self) -> f32;

    /// The sample next to `number`.
    fn nearest(number: f32) -> Self;

    /// The lightness of red, green and blue.
    fn gray(rgb: [Self; 3]) -> Self;

    /// The samples of an image in another size.
    fn scaled(image: Image<'_, Self>, to: Size, how: Scaling) -> Result<Vec<Self>, String>;

    /// Elements of a tensor.
    fn data(samples: Vec<Self>) -> Data;
}

impl Sample for u8 {
    fn number(self) -> f32 {
        f32::from(self)
    }

    fn nearest(number: f32) -> u8 {
        // A cast to u8 saturates; NaN is 0.
        (number + 0.5) as u8
    }

    fn gray(rgb: [u8; 3]) -> u8 {
        color::gray_u8(rgb)
    }

    fn scaled(image: Image<'_, u8>, to: Size, how: Scaling) -> Result<Vec<u8>, String> {
        resize::scaled_u8(image, to, how)
    }

    fn data(samples: Vec<u8>) -> Data {
        samples.into()
    }
}

impl Sample for f32 {
    fn number(self) -> f32 {
        self
    }

    fn nearest(number: f32) -> f32 {
        number
    }

    fn gray(rgb: [f32; 3]) -> f32 {
        color::gray_f32(rgb)
    }

    fn scaled(image: Image<'_, f32>, to: Size, how: Scaling) -> Result<Vec<f32>, String> {
        resize::scaled_f32(image, to, how)
    }

    fn data(samples: Vec<f32>) -> Data {
        samples.into()
    }
}

/// A borrowed image. Its samples are `height * width * channels`, none of which is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'t, T> {
    size: Size,
    channels: usize,
    samples: &'t [T],
}

impl<'t, T: Sample> Image<'t, T> {
    fn row(&self, y: usize) -> &'t [T] {
        let width = self.size.width * self.channels;
        self.samples.get(y * width..(y + 1) * width).unwrap_or_default()
    }
}

/// Something done to images of either type.
pub(crate) trait Kernel {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String>;
}

/// Does it to an image.
fn apply(kernel: &impl Kernel, tensor: &Tensor) -> Result<Tensor, String> {
    match tensor.elements() {
        Elements::U8(samples) => kernel.run(image(tensor, samples)?),
        Elements::F32(samples) => kernel.run(image(tensor, samples)?),
        _ => Err(format!(
            "an image is [height, width, channels] of u8 or f32, not {}{:?}",
            tensor.element_type(),
            tensor.shape()
        )),
    }
}

fn image<'t, T: Sample>(tensor: &Tensor, samples: &'t [T]) -> Result<Image<'t, T>, String> {
    match *tensor.shape() {
        [height, width, channels] if height * width * channels > 0 => Ok(Image {
            size: Size { height, width },
            channels,
            samples,
        }),
        _ => Err(format!(
            "an image is [height, width, channels], none of which is 0, not {:?}",
            tensor.shape()
        )),
    }
}

/// A result as a tensor.
fn finished<T: Sample>(size: Size, channels: usize, samples: Vec<T>) -> Result<Tensor, String> {
    let shape = vec![size.height, size.width, channels];
    Tensor::new(shape, T::data(samples)).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// An image whose samples count up.
    pub(crate) fn counted(height: usize, width: usize, channels: usize) -> Tensor {
        let samples: Vec<u8> = (0..height * width * channels).map(|at| at as u8).collect();
        Tensor::new(vec![height, width, channels], samples).unwrap()
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let layout = |tensor: Tensor| lay_out(&tensor, Layout::Chw).unwrap_err();
        let flat = layout(Tensor::new(vec![2, 3], vec![0_u8; 6]).unwrap());
        assert!(flat.contains("not [2, 3]"), "{flat}");
        let empty = layout(Tensor::new(vec![2, 0, 3], Vec::<u8>::new()).unwrap());
        assert!(empty.contains("none of which is 0"), "{empty}");
        let longs = layout(Tensor::new(vec![1, 1, 1], vec![1_i64]).unwrap());
        assert!(longs.contains("not i64[1, 1, 1]"), "{longs}");
    }

    #[test]
    fn samples_are_rounded_and_clipped() {
        for (number, expected) in [
            (-1.0, 0),
            (0.49, 0),
            (0.5, 1),
            (254.6, 255),
            (300.0, 255),
            (f32::NAN, 0),
        ] {
            assert_eq!(u8::nearest(number), expected, "{number}");
        }
    }
}
