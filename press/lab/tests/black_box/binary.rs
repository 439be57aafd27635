//! The native protocol: many requests outstanding on a connection, refusals and failures as over HTTP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use millpond_client_rust::Encoding;
use millpond_client_rust::frame::{FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_client_rust::schema::payload::{Encoder, Value, decode_map};
use millpond_press_recorder::ErrorKind;
use serde_json::json;

use crate::Case;

/// What the peer does with one request.
enum Act {
    /// Answers, once as many requests wait as are named.
    Scores(usize),
    Fail(u32, &'static str),
    /// Says so and closes.
    FailAndClose(u32, &'static str),
    Close,
    Silence,
}

/// A peer that decides by connection and request, both counted from 0.
fn peer(behave: impl Fn(usize, usize) -> Act + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let behave = Arc::new(behave);
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let behave = behave.clone();
            std::thread::spawn(move || serve(stream.unwrap(), |request| behave(connection, request)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, behave: impl Fn(usize) -> Act) {
    let mut input = Vec::new();
    let mut waiting = Vec::new();
    let mut request = 0;
    loop {
        let mut room = [0; 4096];
        let Ok(count @ 1..) = stream.read(&mut room) else {
            return;
        };
        input.extend_from_slice(&room[..count]);
        while let Parsed::Whole { message, len } = parse_frame(&input, Limits::default()).unwrap() {
            let FrameKind::Twoway { method: "infer", seq } = message.kind else {
                panic!("not a call of infer")
            };
            let body = decode_map(Encoding::Msgpack, message.payload).unwrap();
            assert!(matches!(body.get("samples"), Some(Value::Array(samples)) if samples.len() == 3));
            input.drain(..len);
            let act = behave(request);
            request += 1;
            match act {
                Act::Scores(together) => {
                    waiting.push(seq);
                    if waiting.len() >= together {
                        for seq in waiting.drain(..).rev() {
                            answer(&mut stream, seq, 0, &json!({"scores": [0.5, 0.25, 1.0]}));
                        }
                    }
                }
                Act::Fail(code, ex) => answer(&mut stream, seq, 1, &json!({"code": code, "ex": ex})),
                Act::FailAndClose(code, ex) => {
                    return answer(&mut stream, seq, 1, &json!({"code": code, "ex": ex}));
                }
                Act::Close => return,
                Act::Silence => {}
            }
        }
    }
}

fn answer(stream: &mut TcpStream, seq: u32, status: u8, map: &serde_json::Value) {
    let json = map.to_string();
    let map = decode_map(Encoding::Json, json.as_bytes()).unwrap();
    let mut payload = Vec::new();
    Encoder::new(&mut payload, Encoding::Msgpack, false).value(&Value::Map(map));
    let mut frame = Vec::new();
    write_frame(
        &mut frame,
        Encoding::Msgpack,
        FrameKind::Answer { status, seq },
        &payload,
    )
    .unwrap();
    // The client may have gone, which is its own affair.
    let _ = stream.write_all(&frame);
}

fn case(address: &str, more: &[&str]) -> Case {
    let mut set = vec![
        "target.protocol=binary",
        "load.requests_per_connection=20",
        "load.connections=[2]",
    ];
    set.extend_from_slice(more);
    Case::new(address, &set)
}

#[test]
fn requests_are_outstanding_together_and_answered_in_any_order() {
    // Nothing is answered before four requests wait on a connection.
    let address = peer(|_, _| Act::Scores(4));
    let outcome = case(&address, &["load.in_flight=4"]).run().unwrap();
    let point = &outcome.result.points[0];
    assert_eq!(
        (point.counters.ok, point.counters.offered()),
        (40, 40),
        "{:?}",
        point.counters
    );
    assert_eq!((point.counters.connections_opened, outcome.exit_code), (2, 0));
    assert_eq!(
        (point.target.protocol.as_str(), point.offered.in_flight),
        ("native", 4)
    );
}

#[test]
fn a_refused_connection_is_told_from_a_refused_request() {
    let address = peer(|connection, request| match (connection, request) {
        (1, _) => Act::FailAndClose(30_101, "the connection limit of 1 is reached; try again later"),
        (_, 5) => Act::Fail(30_101, "the queue is full"),
        _ => Act::Scores(1),
    });
    let counters = case(&address, &[]).point().counters;
    assert_eq!(
        (counters.connections_refused, counters.failed_total()),
        (1, 0),
        "{counters:?}"
    );
    assert_eq!((counters.ok, counters.refused[&30_101]), (19, 2));
    assert_eq!((counters.not_sent, counters.connections_opened), (19, 2));
}

#[test]
fn a_refused_connection_refuses_all_that_waits_on_it() {
    let address = peer(|_, _| Act::FailAndClose(30_101, "the connection limit of 0 is reached"));
    let counters = case(&address, &["load.in_flight=4"]).point().counters;
    assert_eq!(
        (counters.connections_refused, counters.failed_total(), counters.ok),
        (2, 0, 0),
        "{counters:?}"
    );
    assert_eq!(counters.refused_total() + counters.not_sent, 40);
    assert!(counters.refused_total() <= 8, "{counters:?}");
}

#[test]
fn failures_are_counted_by_kind() {
    let counters_within = |act: fn() -> Act, timeout: &str| {
        let address = peer(move |_, request| if request == 3 { act() } else { Act::Scores(1) });
        let counters = case(&address, &[timeout]).point().counters;
        assert_eq!(counters.offered(), 40, "{counters:?}");
        counters
    };
    // Only what is never answered is given up, however busy this machine is.
    let counters = |act| counters_within(act, "target.timeout_ms=30000");
    let failed = counters(|| Act::Fail(30_108, "model failed"));
    assert_eq!(
        (
            failed.ok,
            failed.errors[&ErrorKind::Status],
            failed.status_codes[&30_108]
        ),
        (38, 2, 2)
    );
    assert_eq!(failed.connections_opened, 2);
    let silent = counters_within(|| Act::Silence, "target.timeout_ms=1000");
    // One late request does not cost the others their connection.
    assert_eq!(
        (silent.errors[&ErrorKind::Timeout], silent.connections_opened),
        (2, 2)
    );
    // Each new connection ends at its fourth request again: five of them for twenty requests.
    let closed = counters(|| Act::Close);
    assert_eq!((closed.ok, closed.errors[&ErrorKind::Closed]), (30, 10));
    assert_eq!(closed.connections_opened, 10);
}

#[test]
fn a_body_that_is_no_map_cannot_travel() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.jsonl");
    std::fs::write(&file, "{\"samples\":[]}\n[1]\n").unwrap();
    let text = crate::SCENARIO
        .split("[requests.generate]")
        .next()
        .unwrap()
        .to_owned()
        + &format!("[requests]\nfile = \"{}\"\n", file.display())
        + "[load]\nconnections = [1]\nduration_s = 1\n[target]\naddress = \"127.0.0.1:1\"\nmethod = \"infer\"\n";
    let error = Case::of_text(&text, &["target.protocol=binary"])
        .run()
        .expect_err("refused");
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().contains("request 2 cannot be sent as msgpack"),
        "{error}"
    );
}
