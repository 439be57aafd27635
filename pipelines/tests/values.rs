//! Pipelines of values: named inputs and outputs, rows of their own, and models of several inputs and outputs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Error as ModelError, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::Table;
use millpond_engines_ordered::{Durability, Options, Put, Store};
use millpond_pipelines::{
    Ask, Description, Error, Items, Output, Parts, Pipeline, Progress, Value, Values, submit,
};
use millpond_tensor::{ElementType, Tensor};
use std::sync::{Arc, mpsc};

/// Rows of two floats in each of `a` and `b`; `sum` and `difference` out, by row.
struct Both(Signature);
struct Computing;

impl Model for Both {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Computing))
    }
}

impl Instance for Computing {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let rows = |at: usize| inputs[at].f32().unwrap();
        let with = |f: fn(f32, f32) -> f32| -> Vec<f32> {
            rows(0).iter().zip(rows(1)).map(|(a, b)| f(*a, *b)).collect()
        };
        let shape = inputs[0].shape().to_vec();
        Ok(vec![
            Tensor::new(shape.clone(), with(|a, b| a + b))?,
            Tensor::new(shape, with(|a, b| a - b))?,
        ])
    }
}

/// One tensor `f32[?, 2]` a call, and its size out: a model without a batch.
struct Sizes(Signature);
struct Measuring;

impl Model for Sizes {
    fn signature(&self) -> &Signature {
        &self.0
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Measuring))
    }
}

impl Instance for Measuring {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let size = inputs[0].shape()[0] as i64;
        Ok(vec![Tensor::new(vec![], vec![size])?])
    }
}

fn sizes() -> Batcher {
    let signature = Signature {
        inputs: vec![Port {
            name: "x".to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, Some(2)],
        }],
        outputs: vec![Port {
            name: "size".to_owned(),
            element_type: ElementType::I64,
            shape: vec![],
        }],
        batched: false,
    };
    Batcher::start("sizes", Arc::new(Sizes(signature)), BatcherOptions::default()).unwrap()
}

struct Models(Arc<Batcher>, Store);

impl Models {
    fn new() -> Models {
        let port = |name: &str| Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, Some(2)],
        };
        let signature = Signature {
            inputs: vec![port("b"), port("a")],
            outputs: vec![port("sum"), port("difference")],
            batched: true,
        };
        // `b` is first in the model, and last by name.
        let model = Arc::new(Swapped(Both(signature)));
        let both = Batcher::start("both", model, BatcherOptions::default()).unwrap();
        Models(Arc::new(both), events())
    }
}

/// As [`Both`], whose inputs stand in the signature the other way round.
struct Swapped(Both);

impl Model for Swapped {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        struct Swapping(Computing);
        impl Instance for Swapping {
            fn run(&mut self, mut inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
                inputs.swap(0, 1);
                self.0.run(inputs)
            }
        }
        Ok(Box::new(Swapping(Computing)))
    }
}

/// User 7 saw `a`, then `b`; user 8 saw `c`.
fn events() -> Store {
    let events = Store::in_memory(Options {
        durability: Durability::Memory,
        ..Options::default()
    });
    let entry = |(key, value): (&str, &str)| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let entries = [("u/7/1", "a"), ("u/7/2", "b"), ("u/8/1", "c")].map(entry);
    let put = Put {
        entries: entries.to_vec(),
        ..Put::default()
    };
    events.write_wait(put).unwrap();
    events
}

impl Parts for Models {
    fn table(&self, _: &str) -> Option<Arc<Table>> {
        None
    }

    fn store(&self, name: &str) -> Option<Store> {
        (name == "events").then(|| self.1.clone())
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        match name {
            "both" => Some(Arc::clone(&self.0)),
            "sizes" => Some(Arc::new(sizes())),
            _ => None,
        }
    }
}

fn open(text: &str) -> Result<Arc<Pipeline>, String> {
    let description: Description = toml::from_str(text).map_err(|error| error.to_string())?;
    let plan = description.plan("p").map_err(|error| error.to_string())?;
    let pipeline = Pipeline::open(plan, &Models::new()).map_err(|error| error.to_string())?;
    Ok(Arc::new(pipeline))
}

fn run(pipeline: &Arc<Pipeline>, inputs: Vec<(&str, Value)>, outputs: &[&str]) -> Result<Output, Error> {
    let values = Values {
        inputs: inputs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
    };
    match pipeline.run_values(values)? {
        Progress::Done(output) => Ok(output),
        Progress::Waits(waiting) => {
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
            done.recv().unwrap()
        }
    }
}

fn rows(values: &[f32]) -> Value {
    let tensor = Tensor::new(vec![values.len() / 2, 2], values.to_vec()).unwrap();
    Value::rows(Items::Tensor(tensor))
}

fn texts(texts: &[&str]) -> Value {
    Value::rows(Items::Bytes(texts.iter().collect()))
}

const BOTH: &str = r#"
request = "values"
inputs = { x = { type = "f32", shape = [-1, 2] }, y = { type = "f32" } }
outputs = ["m.difference", "m.sum"]
stages = [{ name = "m", model = { model = "both", inputs = { a = "inputs.x", b = "inputs.y" } } }]
"#;

#[test]
fn a_model_may_have_several_inputs_and_outputs() {
    let pipeline = open(BOTH).unwrap();
    let inputs = || vec![("y", rows(&[1.0, 2.0])), ("x", rows(&[10.0, 20.0]))];
    let output = run(&pipeline, inputs(), &[]).unwrap();
    let found: Vec<(&str, &[f32])> = output
        .values
        .iter()
        .map(|(name, value)| (name.as_ref(), value.tensor().unwrap().f32().unwrap()))
        .collect();
    assert_eq!(
        found,
        [("m.difference", &[9.0, 18.0][..]), ("m.sum", &[11.0, 22.0])]
    );
    let one = run(&pipeline, inputs(), &["m.sum"]).unwrap();
    assert_eq!((one.values.len(), one.value, one.skipped.len()), (1, None, 0));
}

#[test]
fn rows_are_each_values_own_and_are_kept() {
    let pipeline = open(BOTH).unwrap();
    let mut x = rows(&[1.0; 6]);
    x.offsets = Some(Arc::from([0, 0, 3]));
    let output = run(&pipeline, vec![("x", x), ("y", rows(&[1.0; 6]))], &["m.sum"]).unwrap();
    let (_, sum) = &output.values[0];
    assert_eq!(
        (sum.offsets.as_deref(), sum.items.len()),
        (Some(&[0, 0, 3][..]), 3)
    );
    // Nothing was found in two rows: the model does not run, and what it gives has two empty rows.
    let mut none = rows(&[]);
    none.offsets = Some(Arc::from([0, 0, 0]));
    let output = run(&pipeline, vec![("x", none), ("y", rows(&[]))], &["m.sum"]).unwrap();
    let (_, sum) = &output.values[0];
    assert_eq!((sum.row_count(), sum.tensor().unwrap().shape()), (2, &[0, 2][..]));
    assert_eq!(output.timing, None);
}

#[test]
fn a_model_without_a_batch_runs_on_a_tensor_of_size_0() {
    let pipeline = open(
        r#"
        request = "values"
        stages = [{ name = "s", model = { model = "sizes", input = "inputs.x" } }]
        "#,
    )
    .unwrap();
    let size = |x: Value| {
        let output = run(&pipeline, vec![("x", x)], &[]).unwrap();
        let (_, size) = &output.values[0];
        let tensor = size.tensor().unwrap();
        (tensor.shape().to_vec(), tensor.of::<i64>().unwrap().to_vec())
    };
    assert_eq!(size(rows(&[1.0; 6])), (vec![], vec![3]));
    assert_eq!(size(rows(&[])), (vec![], vec![0]));
    // No rows in two lists are no tensor for the model.
    let mut none = rows(&[]);
    none.offsets = Some(Arc::from([0, 0, 0]));
    assert_eq!(size(none), (vec![0], vec![]));
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let pipeline = open(BOTH).unwrap();
    let check = |inputs: Vec<(&str, Value)>, outputs: &[&str], expected: &str| {
        let error = run(&pipeline, inputs, outputs).unwrap_err();
        assert!(matches!(error, Error::Request { .. }), "{error:?}");
        assert_eq!(error.to_string(), expected);
    };
    let x = || ("x", rows(&[1.0, 2.0]));
    let y = || ("y", rows(&[1.0, 2.0]));
    let reads = "pipeline \"p\" reads [\"x\", \"y\"]";
    check(vec![x()], &[], &format!("key \"inputs.y\" is missing; {reads}"));
    check(
        vec![x(), y(), ("z", rows(&[]))],
        &[],
        &format!("key \"inputs.z\" is unknown; {reads}"),
    );
    check(
        vec![x(), y(), x()],
        &[],
        &format!("key \"inputs.x\" is given twice; {reads}"),
    );
    check(
        vec![("x", texts(&["a"])), y()],
        &[],
        "key \"inputs.x\" is texts; expected f32[?, 2]",
    );
    check(
        vec![x(), y()],
        &["m"],
        "key \"outputs\" names \"m\"; pipeline \"p\" gives [\"m.difference\", \"m.sum\"]",
    );
    check(
        vec![x(), ("y", rows(&[1.0; 4]))],
        &[],
        "model \"both\": input `a` has 1 rows, input `b` has 2; all inputs need the same first dimension",
    );
    check(
        vec![x(), ("y", rows(&[f32::NAN, 0.0]))],
        &[],
        "model \"both\": input `b` is NaN at element 0; every value must be finite",
    );
    let wide = Tensor::new(vec![1, 3], vec![0.0_f32; 3]).unwrap();
    check(
        vec![x(), ("y", Value::rows(Items::Tensor(wide)))],
        &[],
        "model \"both\": input `b` must have shape [N, 2], found [1, 3]; N is the number of rows and is free",
    );
    check(
        vec![x(), ("y", rows(&[]))],
        &[],
        "model \"both\": 1 of its 2 inputs have no items, and the others have; give all as many",
    );
    let images = [1, 2].map(|side| Tensor::new(vec![side], vec![0.0_f32; side]).unwrap());
    let free = open(&BOTH.replacen("inputs = {", "#", 1)).unwrap();
    let uneven = vec![x(), ("y", Value::rows(Items::Tensors(images.to_vec())))];
    assert_eq!(
        run(&free, uneven, &[]).unwrap_err().to_string(),
        "a model takes items of one shape, and this request gives it f32[1] and f32[2]; resize them first"
    );
    let keys = vec![x(), ("y", Value::rows(Items::Keys(vec![1])))];
    assert_eq!(
        run(&free, keys, &[]).unwrap_err().to_string(),
        "stage \"m\" of pipeline \"p\" takes floats or tensors or texts by its key model.inputs.b, and this request gives it keys"
    );
}

#[test]
fn items_of_one_shape_are_one_tensor_to_a_model() {
    let free = open(&BOTH.replacen("inputs = {", "#", 1)).unwrap();
    let item = |value: f32| Tensor::new(vec![2], vec![value; 2]).unwrap();
    let items = Value::rows(Items::Tensors(vec![item(1.0), item(2.0)]));
    let output = run(&free, vec![("x", items), ("y", rows(&[1.0; 4]))], &["m.sum"]).unwrap();
    assert_eq!(
        output.values[0].1.tensor().unwrap().f32(),
        Some(&[2.0, 2.0, 3.0, 3.0][..])
    );
}

const SEEN: &str = r#"
request = "values"
stages = [{ name = "seen", scan = { store = "events", prefix = "u/{inputs.user}/", limit = 10 } }]
"#;

#[test]
fn a_scan_takes_its_prefix_from_an_input() {
    let pipeline = open(SEEN).unwrap();
    let seen = |user: Value| run(&pipeline, vec![("user", user)], &[]);
    let check = |user: &str, expected: &[&str]| {
        let output = seen(texts(&[user])).unwrap();
        let (_, value) = &output.values[0];
        assert_eq!(value.bytes().unwrap().texts().collect::<Vec<_>>(), expected);
        assert_eq!(value.row_count(), 1);
    };
    check("7", &["a", "b"]);
    check("8", &["c"]);
    check("9", &[]);
    for wrong in [texts(&["7", "8"]), texts(&[])] {
        let found = wrong.items.len();
        let error = seen(wrong).unwrap_err();
        let expected = format!("stage \"seen\": `inputs.user` is {found} texts; its prefix takes one");
        assert_eq!(error, Error::Request { problem: expected });
    }
    let error = seen(rows(&[1.0, 2.0])).unwrap_err().to_string();
    assert!(error.contains("takes texts by its key scan.prefix"), "{error}");
    let refused = open(&SEEN.replacen("inputs.user", "user.id", 1)).err().unwrap();
    let expected = "stage `seen`, key `scan.prefix`: `user.id` is not in the request of this pipeline; write {inputs.NAME}";
    assert!(refused.contains(expected), "{refused}");
}

/// A description is refused with these words.
fn check_refused(old: &str, new: &str, expected: &str) {
    assert!(BOTH.contains(old), "{old}");
    let refused = open(&BOTH.replacen(old, new, 1)).err().unwrap();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn descriptions_that_do_not_fit_are_refused() {
    check_refused(
        "inputs.x",
        "inputs.z",
        "stage `m`, key `model.inputs.a`: `inputs.z` is not declared; declare it, or write one of x, y",
    );
    check_refused(
        "\"inputs.x\"",
        "\"inputs.y\"",
        "key `inputs`: no stage reads `inputs.x`; use it or remove it",
    );
    check_refused(
        "\"m.sum\"]",
        "\"n.sum\"]",
        "key `outputs`: it names `n.sum`, and no stage is called `n`; write one of m, or STAGE.OUTPUT",
    );
    check_refused("\"m.sum\"]", "\"m.difference\"]", "it names `m.difference` twice");
    check_refused(
        "\"m.sum\"]",
        "\"m\"]",
        "stage `m`: it is read as a whole, and its output `difference` by name; write `m.difference` everywhere",
    );
    check_refused(
        "\"m.sum\"]",
        "\"m.min\"]",
        "stage \"m\": model \"both\" has no output \"min\"; it gives [\"sum\", \"difference\"]",
    );
    check_refused(
        "outputs",
        "#",
        "model \"both\" has 2 outputs; read them by name: m.sum, m.difference",
    );
    check_refused(
        "a = ",
        "c = ",
        "stage \"m\": model \"both\" takes a: f32[N, 2] too; add it to inputs",
    );
    check_refused(
        "b = ",
        "c = \"inputs.y\", b = ",
        "model \"both\" has no input \"c\"; it takes b: f32[N, 2], a: f32[N, 2]",
    );
    check_refused(
        "[-1, 2]",
        "[-1, 3]",
        "model \"both\" takes a: f32[N, 2], and is given x: f32[N, 3]",
    );
    check_refused("request = \"values\"", "request = \"rank\"", "`inputs.x`");
    check_refused(
        "model = \"both\",",
        "model = \"both\", input = \"inputs.x\",",
        "there is both input and inputs",
    );
    check_refused(
        "name = \"m\",",
        "name = \"m\", instances = 2,",
        "stage `m`, key `instances`: it has no threads of its own",
    );
    let stages = "{ name = \"n\", identity = { from = \"m.sum\" }, filter = { skip = \"m.items == 0\" } }]";
    let filtered = BOTH.replacen("\"m.difference\", \"m.sum\"", "\"n\"", 1);
    let filtered = filtered.replacen("} } }]", &format!("}} }} }}, {stages}"), 1);
    let refused = open(&filtered).err().unwrap();
    assert!(refused.contains("stage `m`: it is read as a whole"), "{refused}");
    let one = "request = \"values\"\nstages = [{ name = \"m\", model = { model = \"both\" } }]";
    let refused = open(one).err().unwrap();
    let expected =
        "model \"both\" has 2 inputs (b: f32[N, 2], a: f32[N, 2]); write inputs = { NAME = \"STAGE\" }";
    assert!(refused.contains(expected), "{refused}");
}
