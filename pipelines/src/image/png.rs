//! PNG of every kind, 1 to 16 bits, gray, palette, color, with alpha or interlaced; of an animation the first frame.
//!
//! Alpha is dropped and of 16 bits the upper 8 are kept. Its invariant: what is read is 8 bits a channel.

use super::decode::{Color, Decode, Stored, bounded, colored};
use super::{Size, exif};
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};
use std::io::{Cursor, ErrorKind};

/// Bytes that the library may hold beside the image.
const BESIDE_MAX: usize = 8 << 20;

pub(super) fn decode(bytes: &[u8], how: &Decode) -> Result<Stored, String> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: BESIDE_MAX });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let header = decoder.read_header_info().map_err(|error| cannot(&error))?;
    let [width, height] =
        [header.width, header.height].map(|side| usize::try_from(side).unwrap_or(usize::MAX));
    let size = Size { height, width };
    // What a row takes, of four channels of 16 bits and of those expanded.
    let row = bounded("PNG", size, 1, how).map(|_| width.saturating_mul(16))?;
    decoder.set_limits(Limits {
        bytes: BESIDE_MAX.saturating_add(row),
    });
    let mut reader = decoder.read_info().map_err(|error| cannot(&error))?;
    let (kind, depth) = reader.output_color_type();
    let len = bounded("PNG", size, kind.samples(), how)?;
    if depth != BitDepth::Eight || reader.output_buffer_size() != Some(len) {
        return Err(format!("a PNG image of {kind:?} with {depth:?} bits"));
    }
    let mut samples = vec![0; len];
    reader.next_frame(&mut samples).map_err(|error| cannot(&error))?;
    let orientation = reader
        .info()
        .exif_metadata
        .as_deref()
        .map_or(1, exif::orientation);
    Ok(Stored {
        size,
        samples: wanted(samples, kind, how.color)?,
        orientation,
    })
}

/// The color wanted, of what was stored.
fn wanted(samples: Vec<u8>, kind: ColorType, color: Color) -> Result<Vec<u8>, String> {
    let of_gray = |gray: &mut dyn Iterator<Item = u8>| match color {
        Color::Gray => gray.collect::<Vec<u8>>(),
        Color::Rgb | Color::Bgr => gray.flat_map(|gray| [gray; 3]).collect(),
    };
    Ok(match kind {
        ColorType::Grayscale if color == Color::Gray => samples,
        ColorType::Grayscale => of_gray(&mut samples.into_iter()),
        ColorType::GrayscaleAlpha => of_gray(&mut samples.into_iter().step_by(2)),
        ColorType::Rgb => colored(samples, color),
        ColorType::Rgba => {
            let pixels = samples.as_chunks::<4>().0.iter();
            colored(pixels.flat_map(|&[r, g, b, _]| [r, g, b]).collect(), color)
        }
        // Expanded by the library.
        ColorType::Indexed => return Err("a PNG image with a palette that is not expanded".to_owned()),
    })
}

fn cannot(error: &DecodingError) -> String {
    match error {
        DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            "a PNG image that ends before its last row; send it whole".to_owned()
        }
        _ => format!("a PNG image that cannot be decoded: {error}"),
    }
}
