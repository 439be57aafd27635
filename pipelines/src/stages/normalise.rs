//! `normalise = { mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225], layout = "chw" }`: samples to f32 around 0.
//!
//! How is in `image`. Its invariant: numbers that no image could have are refused when the pipeline is planned.

use super::by_item::{EachItem, IMAGES, reads_from};
use super::number::Number;
use crate::image::{self, Layout};
use crate::planner::Place;
use crate::{Describe, Error, Form, Kind, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// `(sample * scale - mean) / std`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as normalise = { mean = [0.5], std = [0.5] }"
)]
pub struct Normalise {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// One number, or one for each channel; 0 when left out.
    mean: Option<Vec<Number>>,
    /// One number, or one for each channel; 1 when left out.
    std: Option<Vec<Number>>,
    /// 1 / 255 for samples of u8 when left out, and 1 for f32.
    scale: Option<Number>,
    /// `hwc` or `chw`: where the channels of the result stand.
    #[serde(default)]
    layout: Layout,
}

impl Normalise {
    fn how(&self) -> Result<image::Normalise, String> {
        let floats = |numbers: &Option<Vec<Number>>, usual: f32| match numbers {
            Some(numbers) => numbers.iter().map(|number| number.0).collect(),
            None => vec![usual],
        };
        let scale = self.scale.map(|scale| scale.0);
        let how = image::Normalise::new(&floats(&self.mean, 0.0), &floats(&self.std, 1.0), scale)?;
        Ok(how.laid_out(self.layout))
    }
}

impl Describe for Normalise {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let hint = "write mean and std of samples from 0 to 1, or of others with their scale";
        self.how()
            .map_err(|problem| place.error("normalise", problem, hint))?;
        let from = place.from("normalise.from", self.from.as_deref(), IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let how = self.how().map_err(|problem| opening.unfit(problem))?;
        let each = EachItem::new(stage, move |image| how.run(image));
        opening.on_threads(each, vec![None])
    }
}
