//! R1's files: model, table, requests and answers of `examples/r1`, made once; and the knobs its server gets.
//!
//! Its invariant: what [`prepare`] leaves is whole, and made from the present sources.

use crate::child;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_workload::RequestSet;
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

pub(crate) const DIR: &str = ".demo/r1";
pub(crate) const CONFIG: &str = ".demo/r1/r1.toml";
pub(crate) const REQUESTS: &str = ".demo/r1/requests.jsonl";
pub(crate) const EXPECTED: &str = ".demo/r1/expected.jsonl";
const TABLE: &str = "embeddings";
/// Says which embeddings the table was built from: a copy of the generator's stamp.
const TABLE_STAMP: &str = ".demo/r1/tables.stamp.json";

/// Samples of one request: the batch of the bare loop.
pub(crate) const SAMPLES: usize = 15;

/// Everything on one core.
pub(crate) const ONE_CORE: &[&str] = &["server.cpus=[0]", "server.threads=1"];

/// One request as the bare loop takes it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Request {
    pub(crate) samples: Vec<[String; 2]>,
}

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
    child::run(setup, "make-r1", make)?.succeeded()?;
    let stamp = std::fs::read(Path::new(DIR).join("stamp.json")).context("examples/r1 left no stamp")?;
    let table = Path::new(DIR).join("tables").join(TABLE);
    if table.is_dir() && std::fs::read(TABLE_STAMP).is_ok_and(|earlier| earlier == stamp) {
        return Ok(());
    }
    if table.exists() {
        std::fs::remove_dir_all(&table).with_context(|| format!("cannot remove {}", table.display()))?;
    }
    let mut build = Command::new(&setup.millpond);
    build.current_dir(DIR);
    build.args([
        "features",
        "build",
        "--input",
        "embeddings.parquet",
        "--out",
        "tables",
        "--name",
        TABLE,
    ]);
    child::run(setup, "features-build", build)?.succeeded()?;
    std::fs::write(TABLE_STAMP, stamp).with_context(|| format!("cannot write {TABLE_STAMP}"))
}

/// The requests and their answers.
pub(crate) fn requests() -> anyhow::Result<(Vec<Request>, Vec<Scores>)> {
    let requests: Vec<Request> = read(REQUESTS)?;
    let expected: Vec<Scores> = read(EXPECTED)?;
    ensure!(
        requests.len() == expected.len(),
        "{EXPECTED} does not belong to {REQUESTS}"
    );
    let is_whole = |request: &Request| request.samples.len() == SAMPLES;
    ensure!(
        requests.iter().all(is_whole),
        "{REQUESTS} holds requests of other than {SAMPLES} samples"
    );
    Ok((requests, expected))
}

fn read<T: for<'de> Deserialize<'de>>(path: &str) -> anyhow::Result<Vec<T>> {
    let set = RequestSet::load(Path::new(path))?;
    let lines = set.iter().map(serde_json::from_slice);
    lines
        .collect::<Result<_, _>>()
        .with_context(|| format!("{path} is not as expected"))
}
