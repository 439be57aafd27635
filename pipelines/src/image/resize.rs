//! Images of another size: an exact one, or by their sides. Pixel centres are where OpenCV and Pillow have them.
//!
//! Its invariant: a side is at least one pixel.

use super::warp::between;
use super::{Image, Kernel, Sample, Size, apply, finished};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{F32, U8, U8x2, U8x3, U8x4};
use fast_image_resize::{Filter as Curve, FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// How pixels between others are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// The pixel that is there.
    Nearest,
    /// Between two pixels each way.
    #[default]
    Bilinear,
    /// Between four pixels each way: with OpenCV's curve, or with antialias Pillow's.
    Bicubic,
    /// Between six pixels each way.
    Lanczos,
}

/// A filter, and whether it looks at all pixels that a smaller image leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scaling {
    /// The filter.
    pub filter: Filter,
    /// As Pillow does; OpenCV does not.
    pub antialias: bool,
}

impl Scaling {
    /// A filter without antialias.
    pub fn of(filter: Filter) -> Scaling {
        Scaling {
            filter,
            antialias: false,
        }
    }

    fn algorithm(self) -> ResizeAlg {
        let curve = match (self.filter, self.antialias) {
            (Filter::Nearest, _) => return ResizeAlg::Nearest,
            (Filter::Bilinear, _) => FilterType::Bilinear,
            (Filter::Bicubic, true) => FilterType::CatmullRom,
            (Filter::Bicubic, false) => {
                Curve::new("bicubic", cubic, 2.0).map_or(FilterType::CatmullRom, FilterType::Custom)
            }
            (Filter::Lanczos, _) => FilterType::Lanczos3,
        };
        match self.antialias {
            true => ResizeAlg::Convolution(curve),
            false => ResizeAlg::Interpolation(curve),
        }
    }
}

/// OpenCV's bicubic curve, whose parameter is -0.75.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.75;
    let x = x.abs();
    match x {
        0.0..1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        1.0..2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// The size of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resize {
    /// Its height; without `width` that of the image's proportions.
    pub height: Option<usize>,
    /// Its width; without `height` that of the image's proportions.
    pub width: Option<usize>,
    /// Height and width are limits; the image keeps its proportions inside them.
    pub keep_ratio: bool,
    /// What the shorter side becomes.
    pub short_side: Option<usize>,
    /// A shorter side that is less becomes this.
    pub side_min: Option<usize>,
    /// A longer side that is more becomes this.
    pub side_max: Option<usize>,
    /// Each side becomes the next multiple of this, as detectors need it.
    pub multiple: Option<usize>,
    /// How.
    pub scaling: Scaling,
}

impl Resize {
    /// Exactly this size.
    pub fn to(height: usize, width: usize, scaling: Scaling) -> Resize {
        Resize {
            height: Some(height),
            width: Some(width),
            scaling,
            ..Resize::default()
        }
    }

    /// The size of what an image of size `from` becomes.
    ///
    /// # Errors
    /// Where that is too large.
    pub fn size(&self, from: Size) -> Result<Size, String> {
        let scaled = |ratio: f64| Size {
            height: side(from.height as f64 * ratio),
            width: side(from.width as f64 * ratio),
        };
        let [height, width] = [from.height, from.width].map(|side| side as f64);
        let ratio = |to: usize, of: f64| to as f64 / of;
        let mut to = match (self.height, self.width) {
            (Some(to_height), Some(to_width)) if self.keep_ratio => {
                scaled(ratio(to_height, height).min(ratio(to_width, width)))
            }
            (Some(height), Some(width)) => Size { height, width },
            (Some(to), None) => Size {
                height: to,
                ..scaled(ratio(to, height))
            },
            (None, Some(to)) => Size {
                width: to,
                ..scaled(ratio(to, width))
            },
            (None, None) => from,
        };
        if let Some(short) = self.short_side {
            to = scaled(ratio(short, height.min(width)));
        }
        if let Some(min) = self.side_min.filter(|min| *min > to.height.min(to.width)) {
            to = scaled(ratio(min, height.min(width)));
        }
        if let Some(max) = self.side_max.filter(|max| *max < to.height.max(to.width)) {
            to = scaled(ratio(max, height.max(width)));
        }
        if let Some(multiple) = self.multiple.filter(|multiple| *multiple > 0) {
            let next = |side: usize| {
                let times = (side as f64 / multiple as f64).round_ties_even() as usize;
                times.max(1).saturating_mul(multiple)
            };
            to = Size {
                height: next(to.height),
                width: next(to.width),
            };
        }
        to.check()
    }
}

/// A side in whole pixels, as Python's `int` of one gives it, but for what floats lose.
fn side(exact: f64) -> usize {
    ((exact + 1e-6) as usize).max(1)
}

/// An image in another size.
///
/// # Errors
/// A size that is too large, more than four channels, and what is no image.
pub fn resize(image: &Tensor, to: &Resize) -> Result<Tensor, String> {
    apply(to, image)
}

impl Kernel for Resize {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        let to = self.size(image.size)?;
        scale(image, to, self.scaling)
    }
}

/// The image in size `to`.
pub(super) fn scale<T: Sample>(image: Image<'_, T>, to: Size, how: Scaling) -> Result<Tensor, String> {
    if to == image.size {
        return finished(to, image.channels, image.samples.to_vec());
    }
    let mut samples = T::scaled(image, to, how)?;
    if how == Scaling::of(Filter::Bicubic) {
        edge(&image, to, &mut samples);
    }
    finished(to, image.channels, samples)
}

/// Pixels between those at an edge and those beyond it, where the library weighs the ones inside as if they were all, and OpenCV
/// takes the edge again.
fn edge<T: Sample>(image: &Image<'_, T>, to: Size, samples: &mut [T]) {
    let from = image.size;
    let place = |at: usize, from: usize, to: usize| (at as f64 + 0.5) * from as f64 / to as f64 - 0.5;
    let is_inside = |at: f64, side: usize| at.floor() >= 1.0 && at.floor() + 2.0 < side as f64;
    let mut pixel = Vec::with_capacity(image.channels);
    for (row, y) in samples.chunks_exact_mut(to.width * image.channels).zip(0..) {
        let y = place(y, from.height, to.height);
        let rows_are_inside = is_inside(y, from.height);
        for (found, x) in row.chunks_exact_mut(image.channels).zip(0..) {
            let x = place(x, from.width, to.width);
            if !(rows_are_inside && is_inside(x, from.width)) {
                pixel.clear();
                between(image, [x, y], cubic_weights, &mut pixel);
                found.copy_from_slice(&pixel);
            }
        }
    }
}

/// The weights of four pixels for a point so far behind the second.
pub(super) fn cubic_weights(behind: f64) -> [f64; 4] {
    [1.0 + behind, behind, 1.0 - behind, 2.0 - behind].map(cubic)
}

/// What the library calls a size.
fn sides(size: Size) -> Result<(u32, u32), String> {
    match (u32::try_from(size.width), u32::try_from(size.height)) {
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => Err(format!("an image of {size} pixels is too large")),
    }
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the image cannot be resized: {error}")
}

/// All channels at once, without a copy.
pub(super) fn scaled_u8(image: Image<'_, u8>, to: Size, how: Scaling) -> Result<Vec<u8>, String> {
    match image.channels {
        1 => scaled_pixels::<U8>(image, to, how),
        2 => scaled_pixels::<U8x2>(image, to, how),
        3 => scaled_pixels::<U8x3>(image, to, how),
        4 => scaled_pixels::<U8x4>(image, to, how),
        channels => Err(format!(
            "an image of {channels} channels of u8; 1 to 4 can be resized"
        )),
    }
}

/// Typed: the library's call for any image compiles a dozen kinds of pixels, of which four occur.
fn scaled_pixels<P: PixelTrait>(image: Image<'_, u8>, to: Size, how: Scaling) -> Result<Vec<u8>, String> {
    let ((width, height), (to_width, to_height)) = (sides(image.size)?, sides(to)?);
    let from = TypedImageRef::<P>::from_buffer(width, height, image.samples).map_err(failed)?;
    let mut out = vec![0; to.samples(image.channels)?];
    let mut target = TypedImage::<P>::from_buffer(to_width, to_height, &mut out).map_err(failed)?;
    let options = ResizeOptions::new().resize_alg(how.algorithm()).use_alpha(false);
    Resizer::new()
        .resize_typed(&from, &mut target, &options)
        .map_err(failed)?;
    Ok(out)
}

/// One channel after the other, each copied: floats are resized seldom.
pub(super) fn scaled_f32(image: Image<'_, f32>, to: Size, how: Scaling) -> Result<Vec<f32>, String> {
    let ((width, height), (to_width, to_height)) = (sides(image.size)?, sides(to)?);
    let options = ResizeOptions::new().resize_alg(how.algorithm());
    let mut resizer = Resizer::new();
    let mut out = vec![0.0; to.samples(image.channels)?];
    for channel in 0..image.channels {
        let samples = image.samples.iter().skip(channel).step_by(image.channels);
        let plane: Vec<F32> = samples.map(|sample| F32::new(*sample)).collect();
        let from = TypedImageRef::new(width, height, &plane).map_err(failed)?;
        let mut target = TypedImage::<F32>::new(to_width, to_height);
        resizer
            .resize_typed(&from, &mut target, &options)
            .map_err(failed)?;
        let samples = out.iter_mut().skip(channel).step_by(image.channels);
        samples
            .zip(target.pixels())
            .for_each(|(sample, pixel)| *sample = pixel.0);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::counted;
    use super::*;

    fn check(set: impl Fn(&mut Resize), height: usize, width: usize) {
        let from = Size {
            height: 427,
            width: 640,
        };
        let mut resize = Resize::default();
        set(&mut resize);
        assert_eq!(resize.size(from), Ok(Size { height, width }), "{resize:?}");
    }

    #[test]
    fn sizes_follow_sides_and_proportions() {
        let square = |to: &mut Resize| (to.height, to.width) = (Some(224), Some(224));
        check(|_| (), 427, 640);
        check(square, 224, 224);
        check(
            |to| (to.height, to.width, to.keep_ratio) = (Some(224), Some(224), true),
            149,
            224,
        );
        check(|to| to.height = Some(854), 854, 1280);
        check(|to| to.width = Some(1), 1, 1);
        check(|to| to.short_side = Some(256), 256, 383);
        check(|to| to.side_min = Some(736), 736, 1103);
        check(|to| to.side_min = Some(300), 427, 640);
        check(|to| to.side_max = Some(320), 213, 320);
        check(|to| to.side_max = Some(640), 427, 640);
        check(|to| to.multiple = Some(32), 416, 640);
        check(|to| (to.side_min, to.multiple) = (Some(736), Some(32)), 736, 1088);
        check(|to| (to.side_max, to.multiple) = (Some(8), Some(32)), 32, 32);
    }

    #[test]
    fn a_size_that_is_too_large_is_refused() {
        let wide = Size {
            height: 1,
            width: 65_535,
        };
        let tall = Resize {
            side_min: Some(10_000),
            ..Resize::default()
        };
        assert!(tall.size(wide).unwrap_err().contains("too large"));
        let none = Resize::to(0, 5, Scaling::default());
        assert!(none.size(wide).unwrap_err().contains("empty"));
        assert!(Resize::to(usize::MAX, 2, Scaling::default()).size(wide).is_err());
    }

    #[test]
    fn pixels_are_found_between_pixels() {
        let image = Tensor::new(vec![1, 4, 1], vec![0_u8, 100, 200, 40]).unwrap();
        let half = |filter| resize(&image, &Resize::to(1, 2, Scaling::of(filter))).unwrap();
        assert_eq!(half(Filter::Bilinear).of::<u8>(), Some(&[50, 120][..]));
        // OpenCV's INTER_CUBIC: (9 * inner - 3 * outer, an edge repeated) / 16 beyond the middle.
        assert_eq!(half(Filter::Bicubic).of::<u8>(), Some(&[41, 129][..]));
        let floats = Tensor::new(vec![1, 2, 5], (0..10_u8).map(f32::from).collect::<Vec<f32>>()).unwrap();
        let one = resize(&floats, &Resize::to(1, 1, Scaling::default())).unwrap();
        assert_eq!(one.f32(), Some(&[2.5, 3.5, 4.5, 5.5, 6.5][..]));
        let same = counted(3, 3, 5);
        assert_eq!(resize(&same, &Resize::default()), Ok(same.clone()));
        assert!(resize(&same, &Resize::to(1, 1, Scaling::default())).is_err());
    }
}
