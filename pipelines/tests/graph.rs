//! Pipelines that are graphs: branches that wait at the same time, filters, merges, and pipelines inside of pipelines.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_backends_interface::{Error as ModelError, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_engines_features::Table;
use millpond_engines_ordered::Store;
use millpond_pipelines::{
    Ask, Description, Error, Items, Output, Parts, Pipeline, Progress, Value, Values, submit,
};
use millpond_tensor::{ElementType, Tensor};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

/// Adds `by` to each number; a number below zero fails. With a `meeting` a run ends when as many have begun.
struct Add {
    signature: Signature,
    by: f32,
    meeting: Option<Arc<Meeting>>,
}

/// How many have come, of how many.
struct Meeting(Mutex<usize>, Condvar, usize);

struct Adding(f32, Option<Arc<Meeting>>);

impl Model for Add {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, ModelError> {
        Ok(Box::new(Adding(self.by, self.meeting.clone())))
    }
}

impl Instance for Adding {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let run = |problem: &str| ModelError::Run {
            problem: problem.to_owned(),
        };
        if let Some(meeting) = &self.1 {
            let Meeting(come, wake, all) = &**meeting;
            let mut come = come.lock().unwrap();
            *come += 1;
            wake.notify_all();
            let (_come, late) = wake
                .wait_timeout_while(come, Duration::from_secs(30), |come| *come < *all)
                .unwrap();
            if late.timed_out() {
                return Err(run("the other one did not come"));
            }
        }
        let values = inputs[0].f32().unwrap();
        if values.iter().any(|value| *value < 0.0) {
            return Err(run("below zero"));
        }
        let sums: Vec<f32> = values.iter().map(|value| value + self.0).collect();
        Ok(vec![Tensor::new(inputs[0].shape().to_vec(), sums)?])
    }
}

struct Models(BTreeMap<&'static str, Arc<Batcher>>);

impl Models {
    /// `one` adds 1, `ten` adds 10; `left` and `right` do the same and wait for each other.
    fn new() -> Models {
        let meeting = Arc::new(Meeting(Mutex::new(0), Condvar::new(), 2));
        let port = |name: &str| Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, Some(1)],
        };
        let batcher = |name: &'static str, by, meeting: Option<&Arc<Meeting>>| {
            let model = Add {
                signature: Signature {
                    inputs: vec![port("x")],
                    outputs: vec![port("y")],
                    batched: true,
                },
                by,
                meeting: meeting.cloned(),
            };
            let batcher = Batcher::start(name, Arc::new(model), BatcherOptions::default());
            (name, Arc::new(batcher.unwrap()))
        };
        Models(BTreeMap::from([
            batcher("one", 1.0, None),
            batcher("ten", 10.0, None),
            batcher("left", 1.0, Some(&meeting)),
            batcher("right", 10.0, Some(&meeting)),
        ]))
    }
}

impl Parts for Models {
    fn table(&self, _: &str) -> Option<Arc<Table>> {
        None
    }

    fn store(&self, _: &str) -> Option<Store> {
        None
    }

    fn model(&self, name: &str) -> Option<Arc<Batcher>> {
        self.0.get(name).cloned()
    }
}

/// The pipeline `p` of these.
fn open(text: &str) -> Result<Arc<Pipeline>, String> {
    let all: BTreeMap<String, Description> = toml::from_str(text).map_err(|error| error.to_string())?;
    let plan = all["p"]
        .plan_among("p", &all)
        .map_err(|error| error.to_string())?;
    let pipeline = Pipeline::open(plan, &Models::new()).map_err(|error| error.to_string())?;
    Ok(Arc::new(pipeline))
}

fn run(pipeline: &Arc<Pipeline>, inputs: Vec<(&str, Value)>) -> Result<Output, Error> {
    let values = Values {
        inputs: inputs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        outputs: Vec::new(),
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
            let (send, done) = mpsc::sync_channel(2);
            let hand_over = |batcher: Arc<Batcher>, request| submit(&batcher, request);
            waiting.start(ask, hand_over, move |output| send.send(output).unwrap());
            let output = done.recv().unwrap();
            assert!(done.recv().is_err(), "one result");
            output
        }
    }
}

fn floats(values: &[f32]) -> Value {
    let tensor = Tensor::new(vec![values.len(), 1], values.to_vec()).unwrap();
    Value::rows(Items::Tensor(tensor))
}

/// What the pipeline `p` gives for `data`: outputs by name, and what was skipped.
fn check(text: &str, data: &[f32], expected: &[(&str, &[f32])], skipped: &[&str]) {
    let output = run(&open(text).unwrap(), vec![("data", floats(data))]).unwrap();
    let found: Vec<(&str, &[f32])> = output
        .values
        .iter()
        .map(|(name, value)| (name.as_ref(), value.tensor().unwrap().f32().unwrap()))
        .collect();
    assert_eq!(found, expected, "{text}");
    let names: Vec<&str> = output.skipped.iter().map(AsRef::as_ref).collect();
    assert_eq!(names, skipped, "{text}");
}

fn check_refused(text: &str, expected: &str) {
    let refused = open(text).err().unwrap();
    assert!(refused.contains(expected), "{refused}\n{text}");
}

/// A table of stages of the pipeline `p`.
fn table(stages: &str) -> String {
    format!("[p]\nrequest = \"values\"\n[p.stages]\n{stages}")
}

#[test]
fn branches_wait_at_the_same_time_and_join() {
    // Each of the two models answers only when both have been asked.
    let text = table(
        "join = { assemble = { columns = [\"a\", \"b\", \"after\"] } }
         after = { model = { model = \"one\", input = \"a\" } }
         a = { model = { model = \"left\", input = \"inputs.data\" } }
         b = { model = { model = \"right\", input = \"inputs.data\" } }",
    );
    check(
        &text,
        &[1.0, 2.0],
        &[("join", &[2.0, 11.0, 3.0, 3.0, 12.0, 4.0])],
        &[],
    );
}

#[test]
fn an_error_of_a_branch_ends_the_request_once() {
    let text = table(
        "a = { model = { model = \"left\", input = \"inputs.data\" } }
         b = { model = { model = \"right\", input = \"inputs.other\" } }",
    );
    let pipeline = open(&text).unwrap();
    let inputs = |other: &[f32]| vec![("data", floats(&[-1.0])), ("other", floats(other))];
    let error = run(&pipeline, inputs(&[1.0])).unwrap_err().to_string();
    assert_eq!(error, "model `left` failed: below zero");
    assert!(
        run(&pipeline, inputs(&[-1.0]))
            .unwrap_err()
            .to_string()
            .contains("below zero")
    );
}

#[test]
fn stages_follow_what_names_them_or_what_stands_before() {
    let next = table(
        "last = { model = { model = \"ten\" } }
         first = { model = { model = \"one\" }, next = [\"last\"] }",
    );
    check(&next, &[1.0], &[("last", &[12.0])], &[]);
    let list = "[p]\nrequest = \"values\"\nstages = [
        { name = \"first\", model = { model = \"one\" } },
        { name = \"last\", model = { model = \"ten\" } },
    ]";
    check(list, &[1.0], &[("last", &[12.0])], &[]);
    let branches = "[p]\nrequest = \"values\"\nstages = [
        { name = \"first\", model = { model = \"one\" }, next = [\"a\", \"b\"] },
        { name = \"a\", model = { model = \"one\" } },
        { name = \"b\", model = { model = \"ten\" } },
    ]";
    check(branches, &[1.0], &[("a", &[3.0]), ("b", &[12.0])], &[]);
}

const FILTERED: &str = "
a = { model = { model = \"one\" }, next = [\"b\"] }
b = { model = { model = \"ten\" }, filter = FILTER }
c = { model = { model = \"one\", input = \"b\" } }
d = { model = { model = \"one\", input = \"a\" } }";

#[test]
fn a_filter_skips_a_stage_and_those_behind_it() {
    let text = |filter: &str| table(&FILTERED.replace("FILTER", filter));
    let skip = text("{ skip = \"a.max < 5\" }");
    check(&skip, &[1.0], &[("d", &[3.0])], &["b", "c"]);
    check(&skip, &[7.0], &[("c", &[19.0]), ("d", &[9.0])], &[]);
    let run = text("\"run\"");
    check(&run, &[1.0], &[("c", &[13.0]), ("d", &[3.0])], &[]);
    // What is skipped is nothing to a filter, unless it asks for that.
    let none = format!(
        "{skip}\ne = {{ model = {{ model = \"ten\", input = \"a\" }}, filter = {{ skip = \"some b\" }} }}"
    );
    check(&none, &[1.0], &[("d", &[3.0]), ("e", &[12.0])], &["b", "c"]);
    let of_nothing = none.replace("some b", "b.items == 3");
    check(&of_nothing, &[1.0], &[("d", &[3.0])], &["b", "c", "e"]);
}

#[test]
fn a_break_ends_the_pipeline_with_what_is_there() {
    let text = table(&FILTERED.replace("FILTER", "{ break = \"a.max < 5\" }"));
    check(&text, &[1.0], &[], &["b", "c", "d"]);
    check(&text, &[7.0], &[("c", &[19.0]), ("d", &[9.0])], &[]);
    // What stands before it still comes to its end, however long it takes.
    let before = "[p]\nrequest = \"values\"\nstages = [
        { name = \"a\", model = { model = \"one\", input = \"inputs.data\" } },
        { name = \"b\", model = { model = \"ten\", input = \"a\" } },
        { name = \"c\", model = { model = \"one\", input = \"inputs.data\" }, filter = { break = \"some inputs.data\" } },
        { name = \"d\", model = { model = \"one\", input = \"inputs.data\" } },
    ]";
    check(before, &[1.0], &[("b", &[12.0])], &["c", "d"]);
}

#[test]
fn or_takes_the_place_of_what_is_there() {
    let text = table(
        "cheap = { model = { model = \"one\" }, filter = { skip = \"inputs.data.max > 5\" } }
         dear = { model = { model = \"ten\" }, filter = { or = \"cheap\" } }
         last = { model = { model = \"one\", input = \"dear\" } }",
    );
    check(&text, &[1.0], &[("last", &[3.0])], &[]);
    check(&text, &[6.0], &[("last", &[17.0])], &["cheap"]);
}

#[test]
fn conditions_without_an_answer_are_the_requests_error() {
    let text =
        table("a = { merge = { of = [\"inputs.data\"] }, filter = { skip = \"inputs.data.max < 1\" } }");
    let pipeline = open(&text).unwrap();
    let refused = run(&pipeline, vec![("data", floats(&[1.0, f32::NAN]))]).unwrap_err();
    assert_eq!(
        refused,
        Error::Request {
            problem: "stage \"a\" of pipeline \"p\", key filter: `inputs.data.max < 1` has no answer: element 1 is NaN".to_owned()
        }
    );
}

const INNER: &str = "
[inner]
request = \"values\"
stages = [
    { name = \"a\", model = { model = \"one\", input = \"inputs.x\" } },
    { name = \"b\", model = { model = \"ten\", input = \"a\" } },
]
[data]
request = \"values\"
outputs = [\"b\", \"a\"]
stages = [{ name = \"a\", model = { model = \"one\" } }, { name = \"b\", model = { model = \"ten\" } }]
";

#[test]
fn a_pipeline_runs_inside_of_another() {
    let twice = format!(
        "{INNER}[p]\nrequest = \"values\"\n[p.stages]
         first = {{ pipeline = {{ pipeline = \"inner\", inputs = {{ x = \"inputs.data\" }} }} }}
         second = {{ pipeline = {{ pipeline = \"inner\", inputs = {{ x = \"first\" }} }} }}"
    );
    check(&twice, &[1.0], &[("second", &[23.0])], &[]);
    let pipeline = open(&twice).unwrap();
    assert_eq!(pipeline.batchers().count(), 4);
    // Without inputs it takes what stands before it, and each of its outputs has a name.
    let next = format!(
        "{INNER}[p]\nrequest = \"values\"\nstages = [
            {{ name = \"a\", model = {{ model = \"one\" }} }},
            {{ name = \"jump\", pipeline = {{ pipeline = \"data\" }}, filter = {{ skip = \"a.max > 5\" }} }},
        ]"
    );
    check(&next, &[1.0], &[("jump.b", &[13.0]), ("jump.a", &[3.0])], &[]);
    check(&next, &[9.0], &[], &["jump/a", "jump/b"]);
    let one = next.replace(
        "request = \"values\"\nstages = [\n",
        "request = \"values\"\noutputs = [\"jump.a\"]\nstages = [\n",
    );
    check(&one, &[1.0], &[("jump.a", &[3.0])], &[]);
}

#[test]
fn graphs_that_cannot_run_are_refused() {
    check_refused(
        &table(
            "a = { model = { model = \"one\", input = \"b\" } }\nb = { model = { model = \"one\", input = \"a\" } }",
        ),
        "stage `a`, key `model.input`: it reads `b`, which needs `a`: a cycle",
    );
    let one = "a = { model = { model = \"one\" } }";
    let with = |more: &str| table(&format!("{one}\n{more}"));
    check_refused(
        &with("b = { model = { model = \"one\" }, next = [\"c\"] }"),
        "stage `b`, key `next`: no stage is called `c`; name one of a, b",
    );
    check_refused(
        &with(
            "b = { model = { model = \"one\", input = \"inputs.data\" }, next = [\"a\"] }\nc = { model = { model = \"one\" }, next = [\"a\"] }",
        ),
        "key `next`: `b` names `a` as well, and it takes one value; name both in a merge stage",
    );
    check_refused(
        &with(
            "b = { model = { model = \"one\", input = \"inputs.data\" } }\nc = { merge = { of = [\"a\", \"b\"] }, next = [\"b\"] }",
        ),
        "key `next`: `b` says itself what it takes, and that is not `c`",
    );
    let filter = |filter: &str| {
        with(&format!(
            "b = {{ model = {{ model = \"ten\" }}, filter = {filter} }}"
        ))
    };
    check_refused(
        &filter("\"skip\""),
        "filter is \"skip\"; expected \"run\", { skip = \"CONDITION\" }",
    );
    check_refused(
        &filter("{ skp = \"none a\" }"),
        "expected \"run\", { skip = \"CONDITION\" }",
    );
    check_refused(
        &filter("{ skip = \"none a\", or = \"a\" }"),
        "filter does not say one thing",
    );
    check_refused(
        &filter("{ skip = \"a.mean == 1\" }"),
        "stage `b`, key `filter`: `a.mean == 1` asks for `mean`",
    );
    check_refused(
        &filter("{ skip = \"none x\" }"),
        "stage `b`, key `filter`: no stage is called `x`",
    );
    check_refused(
        &filter("{ skip = \"a.value == 'x'\" }"),
        "key `filter`: stage `a` gives floats",
    );
    check_refused(
        &filter("{ or = \"a\" }"),
        "`a` always has a value, so this stage would never run",
    );
    check_refused(
        &filter("{ skip = \"none b\" }"),
        "key `filter`: the stage reads itself",
    );
    check_refused(
        &with("b = { name = \"c\", model = { model = \"one\" } }"),
        "stage `b` has the name \"c\"",
    );
    check_refused(
        "[p]\nrequest = \"values\"\nstages = [{ model = { model = \"one\" } }]",
        "stage number 1, key `name`: `` cannot be a name",
    );
}

#[test]
fn pipelines_inside_of_each_other_are_checked() {
    let of = |stage: &str| format!("{INNER}[p]\nrequest = \"values\"\n[p.stages]\na = {stage}");
    check_refused(
        &of("{ pipeline = { pipeline = \"nowhere\" } }"),
        "stage `a`, key `pipeline.pipeline`: no pipeline is called `nowhere`; name one of data, inner, p",
    );
    check_refused(
        &of("{ pipeline = { pipeline = \"p\" } }"),
        "pipeline `p` contains itself: a cycle",
    );
    let around = "[q]\nrequest = \"values\"\nstages = [{ name = \"b\", pipeline = { pipeline = \"p\" } }]\n";
    check_refused(
        &format!("{around}{}", of("{ pipeline = { pipeline = \"q\" } }")),
        "contains itself: a cycle",
    );
    check_refused(
        &of("{ pipeline = { pipeline = \"inner\" } }"),
        "stage `a/a`, key `model.input`: pipeline `inner` reads `inputs.x`; add x = \"STAGE\"",
    );
    check_refused(
        &of("{ pipeline = { pipeline = \"inner\", inputs = { x = \"inputs.data\", y = \"inputs.data\" } } }"),
        "stage `a`, key `pipeline.inputs`: pipeline `inner` does not read `inputs.y`; remove it",
    );
    let two = "{ pipeline = { pipeline = \"data\" } }\nb = { merge = { of = [\"a\"] } }";
    check_refused(
        &of(two),
        "stage `a` has several outputs; write one of `a.b`, `a.a`",
    );
    let rank = of("{ pipeline = { pipeline = \"r\" } }\n[r]\nrequest = \"rank\"\nstages = []");
    check_refused(&rank, "pipeline `r` takes no values");
    let nowhere = "{ pipeline = { pipeline = \"inner\", inputs = { x = \"z\" } } }";
    check_refused(
        &of(nowhere),
        "stage `a/a`, key `model.input`: no stage is called `z`",
    );
    let or = "{ pipeline = { pipeline = \"data\" }, filter = { or = \"b\" } }";
    check_refused(&of(or), "filter `or` is for one stage, and this is several");
}
