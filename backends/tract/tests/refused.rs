//! Files that are not models this backend can serve: each is refused with the file,
//! the reason and a hint, and none makes the process panic or stop.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Backend, Error};
use millpond_backends_tract::Tract;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A file of this test's own with `bytes` in it.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("millpond-tract-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn check(path: &Path, expected_problem: &str, expected_hint: &str) {
    match Tract::at(path).load().map(|_| ()) {
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
    check(
        &data("refused_unsupported_op.onnx"),
        "does not have the operator `Frobnicate` of domain `example`",
        "standard operators",
    );
    check(
        &data("refused_unknown_op.onnx"),
        "does not have the operator `Frobnicate`",
        "standard operators",
    );
    check(
        &data("refused_half_float.onnx"),
        "input `x` has element type float16",
        "f32",
    );
    check(
        &data("refused_output_from_nowhere.onnx"),
        "no operator makes its output `y`",
        "again",
    );
}

#[test]
fn a_missing_file_is_named() {
    check(&data("absent.onnx"), "it cannot be read", "check the path");
    check(&data(""), "it cannot be read", "check the path");
}

#[test]
fn what_is_no_model_is_refused() {
    let empty = written("empty.onnx", b"");
    check(&empty, "it is empty", "again");
    let text = written("text.onnx", b"this is no model at all, it is a sentence");
    check(&text, "damaged, cut short, or no ONNX file", "again");
    for path in [empty, text] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Every prefix of a model either is refused or loads; none panics. Only a cut behind
/// the last byte that matters may load.
#[test]
fn a_file_cut_short_is_refused() {
    let whole = std::fs::read(data("two_by_two.onnx")).unwrap();
    let path = written("cut.onnx", &whole);
    assert!(Tract::at(&path).load().is_ok());
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let loaded = Tract::at(&path).load().map(|_| ());
        assert!(
            matches!(loaded, Err(Error::Load { .. })),
            "{length} of {} bytes: {loaded:?}",
            whole.len()
        );
    }
    std::fs::remove_file(path).unwrap();
}

/// Bits flipped one a file, everywhere: the load ends in a model or an error.
#[test]
fn a_flipped_bit_never_stops_the_process() {
    let whole = std::fs::read(data("two_by_two.onnx")).unwrap();
    let path = written("flipped.onnx", &whole);
    let mut refused = 0;
    for position in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[position] ^= 1 << (position % 8);
        std::fs::write(&path, &flipped).unwrap();
        refused += usize::from(Tract::at(&path).load().is_err());
    }
    assert!(refused > 0);
    std::fs::remove_file(path).unwrap();
}
