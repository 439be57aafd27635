//! Calls over real sockets: pipelined, out of order, in pieces, refused, and at the end.

use crate::probe::{
    Probe, Timed, Turns, answers, connect, http, loopback, options, quest, serve, start, started,
};
use millpond_calls::{Call, Reply, Service, Ticket};
use millpond_net::Timeouts;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[test]
fn pipelined_calls_are_answered_each_once() {
    let (transport, _tickets) = start(10, 16);
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (0..5000).flat_map(|seq| quest("echo", seq, &[0x80])).collect();
    // In pieces that cut frames anywhere.
    for piece in calls.chunks(777) {
        stream.write_all(piece).unwrap();
    }
    let expected: Vec<(u8, u32)> = (0..5000).map(|seq| (0, seq)).collect();
    assert_eq!(answers(&mut stream, 5000), expected);
    transport.close(Duration::from_secs(5));
}

#[test]
fn answers_come_in_any_order_and_in_flight_is_bounded() {
    let (transport, tickets) = start(10, 4);
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (0..6).flat_map(|seq| quest("later", seq, &[0x80])).collect();
    stream.write_all(&calls).unwrap();
    let mut held: Vec<Ticket> = (0..4).map(|_| tickets.recv().unwrap()).collect();
    assert!(
        tickets.recv_timeout(Duration::from_millis(50)).is_err(),
        "a fifth call was served past the bound"
    );
    held.remove(3).ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 1), [(0, 3)]);
    held.push(tickets.recv().unwrap());
    held.remove(0).ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 1), [(0, 0)]);
    held.push(tickets.recv().unwrap());
    drop(held);
    let mut rest = answers(&mut stream, 4);
    rest.sort_unstable();
    assert_eq!(
        rest,
        [(1, 1), (1, 2), (1, 4), (1, 5)],
        "a dropped ticket answers an error"
    );
    transport.close(Duration::from_secs(5));
}

#[test]
fn the_writing_of_answers_is_told_where_it_is_asked_for() {
    let (service, written) = Timed::new(64);
    let transport = serve(service, 10, 64);
    let started = Instant::now();
    let mut stream = connect(&transport);
    for (seq, method) in (0..).zip(["timed", "other", "other", "timed"]) {
        stream.write_all(&quest(method, seq, b"\x80")).unwrap();
    }
    assert_eq!(answers(&mut stream, 4).len(), 4);
    transport.close(Duration::from_secs(5));
    let told: Vec<(&str, Duration)> = written.try_iter().collect();
    let methods: Vec<&str> = told.iter().map(|(method, _)| *method).collect();
    assert_eq!(methods, ["timed", "timed"]);
    let span = Duration::ZERO..started.elapsed();
    assert!(
        told.iter()
            .all(|(_, took)| !took.is_zero() && span.contains(took)),
        "{told:?}"
    );
}

#[test]
fn all_calls_of_a_turn_are_received_when_it_begins() {
    const CALLS: u32 = 300;
    let (service, turns) = Turns::new(CALLS as usize);
    let transport = serve(service, 10, 64);
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (0..CALLS).flat_map(|seq| quest("any", seq, b"\x80")).collect();
    stream.write_all(&calls).unwrap();
    assert_eq!(answers(&mut stream, CALLS as usize).len(), CALLS as usize);
    transport.close(Duration::from_secs(5));
    let mut count = 0;
    for (began, received) in turns.try_iter() {
        assert!(received.iter().all(|received| *received == began));
        count += received.len();
    }
    assert_eq!(count, CALLS as usize);
}

#[test]
fn answers_that_wait_for_their_reader_are_told_written_too() {
    const CALLS: u32 = 600;
    let (service, written) = Timed::new(CALLS as usize);
    let transport = serve(service, 10, 64);
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (0..CALLS).flat_map(|seq| quest("long", seq, b"\x80")).collect();
    stream.write_all(&calls).unwrap();
    // Nothing is read: the first answers fill the kernel's room and have left, those behind them wait.
    written.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(answers(&mut stream, CALLS as usize).len(), CALLS as usize);
    let rest = (1..CALLS).map(|_| written.recv_timeout(Duration::from_secs(20)).unwrap());
    assert!(rest.into_iter().all(|(method, _)| method == "long"));
    transport.close(Duration::from_secs(5));
}

#[test]
fn the_first_request_decides_what_its_connection_speaks() {
    let (transport, tickets) = start(10, 16);
    let request = "POST /service/later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    // Served, its answer would come before that of the frame.
    let mut frames = connect(&transport);
    frames
        .write_all(&[&quest("later", 1, &[0x80]), request.as_bytes()].concat())
        .unwrap();
    tickets.recv().unwrap().ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut frames, 1), [(0, 1)]);
    assert_eq!(frames.read(&mut [0; 8]).unwrap(), 0);

    let mut http = connect(&transport);
    http.write_all(&[request.as_bytes(), &quest("later", 1, &[0x80])].concat())
        .unwrap();
    tickets.recv().unwrap().ok(|out| {
        out.map(|_| ());
    });
    let mut said = String::new();
    http.read_to_string(&mut said).unwrap();
    let heads: Vec<&str> = said
        .split("HTTP/1.1 ")
        .map(|answer| &answer[..answer.len().min(3)])
        .collect();
    assert_eq!(heads, ["", "200", "400"], "{said}");
    assert!(tickets.try_recv().is_err(), "nothing else was called");
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_large_request_arrives_in_pieces_while_others_are_served() {
    let (transport, _tickets) = start(10, 16);
    let (mut slow, mut quick) = (connect(&transport), connect(&transport));
    let large = quest("echo", 1, &vec![0x80; 900_000]);
    for piece in large.chunks(100_000) {
        slow.write_all(piece).unwrap();
        quick.write_all(&quest("echo", 7, &[0x80])).unwrap();
        assert_eq!(answers(&mut quick, 1), [(0, 7)]);
    }
    assert_eq!(answers(&mut slow, 1), [(0, 1)]);
    transport.close(Duration::from_secs(5));
}

#[test]
fn http_requests_are_answered_in_turn() {
    let (transport, tickets) = start(10, 16);
    let mut stream = connect(&transport);
    let request = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    for _ in 0..3 {
        assert!(http(&mut stream, request).starts_with("HTTP/1.1 200 OK"));
    }
    // Two pipelined: the second waits for the first, which is answered later.
    let pair = format!("POST /service/later HTTP/1.1\r\nHost: localhost\r\n\r\n{request}");
    let answering = std::thread::spawn(move || tickets.recv().unwrap().ok(|out| out.map(|_| ())));
    let mut text = http(&mut stream, &pair);
    while !text.contains("\"bytes\":2") {
        text.push_str(&http(&mut stream, ""));
    }
    answering.join().unwrap();
    assert!(
        text.find("{}")
            .is_none_or(|first| first < text.find("\"bytes\"").unwrap()),
        "{text}"
    );
    let text = http(
        &mut stream,
        "PUT /service/echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert!(
        text.starts_with("HTTP/1.1 405") && text.contains("\r\nAllow: GET, POST\r\n"),
        "{text}"
    );
    let text = http(
        &mut stream,
        "POST /service/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert!(
        text.starts_with("HTTP/1.1 500") && text.contains("no answer"),
        "{text}"
    );
    assert_eq!(
        stream.read(&mut [0; 8]).unwrap(),
        0,
        "the connection closes as asked"
    );
    transport.close(Duration::from_secs(5));
}

#[test]
fn refused_connections_are_told_so() {
    let (transport, _tickets) = start(1, 16);
    let mut kept = connect(&transport);
    kept.write_all(&quest("echo", 1, &[0x80])).unwrap();
    assert_eq!(answers(&mut kept, 1), [(0, 1)]);
    let mut refused = connect(&transport);
    let text = http(
        &mut refused,
        "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert!(
        text.starts_with("HTTP/1.1 429") && text.contains("30101") && text.contains("Connection: close"),
        "{text}"
    );
    assert_eq!(refused.read(&mut [0; 8]).unwrap(), 0);
    let mut refused = connect(&transport);
    refused.write_all(&quest("echo", 9, &[0x80])).unwrap();
    assert_eq!(answers(&mut refused, 1), [(1, 9)]);
    kept.write_all(&quest("echo", 2, &[0x80])).unwrap();
    assert_eq!(
        answers(&mut kept, 1),
        [(0, 2)],
        "the admitted connection is undisturbed"
    );
    transport.close(Duration::from_secs(5));
}

/// The end of the stream, or the reset that bytes cause which nobody read.
fn assert_closed(stream: &mut TcpStream) {
    match stream.read(&mut [0; 8]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn bad_bytes_close_their_connection_alone() {
    let (transport, _tickets) = start(10, 16);
    let mut good = connect(&transport);
    for bad in [
        &b"XPNN\x01\x80\x01\x04"[..],
        b"FPNN\x01\x80\x05\x04\0\0\0\0\0\0\0\0",
        b"FPNN\x01\xc0\x00\x04\x01\0\0\0",
    ] {
        let mut stream = connect(&transport);
        stream.write_all(bad).unwrap();
        assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0, "closed without an answer");
    }
    let mut stream = connect(&transport);
    stream
        .write_all(&quest("echo", 5, &vec![0; 2 << 20])[..64])
        .unwrap();
    assert_eq!(answers(&mut stream, 1), [(1, 5)], "too large, told by number");
    let text = http(
        &mut connect(&transport),
        "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    );
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    good.write_all(&quest("echo", 2, &[0x80])).unwrap();
    assert_eq!(answers(&mut good, 1), [(0, 2)]);
    transport.close(Duration::from_secs(5));
}

#[test]
fn closing_sends_what_is_owed() {
    let (transport, tickets) = start(10, 16);
    let mut stream = connect(&transport);
    stream.write_all(&quest("later", 1, &[0x80])).unwrap();
    let ticket = tickets.recv().unwrap();
    let closing = std::thread::spawn(move || transport.close(Duration::from_secs(20)));
    ticket.ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 1), [(0, 1)]);
    closing.join().unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn where_the_idlest_gives_way_only_calls_in_work_keep_others_out() {
    let (service, tickets) = Probe::new();
    let mut options = options(1, Timeouts::default());
    options.connections_max = 2;
    options.hints.connections = "ask elsewhere";
    options.idlest_gives_way = true;
    let transport = started(vec![loopback()], options, service);
    let mut silent = connect(&transport);
    let mut begun = connect(&transport);
    begun.write_all(b"POST /service/ec").unwrap();
    let mut first = connect(&transport);
    first.write_all(&quest("later", 1, &[0x80])).unwrap();
    let first_ticket = tickets.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(silent.read(&mut [0; 8]).unwrap(), 0, "it gave way");
    let mut second = connect(&transport);
    second.write_all(&quest("later", 1, &[0x80])).unwrap();
    let second_ticket = tickets.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_closed(&mut begun);
    let mut third = connect(&transport);
    let text = http(
        &mut third,
        "POST /service/echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert!(
        text.starts_with("HTTP/1.1 429")
            && text.contains("the connection limit of 2 is reached; try again later, or ask elsewhere"),
        "{text}"
    );
    let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = transport.counters();
    assert_eq!(
        (counted(&counters.refused), counted(&counters.live)),
        (1, 2),
        "accepted {}",
        counted(&counters.accepted)
    );
    for (stream, ticket) in [(&mut first, first_ticket), (&mut second, second_ticket)] {
        ticket.ok(|out| out.map(|_| ()));
        assert_eq!(answers(stream, 1), [(0, 1)]);
    }
    // Both have been answered, the first of them before.
    let mut third = connect(&transport);
    third.write_all(&quest("echo", 1, &[0x80])).unwrap();
    assert_eq!(answers(&mut third, 1), [(0, 1)]);
    transport.close(Duration::from_secs(5));
}

#[test]
fn connections_that_linger_are_bounded_like_those_that_are_refused() {
    const SERVED: usize = 20;
    /// Twice as many as are served.
    const BESIDE: u64 = 40;
    let (transport, _tickets) = start(SERVED, 16);
    let counters = transport.counters();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut held = Vec::new();
    for number in 0..300 {
        let mut stream = connect(&transport);
        let request = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
        let text = http(&mut stream, request);
        assert!(text.starts_with("HTTP/1.1 "), "connection {number}: {text}");
        // The answer was read, its end was not, and the peer stays.
        held.push(stream);
        let open = [&counters.live, &counters.refusing, &counters.lingering].map(count);
        // One more where another thread is in the middle of it.
        assert!(open[2] <= BESIDE + 2, "{open:?}");
    }
    drop(held);
    while count(&counters.lingering) + count(&counters.live) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    transport.close(Duration::from_secs(5));
}

/// Hands out its tickets, and when their calls were received.
#[derive(Clone)]
struct Waiting(mpsc::SyncSender<(Instant, Ticket)>);

impl Service for Waiting {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        self.0.send((call.received, reply.later())).unwrap();
    }
}

#[test]
fn a_call_that_waits_for_calls_in_flight_was_received_when_it_was_read() {
    let (tickets, taken) = mpsc::sync_channel(8);
    let mut options = options(1, Timeouts::default());
    options.native.in_flight_max = 1;
    let transport = started(vec![loopback()], options, Waiting(tickets));
    let mut stream = connect(&transport);
    let calls: Vec<u8> = (0..3).flat_map(|seq| quest("later", seq, b"\x80")).collect();
    stream.write_all(&calls).unwrap();
    let (read, mut ticket) = taken.recv().unwrap();
    for _ in 1..3 {
        ticket.ok(|out| out.map(|_| ()));
        let (received, next) = taken.recv().unwrap();
        assert_eq!(received, read);
        ticket = next;
    }
    ticket.ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 3).len(), 3);
    // What is read anew has not waited.
    let before = Instant::now();
    stream.write_all(&quest("later", 3, b"\x80")).unwrap();
    let (received, ticket) = taken.recv().unwrap();
    assert!(received >= before);
    ticket.ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut stream, 1), [(0, 3)]);
}
