//! Builds the plugins of the tests. Its invariant: a folder holds one library, which goes with it.
#![allow(dead_code, unreachable_pub)]

use millpond_backends_interface::Backend as _;
use millpond_backends_plugin::Plugin;
use millpond_tensor::{Bytes, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that was built for one test.
pub struct Built {
    folder: tempfile::TempDir,
}

/// Builds a source file of the repository with the header in its way.
pub fn build(source: &str, flags: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(here.join("include"))
        .args(flags)
        .arg("-o")
        .arg(folder.path().join("plugin.so"))
        .arg(here.join(source))
        .arg("-lm");
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    Built { folder }
}

/// The faulty plugin.
pub fn faulty() -> Built {
    build("tests/faulty.c", &[])
}

impl Built {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("plugin.so")
    }

    /// Its section with these keys.
    pub fn section(&self, keys: &str) -> Plugin {
        let path = self.path();
        let section: Plugin = toml::from_str(&format!("path = {path:?}\n{keys}")).unwrap();
        section.check("models.a", 1).unwrap();
        section
    }

    /// What loading it with that fault says.
    pub fn refused(&self, fault: &str) -> String {
        let section = self.section(&format!("options.fault = {fault:?}"));
        let loaded = section.load().and_then(|model| model.instance().map(drop));
        loaded.unwrap_err().to_string()
    }
}

/// The inputs of the faulty plugin: the first word is what it does.
pub fn inputs(words: &[&str]) -> Vec<Tensor> {
    let rows = words.len();
    let strings: Bytes = words.iter().collect();
    let numbers: Vec<f32> = (0..rows * 2).map(|at| at as f32).collect();
    vec![
        Tensor::new(vec![rows], strings).unwrap(),
        Tensor::new(vec![rows, 2], numbers).unwrap(),
    ]
}

/// What it gives for them, where it does no wrong.
pub fn outputs(words: &[&str]) -> Vec<Tensor> {
    let rows = words.len();
    let sums: Vec<f32> = (0..rows).map(|row| (4 * row + 1) as f32).collect();
    let strings: Bytes = words.iter().collect();
    vec![
        Tensor::new(vec![rows, 1], sums).unwrap(),
        Tensor::new(vec![rows], strings).unwrap(),
    ]
}
