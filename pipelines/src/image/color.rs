//! Conversions between red-green-blue, blue-green-red and gray. An image does not know which of them it is.
//!
//! Its invariant: gray is OpenCV's, for u8 to the bit.

use super::{Image, Kernel, Sample, apply, finished};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// From what to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversion {
    /// The first and the third channel change places.
    RgbToBgr,
    /// The same, back.
    BgrToRgb,
    /// Lightness of red, green and blue.
    RgbToGray,
    /// Lightness of blue, green and red.
    BgrToGray,
    /// Three equal channels.
    GrayToRgb,
}

/// Converts an image.
///
/// # Errors
/// When it has other channels than the conversion takes.
pub fn convert(image: &Tensor, conversion: Conversion) -> Result<Tensor, String> {
    apply(&conversion, image)
}

impl Kernel for Conversion {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        let takes = if *self == Conversion::GrayToRgb { 1 } else { 3 };
        if image.channels != takes {
            let found = image.channels;
            return Err(format!(
                "the conversion takes {takes} channels and the image has {found}"
            ));
        }
        let pixels = image.samples.as_chunks::<3>().0.iter();
        let (channels, samples) = match self {
            Conversion::RgbToBgr | Conversion::BgrToRgb => {
                (3, pixels.flat_map(|&[r, g, b]| [b, g, r]).collect())
            }
            Conversion::RgbToGray => (1, pixels.map(|&rgb| T::gray(rgb)).collect()),
            Conversion::BgrToGray => (1, pixels.map(|&[b, g, r]| T::gray([r, g, b])).collect()),
            Conversion::GrayToRgb => (3, image.samples.iter().flat_map(|&gray| [gray; 3]).collect()),
        };
        finished(image.size, channels, samples)
    }
}

/// Lightness as ITU-R BT.601 weighs it, in fixed point.
pub(super) fn gray_u8([r, g, b]: [u8; 3]) -> u8 {
    const HALF: u32 = 1 << 14;
    let [r, g, b] = [r, g, b].map(u32::from);
    ((r * 9798 + g * 19235 + b * 3735 + HALF) >> 15) as u8
}

/// The same in floats.
pub(super) fn gray_f32([r, g, b]: [f32; 3]) -> f32 {
    r * 0.299 + g * 0.587 + b * 0.114
}

pub(super) fn gray_of_rgb(rgb: &[u8]) -> Vec<u8> {
    rgb.as_chunks::<3>()
        .0
        .iter()
        .map(|&pixel| gray_u8(pixel))
        .collect()
}

pub(super) fn swapped(mut rgb: Vec<u8>) -> Vec<u8> {
    rgb.as_chunks_mut::<3>()
        .0
        .iter_mut()
        .for_each(|pixel| pixel.swap(0, 2));
    rgb
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(samples: Vec<u8>, conversion: Conversion, expected: &[u8]) {
        let channels = if conversion == Conversion::GrayToRgb { 1 } else { 3 };
        let image = Tensor::new(vec![1, samples.len() / channels, channels], samples).unwrap();
        let converted = convert(&image, conversion).unwrap();
        assert_eq!(converted.of::<u8>(), Some(expected), "{conversion:?}");
        assert_eq!(converted.len(), converted.shape().iter().product::<usize>());
    }

    #[test]
    fn colors_are_converted() {
        let rgb = vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30];
        check(
            rgb.clone(),
            Conversion::RgbToBgr,
            &[0, 0, 255, 0, 255, 0, 255, 0, 0, 30, 20, 10],
        );
        check(
            rgb.clone(),
            Conversion::BgrToRgb,
            &[0, 0, 255, 0, 255, 0, 255, 0, 0, 30, 20, 10],
        );
        check(rgb.clone(), Conversion::RgbToGray, &[76, 150, 29, 18]);
        check(rgb, Conversion::BgrToGray, &[29, 150, 76, 22]);
        check(vec![1, 2], Conversion::GrayToRgb, &[1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn floats_are_weighed_and_other_channels_refused() {
        let image = Tensor::new(vec![1, 1, 3], vec![1.0_f32, 0.5, 0.0]).unwrap();
        let gray = convert(&image, Conversion::RgbToGray).unwrap();
        assert!((gray.f32().unwrap()[0] - 0.5925).abs() < 1e-6);
        let refused = convert(&gray, Conversion::RgbToGray).unwrap_err();
        assert_eq!(refused, "the conversion takes 3 channels and the image has 1");
    }
}
