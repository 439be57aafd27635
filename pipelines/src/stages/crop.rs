//! `crop = { from = "page", boxes = "text" }`: of each image any number of parts, a box each.
//!
//! Cutting is in `image`. Its invariant: the parts of a row are those of its images, in order of images and boxes.

use super::by_item::{IMAGES, Made, at_item, at_stage, items};
use super::groups::groups;
use super::number::Number;
use crate::image::{self, Boxes, Sampling, Unit};
use crate::planner::Place;
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, Stage, Step, Value};
use millpond_backends_interface::Port;
use millpond_tensor::Tensor;
use serde::Deserialize;

/// Parts of images.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as crop = { boxes = \"inputs.boxes\" }"
)]
pub struct Crop {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// What gives the boxes of each image: left, top, right, bottom, or four corners from the top left on, clockwise.
    boxes: String,
    /// What boxes count: `pixels`, or `sides` of the image.
    #[serde(default)]
    unit: Unit,
    /// Of corners, how samples are found: `bicubic` or `bilinear`.
    #[serde(default)]
    sampling: Sampling,
    /// Of corners: a part at least so many times as high as wide is turned to the left.
    tall_ratio: Option<Number>,
}

impl Describe for Crop {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        if self.tall_ratio.is_some_and(|ratio| ratio.0 <= 0.0) {
            let hint = "write how many times as high as wide, as in 1.5";
            return Err(place.error("crop.tall_ratio", "it is not above 0", hint));
        }
        let from = place.from("crop.from", self.from.as_deref(), IMAGES)?;
        place.take_of("crop.boxes", &self.boxes, IMAGES)?;
        Ok(Form {
            kind: Kind::Tensors,
            per_row: PerRow::Several,
            ..from
        })
    }

    fn reads(&self) -> Vec<&str> {
        self.from
            .as_deref()
            .into_iter()
            .chain([self.boxes.as_str()])
            .collect()
    }

    fn follows(&self) -> bool {
        self.from.is_none()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let cropping = Cropping {
            stage: stage.to_owned(),
            how: self.clone(),
        };
        opening.on_threads(cropping, vec![None])
    }
}

struct Cropping {
    stage: String,
    how: Crop,
}

impl Cropping {
    fn cut(&self, image: &Tensor, boxes: &Tensor, made: &mut Made) -> Result<(), String> {
        let unit = self.how.unit;
        match Boxes::of(boxes)? {
            Boxes::Rectangles(boxes) => boxes
                .iter()
                .try_for_each(|&edges| made.push(image::crop(image, &image::Crop { edges, unit })?)),
            Boxes::Quadrilaterals(boxes) => boxes.iter().try_for_each(|&corners| {
                let how = image::Warp {
                    corners,
                    unit,
                    sampling: self.how.sampling,
                    tall_ratio: self.how.tall_ratio.map(|ratio| ratio.0),
                };
                made.push(image::warp(image, &how)?)
            }),
        }
    }
}

impl Stage for Cropping {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let images = items(from)?;
        let boxes =
            groups(given.value(1)?, images.len()).map_err(|problem| at_stage(&self.stage, &problem))?;
        let mut made = Made::default();
        // Where the parts of each image end.
        let mut ends = vec![0_u32];
        for (at, (image, boxes)) in images.iter().zip(&boxes).enumerate() {
            self.cut(image, boxes, &mut made)
                .map_err(|problem| at_item(&self.stage, at, &problem))?;
            ends.push(u32::try_from(made.items.len()).unwrap_or(u32::MAX));
        }
        let offsets = match &from.offsets {
            None => ends,
            Some(rows) => rows
                .iter()
                .filter_map(|&at| ends.get(at as usize).copied())
                .collect(),
        };
        Ok(Step::Value(Value {
            items: Items::Tensors(made.items),
            offsets: Some(offsets.into()),
        }))
    }
}
