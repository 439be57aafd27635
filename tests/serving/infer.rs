//! `infer` in both forms against the real model: reference outputs, and samples against tensors.

use crate::harness::{Http, Millpond, data, r1_folder, row};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn floats(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-4,
            "element {at}: {found}, expected {expected}"
        );
    }
}

#[test]
fn outputs_are_those_of_onnx_runtime() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let reference: Value = serde_json::from_slice(&std::fs::read(data("mlp.json")).unwrap()).unwrap();
    let (input, output) = (&reference["inputs"][0], &reference["outputs"][0]);
    let name = input["name"].as_str().unwrap();
    let tensor = json!({"shape": input["shape"], "type": "f32", "data": input["data"]});
    let (status, answer) = server.call("infer", &json!({"model": "mlp", "inputs": {name: tensor}}));
    assert_eq!(status, 200, "{answer}");
    let found = &answer["outputs"][output["name"].as_str().unwrap()];
    assert_eq!(found["shape"], output["shape"]);
    close(&floats(&found["data"]), &floats(&output["data"]));
    assert_eq!(
        (answer["model"].as_str(), answer["version"].as_u64()),
        (Some("mlp"), Some(1))
    );
}

/// A net thread's own instance answers what the model's threads answer, to the last digit.
#[test]
fn answers_are_the_same_at_the_end_of_a_turn_and_by_way_of_an_instance() {
    let answers = |inline_us_max: u64| {
        let folder = r1_folder();
        let set = format!("models.mlp.inline_us_max={inline_us_max}");
        let server = Millpond::start(folder.path(), &[&set]);
        let mut http = Http::connect(&server.addr);
        let call = |call: usize| {
            let samples: Vec<[String; 2]> = (0..15)
                .map(|at| [format!("v{}", at * call), format!("v{}", at + call)])
                .collect();
            http.call("infer", &json!({ "samples": samples }))
        };
        let answers: Vec<(u16, Value)> = (0..20).map(call).collect();
        let (_, metrics) = server.admin_get("/metrics");
        assert!(
            metrics.contains("millpond_model_requests_total{model=\"mlp\",version=\"1\"} 20\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("millpond_model_batch_rows_sum{model=\"mlp\",version=\"1\"} 300\n"),
            "{metrics}"
        );
        answers
    };
    assert_eq!(answers(60_000_000), answers(0));
}

#[test]
fn samples_score_as_their_rows_do() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    // 15 samples of two strings, as report R1 has them; v999 is not in the table and gives zeros.
    let ids: Vec<(usize, usize)> = (0..15)
        .map(|at| (at * 3, if at == 7 { 999 } else { at * 5 }))
        .collect();
    let samples: Vec<[String; 2]> = ids
        .iter()
        .map(|(a, b)| [format!("v{a}"), format!("v{b}")])
        .collect();
    let (status, answer) = http.call("infer", &json!({"samples": samples}));
    assert_eq!(status, 200, "{answer}");
    let rows = |(a, b): &(usize, usize)| {
        let second = if *b == 999 { vec![0.0; 8] } else { row("1", *b) };
        [row("0", *a), second].concat()
    };
    let x: Vec<f32> = ids.iter().flat_map(rows).collect();
    let (_, direct) = http.call(
        "infer",
        &json!({"inputs": {"x": {"shape": [15, 16], "type": "f32", "data": x}}}),
    );
    let outputs = direct["outputs"]
        .as_object()
        .unwrap_or_else(|| panic!("{direct}"));
    close(
        &floats(&answer["scores"]),
        &floats(&outputs.values().next().unwrap()["data"]),
    );
    let (status, answer) = http.call("infer", &json!({"samples": []}));
    assert_eq!((status, answer), (200, json!({"scores": []})));
}

#[test]
fn connections_in_parallel_get_their_own_answers() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["models.mlp.instances=2"]);
    let expected: Vec<Value> = (0..20)
        .map(|id| {
            server
                .call("infer", &json!({"samples": [[format!("v{id}"), "v1"]]}))
                .1
        })
        .collect();
    std::thread::scope(|scope| {
        for start in 0..8 {
            let (addr, expected) = (&server.addr, &expected);
            scope.spawn(move || {
                let mut http = Http::connect(addr);
                for at in 0..100 {
                    let id = (start * 7 + at) % 20;
                    let (status, answer) =
                        http.call("infer", &json!({"samples": [[format!("v{id}"), "v1"]]}));
                    assert_eq!(status, 200);
                    close(&floats(&answer["scores"]), &floats(&expected[id]["scores"]));
                }
            });
        }
    });
}

/// A figure of the page of metrics.
fn figure(server: &Millpond, name: &str) -> f64 {
    let (_, metrics) = server.admin_get("/metrics");
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("{name} is not in\n{metrics}"))
        .parse()
        .unwrap()
}

#[test]
fn every_call_is_counted_in_each_stage() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let calls = 20.0;
    for id in 0..20 {
        let (status, answer) = http.call("infer", &json!({"samples": [[format!("v{id}"), "v1"]]}));
        assert_eq!(status, 200, "{answer}");
    }
    // What runs no model has no stages.
    assert_eq!(http.call("infer", &json!({"samples": []})).0, 200);
    assert_eq!(http.call("*ping", &json!({})).0, 200);
    let whole = figure(&server, "millpond_call_seconds_sum{method=\"infer\"}");
    for stage in ["queue", "batch_wait", "compute", "write"] {
        let of = |what: &str| {
            figure(
                &server,
                &format!("millpond_stage_seconds_{what}{{stage=\"{stage}\"}}"),
            )
        };
        // A client may have its answer a moment before the server has counted its writing.
        let until = Instant::now() + Duration::from_secs(10);
        while of("count") < calls && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (count, sum) = (of("count"), of("sum"));
        assert_eq!(count, calls, "{stage}");
        assert!(sum.is_finite() && sum > 0.0, "{stage} took {sum} s");
        // Writing begins where a call's time ends; the other stages lie within it.
        assert!(stage == "write" || sum < whole, "{stage} took {sum} of {whole} s");
    }
}

/// The folder of a server with one model: `x`, f32 `[N, 1]`, to `y`, the same.
fn practice_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nfile = \"millpond.log\"\n\
        [models.m]\nbackend = \"practice\"\nbehaviour = \"wait\"\nus = 0\n";
    std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
    folder
}

#[test]
fn a_tensor_of_another_type_is_refused_with_both_names() {
    let folder = practice_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let mut check = |element_type: &str, data: Value, expected: &str| {
        let x = json!({"shape": [2, 1], "type": element_type, "data": data});
        let (status, answer) = http.call("infer", &json!({"inputs": {"x": x}}));
        let problem = answer["ex"].as_str().unwrap_or_default();
        assert!(status == 400 && problem.contains(expected), "{status} {answer}");
    };
    for (element_type, data) in [
        ("f16", json!([0.5, 2])),
        ("bf16", json!([[0.5], [2]])),
        ("bytes", json!(["a", [255]])),
    ] {
        let expected = format!("input `x` must be f32, found {element_type}; send it as f32");
        check(element_type, data, &expected);
    }
    check(
        "bytes",
        json!(["a", 1]),
        "\"inputs.x.data[1]\" is an integer; expected one string",
    );
    check("bytes", json!(["a"]), "\"inputs.x.data\" is 1 elements");
    check("string", json!(["a", "b"]), "\"u8\", \"bool\", \"bytes\"");
}

#[test]
fn an_output_is_named_once() {
    let folder = practice_folder();
    let server = Millpond::start(folder.path(), &[]);
    let call = |outputs: Value| {
        let x = json!({"shape": [1, 1], "type": "f32", "data": [7]});
        server.call("infer", &json!({"inputs": {"x": x}, "outputs": outputs}))
    };
    let (status, answer) = call(json!(["y"]));
    assert_eq!(
        (status, &answer["outputs"]["y"]["data"]),
        (200, &json!([7.0])),
        "{answer}"
    );
    for outputs in [json!(["y", "y"]), json!(vec!["y"; 100_000])] {
        let (status, answer) = call(outputs);
        assert_eq!((status, answer["code"].as_u64()), (400, Some(30104)), "{answer}");
        let ex = answer["ex"].as_str().unwrap();
        assert!(ex.contains("\"y\" twice; name each output once"), "{ex}");
    }
}

#[test]
fn the_first_thing_said_is_that_it_is_ready() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(server.admin_get("/readyz"), (200, "ready\n".to_owned()));
    let (status, metrics) = server.admin_get("/metrics");
    assert_eq!(status, 200);
    for expected in [
        "millpond_ready 1",
        "millpond_table_rows{table=\"embeddings\"} 200",
        // The server's calls to itself are counted nowhere.
        "millpond_model_batch_rows_count{model=\"mlp\",version=\"1\"} 0",
        "millpond_model_requests_total{model=\"mlp\",version=\"1\"} 0",
        "millpond_calls_total{method=\"infer\"} 0",
        "millpond_stage_seconds_count{stage=\"compute\"} 0",
        "millpond_stage_seconds_count{stage=\"write\"} 0",
        "millpond_connections 0",
        "millpond_connections_accepted_total 0",
        "millpond_in_flight 0",
    ] {
        assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
    }
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    // One pipeline, one table, one store; two encodings: each call at least once.
    let calls = log
        .split("rehearsed calls=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(calls.unwrap().parse::<usize>().unwrap() >= 6, "{log}");
}
