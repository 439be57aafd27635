//! `color = { convert = "rgb_to_gray" }`: images of other channels. How is in `image`.
//!
//! Its invariant: an image with other channels than the conversion takes is an error of the request.

use super::by_item::{EachItem, IMAGES, reads_from};
use crate::image::{self, Conversion};
use crate::planner::Place;
use crate::{Describe, Error, Form, Kind, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Images of other channels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as color = { convert = \"rgb_to_gray\" }"
)]
pub struct Color {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// `rgb_to_bgr`, `bgr_to_rgb`, `rgb_to_gray`, `bgr_to_gray` or `gray_to_rgb`.
    convert: Conversion,
}

impl Describe for Color {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let from = place.from("color.from", self.from.as_deref(), IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let conversion = self.convert;
        let each = EachItem::new(stage, move |image| image::convert(image, conversion));
        opening.on_threads(each, vec![None])
    }
}
