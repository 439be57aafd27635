//! What is counted of pipelines and models agrees with what was called: by `/metrics`, `*infos` and the slow log.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The folder of a server with [`CONFIG`].
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), CONFIG).unwrap();
    folder
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
    let folder = folder();
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

/// The report of a load says of the figures what the models ran on.
#[test]
fn a_model_of_onnx_runtime_says_what_runs_it() {
    let (practice, onnx) = (folder(), r1_folder());
    let provider = |folder: &tempfile::TempDir, model: &str| {
        let server = Millpond::start(folder.path(), &[]);
        let (_, infos) = server.call("*infos", &json!({}));
        infos["millpond"]["models"][model]["provider"].clone()
    };
    assert_eq!(provider(&onnx, "mlp"), json!("cpu"));
    assert_eq!(provider(&practice, "sum"), Value::Null);
}

#[test]
fn what_a_model_counts_adds_up_to_what_was_sent() {
    let folder = folder();
    // One runs, two wait, and the rest is refused.
    let server = Millpond::start(folder.path(), &["models.sum.queue_max=2", "models.sum.version=7"]);
    let call = |http: &mut Http, rows: usize, value: f32| {
        let x = json!({"shape": [rows, 2], "type": "f32", "data": vec![value; rows * 2]});
        http.call("infer", &json!({"model": "sum", "inputs": {"x": x}})).0
    };
    let (sent, answered, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let rows = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for caller in 1..=6 {
            let (server, sent, answered, refused, rows) = (&server, &sent, &answered, &refused, &rows);
            scope.spawn(move || {
                let mut http = Http::connect(&server.addr);
                for _ in 0..20 {
                    sent.fetch_add(1, Ordering::Relaxed);
                    let count = match call(&mut http, caller, 1.0) {
                        200 => answered,
                        429 => refused,
                        status => panic!("{status}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    let is_answered = std::ptr::eq(count, answered);
                    rows.fetch_add(if is_answered { caller as u64 } else { 0 }, Ordering::Relaxed);
                }
            });
        }
    });
    let mut http = Http::connect(&server.addr);
    assert_eq!(call(&mut http, 1, 3e38), 500);

    // The end of a run is counted behind its answers.
    server.wait_for_metric("millpond_model_busy{model=\"sum\",version=\"7\"} 0");
    let (_, page) = server.admin_get("/metrics");
    let of = "model=\"sum\",version=\"7\"";
    let count = |name: &str| figure(&page, &format!("millpond_model_{name}{{{of}}}")) as u64;
    let failed = |cause: &str| {
        figure(
            &page,
            &format!("millpond_model_failed_total{{{of},cause=\"{cause}\"}}"),
        ) as u64
    };
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(get(&sent), get(&answered) + get(&refused));
    assert_eq!(count("requests_total"), get(&answered));
    let causes: Vec<&str> = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix(&format!("millpond_model_failed_total{{{of},cause=\""))?
                .split('"')
                .next()
        })
        .collect();
    let all: u64 = causes.iter().map(|cause| failed(cause)).sum();
    assert_eq!((all, failed("not_finite")), (get(&refused) + 1, 1), "{page}");
    let overload = ["queue_full", "evicted", "too_late", "standing"].map(failed);
    assert_eq!(overload.iter().sum::<u64>(), get(&refused), "{page}");
    // The run of the sum that is no number has a row too.
    assert_eq!(count("batch_rows_sum"), get(&rows) + 1);
    assert_eq!(count("compute_seconds_count"), count("batch_rows_count"));
    assert_eq!(count("wait_seconds_count"), get(&answered) + 1);
    // Behind every run, and before those for several requests.
    assert_eq!(count("post_seconds_count"), count("batch_rows_count"));
    assert!(count("pre_seconds_count") <= count("batch_rows_count"));
    let compute = figure(&page, &format!("millpond_model_compute_seconds_sum{{{of}}}"));
    assert!(compute >= 0.003 * count("batch_rows_count") as f64, "{page}");
}
