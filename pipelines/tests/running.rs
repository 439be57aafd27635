//! A ranking pipeline with a table, a store and a model, run in this process: no socket, no payload.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Error as ModelError, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::{Schema, Table, write::Writer};
use millpond_engines_ordered::{Durability, Options, Put, Store};
use millpond_pipelines::{
    Ask, Bytes, Description, Error, Expected, Items, Output, Parts, Pipeline, Progress, Request, Source,
    Value, key_hash, submit,
};
use millpond_tensor::{ElementType, Tensor};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const TEXT: &str = r#"
request = "rank"
stages = [
    { name = "item_keys", hash = { slot = "film", from = "items" } },
    { name = "item", lookup = { table = "films", keys = "item_keys" } },
    { name = "liked_keys", hash = { slot = "film", from = "user.liked", split = "|" } },
    { name = "liked", lookup = { table = "films", keys = "liked_keys", pool = "sum" } },
    { name = "seen_texts", scan = { store = "events", prefix = "u/{user.id}/", limit = 2 } },
    { name = "seen_keys", hash = { slot = "film", from = "seen_texts" } },
    { name = "seen", lookup = { table = "films", keys = "seen_keys", pool = "mean" } },
    { name = "x", assemble = { columns = ["item", "liked", "seen"] } },
    { name = "scores", model = { model = "digits", input = "x" } },
]
"#;

/// `y` is the decimal number whose digits stand in a row of `x`.
struct Digits(Signature);
struct Reading;

impl Model for Digits {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Reading))
    }
}

impl Instance for Reading {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let rows = inputs[0].f32().unwrap().chunks(3);
        let numbers: Vec<f32> = rows.map(|row| row[0] * 100.0 + row[1] * 10.0 + row[2]).collect();
        Ok(vec![Tensor::new(vec![numbers.len(), 1], numbers)?])
    }
}

struct Catalog {
    films: Arc<Table>,
    events: Store,
    digits: Arc<Batcher>,
    _folder: tempfile::TempDir,
}

impl Catalog {
    /// Film `a` has 1, `b` 2 and `c` 4; user 7 saw `c`, then `a`. The model takes rows of `width`.
    fn new(width: usize, batched: bool) -> Catalog {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("films");
        let mut writer = Writer::create(&table, "films", 3, Schema::floats(1), 1).unwrap();
        for (film, digit) in [("a", 1.0), ("b", 2.0), ("c", 4.0)] {
            writer.push(key_hash("film", film), &[digit]).unwrap();
        }
        writer.finish().unwrap();
        let events = Store::in_memory(Options {
            durability: Durability::Memory,
            ..Options::default()
        });
        let entry = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let put = Put {
            entries: vec![
                entry("u/7/1", "a"),
                entry("u/7/2", "c"),
                entry("u/7/3", "b"),
                entry("u/8/1", "b"),
            ],
            ..Put::default()
        };
        events.write_wait(put).unwrap();
        let port = |name: &str, width| Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, Some(width)],
        };
        let signature = Signature {
            inputs: vec![port("x", width)],
            outputs: vec![port("y", 1)],
            batched,
        };
        let digits = Batcher::start("digits", Arc::new(Digits(signature)), BatcherOptions::default());
        Catalog {
            films: Arc::new(Table::open_version(&table, None).unwrap()),
            events,
            digits: Arc::new(digits.unwrap()),
            _folder: folder,
        }
    }

    fn open(&self) -> Result<Pipeline, Error> {
        let description: Description = toml::from_str(TEXT).unwrap();
        Pipeline::open(description.plan("films").unwrap(), self)
    }
}

impl Parts for Catalog {
    fn table(&self, name: &str) -> Option<Arc<Table>> {
        (name == "films").then(|| Arc::clone(&self.films))
    }

    fn store(&self, name: &str) -> Option<Store> {
        (name == "events").then(|| self.events.clone())
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        (name == "digits").then(|| Arc::clone(&self.digits))
    }
}

/// A user's id, what they liked, and items.
struct Call(&'static str, &'static str, &'static [&'static str]);

impl Request for Call {
    fn rows(&self) -> usize {
        self.2.len()
    }

    fn check(&self, _expected: Expected<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn read(&self, source: &Source) -> Result<Value, Error> {
        let texts = |texts: &[&str]| Items::Bytes(texts.iter().collect::<Bytes>());
        match source {
            Source::Items => Ok(Value::rows(texts(self.2))),
            Source::User(field) if field == "liked" => Ok(Value::row(texts(&[self.1]))),
            Source::UserText(field) if field == "id" => Ok(Value::row(texts(&[self.0]))),
            other => panic!("{other:?}"),
        }
    }
}

fn run(pipeline: &Arc<Pipeline>, call: &Call) -> Output {
    run_by(pipeline, call, None).unwrap()
}

fn run_by(pipeline: &Arc<Pipeline>, call: &Call, deadline: Option<Instant>) -> Result<Output, Error> {
    match pipeline.run(call).unwrap() {
        Progress::Done(output) => Ok(output),
        Progress::Waits(waiting) => {
            let ask = Ask {
                source: 1,
                priority: Default::default(),
                deadline,
                gone: Arc::default(),
                kept_bytes: 0,
            };
            let (send, done) = mpsc::sync_channel(1);
            let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
            waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
            done.recv().unwrap()
        }
    }
}

#[test]
fn every_stage_does_its_part() {
    let catalog = Catalog::new(3, true);
    let pipeline = Arc::new(catalog.open().unwrap());
    assert_eq!((pipeline.model(), pipeline.input_bytes(5)), (Some("digits"), 60));
    assert_eq!(
        pipeline.user_fields().into_iter().collect::<Vec<_>>(),
        ["id", "liked"]
    );
    // Of what was seen the first two by key: the mean of 1 and 4.
    let output = run(&pipeline, &Call("7", "a|b", &["a", "c", "unknown"]));
    assert_eq!(output.scores(), Some(&[132.5, 432.5, 32.5][..]));
    assert_eq!(pipeline.versions().collect::<Vec<_>>(), [("films", 3)]);
    let nothing = run(&pipeline, &Call("9", "", &["b"]));
    assert_eq!(nothing.scores(), Some(&[200.0][..]));
    assert_eq!(nothing.timing.map(|timing| timing.batch_requests), Some(1));
    // No rows are no work for the model.
    let empty = run(&pipeline, &Call("7", "a", &[]));
    assert_eq!((empty.value, empty.timing), (None, None));
}

#[test]
fn a_model_that_takes_something_else_is_refused() {
    let refused = Catalog::new(4, true).open().err().unwrap().to_string();
    assert_eq!(
        refused,
        "pipelines.films: stage \"scores\": model \"digits\" takes x: f32[N, 4], and is given x: f32[N, 3]"
    );
}

#[test]
fn a_model_without_a_batch_runs_once_a_request() {
    let catalog = Catalog::new(3, false);
    let pipeline = Arc::new(catalog.open().unwrap());
    let output = run(&pipeline, &Call("7", "a|b", &["a", "c", "unknown"]));
    assert_eq!(output.scores(), Some(&[132.5, 432.5, 32.5][..]));
    // The three rows are one call of the model.
    assert_eq!(output.timing.map(|timing| timing.batch_rows), Some(1));
}

#[test]
fn each_stage_is_timed_and_counted() {
    let catalog = Catalog::new(3, true);
    let pipeline = Arc::new(catalog.open().unwrap());
    let names: Vec<&str> = pipeline.stage_stats().map(|stage| stage.name).collect();
    let (mut work, mut wait) = (vec![Duration::ZERO; names.len()], Duration::ZERO);
    for _ in 0..3 {
        let began = Instant::now();
        let output = run(&pipeline, &Call("7", "a|b", &["a", "c"]));
        let whole = began.elapsed();
        let (ran, times): (Vec<&str>, Vec<_>) = output.times.iter().unzip();
        assert_eq!(ran, names);
        let timing = output.timing.unwrap();
        let scores = times.last().unwrap();
        assert_eq!(scores.wait(), timing.queue);
        assert!(scores.work() >= timing.compute);
        let sum: Duration = times.iter().map(|time| time.wait() + time.work()).sum();
        assert!(sum <= whole, "{sum:?} of {whole:?}: {}", output.times);
        work.iter_mut()
            .zip(&times)
            .for_each(|(sum, time)| *sum += time.work());
        wait += scores.wait();
    }
    // No rows are no work for the model; one that cannot be in time fails there.
    assert_eq!(
        run(&pipeline, &Call("7", "a", &[])).times.iter().count(),
        names.len() - 1
    );
    let late = run_by(&pipeline, &Call("7", "a", &["a"]), Some(Instant::now()));
    assert!(matches!(late, Err(Error::Model(_))), "{late:?}");
    for (stage, work) in pipeline.stage_stats().zip(&work) {
        let is_model = stage.name == "scores";
        let (ran, failed) = if is_model { (3, 1) } else { (5, 0) };
        assert_eq!(
            (stage.work.count(), stage.failed),
            (ran, failed),
            "{}",
            stage.name
        );
        assert_eq!(stage.skipped, u64::from(is_model), "{}", stage.name);
        assert_eq!(stage.wait.is_some(), is_model);
        if let Some(waited) = stage.wait {
            assert_eq!(u128::from(stage.work.sum()), work.as_nanos());
            assert_eq!((waited.count(), u128::from(waited.sum())), (3, wait.as_nanos()));
        }
    }
    // The next version of the pipeline goes on where this one is.
    let next = catalog.open().unwrap().counting_on(&pipeline);
    assert!(next.stage_stats().all(|stage| stage.work.count() >= 3));
    next.forget_counts();
    assert!(
        pipeline
            .stage_stats()
            .all(|stage| stage.work.count() + stage.failed == 0)
    );
}
