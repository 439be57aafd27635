//! Stages that call a model which takes requests as they are: values of any kind go in and come out whole.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Error as ModelError, Instance, Model, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_pipelines::{
    Ask, Bytes, Description, Items, Output, Parts, Pipeline, Progress, Value, Values, pack, submit, unpack,
};
use millpond_tensor::Tensor;
use std::sync::{Arc, mpsc};

/// Gives the values of a request one behind the other, as the rows of one.
struct Joins {
    signature: Signature,
    takes_requests: bool,
}
struct Joining;

impl Model for Joins {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Joining))
    }

    fn takes_requests(&self) -> bool {
        self.takes_requests
    }
}

impl Instance for Joining {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let mut inputs = inputs.into_iter();
        let mut all = Bytes::default();
        while !inputs.as_slice().is_empty() {
            let value = unpack(&mut inputs).unwrap();
            value.bytes().unwrap().iter().for_each(|text| all.push(text));
        }
        let mut outputs = Vec::new();
        pack(Value::row(Items::Bytes(all)), &mut outputs).unwrap();
        Ok(outputs)
    }
}

struct Models(Arc<Batcher>);

impl Parts for Models {
    fn table(&self, _: &str) -> Option<Arc<Table>> {
        None
    }

    fn store(&self, _: &str) -> Option<Store> {
        None
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        (name == "joins").then(|| Arc::clone(&self.0))
    }
}

fn open(stages: &str, takes_requests: bool) -> Result<Arc<Pipeline>, String> {
    let model = Arc::new(Joins {
        signature: Signature::default(),
        takes_requests,
    });
    let batcher = Batcher::start("joins", model, BatcherOptions::default()).unwrap();
    let text = format!("request = \"values\"\nstages = [{stages}]");
    let description: Description = toml::from_str(&text).map_err(|error| error.to_string())?;
    let plan = description.plan("p").map_err(|error| error.to_string())?;
    let pipeline = Pipeline::open(plan, &Models(Arc::new(batcher))).map_err(|error| error.to_string())?;
    Ok(Arc::new(pipeline))
}

fn run(pipeline: &Arc<Pipeline>, inputs: &[(&str, &str)]) -> Output {
    let text = |text: &str| Value::rows(Items::Bytes([text].into_iter().collect()));
    let inputs = inputs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), text(value)));
    let values = Values {
        inputs: inputs.collect(),
        outputs: Vec::new(),
    };
    let Progress::Waits(waiting) = pipeline.run_values(values).unwrap() else {
        panic!("it waits for its model");
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
    done.recv().unwrap().unwrap()
}

fn check(stages: &str, inputs: &[(&str, &str)], expected: &[&str]) {
    let output = run(&open(stages, true).unwrap(), inputs);
    let (_, value) = output.values.last().unwrap();
    let texts: Vec<&str> = value.bytes().unwrap().texts().collect();
    assert_eq!((texts.as_slice(), value.row_count()), (expected, 1), "{stages}");
}

#[test]
fn values_go_in_and_come_out_whole() {
    let one = r#"{ name = "a", call = { model = "joins" } }"#;
    check(one, &[("data", "x")], &["x"]);
    let named = r#"{ name = "a", call = { model = "joins", inputs = { b = "inputs.q", a = "inputs.p" } } }"#;
    check(named, &[("q", "y"), ("p", "x")], &["x", "y"]);
    let both = format!(
        r#"{one}, {{ name = "b", call = {{ model = "joins", inputs = {{ x = "a", y = "inputs.q" }} }} }}"#
    );
    check(&both, &[("data", "x"), ("q", "y")], &["x", "y"]);
}

#[track_caller]
fn check_refused(stages: &str, takes_requests: bool, words: &str) {
    let refused = open(stages, takes_requests).map(drop).unwrap_err();
    assert!(refused.contains(words), "{refused}");
}

#[test]
fn what_cannot_be_called_is_refused() {
    let one = r#"{ name = "a", call = { model = "joins" } }"#;
    check_refused(one, false, "model \"joins\" takes tensors of declared types");
    let two_ways =
        r#"{ name = "a", call = { model = "joins", from = "inputs.x", inputs = { x = "inputs.y" } } }"#;
    check_refused(two_ways, true, "it has `from` and `inputs`");
    let nowhere = r#"{ name = "a", call = { model = "joins", from = "nowhere" } }"#;
    check_refused(nowhere, true, "nowhere");
    check_refused(r#"{ name = "a", call = { model = "" } }"#, true, "call.model");
}
