//! `resize = { height = 224, width = 224, filter = "bilinear" }`: images of another size, by their sides or exactly.
//!
//! How is in `image`. Its invariant: a description says of each side what it becomes, and not twice.

use super::by_item::{EachItem, IMAGES, reads_from};
use crate::image::{self, Filter, Scaling};
use crate::planner::Place;
use crate::{Describe, Error, Form, Kind, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Images of another size.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as resize = { height = 224, width = 224 }"
)]
pub struct Resize {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// The height; without `width` that follows by the proportions.
    height: Option<usize>,
    /// The width; without `height` that follows by the proportions.
    width: Option<usize>,
    /// Height and width are limits; the image keeps its proportions inside them.
    #[serde(default)]
    keep_ratio: bool,
    /// What the shorter side becomes.
    short_side: Option<usize>,
    /// A shorter side that is less becomes this.
    side_min: Option<usize>,
    /// A longer side that is more becomes this.
    side_max: Option<usize>,
    /// Each side becomes the nearest multiple of this.
    multiple: Option<usize>,
    /// `nearest`, `bilinear`, `bicubic` or `lanczos`.
    #[serde(default)]
    filter: Filter,
    /// Whether a smaller image is made of all pixels, as by Pillow; otherwise as by OpenCV.
    #[serde(default)]
    antialias: bool,
}

impl Resize {
    fn how(&self) -> image::Resize {
        image::Resize {
            height: self.height,
            width: self.width,
            keep_ratio: self.keep_ratio,
            short_side: self.short_side,
            side_min: self.side_min,
            side_max: self.side_max,
            multiple: self.multiple,
            scaling: Scaling {
                filter: self.filter,
                antialias: self.antialias,
            },
        }
    }
}

impl Describe for Resize {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let exact = [("resize.height", self.height), ("resize.width", self.width)];
        let by_side = [
            ("resize.short_side", self.short_side),
            ("resize.side_min", self.side_min),
            ("resize.side_max", self.side_max),
            ("resize.multiple", self.multiple),
        ];
        let given = |(key, side): &(&'static str, Option<usize>)| side.map(|side| (*key, side));
        let sides: Vec<(&str, usize)> = exact.iter().chain(&by_side).filter_map(given).collect();
        if sides.is_empty() {
            let hint = "write height and width, or one of short_side, side_min, side_max and multiple";
            return Err(place.error("resize", "it says no size", hint));
        }
        if let Some((key, _)) = sides.iter().find(|(_, side)| *side == 0) {
            return Err(place.error(key, "it is 0", "write a number of pixels"));
        }
        let is_exact = exact.iter().all(|(_, side)| side.is_some());
        if self.keep_ratio && !is_exact {
            let hint = "write both, or leave keep_ratio out: proportions are kept without it";
            return Err(place.error("resize.keep_ratio", "it needs height and width", hint));
        }
        let has_exact = exact.iter().any(|(_, side)| side.is_some());
        if let (true, Some(short)) = (has_exact, self.short_side) {
            let problem = format!("it is {short} beside a height or a width");
            return Err(place.error("resize.short_side", problem, "write the one or the other"));
        }
        let from = place.from("resize.from", self.from.as_deref(), IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let how = self.how();
        let each = EachItem::new(stage, move |image| image::resize(image, &how));
        opening.on_threads(each, vec![None])
    }
}
