//! Bytes of a JPEG or PNG file to an image of u8. What the formats differ in is in `jpeg` and `png`.
//!
//! Its invariant: nothing is allocated by what a header says before its pixels are counted against the limit.

use super::{PIXELS_MAX, Size, color, exif, jpeg, png};
use millpond_tensor::Tensor;
use serde::Deserialize;

/// The channels of a decoded image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Color {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red: what OpenCV gives.
    Bgr,
    /// One channel of lightness.
    Gray,
}

impl Color {
    pub(super) fn channels(self) -> usize {
        match self {
            Color::Rgb | Color::Bgr => 3,
            Color::Gray => 1,
        }
    }
}

/// What is done with the orientation that a camera wrote into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    /// The image is turned and mirrored as it says.
    #[default]
    Apply,
    /// The image stays as it is stored.
    Ignore,
}

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decode {
    /// The channels wanted.
    pub color: Color,
    /// Whether an EXIF orientation is followed.
    pub orientation: Orientation,
    /// Pixels of all images of a request at most; an image with more is refused by its header.
    pub pixels_max: usize,
    /// Pixels of the request's images before this image.
    pub pixels_before: usize,
    /// Whether a JPEG that is cut off or damaged is refused; otherwise what is missing is gray.
    pub strict: bool,
}

impl Default for Decode {
    fn default() -> Decode {
        Decode {
            color: Color::Rgb,
            orientation: Orientation::Apply,
            pixels_max: PIXELS_MAX,
            pixels_before: 0,
            strict: true,
        }
    }
}

/// An image as stored, of the color wanted.
pub(super) struct Stored {
    pub(super) size: Size,
    pub(super) samples: Vec<u8>,
    /// The EXIF orientation, 1 to 8.
    pub(super) orientation: u8,
}

/// Decodes the first image of a JPEG or PNG file to `[height, width, channels]` of u8.
///
/// # Errors
/// What is wrong with the file.
pub fn decode(bytes: &[u8], how: &Decode) -> Result<Tensor, String> {
    let stored = match bytes {
        [0xff, 0xd8, ..] => jpeg::decode(bytes, how)?,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => png::decode(bytes, how)?,
        _ => return Err(unknown(bytes)),
    };
    let channels = how.color.channels();
    let (size, samples) = match how.orientation {
        Orientation::Apply => exif::turn(stored.size, channels, stored.samples, stored.orientation),
        Orientation::Ignore => (stored.size, stored.samples),
    };
    super::finished(size, channels, samples)
}

/// Refuses an image of more pixels than allowed, and gives what its samples take.
pub(super) fn bounded(format: &str, size: Size, channels: usize, how: &Decode) -> Result<usize, String> {
    let too_large = || too_large(format, size, how);
    let left = how.pixels_max.saturating_sub(how.pixels_before);
    let pixels = size.pixels(left).ok_or_else(too_large)?;
    pixels.checked_mul(channels).ok_or_else(too_large)
}

/// Says the limit as configured, and where images before this image have used a part of it, which.
fn too_large(format: &str, size: Size, how: &Decode) -> String {
    let Decode {
        pixels_max: max,
        pixels_before: before,
        ..
    } = how;
    let pixels = size.height as u128 * size.width as u128;
    let image = format!("a {format} image of {size} = {pixels} pixels");
    match before {
        0 => format!("{image}; {max} pixels are the limit (pixels_max)"),
        before => format!(
            "{image}, and the images before it have {before}; {max} pixels are the limit for all images of a request (pixels_max)"
        ),
    }
}

/// Samples of red, green and blue as the color wanted.
pub(super) fn colored(rgb: Vec<u8>, color: Color) -> Vec<u8> {
    match color {
        Color::Rgb => rgb,
        Color::Bgr => color::swapped(rgb),
        Color::Gray => color::gray_of_rgb(&rgb),
    }
}

/// Bytes shown of what is no image.
const SHOWN: usize = 8;

fn unknown(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "not a JPEG or PNG image: it is empty".to_owned();
    }
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let hex: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "not a JPEG or PNG image: begins with {} (\"{}\")",
        hex.join(" "),
        shown.escape_ascii()
    )
}

#[cfg(test)]
mod tests;
