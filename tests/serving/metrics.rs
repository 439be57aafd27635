//! What is counted of pipelines and models agrees with what was called: by `/metrics`, `*infos` and the slow log.

use crate::harness::{Http, Millpond};
use serde_json::{Value, json};

/// Two stages, of which the second waits for a model that takes 3 ms.
const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
slow_ms = 1
[models.sum]
backend = "practice"
behaviour = "wait"
us = 3000
width = 2
inline_us_max = 0
[pipelines.pages]
request = "values"
inputs = { x = { type = "f32", shape = [-1, 2] }, kind = "texts" }
[pipelines.pages.stages.joined]
assemble = { columns = ["inputs.x"] }
[pipelines.pages.stages.sum]
model = { model = "sum", input = "joined" }
filter = { skip = "inputs.kind.value == 'cheap'" }
"#;

/// The figure of a line of a page.
fn figure(page: &str, line: &str) -> f64 {
    let value = page
        .lines()
        .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("{line} is not in\n{page}"));
    value.parse().unwrap()
}

fn run(http: &mut Http, kind: &str) -> (u16, Value) {
    let x = json!({"shape": [2, 2], "type": "f32", "data": [1, 2, 3, 4]});
    http.call(
        "run",
        &json!({"pipeline": "pages", "inputs": {"x": x, "kind": kind}}),
    )
}

#[test]
fn stages_of_a_pipeline_are_timed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    for kind in ["dear", "dear", "cheap", "dear", "cheap"] {
        let (status, answer) = run(&mut http, kind);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["outputs"]["sum"].is_object(), kind == "dear", "{answer}");
    }
    // The sum of these is no number, which fails the run.
    let x = json!({"shape": [1, 2], "type": "f32", "data": [3e38, 3e38]});
    let infinite = json!({"pipeline": "pages", "inputs": {"x": x, "kind": "dear"}});
    let (status, answer) = http.call("run", &infinite);
    assert_eq!((status, &answer["code"]), (500, &json!(30108)), "{answer}");

    let (_, page) = server.admin_get("/metrics");
    let of = |name: &str, stage: &str, labels: &str| {
        figure(
            &page,
            &format!("millpond_pipeline_stage_{name}{{pipeline=\"pages\",stage=\"{stage}\"{labels}}}"),
        )
    };
    let (work, wait) = (",part=\"work\"", ",part=\"wait\"");
    assert_eq!(of("seconds_count", "joined", work), 6.0);
    assert_eq!(
        (
            of("failed_total", "joined", ""),
            of("skipped_total", "joined", "")
        ),
        (0.0, 0.0)
    );
    assert_eq!(
        (of("seconds_count", "sum", work), of("seconds_count", "sum", wait)),
        (3.0, 3.0)
    );
    assert_eq!(
        (of("failed_total", "sum", ""), of("skipped_total", "sum", "")),
        (1.0, 2.0)
    );
    assert!(of("seconds_sum", "sum", work) >= 3.0 * 0.003, "{page}");
    assert!(!page.contains("stage=\"joined\",part=\"wait\""), "{page}");

    let (_, infos) = server.call("*infos", &json!({}));
    let stage = &infos["millpond"]["pipelines"]["pages"]["stages"]["sum"];
    let counts = ["answered", "failed", "skipped"].map(|name| stage[name].as_u64());
    assert_eq!(counts, [Some(3), Some(1), Some(2)], "{infos}");
    assert!(stage["work_us_mean"].as_f64() >= Some(3000.0), "{infos}");

    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let slow: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("stages_ms=\"joined "))
        .collect();
    assert_eq!(
        slow.iter().filter(|line| line.contains(", sum ")).count(),
        3,
        "{log}"
    );
}
