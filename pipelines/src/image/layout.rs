//! Channels last, as images are decoded, or first, as most models take them. No sample is changed.
//!
//! Its invariant: there and back gives the same tensor.

use super::{Image, Kernel, Sample, apply};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// Where the channels stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// `[height, width, channels]`
    #[default]
    Hwc,
    /// `[channels, height, width]`
    Chw,
}

/// Brings an image that has the other layout to layout `to`.
///
/// # Errors
/// When it is no image.
pub fn lay_out(image: &Tensor, to: Layout) -> Result<Tensor, String> {
    apply(&to, image)
}

impl Kernel for Layout {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        // A matrix is turned over: of pixels by channels, or of channels by pixels.
        let (height, width) = (image.size.height, image.size.width);
        let (columns, shape) = match self {
            Layout::Chw => (image.channels, vec![image.channels, height, width]),
            Layout::Hwc => (width * image.channels, vec![width, image.channels, height]),
        };
        let samples = turned(image.samples, columns, |sample| sample);
        Tensor::new(shape, T::data(samples)).map_err(|error| error.to_string())
    }
}

/// The columns of a matrix one after the other, each sample as `given` says.
pub(super) fn turned<T: Copy, U>(samples: &[T], columns: usize, given: impl Fn(T) -> U) -> Vec<U> {
    let mut out = Vec::with_capacity(samples.len());
    for column in 0..columns {
        let samples = samples.iter().skip(column).step_by(columns);
        out.extend(samples.map(|&sample| given(sample)));
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::counted;
    use super::*;

    #[test]
    fn channels_go_first_and_back() {
        let image = counted(1, 2, 3);
        let planes = lay_out(&image, Layout::Chw).unwrap();
        assert_eq!(planes.shape(), [3, 1, 2]);
        assert_eq!(planes.of::<u8>(), Some(&[0, 3, 1, 4, 2, 5][..]));
        for (height, width, channels) in [(1, 2, 3), (5, 4, 3), (3, 7, 1), (2, 2, 4)] {
            let image = counted(height, width, channels);
            let back = lay_out(&lay_out(&image, Layout::Chw).unwrap(), Layout::Hwc).unwrap();
            assert_eq!(back, image);
        }
    }
}
