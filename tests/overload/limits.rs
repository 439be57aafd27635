//! Limits: connections, calls in flight, queues, deadlines. Refusals are told at once, and others are undisturbed.

use crate::harness::{Http, Millpond, r1_folder};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::decode_map;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

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
fn silent_connections_do_not_keep_a_monitor_out() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let mut silent: Vec<Http> = (0..100).map(|_| Http::connect(&server.admin)).collect();
    for _ in 0..3 {
        assert_eq!(server.admin_get("/readyz"), (200, "ready\n".to_owned()));
    }
    assert!(silent[0].answer().is_none(), "the first gave way");
    assert_eq!(
        silent[99]
            .send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0,
        200
    );
}

#[test]
fn requests_that_do_not_end_hold_no_more_than_may_and_keep_no_small_one_out() {
    let folder = r1_folder();
    let set = [
        "server.frame_bytes_max=1000000",
        "server.unfinished_bytes_max=2000000",
    ];
    let server = Millpond::start(folder.path(), &set);
    let begin = || {
        let mut http = Http::connect(&server.addr);
        let head = "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900002\r\n\r\n";
        http.stream.write_all(head.as_bytes()).unwrap();
        http.stream.write_all(&vec![b' '; 900_000]).unwrap();
        http
    };
    let mut held = Vec::new();
    for bytes in [800_000, 1_600_000] {
        held.push(begin());
        server.wait_for("millpond_unfinished_bytes", |found| found >= bytes);
    }
    for refused in 1..=3 {
        let (status, answer) = begin().answer().unwrap();
        assert_eq!(status, 429, "{answer}");
        assert!(
            answer.contains("30101") && answer.contains("raise server.unfinished_bytes_max"),
            "{answer}"
        );
        server.wait_for_metric(&format!(
            "millpond_refused_total{{reason=\"unfinished\"}} {refused}"
        ));
    }
    let payload = json!({"samples": [["v1", "v2"]]});
    assert_eq!(server.call("infer", &payload).0, 200, "a small one is served");
    let (status, answer) = held[0].send("{}");
    assert_eq!(status, 400, "it is whole, and misses its keys: {answer}");
    drop(held);
    server.wait_for_metric("millpond_unfinished_bytes 0");
}

#[test]
fn a_deadline_that_has_passed_is_said_before_any_work() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    let (status, answer) = server.call("infer", &json!({"samples": [["v1", "v2"]], "_deadline_ms": 0}));
    assert_eq!((status, answer["code"].as_u64()), (504, Some(30102)), "{answer}");
    let body = json!({"samples": [["v1", "v2"]]}).to_string();
    let head = format!(
        "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nX-Deadline-Ms: 0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(Http::connect(&server.addr).send(&head).0, 504);
    let (_, metrics) = server.admin_get("/metrics");
    assert!(
        metrics.contains("millpond_model_batch_rows_count{model=\"mlp\",version=\"1\"} 0"),
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

/// Eight instances whose runs wait four milliseconds, one row a run: a busy machine brings calls faster than that, too.
const PRACTICE: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 2
in_flight_per_connection_max = 8000
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[models.stand_in]
backend = "practice"
behaviour = "wait"
us = 4000
instances = 8
batch_size_max = 1
queue_max = 8000
"#;

/// Takes answers until `calls` of them have come, each once: its number, its status and its payload.
fn take_answers(stream: &mut TcpStream, calls: usize, mut take: impl FnMut(u32, u8, &[u8])) {
    let mut answered = vec![false; calls];
    let (mut input, mut chunk) = (Vec::new(), [0; 1 << 16]);
    while !answered.iter().all(|answered| *answered) {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "the connection closed");
        input.extend_from_slice(&chunk[..read]);
        let mut used = 0;
        while let Ok(Parsed::Whole { message, len }) = parse_frame(&input[used..], Limits::default()) {
            let FrameKind::Answer { status, seq } = message.kind else {
                panic!("no answer: {message:?}");
            };
            assert!(
                !std::mem::replace(&mut answered[seq as usize], true),
                "{seq} twice"
            );
            take(seq, status, message.payload);
            used += len;
        }
        input.drain(..used);
    }
}

/// `calls` calls of one row in one write, each with a deadline, and how often each code answered them; 0 is an answer.
fn pipelined(server: &Millpond, calls: u32, deadline_ms: u64) -> BTreeMap<u64, u32> {
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    for seq in 0..calls {
        let x = json!({"shape": [1, 1], "type": "f32", "data": [seq]});
        let payload = json!({"inputs": {"x": x}, "_deadline_ms": deadline_ms}).to_string();
        let kind = FrameKind::Twoway { method: "infer", seq };
        write_frame(&mut bytes, Encoding::Json, kind, payload.as_bytes()).unwrap();
    }
    let mut writer = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&bytes).unwrap());
        let mut found = BTreeMap::new();
        take_answers(&mut stream, calls as usize, |seq, status, payload| {
            let answer: Value = serde_json::from_slice(payload).unwrap();
            *found.entry(code_of(seq, status, &answer)).or_default() += 1;
        });
        found
    })
}

/// The error's code, after a look at what is said; 0 for the right answer.
fn code_of(seq: u32, status: u8, answer: &Value) -> u64 {
    if status == 0 {
        assert_eq!(answer["outputs"]["y"]["data"][0].as_f64(), Some(f64::from(seq)));
        return 0;
    }
    let (code, ex) = (answer["code"].as_u64().unwrap(), answer["ex"].as_str().unwrap());
    if code == 30101 && !ex.contains("gave way") {
        for words in ["predicted wait is", "the deadline is in", "add instances"] {
            assert!(ex.contains(words), "{ex:?} does not contain {words:?}");
        }
    }
    code
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_when_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), PRACTICE).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    // It learns what a run takes.
    assert_eq!(pipelined(&server, 20, 60_000), [(0, 20)].into());
    let (crowd, quiet) = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| pipelined(&server, 6000, 300));
        let mut http = Http::connect(&server.addr);
        let x = json!({"inputs": {"x": {"shape": [2, 1], "type": "f32", "data": [1, 2]}}});
        let quiet: Vec<u16> = (0..20).map(|_| http.call("infer", &x).0).collect();
        (crowd.join().unwrap(), quiet)
    });
    let of = |code| crowd.get(&code).copied().unwrap_or(0);
    let (answered, refused, expired) = (of(0), of(30101), of(30102));
    assert_eq!(answered + refused + expired, 6000, "{crowd:?}");
    assert!(answered > expired && refused > 0, "{crowd:?}");
    assert_eq!(
        quiet, [200; 20],
        "one that asks for little is served beside the crowd"
    );
    let (_, metrics) = server.admin_get("/metrics");
    let counted = |name: &str| {
        let line = format!("millpond_model_{name}}} ");
        let count = metrics.lines().find_map(|found| found.strip_prefix(&line));
        count
            .unwrap_or_else(|| panic!("no {line}"))
            .parse::<u32>()
            .unwrap()
    };
    let of = "model=\"stand_in\",version=\"1\"";
    let failed = |cause: &str| counted(&format!("failed_total{{{of},cause=\"{cause}\""));
    let too_late = failed("too_late") + failed("standing");
    assert_eq!(too_late + failed("queue_full") + failed("evicted"), refused);
    let requests = counted(&format!("requests_total{{{of}"));
    assert!(too_late > 0 && requests == 20 + answered + 20);
    for (reason, count) in [
        ("too_late", too_late),
        ("overloaded", refused - too_late),
        ("deadline", expired),
    ] {
        let line = format!("millpond_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
    // What the models' stages say of the writing, the method says too.
    let answered = 20 + answered + 20;
    server.wait_for_metric(&format!(
        "millpond_call_part_seconds_count{{method=\"infer\",part=\"write\"}} {answered}"
    ));
    server.wait_for_metric(&format!(
        "millpond_stage_seconds_count{{stage=\"write\"}} {answered}"
    ));
    // Nothing waits any more, and nothing is refused.
    assert_eq!(pipelined(&server, 1, 60_000), [(0, 1)].into());
}

/// One instance whose run outlasts the test's calls, and nobody may wait.
const HELD: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[models.stand_in]
backend = "practice"
behaviour = "wait"
us = 500000
batch_size_max = 1
queue_max = 0
"#;

/// The codes that msgpack payloads are answered with, sent in one write behind a call that keeps the instance; 0 is an answer.
fn codes_behind_a_run(server: &Millpond, payloads: &[Vec<u8>]) -> Vec<u64> {
    let mut stream = TcpStream::connect(&server.addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    for (seq, payload) in payloads.iter().enumerate() {
        let seq = seq as u32;
        let kind = FrameKind::Twoway { method: "infer", seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, payload).unwrap();
    }
    stream.write_all(&bytes).unwrap();
    let mut codes = vec![0; payloads.len()];
    take_answers(&mut stream, payloads.len(), |seq, status, payload| {
        let answer = decode_map(Encoding::Msgpack, payload).unwrap();
        if let (1, Some(millpond_wire_payload::Value::UInt(code))) = (status, answer.get("code")) {
            codes[seq as usize] = *code;
        }
    });
    codes
}

#[test]
fn what_is_wrong_with_a_call_is_named_while_its_model_refuses_others() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), HELD).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    // {"inputs": {"x": {"shape": [1, 1], "type": "f32", "data": [7]}}}
    let good = b"\x81\xa6inputs\x81\xa1x\x83\xa5shape\x92\x01\x01\xa4type\xa3f32\xa4data\x91\x07".to_vec();
    // {"inputs": 5}
    let wrong = b"\x81\xa6inputs\x05".to_vec();
    let others = [
        b"\x82\xa5model\x07\xa6inputs\x05".to_vec(),
        [&b"\x82\xa5model\xa5other"[..], &good[1..]].concat(),
        b"\x91\x01".to_vec(),
        b"\x82\xa6inputs\x05\xac_deadline_ms\x00".to_vec(),
    ];
    assert_eq!(codes_behind_a_run(&server, std::slice::from_ref(&wrong)), [30104]);
    let mut payloads = vec![good.clone()];
    for _ in 0..50 {
        payloads.extend([good.clone(), wrong.clone()]);
    }
    payloads.extend(others);
    let codes = codes_behind_a_run(&server, &payloads);
    let (first, rest) = codes.split_first().unwrap();
    let (pairs, others) = rest.split_at(100);
    assert_eq!(*first, 0);
    let mut goods = pairs.iter().step_by(2);
    assert!(goods.all(|code| *code == 30101), "{pairs:?}");
    let mut wrongs = pairs.iter().skip(1).step_by(2);
    assert!(wrongs.all(|code| *code == 30104), "{pairs:?}");
    assert_eq!(others, [30104, 30105, 10006, 30104]);
    let refused = "millpond_model_failed_total{model=\"stand_in\",version=\"1\",cause=\"queue_full\"} 50";
    server.wait_for_metric(refused);
}

/// One instance, ten seconds a row: a call of twenty outlasts the test. A row holds 400 bytes, a call 33 for the name of its output.
const STUCK: &str = r#"
[server]
listen = "127.0.0.1:0"
threads = 1
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[models.stuck]
backend = "practice"
behaviour = "wait"
us = 10000000
width = 100
batch_size_max = 1
warm_up = []
queue_bytes_max = 20000
"#;

#[test]
fn calls_that_wait_hold_no_more_bytes_than_may() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), STUCK).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let payload = |rows: usize| {
        let x = json!({"shape": [rows, 100], "type": "f32", "data": vec![1; rows * 100]});
        json!({"inputs": {"x": x}, "_deadline_ms": 600_000})
    };
    let mut held = Vec::new();
    for (queued, rows) in [20, 10, 10].into_iter().enumerate() {
        let body = payload(rows).to_string();
        let head = format!(
            "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}",
            body.len()
        );
        let mut http = Http::connect(&server.addr);
        http.stream
            .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
            .unwrap();
        held.push(http);
        server.wait_for_metric(&format!(
            "millpond_model_queued{{model=\"stuck\",version=\"1\"}} {queued}"
        ));
        server.wait_for_metric("millpond_model_busy{model=\"stuck\",version=\"1\"} 1");
    }
    for (rows, refused) in [(10, (429, 30101)), (50, (413, 30110))] {
        let (status, answer) = server.call("infer", &payload(rows));
        assert_eq!((status, answer["code"].as_u64().unwrap()), refused, "{answer}");
        let ex = answer["ex"].as_str().unwrap();
        assert!(ex.contains("raise queue_bytes_max"), "{ex}");
    }
    let (_, infos) = server.call("*infos", &json!({}));
    assert_eq!(
        infos["millpond"]["models"]["stuck"]["queue_bytes"],
        json!(2),
        "{infos}"
    );
    let (_, metrics) = server.admin_get("/metrics");
    for line in [
        "millpond_model_failed_total{model=\"stuck\",version=\"1\",cause=\"queue_bytes\"} 2",
        "millpond_model_failed_total{model=\"stuck\",version=\"1\",cause=\"queue_full\"} 0",
        "millpond_model_queued{model=\"stuck\",version=\"1\"} 2",
        "millpond_refused_total{reason=\"overloaded\"} 1",
        "millpond_refused_total{reason=\"too_large\"} 1",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

/// A row of the pipeline's is 64 bytes.
#[test]
fn a_call_of_more_bytes_than_may_be_held_is_refused_before_its_stages_run() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &["models.mlp.queue_bytes_max=2000"]);
    // What a run holds is free a moment after its answer, also of the warm-up's last one.
    let serve = |samples: &[Vec<&str>]| {
        let until = Instant::now() + Duration::from_secs(60);
        while server.call("infer", &json!({"samples": samples})).0 != 200 {
            assert!(Instant::now() < until, "the bytes of a run are held for ever");
        }
    };
    let mut samples = vec![vec!["v1", "v2"]; 31];
    serve(&samples);
    // What its stages would find is not said of it.
    samples.push(vec!["v1", "v2", "v3"]);
    let (status, answer) = server.call("infer", &json!({"samples": samples}));
    assert_eq!(
        (status, answer["code"].as_u64(), answer["retryable"].as_bool()),
        (413, Some(30110), Some(false)),
        "{answer}"
    );
    let ex = answer["ex"].as_str().unwrap();
    assert!(
        ex.contains("2048 bytes") && ex.contains("raise queue_bytes_max"),
        "{ex}"
    );
    serve(&samples[..31]);
}

#[test]
fn a_call_of_a_better_level_takes_the_place_of_one_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("millpond.toml"), PRACTICE).unwrap();
    let set = [
        "models.stand_in.us=1500000",
        "models.stand_in.instances=1",
        "models.stand_in.queue_max=1",
        "models.stand_in.warm_up=[]",
        "server.deadline_ms_default=60000",
    ];
    let server = Millpond::start(folder.path(), &set);
    let body = |level: Option<u32>| {
        let mut body = json!({"inputs": {"x": {"shape": [1, 1], "type": "f32", "data": [1]}}});
        if let Some(level) = level {
            body["_priority"] = json!(level);
        }
        body
    };
    let with_header = |level: &str, body: &Value| {
        let body = body.to_string();
        let length = body.len();
        Http::connect(&server.addr).send(&format!(
            "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nX-Priority: {level}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    for wrong in ["10", "high", "-1", ""] {
        let (status, answer) = with_header(wrong, &body(None));
        assert!(
            status == 400 && answer.contains("30104") && answer.contains("X-Priority"),
            "{answer}"
        );
    }
    let (status, answer) = server.call("infer", &body(Some(10)));
    assert_eq!((status, answer["code"].as_u64()), (400, Some(30104)), "{answer}");
    // A call that waits for a model without a measured run gains a level every two milliseconds.
    assert_eq!(server.call("infer", &body(None)).0, 200);
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| server.call("infer", &body(None)));
        server.wait_for_metric("millpond_model_busy{model=\"stand_in\",version=\"1\"} 1");
        let waits = scope.spawn(|| with_header("9", &body(None)));
        server.wait_for_metric("millpond_model_queued{model=\"stand_in\",version=\"1\"} 1");
        // The payload's own comes before the header's.
        let last = with_header("0", &body(Some(9)));
        assert!(last.0 == 429 && last.1.contains("queue"), "{last:?}");
        let (status, answer) = server.call("infer", &body(Some(0)));
        assert_eq!(status, 200, "{answer}");
        let gave_way = waits.join().unwrap();
        assert!(
            gave_way.0 == 429 && gave_way.1.contains("gave way"),
            "{gave_way:?}"
        );
        assert_eq!(runs.join().unwrap().0, 200);
    });
}
