//! Files that are not models this backend can serve: each is refused with the file,
//! the reason and a hint, and none makes the process panic or stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;

use installed::{data, is_there};
use millpond_backends_interface::{Backend, Error};
use millpond_backends_onnxruntime::OnnxRuntime;
use std::path::Path;

fn check(path: &Path, expected_problem: &str, expected_hint: &str) {
    match OnnxRuntime::at(path).load().map(|_| ()) {
        Err(Error::Load {
            path: named,
            problem,
            hint,
        }) => {
            assert_eq!(named, path);
            assert!(
                problem.contains(expected_problem),
                "{}: {problem}",
                path.display()
            );
            assert!(hint.contains(expected_hint), "{}: {hint}", path.display());
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[test]
fn models_that_cannot_be_served_are_refused() {
    if !is_there("models_that_cannot_be_served_are_refused") {
        return;
    }
    let cannot = "ONNX Runtime cannot load it: ";
    for (file, problem, hint) in [
        (
            "refused_unknown_domain.onnx",
            "Frobnicate",
            "operators that the installed ONNX Runtime has",
        ),
        (
            "refused_unknown_op.onnx",
            "Frobnicate",
            "operators that the installed ONNX Runtime has",
        ),
        ("refused_output_from_nowhere.onnx", cannot, "onnx.checker"),
        ("refused_no_outputs.onnx", "it has no outputs", "at least one"),
        ("refused_float8.onnx", "input `x` has element type ", "f32"),
        (
            "refused_sequence.onnx",
            "output `y` is no tensor",
            "tensors alone",
        ),
        (
            "refused_input_without_shape.onnx",
            "input `x` has no shape",
            "sizes may be free",
        ),
    ] {
        check(&data(file), problem, hint);
    }
}

/// Weights by a path that leads upwards, by an absolute one, and by a link: whoever sends a model must not read other files by it.
#[test]
fn weights_outside_the_models_folder_are_refused() {
    if !is_there("weights_outside_the_models_folder_are_refused") {
        return;
    }
    let outside = "outside the model's folder";
    check(&data("refused_external.onnx"), outside, "beside the model");
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = std::fs::read(data("external.onnx")).unwrap();
    let weights = elsewhere.path().join("w");
    std::fs::copy(data("external.weights"), &weights).unwrap();
    let path = folder.path().join("linked.onnx");
    std::fs::write(&path, &model).unwrap();
    let beside = folder.path().join("external.weights");
    std::os::unix::fs::symlink(&weights, &beside).unwrap();
    check(&path, outside, "not a link");
    std::fs::remove_file(&beside).unwrap();
    std::fs::copy(&weights, &beside).unwrap();
    assert!(OnnxRuntime::at(&path).load().is_ok());
    // A name of the same length, since the file counts its bytes.
    let name = b"external.weights";
    let at = model.windows(name.len()).position(|found| found == name).unwrap();
    let absolute = [&model[..at], b"/nowhere/weights", &model[at + name.len()..]].concat();
    let path = folder.path().join("absolute.onnx");
    std::fs::write(&path, absolute).unwrap();
    check(&path, outside, "beside the model");
}

/// A copied model without the file of its weights.
#[test]
fn weights_that_are_missing_are_named() {
    if !is_there("weights_that_are_missing_are_named") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alone.onnx");
    std::fs::copy(data("external.onnx"), &path).unwrap();
    let folder = folder.path().display();
    check(
        &path,
        "it has weights in the file external.weights, which is missing",
        &format!("copy that file, too, into the model's folder, {folder}"),
    );
}

#[test]
fn a_missing_file_is_named() {
    check(&data("absent.onnx"), "it cannot be read", "check the path");
    check(&data(""), "it cannot be read", "check the path");
}

#[test]
fn what_is_no_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    check(&written("empty.onnx", b""), "it is empty", "again");
    if is_there("what_is_no_model_is_refused") {
        let text = written("text.onnx", b"this is no model at all, it is a sentence");
        check(&text, "ONNX Runtime cannot load it: ", "again");
    }
}

/// Every prefix of a model is refused; none panics.
#[test]
fn a_file_cut_short_is_refused() {
    if !is_there("a_file_cut_short_is_refused") {
        return;
    }
    let whole = std::fs::read(data("two_by_two.onnx")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.onnx");
    std::fs::write(&path, &whole).unwrap();
    assert!(OnnxRuntime::at(&path).load().is_ok());
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let loaded = OnnxRuntime::at(&path).load().map(|_| ());
        assert!(
            matches!(loaded, Err(Error::Load { .. })),
            "{length} of {} bytes: {loaded:?}",
            whole.len()
        );
    }
}

/// Bits flipped one a file, everywhere: the load ends in a model or an error.
#[test]
fn a_flipped_bit_never_stops_the_process() {
    if !is_there("a_flipped_bit_never_stops_the_process") {
        return;
    }
    let whole = std::fs::read(data("two_by_two.onnx")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.onnx");
    let mut refused = 0;
    for position in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[position] ^= 1 << (position % 8);
        std::fs::write(&path, &flipped).unwrap();
        refused += usize::from(OnnxRuntime::at(&path).load().is_err());
    }
    assert!(refused > 0);
}

/// An instance of its own is not made of another file than the first.
#[test]
fn a_file_that_changed_makes_no_further_instances() {
    if !is_there("a_file_that_changed_makes_no_further_instances") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::copy(data("mlp.onnx"), &path).unwrap();
    let section = OnnxRuntime {
        threads: Some(2),
        ..OnnxRuntime::at(&path)
    };
    let model = section.load().unwrap();
    let first = model.instance().unwrap();
    drop(model.instance().unwrap());
    std::fs::copy(data("ranker.onnx"), &path).unwrap();
    let error = model.instance().map(|_| ()).unwrap_err().to_string();
    assert!(
        error.ends_with("has changed since it was loaded; load the model again"),
        "{error}"
    );
    drop(first);
}
