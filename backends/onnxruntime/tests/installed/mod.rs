//! The library that these tests run on: the one that ORT_DYLIB_PATH names, else that of the demo's environment in this checkout,
//! else whichever is installed. Where there is none, a test that needs it says so by its name, and is left out.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Backend, Error, Model};
use millpond_backends_onnxruntime::{Library, OnnxRuntime};
use millpond_tensor::Tensor;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that the tests ship.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// Whether there is a library; a line tells of the test that is left out where there is none.
pub fn is_there(test: &str) -> bool {
    let of_the_demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.demo/venv");
    if std::env::var_os("ORT_DYLIB_PATH").is_none() && of_the_demo.is_dir() {
        let library = Some(of_the_demo.canonicalize().unwrap());
        Library { library }.choose().unwrap();
    }
    match OnnxRuntime::at(data("mlp.onnx")).load().map(|_| ()) {
        Err(Error::Load { problem, .. }) if problem.ends_with("none was found") => {
            leave_out(test, &problem);
            false
        }
        loaded => {
            loaded.unwrap();
            true
        }
    }
}

/// Says that a test is left out, as cargo does, past its capture (.ci/skips.py).
pub fn leave_out(test: &str, why: &str) {
    let line = format!("\ntest {test} ... ignored, {why}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// The model of a shipped file; further keys of its section are given as TOML.
pub fn load(name: &str, keys: &str) -> Result<Arc<dyn Model>, Error> {
    let mut section: OnnxRuntime = toml::from_str(keys).unwrap();
    section.path = data(name);
    section.check("models.test", 1).unwrap();
    section.load()
}

/// Numbers of no order, the same ones for the same shape.
pub fn scattered(shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let values: Vec<f32> = (0..len)
        .map(|at| ((at * 7919 + len) % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::new(shape.to_vec(), values).unwrap()
}
