//! Methods of kind "duplex": the server calls its caller, asks or tells it, and answers; over frames, not over HTTP.

use crate::harness::{Http, Millpond};
use millpond_client_rust::{Client, Code, Options, Push, PushHandler, Status};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const OWN: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
[admin]
listen = "127.0.0.1:0"
[methods."duplex demo"]
kind = "duplex"
push = "duplex quest"
timeout_ms = 60000
[methods.impatient]
kind = "duplex"
push = "slow"
payload = { n = 1 }
timeout_ms = 1
[methods.echo]
kind = "echo"
[methods.early]
kind = "duplex"
push = "afterwards"
early = true
oneway = true
answer = { Simple = "one", Simple2 = 2 }
[ordered.events]
durability = "memory"
"#;

fn start(set: &[&str]) -> (tempfile::TempDir, Millpond) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), OWN).unwrap();
    let server = Millpond::start(folder.path(), set);
    (folder, server)
}

/// A connection on which both sides call.
struct Both {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Both {
    fn connect(server: &Millpond) -> Both {
        let stream = Http::connect(&server.addr).stream;
        Both {
            stream,
            bytes: Vec::new(),
        }
    }

    fn send(&mut self, kind: FrameKind<'_>, payload: &Value) {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Encoding::Json, kind, payload.to_string().as_bytes()).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn call(&mut self, method: &str, seq: u32, payload: &Value) {
        self.send(FrameKind::Twoway { method, seq }, payload);
    }

    fn answer(&mut self, status: u8, seq: u32, payload: &Value) {
        self.send(FrameKind::Answer { status, seq }, payload);
    }

    /// The next frame: "answer STATUS SEQ", "ask METHOD SEQ" or "tell METHOD"; and its map.
    fn came(&mut self) -> (String, Value) {
        loop {
            if let Ok(Parsed::Whole { message, len }) = parse_frame(&self.bytes, Limits::default()) {
                let what = match message.kind {
                    FrameKind::Oneway { method } => format!("tell {method}"),
                    FrameKind::Twoway { method, seq } => format!("ask {method} {seq}"),
                    FrameKind::Answer { status, seq } => format!("answer {status} {seq}"),
                };
                let came = (what, serde_json::from_slice(message.payload).unwrap());
                self.bytes.drain(..len);
                return came;
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).unwrap();
            assert!(read > 0, "the connection closed");
            self.bytes.extend_from_slice(&chunk[..read]);
        }
    }

    /// The code of the error that must come for that call.
    fn refused(&mut self, seq: u32) -> u64 {
        let (what, answer) = self.came();
        assert_eq!(what, format!("answer 1 {seq}"), "{answer}");
        answer["code"].as_u64().unwrap()
    }
}

#[test]
fn a_call_is_answered_what_its_caller_answers() {
    let (_folder, server) = start(&["server.in_flight_per_connection_max=2"]);
    let mut both = Both::connect(&server);
    for seq in 11..15 {
        both.call("duplex demo", seq, &json!({"n": seq}));
    }
    let (mut asked, mut answered) = (0, 0);
    while answered < 4 {
        let (what, payload) = both.came();
        if what == format!("ask duplex quest {}", asked + 1) {
            asked += 1;
            assert_eq!(payload["n"], json!(asked + 10));
            assert!(asked - answered <= 2, "more are in flight than may be");
            both.answer(0, asked, &json!({"Simple": "one", "duplex": asked}));
        } else {
            answered += 1;
            let expected = json!({"Simple": "one", "duplex": answered});
            assert_eq!((what, payload), (format!("answer 0 {}", answered + 10), expected));
        }
    }
    // The caller's error is its call's, with its words.
    both.call("duplex demo", 20, &json!({}));
    both.came();
    both.answer(1, 5, &json!({"code": 20004, "ex": "no such method here"}));
    let (what, answer) = both.came();
    assert_eq!((what.as_str(), &answer["code"]), ("answer 1 20", &json!(20004)));
    assert!(
        answer["ex"].as_str().unwrap().contains("no such method here"),
        "{answer}"
    );
    // What is no map is told so.
    both.call("duplex demo", 21, &json!({}));
    both.came();
    both.answer(0, 6, &json!([1]));
    assert_eq!(both.refused(21), 10006);
    // A call to say that the server is still there, and what it counted.
    both.call("*ping", 22, &json!({}));
    assert_eq!(both.came().0, "answer 0 22");
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_calls_total{method=\"duplex demo\"} 4",
        "millpond_call_part_seconds_count{method=\"duplex demo\",part=\"write\"} 4",
        "millpond_errors_total{method=\"duplex demo\",code=\"20004\"} 1",
        "millpond_pushes_total 6",
        "millpond_push_answers_total 6",
        "millpond_in_flight 0",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn a_caller_that_is_late_gets_the_protocols_timeout() {
    let (_folder, server) = start(&[]);
    let mut both = Both::connect(&server);
    both.call("impatient", 1, &json!({}));
    assert_eq!(both.came(), ("ask slow 1".into(), json!({"n": 1})));
    assert_eq!(both.refused(1), 20003);
    both.answer(0, 1, &json!({"late": true}));
    // The call's own deadline is as good a limit.
    both.call("duplex demo", 2, &json!({"_deadline_ms": 300}));
    assert_eq!(both.came().0, "ask duplex quest 2");
    assert_eq!(both.refused(2), 20003);
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_push_timeouts_total 2",
        "millpond_push_answers_late_total 1",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn an_early_answer_comes_first_and_its_caller_is_told_afterwards() {
    let (_folder, server) = start(&[]);
    let mut both = Both::connect(&server);
    both.call("early", 1, &json!({"topic": "t"}));
    let expected = json!({"Simple": "one", "Simple2": 2});
    assert_eq!(both.came(), ("answer 0 1".into(), expected));
    assert_eq!(both.came(), ("tell afterwards".into(), json!({"topic": "t"})));
    // Who asks for no answer is told all the same.
    both.send(FrameKind::Oneway { method: "early" }, &json!({"topic": "u"}));
    assert_eq!(both.came(), ("tell afterwards".into(), json!({"topic": "u"})));
}

#[test]
fn a_stop_waits_for_the_callers_answer() {
    let (_folder, mut server) = start(&[]);
    let mut both = Both::connect(&server);
    both.call("duplex demo", 1, &json!({}));
    assert_eq!(both.came().0, "ask duplex quest 1");
    server.signal("TERM");
    // The door is closed when this is refused; the call in flight is finished all the same.
    loop {
        both.call("early", 2, &json!({}));
        let (what, _) = both.came();
        if what == "answer 1 2" {
            break;
        }
        assert_eq!(both.came().0, "tell afterwards");
    }
    both.answer(0, 1, &json!({"done": 1}));
    assert_eq!(both.came(), ("answer 0 1".into(), json!({"done": 1})));
    assert!(server.child.wait().unwrap().success());
}

/// Nobody works on a call that waits for its caller: others are worked on, and a stop waits for all.
#[test]
fn callers_that_do_not_answer_leave_the_others_their_places() {
    let (_folder, mut server) = start(&["server.in_flight_max=1"]);
    let mut both = Both::connect(&server);
    for seq in 1..=5 {
        both.call("duplex demo", seq, &json!({"_deadline_ms": 60_000}));
        assert_eq!(both.came().0, format!("ask duplex quest {seq}"));
    }
    let entries = json!({"entries": [["key", "value"]]});
    let (status, answer) = server.call("ordered.put", &entries);
    assert_eq!(status, 200, "{answer}");
    let (_, metrics) = server.admin_get("/metrics");
    for line in ["millpond_in_flight 0", "millpond_awaiting_callers 5"] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
    let (_, infos) = server.call("*infos", &json!({}));
    assert_eq!(infos["millpond"]["awaiting_callers"], json!(5), "{infos}");
    server.signal("TERM");
    for seq in 1..=5 {
        both.answer(0, seq, &json!({"n": seq}));
        assert_eq!(both.came(), (format!("answer 0 {seq}"), json!({"n": seq})));
    }
    assert!(server.child.wait().unwrap().success());
}

/// What a connection is refused for its own bounds is in the statistics, by method and by reason.
#[test]
fn calls_beyond_what_is_held_back_are_counted() {
    const CALLS: u32 = 100;
    let (_folder, server) = start(&["server.in_flight_per_connection_max=1"]);
    let mut both = Both::connect(&server);
    both.call("duplex demo", 0, &json!({"_deadline_ms": 60_000}));
    assert_eq!(both.came().0, "ask duplex quest 1");
    let pad = json!({"pad": "x".repeat(2000)});
    for seq in 1..=CALLS {
        both.call("echo", seq, &pad);
    }
    for seq in CALLS + 1..=CALLS + 3 {
        both.call("nothing", seq, &pad);
    }
    both.answer(0, 1, &json!({}));
    let (mut served, mut refused) = (0, 0);
    for _ in 0..=CALLS + 3 {
        let (what, answer) = both.came();
        if what.starts_with("answer 0") {
            served += 1;
            continue;
        }
        assert_eq!(answer["code"], json!(30101), "{what}: {answer}");
        refused += 1;
    }
    assert!(served > 1 && refused > 3, "{served} served, {refused} refused");
    let (_, metrics) = server.admin_get("/metrics");
    let of_echo = refused - 3;
    for line in [
        format!("millpond_calls_refused_duplex_total {refused}"),
        format!("millpond_errors_total{{method=\"echo\",code=\"30101\"}} {of_echo}"),
        format!("millpond_refused_total{{reason=\"overloaded\"}} {of_echo}"),
        "millpond_refused_total{reason=\"unknown_method\"} 3".to_owned(),
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

#[test]
fn over_http_nobody_can_be_called() {
    let (_folder, server) = start(&[]);
    for method in ["duplex%20demo", "early"] {
        let (status, answer) = server.call(method, &json!({}));
        assert_eq!((status, &answer["code"]), (400, &json!(20012)), "{answer}");
        assert!(answer["ex"].as_str().unwrap().contains("WebSocket"), "{answer}");
    }
}

/// What the client does when it is called.
fn serve(push: Push) -> Result<Vec<u8>, Status> {
    let asked: Value = serde_json::from_slice(&push.payload).unwrap();
    match (push.method.as_str(), asked["n"].as_u64()) {
        ("duplex quest", Some(n)) => Ok(json!({ "twice": 2 * n }).to_string().into_bytes()),
        _ => Err(Status::new(Code::UnknownMethod, "no such method here")),
    }
}

#[test]
fn the_rust_client_answers_what_the_server_asks() {
    let (_folder, server) = start(&[]);
    let options = Options {
        push_handler: Some(PushHandler::sync(serve)),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::connect(&server.addr, options).await.unwrap();
        let ask = async |payload: Value| {
            let payload = payload.to_string().into_bytes();
            client
                .call_raw("duplex demo", Encoding::Json, &payload, None)
                .await
        };
        let answer = ask(json!({"n": 21})).await.unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&answer).unwrap(),
            json!({"twice": 42})
        );
        let refused = ask(json!({})).await.unwrap_err().to_string();
        assert!(refused.contains("no such method here"), "{refused}");
    });
}
