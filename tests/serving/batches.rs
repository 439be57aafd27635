//! How the rows of several calls become a run of a real model, as answers show it: fixed row counts.

use crate::harness::{Http, Millpond, data};
use serde_json::{Value, json};

/// A server of this ONNX model alone, with these keys in its section.
fn start(model: &str, keys: &str) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[models.m]\npath = \"{model}\"\n{keys}\n"
    );
    std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
    std::fs::copy(data(model), folder.path().join(model)).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

/// The model adds to each value the rows that run with it.
#[test]
fn a_run_has_one_of_the_sizes_and_an_answer_its_own_rows() {
    let (_folder, server) = start("counted.onnx", "batch_sizes = [1, 4, 8]");
    let mut http = Http::connect(&server.addr);
    for (rows, ran) in [(1, 1), (2, 4), (4, 4), (5, 8), (8, 8)] {
        let values: Vec<i32> = (0..rows).map(|row| 100 * row).collect();
        let x = json!({"shape": [rows, 1], "type": "f32", "data": values});
        let (status, answer) = http.call("infer", &json!({"inputs": {"x": x}}));
        assert_eq!(status, 200, "{answer}");
        let expected: Vec<Value> = values.iter().map(|value| json!(f64::from(value + ran))).collect();
        let y = &answer["outputs"]["y"];
        assert_eq!((&y["shape"], &y["data"]), (&json!([rows, 1]), &json!(expected)));
    }
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_model_padded_rows_total{model=\"m\",version=\"1\"} 5\n"),
        "{metrics}"
    );
}
