//! `text_boxes = { from = "net", images = "page" }`: of a text detector's probability maps the boxes of texts, a tensor an image:
//! `[n, 4, 2]` of f32, corners in pixels of the image that `images` gives, as `crop` takes them.
//!
//! How is in `numeric`. Its invariant: it gives one item for each image, in its row, also where no text is found.

use super::by_item::{IMAGES, Made, at_item, at_stage, items};
use super::groups::groups;
use super::number::Number;
use crate::planner::Place;
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, Stage, Step, numeric};
use millpond_backends_interface::Port;
use millpond_tensor::Tensor;
use serde::Deserialize;

/// Boxes of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as text_boxes = { from = \"net\", images = \"page\" }"
)]
pub struct TextBoxes {
    /// What gives the maps, `[images, 1, height, width]` of f32; the stage before when left out.
    from: Option<String>,
    /// What gives the images that the boxes are for, `[height, width, channels]`, before they were resized for the detector.
    images: String,
    /// A pixel above this probability is of a text; 0.3 when left out.
    threshold: Option<Number>,
    /// The least mean probability under a box; 0.5 when left out.
    score_min: Option<Number>,
    /// How far boxes grow: by so many times their area over their perimeter; 1.6 when left out.
    unclip: Option<Number>,
    /// The least shorter side of a box before it grows, in pixels of the map; 3 when left out.
    side_min: Option<Number>,
    /// Whether texts grow by a pixel to the right and down first.
    #[serde(default)]
    dilate: bool,
    /// Texts of one image that are looked at; 1,000 when left out.
    items_max: Option<usize>,
}

impl TextBoxes {
    fn how(&self) -> numeric::TextBoxes {
        let or = |number: Option<Number>, usual: f32| number.map_or(usual, |number| number.0);
        numeric::TextBoxes {
            threshold: or(self.threshold, 0.3),
            score_min: or(self.score_min, 0.5),
            unclip: or(self.unclip, 1.6),
            side_min: or(self.side_min, 3.0),
            dilate: self.dilate,
            items_max: self.items_max.unwrap_or(1000),
        }
    }
}

impl Describe for TextBoxes {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let how = self.how();
        let shares = [
            ("text_boxes.threshold", how.threshold),
            ("text_boxes.score_min", how.score_min),
        ];
        for (key, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(place.error(key, format!("it is {share}"), "write a number from 0 to 1"));
            }
        }
        let lengths = [
            ("text_boxes.unclip", how.unclip),
            ("text_boxes.side_min", how.side_min),
        ];
        if let Some((key, length)) = lengths.iter().find(|(_, length)| *length < 0.0) {
            return Err(place.error(
                key,
                format!("it is {length}"),
                "write a number that is not below 0",
            ));
        }
        if how.items_max == 0 {
            let hint = "write how many texts of an image to look at";
            return Err(place.error("text_boxes.items_max", "it is 0", hint));
        }
        place.from("text_boxes.from", self.from.as_deref(), IMAGES)?;
        let images = place.take_of("text_boxes.images", &self.images, IMAGES)?;
        let kind = Kind::Tensors;
        Ok(Form { kind, ..images })
    }

    fn reads(&self) -> Vec<&str> {
        let from = self.from.as_deref().into_iter();
        from.chain([self.images.as_str()]).collect()
    }

    fn follows(&self) -> bool {
        self.from.is_none()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let finding = Finding {
            stage: stage.to_owned(),
            how: self.how(),
        };
        opening.on_threads(finding, vec![None])
    }
}

struct Finding {
    stage: String,
    how: numeric::TextBoxes,
}

impl Finding {
    fn found(&self, map: &Tensor, image: &Tensor) -> Result<Tensor, String> {
        let &[height, width, _] = image.shape() else {
            let shape = image.shape();
            return Err(format!(
                "images are [height, width, channels], as decode gives them, not {shape:?}"
            ));
        };
        numeric::text_boxes(map, [height, width], &self.how)
    }
}

impl Stage for Finding {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(1)?;
        let images = items(from)?;
        let maps =
            groups(given.value(0)?, images.len()).map_err(|problem| at_stage(&self.stage, &problem))?;
        let mut made = Made::default();
        for (at, (map, image)) in maps.iter().zip(&images).enumerate() {
            let found = self.found(map, image).and_then(|found| made.push(found));
            found.map_err(|problem| at_item(&self.stage, at, &problem))?;
        }
        Ok(Step::Value(from.with(Items::Tensors(made.items))))
    }
}
