//! A panic while a connection is served ends that connection, and nothing else.

use crate::probe::{Transport, answers, connect, find, loopback, name, options, quest, started};
use millpond_calls::{Call, MethodId, Reply, Service, Ticket};
use millpond_net::Timeouts;
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Waits end here only so that what never comes fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Panics where it is told to; "later" gives its ticket to the test, and everything else is answered at once.
#[derive(Clone)]
struct Panicking {
    tickets: SyncSender<Ticket>,
}

impl Service for Panicking {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, mut reply: Reply<'_>) {
        match name(call.method.unwrap()) {
            "panic" => panic!("asked for"),
            "half" => reply.ok(|out| {
                out.map(|out| {
                    out.key("never");
                    panic!("in the middle of an answer")
                })
            }),
            "later" => self.tickets.send(reply.later()).unwrap(),
            "push" => {
                let pusher = reply.pusher().unwrap();
                reply.ok(|out| out.map(|_| ()));
                pusher.ask(
                    "any",
                    Encoding::Msgpack,
                    &[0x80],
                    None,
                    Box::new(|_| panic!("whoever waits panics")),
                );
            }
            _ => reply.ok(|out| out.map(|_| ())),
        }
    }
}

/// One net thread, so that whoever is served afterwards is served by the same.
fn start() -> (Transport, Receiver<Ticket>) {
    let (tickets, told) = sync_channel(64);
    let options = options(1, Timeouts::default());
    let service = Panicking { tickets };
    let transport = started(vec![loopback()], options, service);
    (transport, told)
}

fn closes(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        // A reset says the same.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(_) => assert!(rest.is_empty(), "{rest:?}"),
    }
}

/// A call that panics ends its connection; another one of the same thread goes on, and nothing stays counted.
fn check(method: &str) {
    let (transport, tickets) = start();
    let counters = transport.counters();
    let mut other = connect(&transport);
    other.write_all(&quest("later", 1, &[0x80])).unwrap();
    let ticket = tickets.recv().unwrap();
    for count in 1..=3 {
        let mut stream = connect(&transport);
        // A call in flight, and the beginning of a large one that is held.
        stream.write_all(&quest("later", 1, &[0x80])).unwrap();
        let in_flight = tickets.recv().unwrap();
        stream.write_all(&quest(method, 2, &[0x80])).unwrap();
        closes(&mut stream);
        assert_eq!(counters.panics.load(Ordering::Relaxed), count, "{method}");
        assert!(in_flight.gone().load(Ordering::Relaxed), "{method}");
        in_flight.ok(|out| out.map(|_| ()));
        other.write_all(&quest("echo", 7, &[0x80])).unwrap();
        assert_eq!(answers(&mut other, 1), [(0, 7)], "{method}");
    }
    ticket.ok(|out| out.map(|_| ()));
    assert_eq!(answers(&mut other, 1), [(0, 1)]);
    assert_eq!(counters.undelivered.load(Ordering::Relaxed), 3);
    assert_eq!(counters.live.load(Ordering::Relaxed), 1);
    assert_eq!(counters.partial_bytes.load(Ordering::Relaxed), 0);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_call_that_panics_ends_its_connection_alone() {
    check("panic");
    check("half");
}

#[test]
fn bytes_that_were_held_are_counted_out() {
    let (transport, _tickets) = start();
    let counters = transport.counters();
    let mut stream = connect(&transport);
    let (mut large, kind) = (
        Vec::new(),
        FrameKind::Twoway {
            method: "panic",
            seq: 1,
        },
    );
    write_frame(&mut large, Encoding::Msgpack, kind, &vec![0xc0; 900_000]).unwrap();
    let (begin, rest) = large.split_at(800_000);
    stream.write_all(begin).unwrap();
    while counters.partial_bytes.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    stream.write_all(rest).unwrap();
    closes(&mut stream);
    assert_eq!(counters.partial_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(counters.live.load(Ordering::Relaxed), 0);
    transport.close(Duration::from_secs(5));
}

/// Who waits for a peer's answer is somebody else's code: its panic is not the connection's.
#[test]
fn whoever_waits_for_a_peer_may_panic() {
    let (transport, _tickets) = start();
    let mut stream = connect(&transport);
    stream.write_all(&quest("push", 1, &[0x80])).unwrap();
    // The answer and the push; then an answer to that.
    let mut bytes = [0; 64];
    let mut read = 0;
    while !bytes[..read].windows(3).any(|three| three == b"any") {
        read += stream.read(&mut bytes[read..]).unwrap();
    }
    let (mut answer, kind) = (Vec::new(), FrameKind::Answer { status: 0, seq: 1 });
    write_frame(&mut answer, Encoding::Msgpack, kind, &[0x80]).unwrap();
    stream.write_all(&answer).unwrap();
    let mut probe = connect(&transport);
    probe.write_all(&quest("echo", 1, &[0x80])).unwrap();
    assert_eq!(answers(&mut probe, 1), [(0, 1)]);
    assert_eq!(transport.native.push_answers.load(Ordering::Relaxed), 1);
    assert_eq!(transport.counters().panics.load(Ordering::Relaxed), 0);
    transport.close(Duration::from_secs(5));
}

/// Panics after its first call, where nothing of a connection is under way.
#[derive(Clone, Default)]
struct Turning(Cell<bool>);

impl Service for Turning {
    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        self.0.set(true);
        reply.ok(|out| out.map(|_| ()));
    }

    fn turned(&self, _: Instant, _: impl Iterator<Item = (MethodId, Instant)>) {
        assert!(!self.0.get(), "between two turns");
    }
}

#[test]
fn a_thread_that_panics_counts_its_connections_out() {
    let options = options(1, Timeouts::default());
    let transport = started(vec![loopback()], options, Turning::default());
    let counters = transport.counters();
    let mut held = connect(&transport);
    let (mut large, kind) = (Vec::new(), FrameKind::Oneway { method: "any" });
    write_frame(&mut large, Encoding::Msgpack, kind, &vec![0xc0; 900_000]).unwrap();
    held.write_all(&large[..800_000]).unwrap();
    while counters.partial_bytes.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let mut stream = connect(&transport);
    stream.write_all(&quest("any", 1, &[0x80])).unwrap();
    // It may close before its answer, and with a reset.
    let _ = stream.read_to_end(&mut Vec::new());
    let counted = || [&counters.live, &counters.partial_bytes].map(|counter| counter.load(Ordering::Relaxed));
    let until = Instant::now() + WAIT_MAX;
    while counted() != [0, 0] {
        assert!(Instant::now() < until, "{:?} stay counted", counted());
        std::thread::yield_now();
    }
    transport.close(Duration::ZERO);
}
