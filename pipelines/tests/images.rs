//! Images against what Pillow and OpenCV make of them (data/make_images.py wrote both down).
//!
//! Its invariant: each difference allowed has its reason here or in the script.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_pipelines::image::{
    Conversion, Crop, Decode, Filter, Layout, Letterbox, Normalise, Resize, Sampling, Scaling, Size, Unit,
    Warp, convert, crop, decode, letterbox, resize, warp,
};
use millpond_tensor::{ElementType, Tensor};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct References {
    decode: Vec<Decoded>,
    operations: Vec<Operation>,
    #[serde(skip)]
    folder: PathBuf,
    #[serde(skip)]
    raw: Vec<u8>,
}

#[derive(Deserialize)]
struct Decoded {
    file: String,
    at: usize,
    shape: Vec<usize>,
}

#[derive(Deserialize)]
struct Operation {
    what: String,
    keys: Keys,
    most: f32,
    r#type: String,
    at: usize,
    shape: Vec<usize>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    height: usize,
    width: usize,
    filter: Filter,
    antialias: bool,
    floats: bool,
    corners: [[f32; 2]; 4],
    sampling: Sampling,
    convert: Option<Conversion>,
    mean: Vec<f32>,
    std: Vec<f32>,
    layout: Layout,
    edges: [f32; 4],
}

impl References {
    /// Those committed, or of the folder that the environment names.
    fn read() -> References {
        let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/images");
        let folder = std::env::var_os("MILLPOND_IMAGES").map_or_else(own, PathBuf::from);
        let listed = std::fs::read(folder.join("references.json")).unwrap();
        let references: References = serde_json::from_slice(&listed).unwrap();
        References {
            raw: std::fs::read(folder.join("references.raw")).unwrap(),
            folder,
            ..references
        }
    }

    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        &self.raw[at..at + len]
    }
}

/// The largest difference, and the mean.
fn difference(found: &[f32], expected: &[f32]) -> (f32, f32) {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let max = differences.clone().fold(0.0, f32::max);
    (max, differences.sum::<f32>() / expected.len() as f32)
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    match tensor.of::<u8>() {
        Some(bytes) => bytes.iter().copied().map(f32::from).collect(),
        None => tensor.f32().unwrap().to_vec(),
    }
}

/// What the largest and the mean difference from libjpeg-turbo may be. Its inverse transform rounds otherwise, by 1 before the
/// colors are converted; chroma of fewer samples is spread otherwise between them.
fn allowed(file: &str) -> (f32, f32) {
    match file.rsplit_once('.').unwrap() {
        (_, "png") => (0.0, 0.0),
        ("quarters" | "halves", _) => (4.0, 0.5),
        _ => (3.0, 0.1),
    }
}

#[test]
fn images_are_decoded_as_pillow_does() {
    let references = References::read();
    for Decoded { file, at, shape } in &references.decode {
        let bytes = std::fs::read(references.folder.join(file)).unwrap();
        let image = decode(&bytes, &Decode::default()).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(image.shape(), shape, "{file}");
        let expected = references.bytes(*at, image.len()).iter().copied();
        let found = difference(&floats(&image), &expected.map(f32::from).collect::<Vec<f32>>());
        let (max, mean) = allowed(file);
        println!("{file}: {found:?}");
        assert!(
            found.0 <= max && found.1 <= mean,
            "{file}: {found:?} of {max} and {mean}"
        );
    }
}

fn done(operation: &Operation, pixels: &Tensor) -> Result<Tensor, String> {
    let keys = &operation.keys;
    let scaling = Scaling {
        filter: keys.filter,
        antialias: keys.antialias,
    };
    match operation.what.as_str() {
        "resize" if keys.floats => {
            let unit = Normalise::new(&[0.0], &[1.0], None)?.run(pixels)?;
            resize(&unit, &Resize::to(keys.height, keys.width, scaling))
        }
        "resize" => resize(pixels, &Resize::to(keys.height, keys.width, scaling)),
        "warp" => {
            let how = Warp {
                corners: keys.corners,
                unit: Unit::Pixels,
                sampling: keys.sampling,
                tall_ratio: Some(1.5),
            };
            warp(pixels, &how)
        }
        "color" => convert(pixels, keys.convert.unwrap()),
        "normalise" => Normalise::new(&keys.mean, &keys.std, None)?
            .laid_out(keys.layout)
            .run(pixels),
        "letterbox" => {
            let how = Letterbox {
                size: Some(Size {
                    height: keys.height,
                    width: keys.width,
                }),
                ..Letterbox::default()
            };
            letterbox(pixels, &how)
        }
        "crop" => crop(
            pixels,
            &Crop {
                edges: keys.edges,
                unit: Unit::Pixels,
            },
        ),
        other => panic!("{other}"),
    }
}

#[test]
fn operations_are_those_of_opencv_and_pillow() {
    let references = References::read();
    let png = std::fs::read(references.folder.join("rgb.png")).unwrap();
    let pixels = decode(&png, &Decode::default()).unwrap();
    let mut wrong = Vec::new();
    for operation in &references.operations {
        let found = done(operation, &pixels).unwrap();
        assert_eq!(
            found.shape(),
            operation.shape,
            "{} {:?}",
            operation.what,
            operation.keys
        );
        assert_eq!(found.element_type().as_str(), operation.r#type);
        let expected: Vec<f32> = match found.element_type() {
            ElementType::U8 => references
                .bytes(operation.at, found.len())
                .iter()
                .copied()
                .map(f32::from)
                .collect(),
            _ => {
                let bytes = references.bytes(operation.at, found.len() * 4);
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|bytes| f32::from_le_bytes(*bytes))
                    .collect()
            }
        };
        let (max, mean) = difference(&floats(&found), &expected);
        if max > operation.most {
            wrong.push(format!("{} {:?}: {max}, {mean}", operation.what, operation.keys));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
