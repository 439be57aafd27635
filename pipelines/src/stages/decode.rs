//! `decode = { from = "inputs.page", color = "rgb" }`: files of JPEG and PNG to images, `[height, width, channels]` of u8.
//!
//! Decoding itself is in `image`. Its invariant: all images of a request together have at most `pixels_max` pixels, which is
//! known before any of them is decoded further.

use super::by_item::{Made, at_item, reads_from};
use crate::image::{self, Color, Orientation, PIXELS_MAX};
use crate::planner::{Place, Words};
use crate::{Describe, Error, Form, Given, Items, Kind, Opened, Opening, Stage, Step};
use millpond_backends_interface::Port;
use serde::Deserialize;

/// What it takes, for those who give it an image's pixels, or a file's bytes as an array.
const FILES: Words = Words {
    expected: "encoded images",
    hint: "give the bytes of a JPEG or PNG file, in Python a `bytes` object (array.tobytes() of an array of uint8), \
           or a list of them",
};

/// Images of files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as decode = { from = \"inputs.page\" }"
)]
pub struct Decode {
    /// What gives the bytes of the files; the stage before when left out.
    from: Option<String>,
    /// `rgb`, `bgr` or `gray`.
    #[serde(default)]
    color: Color,
    /// `apply`: turned as the camera was; `ignore`: as stored.
    #[serde(default)]
    orientation: Orientation,
    /// Pixels of all images of a request.
    pixels_max: Option<usize>,
    /// Whether a JPEG that is cut off or damaged is refused; otherwise what is missing is gray.
    strict: Option<bool>,
}

impl Describe for Decode {
    fn plan(&self, place: &mut Place<'_, '_>) -> Result<Form, Error> {
        if self.pixels_max == Some(0) {
            let hint = "write how many pixels the images of a request may have, or leave it out";
            return Err(place.error("decode.pixels_max", "it is 0", hint));
        }
        let from = place.from("decode.from", self.from.as_deref(), &[Kind::Texts])?;
        place.expects(FILES);
        let kind = Kind::Tensors;
        Ok(Form { kind, ..from })
    }

    reads_from!();

    fn has_threads(&self) -> bool {
        true
    }

    fn open(&self, stage: &str, _: &[Option<Port>], opening: &mut Opening<'_>) -> Result<Opened, Error> {
        let how = image::Decode {
            color: self.color,
            orientation: self.orientation,
            pixels_max: self.pixels_max.unwrap_or(PIXELS_MAX),
            pixels_before: 0,
            strict: self.strict.unwrap_or(true),
        };
        let stage = stage.to_owned();
        opening.on_threads(Decoding { stage, how }, vec![None])
    }
}

struct Decoding {
    stage: String,
    how: image::Decode,
}

impl Stage for Decoding {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        let from = given.value(0)?;
        let mut made = Made::default();
        let mut how = self.how;
        for (at, file) in from.bytes()?.iter().enumerate() {
            let decoded = image::decode(file, &how).and_then(|image| {
                how.pixels_before += image.shape().iter().take(2).product::<usize>();
                made.push(image)
            });
            decoded.map_err(|problem| at_item(&self.stage, at, &problem))?;
        }
        Ok(Step::Value(from.with(Items::Tensors(made.items))))
    }
}
