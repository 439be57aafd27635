//! Pipelines of real models, by ONNX Runtime: several of them, with free sizes, and without a batch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_catalog::{Catalog, Handle, Library, Resources, Sections};
use millpond_engines_batcher::Batcher;
use millpond_engines_features::{self as features, Schema, write::Writer};
use millpond_pipelines::{Ask, Output, Progress, Samples, key_hash, submit};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};

/// Feature `a` has 1, -2, 3 and so on, `b` ten times that.
fn write(dir: &Path, dim: usize) {
    let mut writer = Writer::create(dir, "t", 1, Schema::floats(dim), 1).unwrap();
    for (name, scale) in [("a", 1.0), ("b", 10.0)] {
        let value = |at: usize| (at + 1) as f32 * scale * if at.is_multiple_of(2) { 1.0 } else { -1.0 };
        let row: Vec<f32> = (0..dim).map(value).collect();
        writer.push(key_hash("s", name), &row).unwrap();
    }
    writer.finish().unwrap();
}

/// A catalog with one pipeline `p`, which looks rows of `dim` up and runs `stages` on them; and the models `relu` (f32[N, ?] to
/// the same), `pair` (the same of f32[2, 4], without a batch), `column` (f32[N, 4] to f32[4], without a batch), `sum` and `mlp`.
fn open(dim: usize, stages: &str) -> Result<Handle, String> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), dim);
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backends/onnxruntime/tests/data");
    let onnx = |file: &str| toml::from_str(&format!("path = {:?}", models.join(file))).unwrap();
    let sum = "backend = \"practice\"\nbehaviour = \"wait\"\nus = 1\nwidth = 4";
    let description = format!(
        "request = \"samples\"\nstages = [
            {{ name = \"k\", hash = {{ slot = \"s\", from = \"samples.0\" }} }},
            {{ name = \"x\", lookup = {{ table = \"t\", keys = \"k\" }} }},
            {stages}
        ]"
    );
    let table = features::Section::of(folder.path().to_owned());
    let sections = Sections {
        features: BTreeMap::from([("t".to_owned(), table)]),
        models: BTreeMap::from([
            ("relu".to_owned(), onnx("two_dynamic.onnx")),
            ("pair".to_owned(), onnx("fixed.onnx")),
            ("column".to_owned(), onnx("summed.onnx")),
            ("mlp".to_owned(), onnx("mlp.onnx")),
            ("sum".to_owned(), toml::from_str(sum).unwrap()),
        ]),
        pipelines: BTreeMap::from([("p".to_owned(), toml::from_str(&description).unwrap())]),
        onnxruntime: library(),
        ..Sections::default()
    };
    Handle::open(sections, Resources::default()).map_err(|error| error.to_string())
}

/// That of the demo's environment, where the environment names none and it is there.
fn library() -> Library {
    let of_the_demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.demo/venv");
    let is_wanted = std::env::var_os("ORT_DYLIB_PATH").is_none() && of_the_demo.is_dir();
    Library {
        library: is_wanted.then_some(of_the_demo),
    }
}

/// Runs `p` for these features, a row each.
fn run(catalog: &Catalog, names: &[&'static str]) -> Result<Output, String> {
    let texts: Vec<Cow<'_, [u8]>> = names.iter().map(|name| name.as_bytes().into()).collect();
    let ends: Vec<usize> = (1..=names.len()).collect();
    let request = Samples {
        texts: &texts,
        ends: &ends,
    };
    let progress = catalog.pipelines["p"].run(&request);
    let Progress::Waits(waiting) = progress.map_err(|error| error.to_string())? else {
        panic!("it waits for its model")
    };
    let ask = Ask {
        source: 1,
        priority: Default::default(),
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
    };
    let (send, done) = mpsc::sync_channel(1);
    let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
    waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
    done.recv().unwrap().map_err(|error| error.to_string())
}

fn check(dim: usize, stages: &str, names: &[&'static str], expected: Result<&[f32], &str>) {
    let scores = open(dim, stages).and_then(|handle| run(&handle.pin(), names));
    match (scores, expected) {
        (Ok(output), Ok(expected)) => assert_eq!(output.scores(), Some(expected), "{stages}"),
        (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
        (found, expected) => panic!("{stages}: {found:?}, expected {expected:?}"),
    }
}

const RELU: &str = "{ name = \"y\", model = { model = \"relu\", input = \"x\" } },";
const PAIR: &str = "{ name = \"y\", model = { model = \"pair\", input = \"x\" } },";
const SUM: &str = "{ name = \"z\", model = { model = \"sum\", input = \"y\" } },";

#[test]
fn a_model_may_have_free_sizes() {
    check(1, RELU, &["a", "b", "none"], Ok(&[1.0, 10.0, 0.0]));
    // Wide rows are no scores, which only a run tells.
    let problem = "a model of pipeline \"p\" gave f32[1, 4] for 1 rows";
    check(4, RELU, &["a"], Err(problem));
}

#[test]
fn what_a_model_gives_is_taken_by_models_and_stages_behind_it() {
    check(4, &format!("{RELU} {SUM}"), &["a", "b"], Ok(&[4.0, 40.0]));
    let both = "{ name = \"both\", assemble = { columns = [\"y\", \"x\"] } },";
    let twice = "{ name = \"z\", model = { model = \"sum\", input = \"both\" } },";
    // -2 is cut to 0 in one of the four columns alone.
    check(2, &format!("{RELU} {both} {twice}"), &["a", "b"], Ok(&[0.0, 0.0]));
    let handle = open(4, &format!("{RELU} {SUM}")).unwrap();
    let catalog = handle.pin();
    let pipeline = &catalog.pipelines["p"];
    assert_eq!(
        (pipeline.model(), pipeline.batcher().unwrap().name()),
        (Some("sum"), "relu")
    );
    assert_eq!(pipeline.batchers().count(), 2);
    let timing = run(&catalog, &["a", "b"]).unwrap().timing.unwrap();
    assert_eq!((timing.batch_rows, timing.batch_requests), (2, 1));
}

#[test]
fn a_model_may_have_no_batch() {
    check(4, &format!("{PAIR} {SUM}"), &["a", "b"], Ok(&[4.0, 40.0]));
    let problem = "model \"pair\" takes x: f32[2, 4]; this request gives it [3, 4]";
    check(4, &format!("{PAIR} {SUM}"), &["a", "b", "a"], Err(problem));
    // It gives one tensor whatever the rows.
    let column = "{ name = \"y\", model = { model = \"column\", input = \"x\" } },";
    check(4, column, &["a", "b"], Err("gave f32[4] for 2 rows"));
}

#[test]
fn what_cannot_fit_is_refused_when_it_opens() {
    check(
        2,
        PAIR,
        &[],
        Err("pipelines.p: stage \"y\": model \"pair\" takes x: f32[2, 4], and is given x: f32[N, 2]"),
    );
    check(
        4,
        PAIR,
        &[],
        Err("pipelines.p: the last model gives y: f32[2, 4]; expected one f32 a row"),
    );
    let mlp = "{ name = \"z\", model = { model = \"mlp\", input = \"y\" } },";
    check(
        4,
        &format!("{PAIR} {mlp}"),
        &[],
        Err("model \"mlp\" takes x: f32[N, 16], and is given y: f32[2, 4]"),
    );
}
