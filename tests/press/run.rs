//! `millpond press run` and `millpond call` against a running server.

use crate::harness::{Millpond, r1_folder};

const SCENARIO: &str = r#"
[scenario]
name = "black-box"
title = "R1's request, a short run"
seed = 1
[target]
protocol = "PROTOCOL"
address = "ADDRESS"
method = "infer"
server_pid_from = "infos"
[requests]
distinct_min = 200
[requests.generate]
requests = 200
samples = 15
features = [{ prefix = "v", ids = 100 }, { prefix = "v", ids = 100 }]
[check]
field = "scores"
length_of = "samples"
[load]
connections = [4]
requests_per_connection = 50
"#;

fn millpond(arguments: &[&str]) -> std::process::Output {
    crate::harness::millpond().args(arguments).output().unwrap()
}

#[test]
fn one_call_prints_its_answer() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let done = millpond(&[
        "call",
        "infer",
        "{\"samples\": [[\"v1\", \"v2\"]]}",
        "--addr",
        &server.addr,
    ]);
    let answer: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(answer["scores"].as_array().unwrap().len(), 1);
    let refused = millpond(&["call", "nope", "{}", "--addr", &server.addr]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && said.contains("20004"),
        "{said}"
    );
    let absent = millpond(&["call", "*ping", "--addr", "127.0.0.1:1"]);
    let said = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(
        absent.status.code() == Some(1) && said.contains("127.0.0.1:1"),
        "{said}"
    );
}

#[test]
fn a_run_leaves_a_result_with_checked_answers() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    for protocol in ["http", "binary"] {
        let scenario = folder.path().join(format!("{protocol}.toml"));
        std::fs::write(
            &scenario,
            SCENARIO
                .replace("PROTOCOL", protocol)
                .replace("ADDRESS", &server.addr),
        )
        .unwrap();
        let out = folder.path().join(protocol);
        let done = millpond(&[
            "press",
            "run",
            scenario.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--quiet",
        ]);
        assert!(done.status.success(), "{done:?}");
        let result: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.join("result.json")).unwrap()).unwrap();
        let point = &result["points"][0];
        assert_eq!(point["counters"]["ok"], 200, "{protocol}: {point}");
        let report = std::fs::read_to_string(out.join("report.md")).unwrap();
        assert!(String::from_utf8_lossy(&done.stdout).contains(report.lines().next().unwrap()));
    }
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_calls_total{method=\"infer\"} 400"),
        "{metrics}"
    );
    let unknown = millpond(&["press", "run", "no-such.toml"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}
