//! Images: `pipelines/src/image`, from the bytes of a file to what a model is given.
//!
//! The first bytes choose how it is decoded and the parameters of what follows; the rest is the file. What must hold: nothing
//! panics, no result is larger than allowed, and the same bytes give the same pixels.

use crate::cuts::settings;
use millpond_pipelines::image::{
    Boxes, Color, Conversion, Crop, Decode, Filter, Layout, Letterbox, Normalise, Orientation, Resize,
    Sampling, Scaling, Size, Unit, Warp, convert, crop, decode, lay_out, letterbox, resize, warp,
};
use millpond_tensor::Tensor;

/// Pixels of a fuzzed image at most: small ones find what large ones find, a thousand times as often.
const PIXELS: usize = 1 << 16;

/// Feeds files; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn image(data: &[u8]) {
    let (choices, file) = settings::<24>(data);
    let [how, shape, numbers @ ..] = choices;
    let decoding = Decode {
        color: [Color::Rgb, Color::Bgr, Color::Gray][usize::from(how % 3)],
        orientation: [Orientation::Apply, Orientation::Ignore][usize::from(how >> 2 & 1)],
        strict: how >> 3 & 1 == 0,
        pixels_max: PIXELS,
        pixels_before: 0,
    };
    // Parameters are floats of any kind, and sides from nothing to far too many.
    let float = |at: usize| {
        f32::from_bits(u32::from_le_bytes(
            numbers[at..at + 4].try_into().unwrap_or_default(),
        ))
    };
    let side = |at: usize| match numbers[at] {
        255 => usize::MAX,
        byte => usize::from(byte) << (numbers[at + 1] % 5),
    };
    let Ok(decoded) = decode(file, &decoding) else {
        return;
    };
    within(&decoded, PIXELS);
    assert_eq!(decode(file, &decoding).as_ref(), Ok(&decoded));
    let scaling = Scaling {
        filter: [
            Filter::Nearest,
            Filter::Bilinear,
            Filter::Bicubic,
            Filter::Lanczos,
        ][usize::from(shape & 3)],
        antialias: shape >> 2 & 1 == 1,
    };
    let to = Resize {
        height: (how & 16 == 0).then(|| side(0)),
        width: (how & 32 == 0).then(|| side(2)),
        keep_ratio: shape & 8 == 0,
        side_max: Some(256),
        multiple: (shape & 16 == 0).then(|| usize::from(numbers[4])),
        scaling,
        ..Resize::default()
    };
    let framed = Letterbox {
        size: (shape & 32 == 0).then(|| Size {
            height: side(5) % 512,
            width: side(7) % 512,
        }),
        multiple: usize::from(numbers[9]),
        centered: shape & 64 == 0,
        value: float(10),
        scaling,
    };
    let unit = [Unit::Pixels, Unit::Sides][usize::from(how >> 6 & 1)];
    let edges = [float(0), float(4), float(8), float(12)];
    let floats = normalised(&decoded, float(4));
    for given in [Some(decoded), floats].into_iter().flatten() {
        used(resize(&given, &to));
        used(letterbox(&given, &framed));
        used(crop(&given, &Crop { edges, unit }));
        cut(&given, &numbers, unit);
        arranged(given);
    }
}

/// No parameter but what is done.
fn arranged(image: Tensor) {
    for conversion in [Conversion::RgbToBgr, Conversion::BgrToGray, Conversion::GrayToRgb] {
        used(convert(&image, conversion));
    }
    let planes = lay_out(&image, Layout::Chw);
    let back = planes.and_then(|planes| lay_out(&planes, Layout::Hwc));
    let back = back.unwrap_or_else(|why| panic!("{why}"));
    // Floats by their bits: one may be NaN.
    let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits()).collect::<Vec<u32>>();
    match image.f32() {
        Some(floats) => assert_eq!(back.f32().map(bits), Some(bits(floats))),
        None => assert_eq!(back, image),
    }
}

fn normalised(image: &Tensor, mean: f32) -> Option<Tensor> {
    Normalise::new(&[mean], &[0.5], None).ok()?.run(image).ok()
}

/// A quadrilateral by small coordinates: one that is large takes long and finds no more.
fn cut(image: &Tensor, numbers: &[u8], unit: Unit) {
    let most = if unit == Unit::Sides { 64.0 } else { 1.0 };
    let floats: Vec<f32> = numbers
        .iter()
        .take(8)
        .map(|byte| f32::from(byte.cast_signed()) / most)
        .collect();
    let boxes = Tensor::new(vec![1, 4, 2], floats).unwrap_or_else(|error| panic!("{error}"));
    let Ok(Boxes::Quadrilaterals(corners)) = Boxes::of(&boxes) else {
        panic!("finite corners are no quadrilateral");
    };
    let how = Warp {
        corners: corners[0],
        unit,
        sampling: [Sampling::Bilinear, Sampling::Bicubic][usize::from(numbers[8] & 1)],
        tall_ratio: (numbers[8] & 2 == 0).then_some(1.5),
    };
    used(warp(image, &how));
}

/// A result may be refused; one that is given is an image.
fn used(result: Result<Tensor, String>) {
    match result {
        Ok(image) => within(&image, 1 << 24),
        Err(why) => assert!(!why.is_empty()),
    }
}

fn within(image: &Tensor, pixels_max: usize) {
    let [height, width, channels] = *image.shape() else {
        panic!("an image of {:?}", image.shape());
    };
    assert!(height > 0 && width > 0 && (1..=4).contains(&channels));
    assert!(height * width <= pixels_max, "{height} × {width}");
}
