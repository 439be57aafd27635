//! `letterbox = { height = 640, width = 640 }`: images scaled into a frame; `letterbox = { multiple = 32 }`: a border alone.
//!
//! How is in `image`. Its invariant: without `height` and `width` no image is scaled.

use super::by_item::{EachItem, IMAGES, reads_from};
use super::number::Number;
use crate::image::{self, Filter, Scaling, Size};
use crate::planner::Place;
use crate::{Describe, Error, Form, Kind, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Images in frames.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as letterbox = { height = 640, width = 640 }"
)]
pub struct Letterbox {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// The frame's height.
    height: Option<usize>,
    /// The frame's width.
    width: Option<usize>,
    /// The frame's sides are multiples of this.
    multiple: Option<usize>,
    /// Whether the image stands in the middle, or at the top left.
    centered: Option<bool>,
    /// Samples of the border; 114 when left out.
    value: Option<Number>,
    /// As for `resize`.
    #[serde(default)]
    filter: Filter,
    /// As for `resize`.
    #[serde(default)]
    antialias: bool,
}

impl Describe for Letterbox {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let sides = [
            ("letterbox.height", self.height),
            ("letterbox.width", self.width),
            ("letterbox.multiple", self.multiple),
        ];
        if let Some((key, _)) = sides.iter().find(|(_, side)| *side == Some(0)) {
            return Err(place.error(key, "it is 0", "write a number of pixels"));
        }
        match (self.height, self.width, self.multiple) {
            (Some(_), Some(_), _) | (None, None, Some(_)) => (),
            _ => {
                let hint = "write height and width, or multiple alone for a border without scaling";
                return Err(place.error("letterbox", "it says no frame", hint));
            }
        }
        let from = place.from("letterbox.from", self.from.as_deref(), IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let usual = image::Letterbox::default();
        let how = image::Letterbox {
            size: self
                .height
                .zip(self.width)
                .map(|(height, width)| Size { height, width }),
            multiple: self.multiple.unwrap_or(usual.multiple),
            centered: self.centered.unwrap_or(usual.centered),
            value: self.value.map_or(usual.value, |value| value.0),
            scaling: Scaling {
                filter: self.filter,
                antialias: self.antialias,
            },
        };
        let each = EachItem::new(stage, move |image| image::letterbox(image, &how));
        opening.on_threads(each, vec![None])
    }
}
