//! Files of torchpipe as TOML of ours, key by key. Nothing is opened here.

#![allow(clippy::unwrap_used)]
use super::{Outcome, REQUEST, Refused, Translation};
use crate::Description;
use std::collections::{BTreeMap, BTreeSet};

fn translate(text: &str) -> Result<Translation, Refused> {
    super::translate(text, &BTreeSet::new())
}

/// The translation as TOML, and the notes a line each.
fn check(text: &str, expected: &str, notes: &[&str]) {
    let found = translate(text).unwrap();
    assert_eq!(toml::to_string(&found.sections).unwrap().trim(), expected.trim());
    let found: Vec<String> = found.notes.iter().map(ToString::to_string).collect();
    assert_eq!(found, notes);
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(translate(text).unwrap_err().to_string(), expected);
}

#[test]
fn a_chain_becomes_stages_and_a_model() {
    check(
        r#"
        batching_timeout = 5
        [decode]
        backend = "S[DecodeMat,ResizeMat,CvtColorMat,Mat2Tensor]"
        resize_h = 224
        resize_w = "160"
        color = "rgb"
        instance_num = 4
        next = "classify"
        [classify]
        backend = "S[OnnxTensor,SoftmaxTensor]"
        model = "net.onnx"
        mean = "123.7, 116.3, 103.5"
        std = "58.4, 57.1, 57.4"
        max = 4
        instance_num = 2
        "#,
        r#"
[models.classify]
path = "net.onnx"
batch_size_max = 4
instances = 2
batch_delay_us_max = 5000

[pipelines.decode]
request = "values"
outputs = ["classify"]

[[pipelines.decode.stages]]
name = "decode-1"
instances = 4

[pipelines.decode.stages.decode]
color = "rgb"
from = "inputs.data"

[[pipelines.decode.stages]]
name = "decode"
instances = 4

[pipelines.decode.stages.resize]
height = 224
width = 160
from = "decode-1"

[[pipelines.decode.stages]]
name = "classify-1"
instances = 2

[pipelines.decode.stages.normalise]
mean = [123.7, 116.3, 103.5]
std = [58.4, 57.1, 57.4]
scale = 1
layout = "chw"
from = "decode"

[[pipelines.decode.stages]]
name = "classify-2"

[pipelines.decode.stages.model]
model = "classify"
input = "classify-1"

[[pipelines.decode.stages]]
name = "classify"

[pipelines.decode.stages.softmax]
from = "classify-2"
"#,
        &[
            "kept: decode: backend = \"S[DecodeMat,ResizeMat,CvtColorMat,Mat2Tensor]\": stages, in this order",
            "kept: decode: color = \"rgb\": decode.color, and of color",
            "kept: decode: resize_h = \"224\": resize.height",
            "kept: decode: resize_w = \"160\": resize.width",
            "kept: decode: instance_num = \"4\": instances of each of its stages that has threads",
            "kept: decode: next = \"classify\": the stages that take its value name it",
            "dropped: decode: batching_timeout = \"5\": nothing reads it",
            "kept: classify: backend = \"S[OnnxTensor,SoftmaxTensor]\": stages, in this order",
            "kept: classify: model = \"net.onnx\": models.NAME.path",
            "kept: classify: mean = \"123.7, 116.3, 103.5\": normalise.mean",
            "kept: classify: std = \"58.4, 57.1, 57.4\": normalise.std",
            "kept: classify: max = \"4\": batch_size_max",
            "kept: classify: instance_num = \"2\": instances",
            "changed: classify: batching_timeout = \"5\": batch_delay_us_max, in microseconds; an instance waits only while measured arrivals say that the batch will fill",
        ],
    );
}

#[test]
fn several_batch_limits_are_sizes() {
    let text = |max: &str| format!("[a]\nbackend = \"OnnxTensor\"\nmodel = \"a.onnx\"\nmax = {max:?}\n");
    for (max, sizes) in [
        ("8&1&4", "batch_sizes = [1, 4, 8]"),
        ("4x3x8x8;1x3x8x8", "batch_sizes = [1, 4]"),
    ] {
        let found = toml::to_string(&translate(&text(max)).unwrap().sections).unwrap();
        assert!(found.contains(sizes), "{max}: {found}");
    }
    let one = toml::to_string(&translate(&text("4&4")).unwrap().sections).unwrap();
    assert!(
        one.contains("batch_size_max = 4") && !one.contains("batch_sizes"),
        "{one}"
    );
    for max in ["0&4", "a&4", "&"] {
        let problem = translate(&text(max)).unwrap_err().to_string();
        assert!(problem.contains("is no size"), "{max}: {problem}");
    }
}

#[test]
fn a_time_for_batches_to_fill_is_in_milliseconds() {
    let text = |time: &str| {
        format!("[a]\nbackend = \"OnnxTensor\"\nmodel = \"a.onnx\"\nbatching_timeout = {time}\n")
    };
    for (time, us) in [("0", 0), ("2.5", 2500), ("\"10\"", 10_000)] {
        let found = translate(&text(time)).unwrap();
        let section = &found.sections["models"]["a"];
        assert_eq!(section["batch_delay_us_max"].as_integer(), Some(us), "{time}");
    }
    for time in ["-1", "\"soon\"", "\"nan\""] {
        let problem = translate(&text(time)).unwrap_err().to_string();
        assert!(
            problem.contains("batching_timeout") && problem.contains("write milliseconds, 0 or more"),
            "{problem}"
        );
    }
}

#[test]
fn every_key_is_noted_once() {
    let text = r#"
        [global]
        batching_timeout = 5
        [a]
        backend = "StreamGuard[OnnxTensor]"
        model = "a.onnx"
        "model::cache" = "a.trt"
        precision = "fp16"
        priority = 3
        min = 2
        max = "1x3x8x8&4x3x8x8"
        colour = "odd"
        next = "b,c"
        [a.again]
        backend = "Ignored"
        jump = "other"
        filter = "swap"
        [b]
        backend = "Identity"
        [c]
        backend = "Identity"
        map = "a[result:data]"
        filter = "or"
        [other]
        backend = "Identity"
        split = "x"
    "#;
    let found = translate(text).unwrap();
    let keys: usize = text.lines().filter(|line| line.contains('=')).count() - 1;
    // The default is noted by each node but once.
    let nodes = 5;
    assert_eq!(found.notes.len(), keys + nodes, "{:#?}", found.notes);
    let outcome = |key: &str| {
        let note = found.notes.iter().find(|note| note.key.starts_with(key)).unwrap();
        note.outcome
    };
    for (key, expected) in [
        ("model::cache", Outcome::Dropped),
        ("precision", Outcome::Dropped),
        ("colour", Outcome::Dropped),
        ("max", Outcome::Changed),
        ("split", Outcome::Changed),
        ("jump", Outcome::Kept),
    ] {
        assert_eq!(outcome(key), expected, "{key}");
    }
    let sections = toml::to_string(&found.sections).unwrap();
    for part in [
        "[pipelines.a]\n",
        "[pipelines.a-again]\n",
        "outputs = [\"b\", \"c\"]",
        // Without a result of a, c runs on what a took.
        "name = \"c\"\n\n[pipelines.a.stages.filter]\nor = \"a\"\n\n[pipelines.a.stages.identity]\nfrom = \"inputs.data\"",
        "batch_size_max = 4",
        "stages.pipeline]\npipeline = \"other\"\n\n[pipelines.a-again.stages.pipeline.inputs]\ndata = \"a-again-1\"",
    ] {
        assert!(sections.contains(part), "{part}: {sections}");
    }
    assert_eq!(
        sections.matches("[models.").count(),
        1,
        "an alias shares its model"
    );
}

#[test]
fn or_runs_on_what_the_one_before_it_took() {
    let text = r#"
        [a]
        backend = "S[ResizeMat(resize_h=2,resize_w=3),SoftmaxTensor,(or)SoftmaxTensor]"
        next = "b"
        [b]
        backend = "S[SoftmaxTensor,ResultProcess]"
        filter = "Or"
    "#;
    let found = translate(text).unwrap();
    let mut wired = Vec::new();
    for stage in found.sections["pipelines"]["a"]["stages"].as_array().unwrap() {
        let stage = stage.as_table().unwrap();
        let (_, keys) = stage
            .iter()
            .find(|(key, _)| !["name", "filter"].contains(&key.as_str()))
            .unwrap();
        let filter = stage
            .get("filter")
            .map(|filter| format!(" {}", filter.to_string().trim()));
        wired.push(format!(
            "{} from {}{}",
            stage["name"],
            keys["from"],
            filter.unwrap_or_default()
        ));
    }
    assert_eq!(
        wired,
        [
            r#""a-1" from "inputs.data""#,
            r#""a-2" from "a-1""#,
            r#""a" from "a-1" { or = "a-2" }"#,
            r#""b-1" from "inputs.data" { skip = "some a" }"#,
            r#""b" from "b-1" { or = "a" }"#,
        ]
    );
}

#[test]
fn what_has_no_counterpart_is_refused_by_name() {
    refused(
        "a = 1",
        "the file has no node; a node is a table: [classify] with backend = \"…\"",
    );
    refused("[a]\nmax = 1", "[a], key `backend`: it has no backend; name one");
    let identity = |name: &str, rest: &str| format!("[{name}]\nbackend = \"Identity\"\n{rest}\n");
    refused(
        &(identity("a", "next = \"b\"") + &identity("b", "next = \"a\"")),
        "[a], key `next`: it leads back to itself, or follows a node that does; let every node lead on, never back",
    );
    refused(
        &(identity("a", "next = \"c\"")
            + &identity("b", "next = \"c\"")
            + &identity("c", "map = \"a[result:data],b[result:x]\"")),
        "[c], key `map`: it also takes from `b`, which another root leads to; put one node before both",
    );
    refused(
        "[a]\nbackend = \"Register[X]\"",
        "[a], key `backend`: `Register` is a part of torchpipe's scheduler; leave it out: models have instances, batches and a \
         queue of their own here (models.NAME)",
    );
    refused(
        "[a]\nbackend = \"Mine\"",
        "[a], key `backend`: `Mine` has no counterpart; register it in the program that opens the file: \
         millpond.torchpipe.register(name, object); or write a plugin",
    );
    refused(
        "[a]\nbackend = \"Identity\"\nnext = \"b\"",
        "[a], key `next`: it names `b`, which is not there; nodes are a",
    );
    refused(
        "[r]\nbackend = \"Identity\"\nnext = \"a\"\n[a]\nbackend = \"Identity\"\nnext = \"b\"\nmap = \"r[result:data]\"\n[b]\nbackend = \"Identity\"\nnext = \"a\"",
        "[a], key `next`: it leads back to itself, or follows a node that does; let every node lead on, never back",
    );
    refused(
        "[a]\nbackend = \"Identity\"\nnext = \"c\"\n[b]\nbackend = \"Identity\"\nnext = \"c\"\n[c]\nbackend = \"Identity\"",
        "[c], key `map`: [\"a\", \"b\"] lead to it, and nothing says what it takes of which; set map = \"a[result:data]\"",
    );
    for (filter, instead) in [
        (
            "serial_skip",
            "skip the stage that runs it: filter = { skip = \"none STAGE\" }",
        ),
        (
            "SubGraphSkip",
            "put the nodes that it skips into a pipeline of their own",
        ),
        ("break", "filter = { break = \"none STAGE\" }"),
        ("error", "raise in a backend, which fails the request"),
        ("odd", "run, swap, skip and or have"),
    ] {
        let problem = translate(&identity("a", &format!("filter = {filter:?}")))
            .unwrap_err()
            .to_string();
        let expected = format!("[a], key `filter`: `{filter}` has no counterpart; ");
        assert!(
            problem.starts_with(&expected) && problem.contains(instead),
            "{problem}"
        );
    }
    refused(
        "[a]\nbackend = \"Identity\"\njump = \"z\"",
        "[a], key `jump`: it names `z`, which is not there; nodes are a",
    );
    refused(
        "[a]\nbackend = \"Identity\"\nnode_entrypoint = \"X\"",
        "[a], key `node_entrypoint`: it replaces torchpipe's scheduler; leave it out: models have instances, batches and a \
         queue of their own here (models.NAME)",
    );
    refused(
        &identity("a", "filter = \"or\""),
        "[a], key `filter`: no node leads to it, so there is no other result; leave the filter out",
    );
    refused(
        "[a]\nbackend = \"S[(or)Identity]\"",
        "[a], key `backend`: `(or)` stands before `Identity`; make that member a node of its own with filter",
    );
    refused(
        "[a.b]\nnext = \"\"",
        "[a.b]: it shares the instances of `a`, which is not there; add [a], or rename this table",
    );
    refused(
        "[a]\nbackend = \"ResizeMat\"\nresize_h = \"tall\"",
        "[a], key `resize_h`: `tall` is no whole number; write one",
    );
    refused(
        "[a]\nbackend = 2024-01-01",
        "[a], key `backend`: it is a datetime; write a text or a number",
    );
}

#[test]
fn a_translation_is_a_plan() {
    let text = include_str!("../../../examples/torchpipe/classify.toml");
    let found = translate(text).unwrap();
    let sections = toml::to_string(&found.sections["pipelines"]).unwrap();
    let pipelines: BTreeMap<String, Description> = toml::from_str(&sections).unwrap();
    let plan = pipelines["decode"].plan_among("decode", &pipelines).unwrap();
    let stages: Vec<String> = plan.stages.iter().map(|stage| stage.does()).collect();
    assert_eq!(
        stages,
        [
            "decode",
            "resize",
            "normalise",
            "model classify",
            "softmax",
            "topk"
        ]
    );
}

#[test]
fn a_registered_backend_is_a_model_that_gets_the_request() {
    let registered = BTreeSet::from(["Mine".to_owned()]);
    let text = r#"
        [a]
        backend = "S[Mine(k=v),SoftmaxTensor]"
        max = 8
        own = "x"
        next = "b"
        [b]
        backend = "Mine"
        [c]
        backend = "Identity"
        jump = "a"
        split = "S"
    "#;
    let found = super::translate(text, &registered).unwrap();
    let models: Vec<_> = found
        .own
        .iter()
        .map(|own| (own.model.as_str(), own.is_read, own.is_split))
        .collect();
    // Softmax reads what `a` gives, and the jump what `b` does.
    assert_eq!(models, [("a", true, true), ("b", true, true)]);
    assert_eq!(found.own[0].parameters["k"], "v");
    assert_eq!(found.own[0].parameters["own"], "x");
    assert_eq!(found.own[0].inputs, ["data", REQUEST]);
    assert_eq!(found.own[0].section["batch_size_max"].as_integer(), Some(8));
    let brings: Vec<_> = found
        .brings
        .iter()
        .map(|(root, reads)| (root.as_str(), *reads))
        .collect();
    assert_eq!(brings, [("a", false), ("c", true)]);
    let notes: Vec<String> = found.notes.iter().map(ToString::to_string).collect();
    for expected in [
        "kept: a: own = \"x\": given to init of Mine",
        "changed: a: batching_timeout unset: 4 ms there; without it an instance waits here only for callers that it has just answered \
         (batch_delay_us_max sets a time)",
    ] {
        assert!(notes.iter().any(|note| note == expected), "{notes:#?}");
    }
}

#[test]
fn parts_of_a_split_value_come_together_again() {
    let text = r#"
        [page]
        backend = "Identity"
        jump = "part"
        split = "S"
        merge = "M"
        next = "last"
        [part]
        backend = "SoftmaxTensor"
        [last]
        backend = "SoftmaxTensor"
    "#;
    let found = translate(text).unwrap();
    let page = toml::to_string(&found.sections["pipelines"]["page"]).unwrap();
    assert!(
        page.contains("pipeline = \"part\"\n\n[stages.pipeline.inputs]\ndata = \"inputs.data\""),
        "{page}"
    );
    assert!(page.contains("[stages.softmax]\nfrom = \"page\""), "{page}");
    let merged: Vec<_> = found
        .notes
        .iter()
        .filter(|note| note.key.starts_with("merge"))
        .collect();
    assert_eq!(merged[0].outcome, Outcome::Changed);
    let brings: Vec<_> = found.brings.keys().collect();
    assert!(brings.is_empty() && found.own.is_empty(), "{brings:?}");
}
