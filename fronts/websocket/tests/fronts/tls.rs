//! TLS over real sockets: everything that works in clear, certificates, reloads, resumption, and the end.

use crate::authority::{Authority, Files, Port, Stream, usual};
use crate::hostile::Large;
use crate::probe::{answers, http, quest};
use crate::websocket::{MASK, event, upgrade};
use millpond_calls::{Call, Reply, Service};
use millpond_net::Timeouts;
use millpond_wire_frame::websocket::{write_message, write_ping};
use rustls::{ClientConfig, HandshakeKind};
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// One answered call: the connection stands.
fn calls(stream: &mut Stream) {
    stream.write_all(&quest("echo", 7, &[0x80])).unwrap();
    assert_eq!(answers(stream, 1), [(0, 7)]);
}

/// Whether a connection that begins like that gets an answer.
fn is_served(port: &Port, client: &Arc<ClientConfig>) -> bool {
    let mut stream = port.connect(client);
    // A client hears of its refusal when it reads, or when it writes after that.
    let written = stream.write_all(&quest("echo", 1, &[0x80]));
    written.is_ok() && stream.read(&mut [0; 64]).is_ok_and(|count| count > 0)
}

#[test]
fn frames_pipelined_and_answered_late() {
    let (port, client, tickets) = usual();
    let mut stream = port.connect(&client);
    let frames: Vec<u8> = (0..5000).flat_map(|seq| quest("echo", seq, &[0x80])).collect();
    // In pieces that cut frames anywhere; each is a record.
    for piece in frames.chunks(777) {
        stream.write_all(piece).unwrap();
    }
    let expected: Vec<(u8, u32)> = (0..5000).map(|seq| (0, seq)).collect();
    assert_eq!(answers(&mut stream, 5000), expected);
    let late: Vec<u8> = (1..3).flat_map(|seq| quest("later", seq, &[0x80])).collect();
    stream.write_all(&late).unwrap();
    let held = [tickets.recv().unwrap(), tickets.recv().unwrap()];
    held.into_iter()
        .rev()
        .for_each(|ticket| ticket.ok(|out| out.map(|_| ())));
    let mut late = answers(&mut stream, 2);
    late.sort_unstable();
    assert_eq!(late, [(0, 1), (0, 2)]);
    assert_eq!(port.handshakes(), [1, 0]);
    port.close();
}

#[test]
fn http_and_websockets() {
    let (port, client, tickets) = usual();
    let mut stream = port.connect(&client);
    let request = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    for _ in 0..3 {
        let text = http(&mut stream, request);
        assert!(
            text.starts_with("HTTP/1.1 200") && text.contains("\"bytes\":2"),
            "{text}"
        );
    }
    upgrade(&mut stream);
    let mut bytes = Vec::new();
    write_message(&mut bytes, &quest("echo", 1, &[0x80]), Some(MASK));
    write_message(&mut bytes, &quest("later", 2, &[0x80]), Some(MASK));
    write_ping(&mut bytes, b"still there", Some(MASK));
    stream.write_all(&bytes).unwrap();
    assert_eq!(event(&mut stream), "answer 0 1");
    assert_eq!(event(&mut stream), "pong still there");
    tickets.recv().unwrap().ok(|out| out.map(|_| ()));
    assert_eq!(event(&mut stream), "answer 0 2");
    let closes = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut stream = port.connect(&client);
    assert!(http(&mut stream, closes).contains("Connection: close"));
    assert_eq!(
        stream.read(&mut [0; 8]).unwrap(),
        0,
        "the end is told, not only seen"
    );
    port.close();
}

/// Tells whether a call came encrypted.
#[derive(Clone)]
pub(crate) struct Encrypted {
    pub(crate) told: mpsc::SyncSender<bool>,
}

impl Service for Encrypted {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        self.told.send(call.caller.encrypted).unwrap();
        reply.ok(|out| {
            out.map(|_| ());
        });
    }
}

#[test]
fn calls_know_that_they_came_encrypted() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let (sender, told) = mpsc::sync_channel(4);
    let port = Port::open(Encrypted { told: sender }, files.named(None), Timeouts::default());
    let call = "POST /service/any HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let client = authority.client(None);
    calls(&mut port.connect(&client));
    http(&mut port.connect(&client), call);
    http(&mut crate::probe::connect(&port.transport), call);
    assert_eq!(
        [told.recv(), told.recv(), told.recv()],
        [Ok(true), Ok(true), Ok(false)]
    );
    port.close();
}

/// Answers what it was sent.
#[derive(Clone)]
struct Mirror;

impl Service for Mirror {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        reply.ok(|out| {
            out.map(|out| {
                out.key("bytes");
                out.bytes(call.payload);
            });
        });
    }
}

#[test]
fn requests_and_answers_larger_than_a_record() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let port = Port::open(Mirror, files.named(None), Timeouts::default());
    let mut stream = port.connect(&authority.client(None));
    for size in [16_383, 16_384, 16_385, 700_000] {
        let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        stream.write_all(&quest("any", 1, &payload)).unwrap();
        // Header, map of one, key, and a bin of 16 or 32 bits of length.
        let head = 16 + 1 + 6 + if size < 1 << 16 { 3 } else { 5 };
        let mut answer = vec![0; head + size];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(&payload), "{size}");
    }
    port.close();
}

#[test]
fn bytes_one_by_one_and_new_keys_in_between() {
    let (port, client, _tickets) = usual();
    let mut stream = port.connect(&client);
    calls(&mut stream);
    stream.conn.refresh_traffic_keys().unwrap();
    calls(&mut stream);
    let mut sealed = Vec::new();
    for seq in 0..3 {
        stream
            .conn
            .writer()
            .write_all(&quest("echo", seq, &[0x80]))
            .unwrap();
        stream.conn.refresh_traffic_keys().unwrap();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut sealed).unwrap();
        }
    }
    for byte in sealed {
        stream.sock.write_all(&[byte]).unwrap();
    }
    assert_eq!(answers(&mut stream, 3), [(0, 0), (0, 1), (0, 2)]);
    calls(&mut stream);
    port.close();
}

#[test]
fn a_peer_that_says_its_end_gets_all_answers() {
    let (port, client, tickets) = usual();
    let mut stream = port.connect(&client);
    calls(&mut stream);
    // More than one turn serves, in one record with the end behind it.
    let mut frames: Vec<u8> = (0..400).flat_map(|seq| quest("echo", seq, &[0x80])).collect();
    frames.extend(quest("later", 400, &[0x80]));
    let mut sealed = Vec::new();
    stream.conn.writer().write_all(&frames).unwrap();
    stream.conn.send_close_notify();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut sealed).unwrap();
    }
    stream.sock.write_all(&sealed).unwrap();
    assert_eq!(answers(&mut stream, 400).len(), 400);
    tickets.recv().unwrap().ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 1), [(0, 400)]);
    assert_eq!(
        stream.read(&mut [0; 8]).unwrap(),
        0,
        "the end is answered by an end"
    );
    port.close();
}

#[test]
fn a_stop_answers_and_says_its_end() {
    let (port, client, tickets) = usual();
    let (mut idle, mut busy) = (port.connect(&client), port.connect(&client));
    calls(&mut idle);
    busy.write_all(&quest("later", 1, &[0x80])).unwrap();
    let ticket = tickets.recv().unwrap();
    let closing = std::thread::spawn(move || port.close());
    ticket.ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut busy, 1), [(0, 1)]);
    closing.join().unwrap();
    for stream in [&mut idle, &mut busy] {
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    }
}

#[test]
fn a_stop_says_goodbye_to_websockets_and_its_end() {
    let (port, client, _tickets) = usual();
    let mut stream = port.connect(&client);
    upgrade(&mut stream);
    port.close();
    assert_eq!(event(&mut stream), "close Some(1001)");
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn clients_show_certificates_where_they_must_and_right_ones_always() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let files = Files::new(&ours.signs("localhost"));
    let (right, wrong) = (ours.signs("client"), theirs.signs("client"));
    for (required, without) in [(true, false), (false, true)] {
        let (port, _tickets) = Port::probe(files.named(Some((&ours, required))));
        assert!(is_served(&port, &ours.client(Some(&right))));
        assert_eq!(is_served(&port, &ours.client(None)), without);
        assert!(!is_served(&port, &ours.client(Some(&wrong))));
        let failed = 1 + u64::from(required);
        port.wait_for([3 - failed, failed]);
        port.close();
    }
    let (port, _tickets) = Port::probe(files.named(None));
    assert!(
        is_served(&port, &ours.client(Some(&wrong))),
        "nobody asked for it"
    );
    port.close();
}

#[test]
fn new_files_are_for_new_connections_and_wrong_ones_for_none() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let (port, _tickets) = Port::probe(files.named(None));
    let client = authority.client(None);
    let shown = |stream: &Stream| stream.conn.peer_certificates().unwrap()[0].to_vec();
    let mut before = port.connect(&client);
    calls(&mut before);
    assert!(!port.tls.is_stale());
    files.put(&authority.signs("localhost"));
    assert!(port.tls.is_stale());
    port.tls.reload().unwrap();
    assert!(!port.tls.is_stale());
    let mut after = port.connect(&authority.client(None));
    calls(&mut after);
    assert_ne!(shown(&before), shown(&after));
    calls(&mut before);
    // A certificate whose key has not come yet.
    files.write("server.pem", &authority.signs("localhost").certificate);
    let error = port.tls.reload().unwrap_err().to_string();
    assert!(
        error.contains("server.key is not the key of the first certificate in"),
        "{error}"
    );
    assert!(
        !port.tls.is_stale(),
        "the same mistake is not made again and again"
    );
    let mut still = port.connect(&authority.client(None));
    calls(&mut still);
    assert_eq!(shown(&still), shown(&after));
    port.close();
}

#[test]
fn tickets_resume_until_a_reload_and_never_in_place_of_a_certificate() {
    let ours = Authority::new();
    let files = Files::new(&ours.signs("localhost"));
    let kind = |port: &Port, client: &Arc<ClientConfig>| {
        let mut stream = port.connect(client);
        calls(&mut stream);
        stream.conn.handshake_kind().unwrap()
    };
    let (port, _tickets) = Port::probe(files.named(None));
    let client = ours.client(None);
    assert_eq!(kind(&port, &client), HandshakeKind::Full);
    assert_eq!(kind(&port, &client), HandshakeKind::Resumed);
    port.tls.reload().unwrap();
    assert_eq!(kind(&port, &client), HandshakeKind::Full);
    port.close();
    let (port, _tickets) = Port::probe(files.named(Some((&ours, true))));
    let client = ours.client(Some(&ours.signs("client")));
    assert_eq!(kind(&port, &client), HandshakeKind::Full);
    assert_eq!(kind(&port, &client), HandshakeKind::Full);
    port.close();
}

#[test]
fn an_idle_connection_is_told_of_its_end() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let timeouts = Timeouts {
        idle: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let service = Large::default();
    let port = Port::open(service, files.named(None), timeouts);
    let mut stream = port.connect(&authority.client(None));
    calls(&mut stream);
    // A socket that only closes is an error to rustls.
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    port.close();
}
