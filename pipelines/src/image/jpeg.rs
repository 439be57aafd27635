//! JPEG: baseline and progressive, gray, YCbCr, RGB, CMYK and YCCK. Arithmetic coding and 12 bits are refused by name.
//!
//! Its invariant: what the library is asked for is something that it converts to itself; the rest is converted here.

mod reader;

use super::decode::{Color, Decode, Stored, bounded, colored};
use super::{Size, exif};
use reader::Reader;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;

/// Passes over a progressive image at most: libraries write ten, and each costs the time of the whole image.
const SCANS_MAX: usize = 64;

pub(super) fn decode(bytes: &[u8], how: &Decode) -> Result<Stored, String> {
    let options = DecoderOptions::default()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(wanted(how.color))
        .set_strict_mode(how.strict);
    let mut decoder = JpegDecoder::new_with_options(Reader::new(bytes, how.strict), options);
    decoder.decode_headers().map_err(|error| cannot(&error))?;
    let (Some((width, height)), Some(stored), Some(info)) =
        (decoder.dimensions(), decoder.input_colorspace(), decoder.info())
    else {
        return Err("a JPEG image without a header".to_owned());
    };
    if height == 0 {
        return Err("a JPEG image whose height is behind its pixels (DNL); save it anew".to_owned());
    }
    let size = Size { height, width };
    let given = given(stored, info.components, how.color)?;
    let len = bounded("JPEG", size, given.num_components(), how)?;
    if given != wanted(how.color) {
        decoder.set_options(options.jpeg_set_out_colorspace(given));
    }
    let mut samples = vec![0; len];
    decoder
        .decode_into(&mut samples)
        .map_err(|error| cannot(&error))?;
    let orientation = decoder.exif().map_or(1, |exif| exif::orientation(exif));
    Ok(Stored {
        size,
        samples: match given {
            given if given == wanted(how.color) => samples,
            _ => colored(samples, how.color),
        },
        orientation,
    })
}

fn wanted(color: Color) -> ColorSpace {
    match color {
        Color::Rgb => ColorSpace::RGB,
        Color::Bgr => ColorSpace::BGR,
        Color::Gray => ColorSpace::Luma,
    }
}

/// What the library gives of an image that is `stored` so: the color wanted, or what is converted to it here.
fn given(stored: ColorSpace, components: u8, color: Color) -> Result<ColorSpace, String> {
    match (stored, components) {
        (ColorSpace::YCbCr, 3) => Ok(wanted(color)),
        (ColorSpace::Luma, 1) if color == Color::Gray => Ok(ColorSpace::Luma),
        (ColorSpace::Luma, 1) | (ColorSpace::RGB, 3) => Ok(ColorSpace::RGB),
        // Inks are taken for inverted, as Adobe stores them, with and without its segment: so do Pillow, OpenCV and browsers.
        (ColorSpace::CMYK | ColorSpace::YCCK, 4) => Ok(ColorSpace::RGB),
        _ => Err(format!("a JPEG image of {components} components as {stored:?}")),
    }
}

fn cannot(error: &DecodeErrors) -> String {
    let why = format!("{error:?}");
    let is_cut = matches!(error, DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_))
        || why.contains("Premature")
        || why.contains("No more bytes");
    match is_cut {
        true => "a JPEG image that ends before its last row; send it whole, or set strict = false".to_owned(),
        false if why.contains("Bad Huffman Code") => {
            "a JPEG image that is cut off or damaged; send it whole, or set strict = false".to_owned()
        }
        false => format!(
            "a JPEG image that cannot be decoded: {}",
            why.trim_matches('"').trim_end()
        ),
    }
}
