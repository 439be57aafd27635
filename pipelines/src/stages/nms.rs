//! `nms = { boxes = "net.boxes", scores = "net.scores" }`: of a detector's boxes those worth keeping, a tensor an image:
//! `[kept, 6]` of f32, which are left, top, right, bottom, score and class, best first.
//!
//! How is in `numeric`. Its invariant: it gives one item for each image, also where no box is kept.

use super::by_item::{IMAGES, at_item, at_stage};
use super::groups::groups;
use super::number::Number;
use crate::planner::Place;
use crate::{
    Describe, Error, Form, Given, Items, Kind, Opened, Opening, PerRow, Stage, Step, Value, numeric,
};
use millpond_backends_interface::Port;
use millpond_tensor::{Elements, Tensor, element_types};
use serde::Deserialize;

/// Boxes kept of one image when nothing is said.
const ITEMS_MAX: usize = 300;

/// The best of boxes that lie over each other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as nms = { boxes = \"net.boxes\", scores = \"net.scores\" }"
)]
pub struct Nms {
    /// What gives the boxes, `[images, n, 4]`, or `[n, 4]` of one image.
    boxes: String,
    /// What gives the scores, n for each image.
    scores: String,
    /// What gives the classes, n for each image: boxes of different ones do not suppress each other.
    classes: Option<String>,
    /// Shared area over area of both at most; 0.45 when left out.
    overlap_max: Option<Number>,
    /// The least score; 0.25 when left out.
    score_min: Option<Number>,
    /// Boxes kept of one image; 300 when left out.
    items_max: Option<usize>,
}

impl Describe for Nms {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        let overlap = self.overlap_max.map_or(0.0, |overlap| overlap.0);
        if !(0.0..=1.0).contains(&overlap) {
            let problem = format!("it is {overlap}");
            return Err(place.error("nms.overlap_max", problem, "write a number from 0 to 1"));
        }
        if self.items_max == Some(0) {
            return Err(place.error("nms.items_max", "it is 0", "write how many to keep of an image"));
        }
        let boxes = place.take_of("nms.boxes", &self.boxes, IMAGES)?;
        place.take_of("nms.scores", &self.scores, IMAGES)?;
        if let Some(classes) = &self.classes {
            place.take_of("nms.classes", classes, IMAGES)?;
        }
        Ok(Form {
            kind: Kind::Tensors,
            per_row: PerRow::One,
            ..boxes
        })
    }

    fn reads(&self) -> Vec<&str> {
        let named = [Some(&self.boxes), Some(&self.scores), self.classes.as_ref()];
        named.into_iter().flatten().map(String::as_str).collect()
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let suppressing = Suppressing {
            stage: stage.to_owned(),
            how: numeric::Nms {
                overlap_max: self.overlap_max.map_or(0.45, |overlap| overlap.0),
                score_min: self.score_min.map_or(0.25, |score| score.0),
                items_max: self.items_max.unwrap_or(ITEMS_MAX),
            },
            has_classes: self.classes.is_some(),
        };
        opening.on_threads(suppressing, vec![None])
    }
}

struct Suppressing {
    stage: String,
    how: numeric::Nms,
    has_classes: bool,
}

impl Suppressing {
    fn kept(&self, boxes: &Tensor, scores: &Tensor, classes: Option<&Tensor>) -> Result<Tensor, String> {
        let classes = classes.map(whole).transpose()?;
        let kept = numeric::nms(boxes, scores, classes.as_deref(), &self.how)?;
        let (edges, scores) = (boxes.f32().unwrap_or_default(), scores.f32().unwrap_or_default());
        let mut rows = Vec::with_capacity(kept.len() * 6);
        for at in &kept {
            rows.extend_from_slice(edges.get(at * 4..at * 4 + 4).unwrap_or_default());
            rows.extend(scores.get(*at));
            rows.push(
                classes
                    .as_ref()
                    .and_then(|classes| classes.get(*at))
                    .map_or(0.0, |class| *class as f32),
            );
        }
        Tensor::new(vec![kept.len(), 6], rows).map_err(|error| error.to_string())
    }
}

/// Classes as whole numbers, whatever type a model gives them in.
fn whole(classes: &Tensor) -> Result<Vec<i64>, String> {
    let whole = whole_numbers(classes.elements());
    whole.ok_or_else(|| {
        format!(
            "nms takes classes that are numbers, not {}",
            classes.element_type()
        )
    })
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        fn whole_numbers(classes: Elements<'_>) -> Option<Vec<i64>> {
            match classes {
                $(Elements::$variant(classes) => whole_numbers!($kind classes),)*
                Elements::Bytes(_) => None,
            }
        }
    };
}

macro_rules! whole_numbers {
    (truth $classes:expr) => {{
        let _ = $classes;
        None
    }};
    (float $classes:expr) => {
        Some($classes.iter().map(|class| f64::from(*class) as i64).collect())
    };
    ($kind:ident $classes:expr) => {
        Some($classes.iter().map(|class| *class as i64).collect())
    };
}

element_types!(declare);

impl Stage for Suppressing {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let boxes = given.value(0)?;
        let images = match &boxes.items {
            Items::Tensor(tensor) if boxes.offsets.is_none() && tensor.shape().len() < 3 => 1,
            _ if boxes.offsets.is_none() => boxes.items.len(),
            Items::Tensors(items) => items.len(),
            _ => boxes.row_count(),
        };
        let of = |at: usize| {
            let found = groups(given.value(at)?, images);
            found.map_err(|problem| at_stage(&self.stage, &problem))
        };
        let (boxes_of, scores) = (of(0)?, of(1)?);
        let classes = self.has_classes.then(|| of(2)).transpose()?;
        let mut kept = Vec::with_capacity(images);
        for (at, (boxes, scores)) in boxes_of.iter().zip(&scores).enumerate() {
            // One box of one image has lost its first dimension.
            let boxes = match boxes.shape() {
                [4] => Tensor::stack(std::slice::from_ref(boxes)).unwrap_or_else(|| boxes.clone()),
                _ => boxes.clone(),
            };
            let classes = classes.as_ref().and_then(|classes| classes.get(at));
            let rows = self.kept(&boxes, scores, classes);
            kept.push(rows.map_err(|problem| at_item(&self.stage, at, &problem))?);
        }
        let items = Items::Tensors(kept);
        Ok(Step::Value(match &boxes.items {
            Items::Tensors(_) => boxes.with(items),
            _ => Value::rows(items),
        }))
    }
}
