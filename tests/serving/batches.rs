//! How the rows of several calls become a run of a real model, as answers show it: fixed row counts, and rows of several
//! lengths.

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

/// The model doubles ids, in their length, and sums them up. Calls of several lengths share runs, and each gets its own back.
#[test]
fn rows_of_several_lengths_share_runs() {
    let (_folder, server) = start(
        "lengths.onnx",
        "ragged = \"pad\"\npad_lengths = [4, 8]\nbatch_size_max = 16",
    );
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let addr = &server.addr;
            scope.spawn(move || {
                let mut http = Http::connect(addr);
                for number in 0..50 {
                    let (rows, length) = (1 + number % 2, 1 + (thread * 3 + number) % 10);
                    let ids: Vec<usize> = (0..rows * length).map(|at| at + thread).collect();
                    let tensor = json!({"shape": [rows, length], "type": "i64", "data": ids});
                    let (status, answer) = http.call("infer", &json!({"inputs": {"ids": tensor}}));
                    assert_eq!(status, 200, "{answer}");
                    let doubled: Vec<f64> = ids.iter().map(|id| 2.0 * *id as f64).collect();
                    let sums = ids.chunks(length).map(|row| row.iter().sum::<usize>() as f64);
                    let outputs = &answer["outputs"];
                    assert_eq!(outputs["doubled"]["shape"], json!([rows, length]));
                    assert_eq!(outputs["doubled"]["data"], json!(doubled));
                    assert_eq!(outputs["sum"]["data"], json!(sums.collect::<Vec<f64>>()));
                }
            });
        }
    });
}
