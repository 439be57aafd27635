//! `infer` in both forms against the real model: reference outputs, and samples against tensors.

use crate::harness::{Http, Millpond, data, r1_folder, row};
use serde_json::{Value, json};

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
        "millpond_model_batches_total{model=\"mlp\"} 0",
        "millpond_model_requests_total{model=\"mlp\"} 0",
        "millpond_calls_total{method=\"infer\"} 0",
        "millpond_connections 0",
        "millpond_connections_accepted_total 0",
        "millpond_in_flight 0",
    ] {
        assert!(metrics.contains(expected), "{expected} is not in\n{metrics}");
    }
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    // One pipeline, one table, one store; two protocols, two net threads: each call at least once.
    let calls = log
        .split("rehearsed calls=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(calls.unwrap().parse::<usize>().unwrap() >= 12, "{log}");
}
