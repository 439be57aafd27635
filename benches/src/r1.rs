//! R1's files: model, table, requests and answers of `examples/r1`, made once; and the knobs its server gets.
//!
//! Its invariant: what [`prepare`] leaves is whole, and made from the present sources.

use crate::child;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_workload::RequestSet;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

pub(crate) const DIR: &str = ".demo/r1";
pub(crate) const CONFIG: &str = ".demo/r1/r1.toml";
pub(crate) const REQUESTS: &str = ".demo/r1/requests.jsonl";
pub(crate) const EXPECTED: &str = ".demo/r1/expected.jsonl";
const TABLE: &str = "embeddings";
/// Says what the table was built from, and by what: the generator's stamp, and the path of the builder.
const TABLE_STAMP: &str = ".demo/r1/tables.stamp.json";

/// Scores, as a server answers them and as they are expected.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Scores {
    pub(crate) scores: Vec<f32>,
}

impl Scores {
    /// How far the scores lie from others at most; infinite when there are not as many.
    pub(crate) fn distance(&self, others: &[f32]) -> f32 {
        if self.scores.len() != others.len() {
            return f32::INFINITY;
        }
        let pairs = self.scores.iter().zip(others);
        pairs.map(|(own, other)| (own - other).abs()).fold(0.0, f32::max)
    }
}

/// How far a score may lie from ONNX Runtime's.
pub(crate) const TOLERANCE: f32 = 1e-4;

/// Makes the files that are not there, or not from the present sources.
pub(crate) fn prepare(setup: &Setup) -> anyhow::Result<()> {
    let mut make = Command::new(child::python_of_demo(setup)?);
    make.args(["-u", "examples/r1/make_r1.py", DIR]);
    child::run(setup, "make-r1", make)?;
    let mut stamp = std::fs::read(Path::new(DIR).join("stamp.json")).context("examples/r1 left no stamp")?;
    stamp.extend_from_slice(setup.builder().as_os_str().as_encoded_bytes());
    let table = Path::new(DIR).join("tables").join(TABLE);
    if table.is_dir() && std::fs::read(TABLE_STAMP).is_ok_and(|earlier| earlier == stamp) {
        return Ok(());
    }
    if table.exists() {
        std::fs::remove_dir_all(&table).with_context(|| format!("cannot remove {}", table.display()))?;
    }
    let mut build = Command::new(setup.builder());
    build.current_dir(DIR);
    build.args(["features", "build", "--input", "embeddings.parquet"]);
    build.args(["--out", "tables", "--name", TABLE]);
    child::run(setup, "features-build", build)?;
    std::fs::write(TABLE_STAMP, stamp).with_context(|| format!("cannot write {TABLE_STAMP}"))
}

/// The answers to the requests.
pub(crate) fn expected() -> anyhow::Result<Vec<Scores>> {
    let set = RequestSet::load(Path::new(EXPECTED))?;
    let lines = set.iter().map(serde_json::from_slice);
    lines
        .collect::<Result<_, _>>()
        .with_context(|| format!("{EXPECTED} is not as expected"))
}
