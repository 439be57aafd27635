//! Report R1's levels: 2 writes a line a request with its scores, 3 none.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::json;

fn request_lines(level: &str, format: &str) -> Vec<String> {
    let folder = r1_folder();
    let server = Millpond::start(
        folder.path(),
        &[&format!("log.level={level}"), &format!("log.format={format}")],
    );
    let mut http = Http::connect(&server.addr);
    for _ in 0..50 {
        assert_eq!(http.call("infer", &json!({"samples": [["v1", "v2"]]})).0, 200);
    }
    drop(http);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_log_lines_dropped_total 0"),
        "{metrics}"
    );
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    log.lines()
        .filter(|line| line.contains("answered"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn level_2_writes_a_line_a_request() {
    let lines = request_lines("2", "text");
    assert_eq!(lines.len(), 50);
    assert!(
        lines
            .iter()
            .all(|line| line.contains("method=\"infer\"") && line.contains("scores=[")),
        "{}",
        lines[0]
    );
    let lines = request_lines("debug", "json");
    assert_eq!(lines.len(), 50);
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (line["method"].as_str(), line["level"].as_str()),
            (Some("infer"), Some("DEBUG"))
        );
    }
}

#[test]
fn level_3_and_5_write_none() {
    assert_eq!(request_lines("3", "text").len(), 0);
    assert_eq!(request_lines("5", "text").len(), 0);
}
