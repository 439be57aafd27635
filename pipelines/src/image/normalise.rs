//! `(sample * scale - mean) / deviation`, channel by channel, to f32.
//!
//! Its invariant: a result is finite where the samples are.

use super::layout::turned;
use super::{Image, Kernel, Layout, Sample, apply};
use millpond_tensor::{ElementType, Tensor};

/// What is subtracted and what is divided by.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalise {
    mean: Vec<f32>,
    deviation: Vec<f32>,
    /// `None`: 1 / 255 for u8, 1 for f32.
    scale: Option<f32>,
    layout: Layout,
}

impl Normalise {
    /// A mean and a deviation for each channel, or one for all.
    ///
    /// # Errors
    /// Numbers that are not finite, a deviation of 0, none at all, and means of samples from 0 to 255 without a scale.
    pub fn new(mean: &[f32], deviation: &[f32], scale: Option<f32>) -> Result<Normalise, String> {
        let all = mean.iter().chain(deviation).chain(&scale);
        if all.clone().any(|number| !number.is_finite()) {
            return Err("mean, std and scale must be finite numbers".to_owned());
        }
        if deviation.iter().chain(&scale).any(|number| *number == 0.0) {
            return Err("std and scale must not be 0".to_owned());
        }
        if mean.is_empty() || deviation.is_empty() {
            return Err("mean and std have one number, or one for each channel".to_owned());
        }
        if scale.is_none() && mean.iter().chain(deviation).any(|number| number.abs() > 2.0) {
            let hint = "set scale = 1.0";
            return Err(format!("mean and std are of samples from 0 to 255; {hint}"));
        }
        Ok(Normalise {
            mean: mean.to_vec(),
            deviation: deviation.to_vec(),
            scale,
            layout: Layout::Hwc,
        })
    }

    /// Gives the result in this layout.
    #[must_use]
    pub fn laid_out(self, layout: Layout) -> Normalise {
        Normalise { layout, ..self }
    }

    /// Normalises an image.
    ///
    /// # Errors
    /// When it has another number of channels.
    pub fn run(&self, image: &Tensor) -> Result<Tensor, String> {
        let scale = match image.element_type() {
            ElementType::U8 => 1.0 / 255.0,
            _ => 1.0,
        };
        let scale = self.scale.unwrap_or(scale);
        apply(&Scaled { by: self, scale }, image)
    }
}

struct Scaled<'n> {
    by: &'n Normalise,
    scale: f32,
}

impl Kernel for Scaled<'_> {
    fn run<T: Sample>(&self, image: Image<'_, T>) -> Result<Tensor, String> {
        let channels = image.channels;
        let numbers = |name: &str, of: &[f32]| match of {
            [one] => Ok(vec![*one; channels]),
            of if of.len() == channels => Ok(of.to_vec()),
            of => {
                let found = of.len();
                Err(format!(
                    "{name} has {found} numbers and the image {channels} channels"
                ))
            }
        };
        let mean = numbers("mean", &self.by.mean)?;
        let deviation = numbers("std", &self.by.deviation)?;
        let slopes: Vec<(f32, f32)> = deviation
            .iter()
            .zip(&mean)
            .map(|(deviation, mean)| (self.scale / deviation, -mean / deviation))
            .collect();
        let (height, width) = (image.size.height, image.size.width);
        let (shape, samples) = match self.by.layout {
            Layout::Hwc => (vec![height, width, channels], beside(&image, &slopes)),
            Layout::Chw => (vec![channels, height, width], planes(&image, &slopes)),
        };
        Tensor::new(shape, samples).map_err(|error| error.to_string())
    }
}

fn beside<T: Sample>(image: &Image<'_, T>, slopes: &[(f32, f32)]) -> Vec<f32> {
    let pixels = image.samples.chunks_exact(image.channels);
    let mut out = Vec::with_capacity(image.samples.len());
    for pixel in pixels {
        let samples = pixel.iter().zip(slopes);
        out.extend(samples.map(|(sample, (slope, offset))| sample.number() * slope + offset));
    }
    out
}

fn planes<T: Sample>(image: &Image<'_, T>, slopes: &[(f32, f32)]) -> Vec<f32> {
    let mut out = turned(image.samples, image.channels, Sample::number);
    let plane = out.len() / image.channels.max(1);
    for (plane, (slope, offset)) in out.chunks_exact_mut(plane.max(1)).zip(slopes) {
        plane
            .iter_mut()
            .for_each(|sample| *sample = *sample * slope + offset);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(normalise: &Normalise, expected: &[f32]) {
        let image = Tensor::new(vec![1, 2, 3], vec![0_u8, 51, 102, 153, 204, 255]).unwrap();
        let found = normalise.run(&image).unwrap();
        let found = found.f32().unwrap();
        assert!(
            found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5),
            "{found:?}"
        );
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn channels_are_normalised_each_by_its_own() {
        let one = Normalise::new(&[0.5], &[0.5], None).unwrap();
        check(&one, &[-1.0, -0.6, -0.2, 0.2, 0.6, 1.0]);
        check(&one.laid_out(Layout::Chw), &[-1.0, 0.2, -0.6, 0.6, -0.2, 1.0]);
        let each = Normalise::new(&[0.0, 100.0, 200.0], &[1.0, 2.0, 4.0], Some(1.0)).unwrap();
        check(&each, &[0.0, -24.5, -24.5, 153.0, 52.0, 13.75]);
        let floats = Tensor::new(vec![1, 1, 1], vec![4.0_f32]).unwrap();
        let plain = Normalise::new(&[1.0], &[2.0], None).unwrap();
        assert_eq!(plain.run(&floats).unwrap().f32(), Some(&[1.5][..]));
        let two = Normalise::new(&[0.0, 0.0], &[1.0], None).unwrap().run(&floats);
        assert_eq!(two.unwrap_err(), "mean has 2 numbers and the image 1 channels");
    }

    #[test]
    fn numbers_that_cannot_be_meant_are_refused() {
        for (mean, deviation, scale, expected) in [
            (&[0.5][..], &[0.0][..], None, "must not be 0"),
            (&[f32::NAN], &[1.0], None, "finite"),
            (&[], &[1.0], None, "one number"),
            (&[123.7], &[58.4], None, "set scale = 1.0"),
            (&[0.5], &[1.0], Some(0.0), "must not be 0"),
        ] {
            let refused = Normalise::new(mean, deviation, scale).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
