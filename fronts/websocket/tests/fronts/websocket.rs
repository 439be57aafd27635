//! WebSockets, origins and tokens: what browsers need.

use crate::probe::{connect, http, quest, serve_with, start, start_at};
use millpond_calls::{Call, Reply, Service};
use millpond_net::Timeouts;
use millpond_wire_frame::websocket::{
    Event, Progress, Role, WebSocket, accept_key, write_close, write_message, write_ping,
};
use millpond_wire_frame::{FrameKind, Limits, Parsed, parse_frame};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub(crate) const MASK: [u8; 4] = [1, 2, 3, 4];

pub(crate) fn upgrade(stream: &mut (impl Read + Write)) {
    let request = format!(
        "GET /service/any HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 101") && head.contains(&accept_key(KEY)),
        "{head}"
    );
}

/// What the server says next, as words.
pub(crate) fn event(stream: &mut impl Read) -> String {
    let (mut socket, mut bytes, mut scratch) = (
        WebSocket::new(Role::Client, Limits::default()),
        Vec::new(),
        Vec::new(),
    );
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
        if let Progress::Event { event, .. } = socket.read(&bytes, &mut scratch).unwrap() {
            return match event {
                Event::Message { bytes, text } => {
                    assert!(!text);
                    let Parsed::Whole { message, len } = parse_frame(bytes, Limits::default()).unwrap()
                    else {
                        panic!("a message holds less than a frame")
                    };
                    assert_eq!(len, bytes.len());
                    let FrameKind::Answer { status, seq } = message.kind else {
                        panic!("not an answer")
                    };
                    format!("answer {status} {seq}")
                }
                Event::Ping(_) => "ping".into(),
                Event::Pong(payload) => format!("pong {}", String::from_utf8_lossy(payload)),
                Event::Close { code, .. } => format!("close {code:?}"),
            };
        }
    }
}

#[test]
fn messages_are_frames_and_their_answers_messages() {
    let (transport, tickets) = start(10, 16);
    let mut stream = connect(&transport);
    upgrade(&mut stream);
    let mut bytes = Vec::new();
    write_message(&mut bytes, &quest("echo", 1, &[0x80]), Some(MASK));
    write_message(&mut bytes, &quest("later", 2, &[0x80]), Some(MASK));
    write_ping(&mut bytes, b"are you there", Some(MASK));
    for piece in bytes.chunks(7) {
        stream.write_all(piece).unwrap();
    }
    assert_eq!(event(&mut stream), "answer 0 1");
    assert_eq!(event(&mut stream), "pong are you there");
    tickets.recv().unwrap().ok(|out| out.map(|_| ()));
    assert_eq!(event(&mut stream), "answer 0 2");
    // A message in two fragments, with a ping between them.
    let whole = quest("echo", 3, &[0x80]);
    let mut first = Vec::new();
    write_message(&mut first, &whole[..10], Some(MASK));
    first[0] &= 0x7f;
    let mut last = Vec::new();
    write_message(&mut last, &whole[10..], Some(MASK));
    last[0] &= 0xf0;
    let mut ping = Vec::new();
    write_ping(&mut ping, b"", Some(MASK));
    stream.write_all(&[first, ping, last].concat()).unwrap();
    assert_eq!(event(&mut stream), "pong ");
    assert_eq!(event(&mut stream), "answer 0 3");
    let mut close = Vec::new();
    write_close(&mut close, Some(1000), "done", Some(MASK));
    stream.write_all(&close).unwrap();
    assert_eq!(event(&mut stream), "close Some(1000)");
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    transport.close(Duration::from_secs(5));
}

#[test]
fn an_idle_websocket_is_told_goodbye() {
    let timeouts = Timeouts {
        idle: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let service = Silent;
    let transport = serve_with(service, 1, timeouts);
    let counters = transport.counters();
    let mut stream = connect(&transport);
    upgrade(&mut stream);
    assert_eq!(event(&mut stream), "close Some(1001)");
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(counters.idle.load(Ordering::Relaxed), 1);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_message_without_an_end_is_refused_however_often_its_peer_pings() {
    let timeouts = Timeouts {
        request: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let transport = serve_with(Silent, 1, timeouts);
    let counters = transport.counters();
    let mut stream = connect(&transport);
    upgrade(&mut stream);
    let mut fragment = Vec::new();
    write_message(&mut fragment, &quest("echo", 1, &[0x80])[..10], Some(MASK));
    fragment[0] &= 0x7f;
    stream.write_all(&fragment).unwrap();
    let mut ping = Vec::new();
    write_ping(&mut ping, b"", Some(MASK));
    let mut pongs = 0;
    let said = loop {
        stream.write_all(&ping).unwrap();
        match event(&mut stream).as_str() {
            "pong " => pongs += 1,
            said => break said.to_owned(),
        }
        // Far more than there is time for.
        assert!(pongs < 2000, "pings give it more time");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(said, "close Some(1008)");
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(counters.slow_requests.load(Ordering::Relaxed), 1);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_stop_answers_and_says_goodbye_to_websockets() {
    let (transport, tickets) = start(10, 16);
    let mut streams = [connect(&transport), connect(&transport), connect(&transport)];
    streams.iter_mut().for_each(upgrade);
    let [idle, busy, joining] = &mut streams;
    let mut call = Vec::new();
    write_message(&mut call, &quest("later", 2, &[0x80]), Some(MASK));
    busy.write_all(&call).unwrap();
    let ticket = tickets.recv().unwrap();
    // The same without its end.
    call[0] &= 0x7f;
    joining.write_all(&call).unwrap();
    // No peer answers its close frame, and none is waited for.
    let closing = std::thread::spawn(move || transport.close(Duration::from_secs(3600)));
    ticket.ok(|out| out.map(|_| ()));
    closing.join().unwrap();
    assert_eq!(event(busy), "answer 0 2");
    for stream in [idle, busy, joining] {
        assert_eq!(event(stream), "close Some(1001)");
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    }
}

/// Never called.
#[derive(Clone)]
struct Silent;

impl Service for Silent {
    fn call(&self, _: &Call<'_>, _: Reply<'_>) {}
}

#[test]
fn what_is_no_frame_is_told_by_a_close() {
    let (transport, _tickets) = start(10, 16);
    let message = |bytes: &[u8], mask| {
        let mut out = Vec::new();
        write_message(&mut out, bytes, mask);
        out
    };
    let frame = quest("echo", 1, &[0x80]);
    let mut text = message(b"hello", Some(MASK));
    text[0] = 0x81;
    for (bytes, said) in [
        (text, "close Some(1003)"),
        (message(b"hello", Some(MASK)), "close Some(1002)"),
        (message(&frame[..frame.len() - 1], Some(MASK)), "close Some(1002)"),
        (
            message(&[frame.clone(), frame.clone()].concat(), Some(MASK)),
            "close Some(1002)",
        ),
        (message(&frame, None), "close Some(1002)"),
        (
            vec![0x82, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 0, 1, 2, 3, 4],
            "close Some(1009)",
        ),
    ] {
        let mut stream = connect(&transport);
        upgrade(&mut stream);
        stream.write_all(&bytes).unwrap();
        assert_eq!(event(&mut stream), said, "{bytes:x?}");
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    }
    let text = http(
        &mut connect(&transport),
        "GET /service/any HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \
         dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n\r\n",
    );
    assert!(
        text.starts_with("HTTP/1.1 426") && text.contains("Sec-WebSocket-Version: 13"),
        "{text}"
    );
    transport.close(Duration::from_secs(5));
}

#[test]
fn no_answer_follows_a_close_frame() {
    let (transport, tickets) = start(10, 16);
    let message = |bytes: &[u8]| {
        let mut out = Vec::new();
        write_message(&mut out, bytes, Some(MASK));
        out
    };
    let mut close = Vec::new();
    write_close(&mut close, Some(1000), "done", Some(MASK));
    let mut text = message(b"hello");
    text[0] = 0x81;
    for (ends, said) in [
        (close, "close Some(1000)"),
        (text, "close Some(1003)"),
        (message(b"no frame"), "close Some(1002)"),
        (vec![0xff; 9], "close Some(1002)"),
    ] {
        let mut stream = connect(&transport);
        upgrade(&mut stream);
        stream.write_all(&message(&quest("later", 1, &[0x80]))).unwrap();
        let ticket = tickets.recv().unwrap();
        stream.write_all(&ends).unwrap();
        assert_eq!(event(&mut stream), said);
        // Whoever works on it may stop.
        let until = Instant::now() + Duration::from_secs(20);
        while !ticket.gone().load(Ordering::Relaxed) {
            assert!(Instant::now() < until, "the call is still worth its work");
            std::thread::sleep(Duration::from_millis(1));
        }
        ticket.ok(|out| out.map(|_| ()));
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "behind {said}");
    }
    transport.close(Duration::from_secs(5));
}

#[test]
fn pages_of_allowed_origins_may_read_and_others_may_not() {
    let (transport, _peers) = start_at(Vec::new());
    let mut stream = connect(&transport);
    let ask = |stream: &mut TcpStream, verb: &str, origin: &str| {
        let request = format!("{verb} /service/who HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (mut bytes, mut chunk) = (Vec::new(), [0; 1024]);
        let end: &[u8] = if verb == "OPTIONS" { b"\r\n\r\n" } else { b"}" };
        while !bytes.ends_with(end) {
            let count = stream.read(&mut chunk).unwrap();
            bytes.extend_from_slice(&chunk[..count]);
        }
        String::from_utf8(bytes).unwrap()
    };
    let allow = "Access-Control-Allow-Origin: https://app.example\r\n";
    assert!(ask(&mut stream, "GET", "https://app.example").contains(allow));
    let refused = ask(&mut stream, "GET", "https://other.example");
    assert!(
        refused.starts_with("HTTP/1.1 403")
            && refused.contains("cors_origins")
            && !refused.contains("Allow-Origin"),
        "{refused}"
    );
    let preflight = ask(&mut stream, "OPTIONS", "https://app.example");
    assert!(
        preflight.starts_with("HTTP/1.1 204") && preflight.contains(allow),
        "{preflight}"
    );
    assert!(!ask(&mut stream, "OPTIONS", "null").contains("Allow-Origin"));
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_page_that_names_no_origin_calls_nothing() {
    let (transport, _peers) = start_at(Vec::new());
    let mut stream = connect(&transport);
    let mut ask = |headers: &str| {
        let request = format!("GET /service/who HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        http(&mut stream, &request)
    };
    for site in ["cross-site", "same-site"] {
        let refused = ask(&format!("Sec-Fetch-Site: {site}\r\n"));
        assert!(
            refused.starts_with("HTTP/1.1 403") && refused.contains("cors_origins"),
            "{refused}"
        );
    }
    // Pages that may call, whatever site they are of; users and programs.
    for headers in [
        "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: none\r\n",
        "",
    ] {
        let answer = ask(headers);
        assert!(answer.starts_with("HTTP/1.1 200"), "{headers}: {answer}");
    }
    transport.close(Duration::from_secs(5));
}

#[test]
fn head_calls_no_method() {
    let (transport, _peers) = start_at(Vec::new());
    let mut stream = connect(&transport);
    let answer = http(
        &mut stream,
        "HEAD /service/who HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    transport.close(Duration::from_secs(5));
}
