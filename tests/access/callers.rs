//! Who may call what: `*status`, `*infos`, `*tune`, the allow list, token groups, private and encrypted methods.

use crate::harness::{Frames, Http, Millpond, R1, r1_folder};
use millpond_wire_frame::Encoding;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const OWN: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[methods.echo]
kind = "echo"
"#;
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"s3cret-admin\"\n";

fn start(text: &str) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    (folder, server)
}

fn with_admin() -> (tempfile::TempDir, Millpond) {
    start(&OWN.replace("[admin]\nlisten = \"127.0.0.1:0\"\n", ADMIN))
}

fn code(answer: &Value) -> u64 {
    answer["code"].as_u64().unwrap_or(0)
}

fn tune(server: &Millpond, key: &str, value: &str) -> (u16, Value) {
    server.call(
        "*tune",
        &json!({"key": key, "value": value, "_token": "s3cret-admin"}),
    )
}

#[test]
fn status_and_infos_have_fpnns_shape() {
    let (_folder, server) = start(OWN);
    assert_eq!(server.call("*status", &json!({})), (200, json!({"status": true})));
    let answer = Frames::connect(&server.addr).call("*status", Encoding::Msgpack, b"\x80");
    assert_eq!(answer, (0, b"\x81\xa6status\xc3".to_vec()));
    for _ in 0..3 {
        server.call("echo", &json!({}));
    }
    server.call("echo", &json!({"_deadline_ms": 0}));
    server.wait_for_metric("millpond_call_seconds_count{method=\"echo\"} 3");
    let (status, infos) = server.call("*infos", &json!({}));
    assert_eq!(status, 200, "{infos}");
    let fpnn = &infos["FPNN.status"]["server"];
    assert_eq!(
        fpnn["stat"]["echo"],
        json!({"quest": 4, "answer": 4, "errorAnswer": 1})
    );
    assert!(fpnn["status"]["currentConnections"].is_u64(), "{fpnn}");
    assert_eq!(infos["APP.status"], json!({}));
    assert_eq!(infos["millpond"]["allocator"], "system");
    let echo = &infos["millpond"]["methods"]["echo"];
    assert_eq!((&echo["answered"], &echo["failed"]), (&json!(3), &json!(1)));
    let us: Vec<f64> = ["us_p50", "us_p90", "us_p99", "us_p999"]
        .iter()
        .map(|quantile| echo[quantile].as_f64().unwrap())
        .collect();
    assert!(us.is_sorted(), "{echo}");
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_calls_total{method=\"echo\"} 3",
        "millpond_call_seconds_count{method=\"echo\"} 3",
        "millpond_call_part_seconds_count{method=\"echo\",part=\"work\"} 0",
        "millpond_errors_total{method=\"echo\",code=\"30102\"} 1",
        "millpond_refused_total{reason=\"deadline\"} 1",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn without_its_token_nothing_is_tuned() {
    let (_folder, server) = start(OWN);
    let call = json!({"key": "server.stat", "value": "false"});
    let mut http = Http::connect(&server.addr);
    let head = format!(
        "POST /service/*tune HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}",
        call.to_string().len()
    );
    http.stream
        .write_all(format!("{head}\r\n\r\n{call}").as_bytes())
        .unwrap();
    let mut text = String::new();
    http.stream.read_to_string(&mut text).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 401")
            && text.contains("\r\nWWW-Authenticate: Bearer realm=\"millpond\"\r\n"),
        "{text}"
    );
    let (status, answer) = server.call("*tune", &call);
    assert_eq!((status, code(&answer)), (401, 30109));
    assert!(
        answer["ex"].as_str().unwrap().contains("admin.token_file"),
        "{answer}"
    );
    let (folder, server) = with_admin();
    let (status, answer) = server.call("*tune", &call);
    assert_eq!((status, code(&answer)), (401, 30109));
    for wrong in ["", "s3cret", "s3cret-admin2"] {
        let call = json!({"key": "server.stat", "value": "false", "_token": wrong});
        assert_eq!(code(&server.call("*tune", &call).1), 30109, "{wrong}");
    }
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_refused_total{reason=\"unauthenticated\"} 4\n"),
        "{metrics}"
    );
    let (status, answer) = tune(&server, "server.quest.log", "true");
    assert_eq!((status, code(&answer)), (400, 30104));
    let ex = answer["ex"].as_str().unwrap();
    assert!(
        ex.contains("server.quest.log") && ex.contains("server.slow.log"),
        "{ex}"
    );
    assert!(!server.call("*infos", &json!({})).1.to_string().contains("s3cret"));
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn the_log_level_and_the_statistics_are_tuned_while_calls_come() {
    let (folder, server) = with_admin();
    server.call("echo", &json!({"before": 1}));
    let (status, answer) = tune(&server, "server.log.level", "DEBUG");
    let expected = json!({"return": true, "key": "server.log.level", "value": "debug"});
    assert_eq!((status, answer), (200, expected));
    server.call("echo", &json!({"while": 1}));
    assert_eq!(tune(&server, "server.log.level", "5").1["value"], "error");
    server.call("echo", &json!({"after": 1}));
    assert_eq!(code(&tune(&server, "server.log.level", "loud").1), 30104);
    assert_eq!(tune(&server, "server.stat", "false").1["value"], "false");
    server.call("echo", &json!({}));
    assert_eq!(tune(&server, "server.stat", "true").1["value"], "true");
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_calls_total{method=\"echo\"} 3\n"),
        "{metrics}"
    );
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let of_echo = log.lines().filter(|line| line.contains("method=\"echo\""));
    assert_eq!(of_echo.count(), 1, "{log}");
}

#[test]
fn slow_calls_are_logged_whatever_the_level() {
    let (folder, server) = with_admin();
    assert_eq!(tune(&server, "server.log.level", "error").1["value"], "error");
    let big = json!({"_trace": "00-abc-01", "text": "x".repeat(4 << 20)});
    assert_eq!(server.call("echo", &big).0, 200);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(metrics.contains("millpond_slow_calls_total 0\n"), "{metrics}");
    assert_eq!(tune(&server, "server.slow.log", "1").1["value"], "1");
    // However fast the machine, one of these takes longer than a millisecond.
    let mut slow = 0;
    while slow == 0 {
        assert_eq!(server.call("echo", &big).0, 200);
        let (_, metrics) = server.admin_get("/metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("millpond_slow_calls_total "));
        slow = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    }
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("slow") && line.contains("echo"))
        .unwrap();
    for part in [
        "WARN",
        "ms=",
        "queue_ms=",
        "work_ms=",
        "trace=\"00-abc-01\"",
        "code=0",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

#[test]
fn addresses_off_the_list_are_refused() {
    let list = format!("{OWN}[access]\nip_allow = [\"10.0.0.0/8\", \"::1\"]\n");
    let (_folder, server) = start(&list);
    for method in ["echo", "*ping", "*status", "nope"] {
        let (status, answer) = server.call(method, &json!({}));
        assert_eq!((status, code(&answer)), (403, 20013), "{method}");
        assert!(!answer.to_string().contains("127.0.0.1"), "{answer}");
    }
    let health = Http::connect(&server.addr).send("GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(health.0, 403);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_refused_total{reason=\"forbidden\"} 3\n"),
        "{metrics}"
    );
    let (_folder, server) = start(&list.replace("10.0.0.0/8", "127.0.0.0/8"));
    assert_eq!(server.call("echo", &json!({})).0, 200);
}

#[test]
fn the_list_is_tuned_and_nobody_locks_himself_out() {
    let (_folder, server) = with_admin();
    let key = |name: &str| format!("server.security.ip.whiteList.{name}");
    assert_eq!(code(&tune(&server, &key("enable"), "true").1), 30104);
    assert_eq!(
        tune(&server, &key("addIP"), "127.0.0.1").1["value"],
        "[127.0.0.1]"
    );
    assert_eq!(tune(&server, &key("enable"), "true").1["value"], "true");
    assert_eq!(server.call("echo", &json!({})).0, 200);
    assert_eq!(code(&tune(&server, &key("removeIP"), "127.0.0.1").1), 30104);
    assert_eq!(
        tune(&server, &key("addIP"), "10.0.0.0/8").1["value"],
        "[127.0.0.1, 10.0.0.0/8]"
    );
    let (_, refused) = tune(&server, &key("removeIP"), "127.0.0.1");
    assert!(
        code(&refused) == 30104 && refused["ex"].as_str().unwrap().contains("\"force\": true"),
        "{refused}"
    );
    assert_eq!(server.call("echo", &json!({})).0, 200);
    let (key, value) = (key("removeIP"), "127.0.0.1");
    let wanted = json!({"key": key, "value": value, "force": true, "_token": "s3cret-admin"});
    assert_eq!(server.call("*tune", &wanted).1["value"], "[10.0.0.0/8]");
    assert_eq!(server.call("echo", &json!({})).0, 403);
}

#[test]
fn a_list_without_its_caller_is_turned_on_by_force_alone() {
    let (_folder, server) = with_admin();
    let key = |name: &str| format!("server.security.ip.whiteList.{name}");
    tune(&server, &key("addIP"), "10.0.0.0/8");
    assert_eq!(code(&tune(&server, &key("enable"), "true").1), 30104);
    assert_eq!(server.call("echo", &json!({})).0, 200);
    let wanted = json!({"key": key("enable"), "value": "true", "force": true, "_token": "s3cret-admin"});
    assert_eq!(server.call("*tune", &wanted).1["value"], "true");
    assert_eq!(server.call("echo", &json!({})).0, 403);
}

#[test]
fn groups_open_their_methods() {
    let groups = "[access.tokens.a]\ntoken = \"s3cret-a\"\nmethods = [\"ech*\", \"ordered.get\"]\n\
                  [access.tokens.b]\ntoken_file = \"b\"\nmethods = [\"echo\"]\n\
                  [access.methods.\"ordered.get\"]\nencrypted_only = true\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b"), "s3cret-b\n").unwrap();
    std::fs::write(folder.path().join("millpond.toml"), format!("{OWN}{groups}")).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let (status, answer) = server.call("echo", &json!({}));
    assert_eq!((status, code(&answer)), (401, 30109));
    assert!(answer["ex"].as_str().unwrap().contains("_token"), "{answer}");
    assert_eq!(server.call("echo", &json!({"_token": "s3cret-c"})).0, 401);
    let (status, answer) = server.call("echo", &json!({"_token": 5}));
    assert_eq!((status, code(&answer)), (400, 30104));
    assert!(
        answer["ex"]
            .as_str()
            .unwrap()
            .contains("\"_token\" is an integer"),
        "{answer}"
    );
    for token in ["s3cret-a", "s3cret-b"] {
        assert_eq!(server.call("echo", &json!({"_token": token})).0, 200, "{token}");
    }
    let mut frames = Frames::connect(&server.addr);
    assert_eq!(frames.call("echo", Encoding::Msgpack, b"\x80").0, 1);
    let call = b"\x81\xa6_token\xa8s3cret-a";
    assert_eq!(frames.call("echo", Encoding::Msgpack, call).0, 0);
    // Without a rule a token is taken and opens nothing; with one for encryption it does not help.
    assert_eq!(server.call("*ping", &json!({"_token": "whatever"})).0, 200);
    let (status, answer) = server.call("ordered.get", &json!({"keys": [], "_token": "s3cret-a"}));
    assert_eq!((status, code(&answer)), (403, 20013));
    assert!(answer["ex"].as_str().unwrap().contains("encrypted"), "{answer}");
}

#[test]
fn a_unix_socket_may_call_what_asks_for_encryption() {
    let rules = "[access.methods.echo]\nencrypted_only = true\n";
    let also = "threads = 2\nlisten_also = [\"unix:millpond.sock\"]";
    let (folder, server) = start(&format!("{}{rules}", OWN.replace("threads = 2", also)));
    let (status, answer) = server.call("echo", &json!({"a": 1}));
    assert_eq!((status, code(&answer)), (403, 20013));
    assert!(
        answer["ex"].as_str().unwrap().contains("Unix sockets"),
        "{answer}"
    );
    let mut socket = UnixStream::connect(folder.path().join("millpond.sock")).unwrap();
    let call = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
    socket.write_all(call.as_bytes()).unwrap();
    let mut said = String::new();
    socket.read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 200") && said.ends_with("{\"a\":1}"),
        "{said}"
    );
}

#[test]
fn a_closed_model_is_rehearsed_and_opened() {
    let folder = r1_folder();
    let closed = format!("{R1}\n[access.tokens.all]\ntoken = \"s3cret\"\nmethods = [\"*\"]\n");
    std::fs::write(folder.path().join("millpond.toml"), closed).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let samples = json!([["v1", "v2"]]);
    assert_eq!(server.call("infer", &json!({"samples": samples})).0, 401);
    let (status, answer) = server.call("infer", &json!({"samples": samples, "_token": "s3cret"}));
    assert_eq!(status, 200, "{answer}");
    // The server's own methods are not meant by a bare "*".
    assert_eq!(server.call("*ping", &json!({})).0, 200);
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_calls_total{method=\"infer\"} 1",
        "millpond_stage_seconds_count{stage=\"compute\"} 1",
        "millpond_refused_total{reason=\"unauthenticated\"} 1",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn what_changes_something_is_called_by_post_alone() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["admin.token=s3cret-admin"]);
    let mut http = Http::connect(&server.addr);
    let get = |method: &str, payload: &Value| {
        let text = payload.to_string();
        let query: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("GET /service/{method}?fpnn={query} HTTP/1.1\r\nHost: localhost\r\n")
    };
    let put = json!({"entries": [["k", "v"]]});
    let tune = json!({"key": "server.stat", "value": "false", "_token": "s3cret-admin"});
    for (method, payload) in [("ordered.put", &put), ("*tune", &tune)] {
        let request = get(method, payload);
        let (status, answer) = http.send(&format!("{request}\r\n"));
        assert_eq!(status, 405, "{answer}");
        assert!(
            answer.contains("30107") && answer.contains("POST /service/METHOD"),
            "{answer}"
        );
        let mut last = Http::connect(&server.addr);
        last.stream
            .write_all(format!("{request}Connection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        last.stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("\r\nAllow: POST\r\n"), "{text}");
    }
    let (status, answer) = http.send(&format!("{}\r\n", get("ordered.get", &json!({"keys": ["k"]}))));
    assert_eq!(status, 200, "{answer}");
    let found: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(found["versions"], json!([0]), "nothing was put");
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_errors_total{method=\"ordered.put\",code=\"30107\"} 2",
        "millpond_errors_total{method=\"*tune\",code=\"30107\"} 2",
        "millpond_calls_total{method=\"ordered.get\"} 1",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
    assert_eq!(http.call("ordered.put", &put).0, 200);
    assert_eq!(http.call("*tune", &tune).0, 200);
}
