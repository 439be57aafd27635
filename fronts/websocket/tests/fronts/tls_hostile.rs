//! Peers of the TLS port that speak something else, stop in the middle, or take more than their share.

use crate::authority::{Authority, Files, Port, Stream, usual};
use crate::hostile::{Large, calls, calls_before, ordered, served_unread};
use crate::probe::{answers, quest};
use millpond_net::Timeouts;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A hello of TLS 1.2: it names no version but 3.3, and one suite, ECDHE-ECDSA with AES-128-GCM, with P-256.
fn hello_of_tls_1_2() -> Vec<u8> {
    let extensions: &[&[u8]] = &[
        // Groups: P-256. Points: uncompressed. Signatures: ECDSA with P-256 and SHA-256.
        &[0, 10, 0, 4, 0, 2, 0, 23],
        &[0, 11, 0, 2, 1, 0],
        &[0, 13, 0, 4, 0, 2, 4, 3],
    ];
    let extensions = extensions.concat();
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    // No session, one suite, no compression.
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    hello.extend([0, extensions.len() as u8]);
    hello.extend(extensions);
    let mut message = vec![1, 0, 0, hello.len() as u8];
    message.extend(hello);
    let mut record = vec![22, 3, 1, 0, message.len() as u8];
    record.extend(message);
    record
}

/// What the server says to that, to its end.
fn said_to(port: &Port, bytes: &[u8]) -> Vec<u8> {
    let mut socket = port.dial();
    socket.write_all(bytes).unwrap();
    let mut said = Vec::new();
    // What it left unread makes its close a reset.
    let _ = socket.read_to_end(&mut said);
    said
}

/// What a client sends for these bytes, with at most so many of them in a record.
fn sealed(stream: &mut Stream, bytes: &[u8], record_bytes: usize) -> Vec<u8> {
    let mut sealed = Vec::new();
    for piece in bytes.chunks(record_bytes) {
        stream.conn.writer().write_all(piece).unwrap();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut sealed).unwrap();
        }
    }
    sealed
}

#[test]
fn what_is_not_tls_1_3_is_refused_and_counted() {
    let (port, client, _tickets) = usual();
    let said = said_to(&port, &hello_of_tls_1_2());
    assert_eq!(said, [21, 3, 3, 0, 2, 2, 70], "a fatal alert: protocol_version");
    port.wait_for([0, 1]);
    let garbage: Vec<u8> = (0..100_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    let endless = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x4000]].concat();
    for (failed, bytes) in (2..).zip([quest("echo", 1, &[0x80]), http, garbage, endless]) {
        let said = said_to(&port, &bytes);
        assert!(
            said.first().is_none_or(|kind| *kind == 21),
            "an alert or nothing, not {said:?}"
        );
        port.wait_for([0, failed]);
    }
    // Who only looks whether the port is open has not failed.
    drop(port.dial());
    let mut stream = port.connect(&client);
    stream.write_all(&quest("echo", 5, &[0x80])).unwrap();
    assert_eq!(answers(&mut stream, 1), [(0, 5)]);
    assert_eq!(port.handshakes(), [1, 5]);
    port.close();
}

#[test]
fn a_hello_changed_or_cut_anywhere_ends_its_connection_alone() {
    let (port, client, _tickets) = usual();
    let mut hello = Vec::new();
    port.connect(&client).conn.write_tls(&mut hello).unwrap();
    for at in 0..hello.len() {
        let mut changed = hello.clone();
        changed[at] ^= 0x80 >> (at % 8);
        for bytes in [&changed[..], &hello[..at]] {
            let mut socket = port.dial();
            socket.write_all(bytes).unwrap();
            // Where the change is none to the server, it waits for the rest.
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        }
    }
    let mut stream = port.connect(&client);
    stream.write_all(&quest("echo", 5, &[0x80])).unwrap();
    assert_eq!(answers(&mut stream, 1), [(0, 5)]);
    // All but those of no byte at all: the first that was cut, and the one that only lent its hello.
    port.wait_for([1, 2 * hello.len() as u64 - 1]);
    port.close();
}

#[test]
fn a_changed_record_ends_its_connection_alone() {
    let (port, client, _tickets) = usual();
    let (mut victim, mut other) = (port.connect(&client), port.connect(&client));
    for stream in [&mut victim, &mut other] {
        stream.write_all(&quest("echo", 1, &[0x80])).unwrap();
        assert_eq!(answers(stream, 1), [(0, 1)]);
    }
    let mut sealed = sealed(&mut victim, &quest("echo", 2, &[0x80]), 16_000);
    let last = sealed.len() - 1;
    sealed[last] ^= 1;
    victim.sock.write_all(&sealed).unwrap();
    let error = victim.read(&mut [0; 8]).unwrap_err().to_string();
    assert!(error.contains("BadRecordMac"), "{error}");
    let malformed = &port.transport.counters().malformed;
    assert_eq!(malformed.load(Ordering::Relaxed), 1);
    other.write_all(&quest("echo", 3, &[0x80])).unwrap();
    assert_eq!(answers(&mut other, 1), [(0, 3)]);
    port.close();
}

#[test]
fn a_handshake_has_the_time_of_a_request() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let timeouts = Timeouts {
        request: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let port = Port::open(Large::default(), files.named(None), timeouts);
    let mut open = port.connect(&authority.client(None));
    open.write_all(&quest("large", 1, &[0x80])).unwrap();
    assert_eq!(answers(&mut open, 1), [(0, 1)]);
    let (mut silent, mut half) = (port.dial(), port.dial());
    half.write_all(&hello_of_tls_1_2()[..20]).unwrap();
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0);
    let _ = half.read(&mut [0; 8]);
    port.wait_for([1, 1]);
    let counters = port.transport.counters();
    while counters.slow_requests.load(Ordering::Relaxed) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The one that is open and asks nothing is merely idle; half a record makes it late.
    open.write_all(&quest("large", 2, &[0x80])).unwrap();
    assert_eq!(answers(&mut open, 1), [(0, 2)]);
    let sealed = sealed(&mut open, &quest("large", 3, &[0x80]), 16_000);
    open.sock.write_all(&sealed[..sealed.len() / 2]).unwrap();
    while counters.slow_requests.load(Ordering::Relaxed) < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(port.handshakes(), [1, 1]);
    port.close();
}

#[test]
fn a_peer_that_does_not_read_is_served_no_further() {
    const CALLS: u32 = 4_000;
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let service = Large::default();
    let port = Port::open(service.clone(), files.named(None), Timeouts::default());
    let client = authority.client(None);
    let (mut silent, mut other) = (port.connect(&client), port.connect(&client));
    // Small enough for the server to be told of it by a full socket soon.
    socket2::SockRef::from(&silent.sock)
        .set_recv_buffer_size(64 << 10)
        .unwrap();
    silent.write_all(&quest("large", CALLS, &[0x80])).unwrap();
    assert_eq!(answers(&mut silent, 1), [(0, CALLS)]);
    // A record a call.
    let call_bytes = quest("large", 0, &[0x80]).len();
    let sealed = sealed(&mut silent, &calls("large", CALLS), call_bytes);
    let socket = silent.sock.try_clone().unwrap();
    let silent = (&mut silent, &socket, sealed, CALLS as usize);
    let served = served_unread(&service, silent, &mut other);
    assert!(
        served < CALLS as usize / 2,
        "{served} calls were served to a peer that reads nothing"
    );
    port.close();
}

#[test]
fn one_connection_with_thousands_of_calls_does_not_hold_up_another() {
    let authority = Authority::new();
    let files = Files::new(&authority.signs("localhost"));
    let ordered = ordered();
    let port = Port::open(ordered.0.clone(), files.named(None), Timeouts::default());
    let client = authority.client(None);
    let (mut greedy, mut modest) = (port.connect(&client), port.connect(&client));
    // Both handshakes are done before anything waits.
    for stream in [&mut greedy, &mut modest] {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    port.wait_for([2, 0]);
    let sealed = sealed(&mut greedy, &calls("greedy", 10_000), 16_000);
    let socket = greedy.sock.try_clone().unwrap();
    let before = calls_before(&ordered, (&mut greedy, &socket, sealed), &mut modest);
    assert!(
        before <= 3 * 256,
        "the other connection waited for {before} calls"
    );
    port.close();
}

#[test]
fn a_connection_over_the_limit_is_told_so() {
    let (port, client, _tickets) = usual();
    // The limit of these tests; connections in clear count as well.
    let kept: Vec<_> = (0..1000)
        .map(|_| crate::probe::connect(&port.transport))
        .collect();
    let counters = port.transport.counters();
    while counters.live.load(Ordering::Relaxed) < 1000 {
        std::thread::yield_now();
    }
    let mut refused = port.connect(&client);
    refused.write_all(&quest("echo", 9, &[0x80])).unwrap();
    assert_eq!(answers(&mut refused, 1), [(1, 9)]);
    assert_eq!(refused.read(&mut [0; 8]).unwrap(), 0);
    drop(kept);
    port.close();
}
