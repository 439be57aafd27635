//! `layout = { to = "chw" }`: channels first, as most models take images, or last. How is in `image`.
//!
//! Its invariant: it takes images of the other layout; what it gets does not say which it has.

use super::by_item::{EachItem, IMAGES, reads_from};
use crate::image;
use crate::planner::Place;
use crate::{Describe, Error, Form, Kind, Opened, Opening};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// Images of the other layout.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as layout = { to = \"chw\" }")]
pub struct Layout {
    /// What gives the images; the stage before when left out.
    from: Option<String>,
    /// `chw` of images with channels last, `hwc` of images with channels first.
    to: image::Layout,
}

impl Describe for Layout {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let from = place.from("layout.from", self.from.as_deref(), IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let to = self.to;
        let each = EachItem::new(stage, move |image| image::lay_out(image, to));
        opening.on_threads(each, vec![None])
    }
}
