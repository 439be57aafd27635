//! `run` through the real port: branches over two models, a filter, and values that do not fit.

use crate::harness::{Frames, Http, Millpond};
use millpond_wire_frame::Encoding;
use serde_json::{Value, json};

/// Two models that sum rows, of two columns and of one.
const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[models.pair]
backend = "practice"
behaviour = "wait"
us = 1
width = 2
[models.one]
backend = "practice"
behaviour = "wait"
us = 1
[pipelines.branches]
request = "values"
inputs = { x = { type = "f32", shape = [-1, 2] }, kind = "texts" }
outputs = ["both", "sum"]
[pipelines.branches.stages.both]
assemble = { columns = ["sum", "again"] }
[pipelines.branches.stages.sum]
model = { model = "pair", input = "inputs.x" }
[pipelines.branches.stages.again]
model = { model = "pair", input = "inputs.x" }
filter = { skip = "inputs.kind.value == 'cheap'" }
[pipelines.names]
request = "values"
stages = [{ name = "keys", hash = { slot = "s" } }]
"#;

fn server() -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

fn call(kind: &str) -> Value {
    let x = json!({"shape": [2, 2], "type": "f32", "data": [1, 2, 3, 4]});
    json!({"pipeline": "branches", "inputs": {"x": x, "kind": kind}})
}

fn tensor(shape: [usize; 2], data: &[f32]) -> Value {
    json!({"shape": shape, "type": "f32", "data": data})
}

#[test]
fn branches_and_filters_over_http_and_frames() {
    let (_folder, server) = server();
    let mut http = Http::connect(&server.addr);
    let (status, answer) = http.call("run", &call("dear"));
    let sum = tensor([2, 1], &[3.0, 7.0]);
    let both = tensor([2, 2], &[3.0, 3.0, 7.0, 7.0]);
    assert_eq!(
        (status, &answer),
        (200, &json!({"outputs": {"both": both, "sum": sum}}))
    );
    let (status, answer) = http.call("run", &call("cheap"));
    let cheap = json!({"outputs": {"sum": sum}, "skipped": ["again", "both"]});
    assert_eq!((status, &answer), (200, &cheap));
    let mut wanted = call("dear");
    wanted["outputs"] = json!(["sum"]);
    assert_eq!(http.call("run", &wanted), (200, json!({"outputs": {"sum": sum}})));
    let mut frames = Frames::connect(&server.addr);
    let payload = serde_json::to_vec(&call("cheap")).unwrap();
    let (status, bytes) = frames.call("run", Encoding::Json, &payload);
    assert_eq!((status, serde_json::from_slice(&bytes).ok()), (0, Some(cheap)));
    // What waits for no model is answered at once; keys are numbers of the same bits.
    let names = json!({"pipeline": "names", "inputs": {"data": {"items": ["a", "b"], "offsets": [0, 2]}}});
    let (status, answer) = http.call("run", &names);
    let keys = &answer["outputs"]["keys"];
    assert_eq!((status, &keys["offsets"]), (200, &json!([0, 2])), "{answer}");
    assert_eq!(
        (&keys["items"]["type"], &keys["items"]["shape"]),
        (&json!("i64"), &json!([2]))
    );
}

#[test]
fn calls_that_do_not_fit_are_refused_by_name() {
    let (_folder, server) = server();
    let check = |payload: Value, status: u16, expected: &str| {
        let (found, answer) = server.call("run", &payload);
        let ex = answer["ex"].as_str().unwrap_or_default();
        assert!(found == status && ex.contains(expected), "{found} {answer}");
    };
    check(json!({"inputs": {}}), 400, "\"pipeline\" is missing");
    check(
        json!({"pipeline": "x", "inputs": {}}),
        404,
        "no pipeline \"x\" is served",
    );
    check(
        json!({"pipeline": "branches", "inputs": {}}),
        400,
        "key \"inputs.x\" is missing",
    );
    let mut wide = call("dear");
    wide["inputs"]["x"]["shape"] = json!([1, 4]);
    check(wide, 400, "key \"inputs.x\" is f32[1, 4]; expected f32[?, 2]");
    let mut kinds = call("dear");
    kinds["inputs"]["kind"] = json!(["a", "b"]);
    check(kinds, 400, "is asked of 2 texts; expected one");
    let names = json!({"pipeline": "names", "inputs": {"data": {"shape": [1], "type": "f32", "data": [1]}}});
    check(
        names,
        400,
        "takes texts by its key hash.from, and this request gives it f32[1]",
    );
    let (status, answer) = server.call("rank", &json!({"pipeline": "names", "user": {}, "items": ["a"]}));
    let ex = answer["ex"].as_str().unwrap_or_default();
    assert!(
        status == 400 && ex.contains("takes named values; call run"),
        "{answer}"
    );
}
