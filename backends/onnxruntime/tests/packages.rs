//! Models that others trained and published, out of the Python packages of packages.txt, which `make test` installs into its environment.
//! They may lie in the one whose library is used as well. Each is left out by its name where its package is not.
//! They have scalars, states, free heights and widths, and outputs whose shapes only a run tells.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

mod installed;

use installed::{is_there, leave_out};
use millpond_backends_interface::Backend;
use millpond_backends_onnxruntime::OnnxRuntime;
use millpond_tensor::Tensor;
use std::path::{Path, PathBuf};

/// A file of a package; a line tells of the test that is left out where there is none.
fn packaged(test: &str, file: &str) -> Option<PathBuf> {
    let of_library = std::env::var_os("ORT_DYLIB_PATH").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.demo/venv"),
        PathBuf::from,
    );
    // Beside the profile's folder, which has this program in `deps`.
    let this = std::env::current_exe().unwrap();
    let of_tests = this.ancestors().nth(3).unwrap().join("tests-venv");
    let environments = [&of_tests, &of_library];
    let libraries = environments.map(|environment| std::fs::read_dir(environment.join("lib")));
    let pythons = libraries.into_iter().flatten().flatten().flatten();
    let mut files = pythons.map(|python| python.path().join("site-packages").join(file));
    let found = files.find(|file| file.is_file());
    if found.is_none() {
        let why = format!("no package in {environments:?} has {file}");
        leave_out(test, &why);
    }
    found.filter(|_| is_there(test))
}

/// Sevenths, one after the other.
fn sevenths(shape: &[usize]) -> Tensor {
    let len = shape.iter().product();
    let values: Vec<f32> = (0..len).map(|at: usize| (at % 7) as f32 / 7.0).collect();
    Tensor::new(shape.to_vec(), values).unwrap()
}

/// Runs the file and compares shapes, first values and sums of absolute values with what the package onnxruntime 1.31.1 gave in Python.
fn check(test: &str, file: &str, batched: bool, inputs: Vec<Tensor>, expected: &[(&[usize], f64, f64)]) {
    let Some(path) = packaged(test, file) else { return };
    let model = OnnxRuntime::at(path).load().unwrap();
    assert_eq!(model.signature().batched, batched);
    model.signature().check_ordered(&inputs).unwrap();
    let outputs = model.instance().unwrap().run(inputs).unwrap();
    assert_eq!(outputs.len(), expected.len());
    for (output, (shape, first, sum)) in outputs.iter().zip(expected) {
        assert_eq!(output.shape(), *shape);
        let values = output.f32().unwrap();
        let found: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
        for (found, expected) in [(f64::from(values[0]), first), (found, sum)] {
            assert!(
                (found - expected).abs() <= 1e-4 * expected.max(1.0),
                "{found} is not {expected}"
            );
        }
    }
}

#[test]
fn a_detector_of_speech_with_a_state() {
    let rate = Tensor::new(vec![], vec![16_000_i64]).unwrap();
    check(
        "a_detector_of_speech_with_a_state",
        "silero_vad/data/silero_vad.onnx",
        false,
        vec![sevenths(&[1, 576]), sevenths(&[2, 1, 128]), rate],
        &[
            (&[1, 1], 0.199_357_5, 0.199_357_5),
            (&[2, 1, 128], 0.066_584_4, 96.240_791),
        ],
    );
}

#[test]
fn a_detector_of_text_in_images_of_any_size() {
    check(
        "a_detector_of_text_in_images_of_any_size",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        true,
        vec![sevenths(&[1, 3, 64, 96])],
        &[(&[1, 1, 64, 96], 0.0, 0.0)],
    );
}

#[test]
fn a_classifier_of_angles() {
    check(
        "a_classifier_of_angles",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        true,
        vec![sevenths(&[2, 3, 48, 192])],
        &[(&[2, 2], 0.183_841, 2.0)],
    );
}

#[test]
fn a_reader_of_text() {
    check(
        "a_reader_of_text",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        true,
        vec![sevenths(&[1, 3, 48, 320])],
        &[(&[1, 40, 6625], 0.285_458_9, 40.0)],
    );
}
