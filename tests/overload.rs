//! Limits: connections, calls in flight, deadlines. Refusals are told at once, and others are undisturbed.

use crate::harness::{Http, Millpond, r1_folder};
use serde_json::json;

#[test]
fn connections_over_the_limit_are_told_so() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["server.connections_max=2"]);
    let payload = json!({"samples": [["v1", "v2"]]});
    let mut admitted: Vec<Http> = (0..2).map(|_| Http::connect(&server.addr)).collect();
    for http in &mut admitted {
        assert_eq!(http.call("infer", &payload).0, 200);
    }
    for _ in 0..5 {
        let mut refused = Http::connect(&server.addr);
        let (status, answer) = refused.call("infer", &payload);
        assert_eq!(
            (status, answer["code"].as_u64(), answer["retryable"].as_bool()),
            (429, Some(30101), Some(true))
        );
        assert!(
            answer["ex"].as_str().unwrap().contains("server.connections_max"),
            "{answer}"
        );
        assert!(refused.answer().is_none(), "a refused connection closes");
    }
    for http in &mut admitted {
        assert_eq!(http.call("infer", &payload).0, 200);
    }
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_connections_refused_total 5"),
        "{metrics}"
    );
}

#[test]
fn a_deadline_that_has_passed_is_said_before_any_work() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let (status, answer) = server.call("infer", &json!({"samples": [["v1", "v2"]], "_deadline_ms": 0}));
    assert_eq!((status, answer["code"].as_u64()), (504, Some(30102)), "{answer}");
    let body = json!({"samples": [["v1", "v2"]]}).to_string();
    let head = format!(
        "POST /service/infer HTTP/1.1\r\nX-Deadline-Ms: 0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(Http::connect(&server.addr).send(&head).0, 504);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_model_batches_total{model=\"mlp\"} 0"),
        "no model ran"
    );
}

#[test]
fn a_full_queue_refuses_and_every_call_is_answered() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["models.mlp.queue_max=0", "server.threads=1"]);
    let payload = json!({"samples": vec![["v1", "v2"]; 3000]});
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| server.call("infer", &payload).0))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(
        statuses.iter().all(|status| *status == 200 || *status == 429),
        "{statuses:?}"
    );
    assert!(statuses.contains(&200), "{statuses:?}");
}
