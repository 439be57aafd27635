//! A net thread that refuses most calls looks at its sockets less often, and holds no answer back for it.

use crate::probe::{answers, connect, loopback, options, quest};
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::{Patience, Reply, Request, Service, Target, Ticket, Transport};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// "full" is refused, "later" hands its ticket to the test, everything else is answered; a lull is allowed to be so long.
#[derive(Clone)]
struct Full {
    lull: Duration,
    tickets: mpsc::SyncSender<Ticket>,
}

impl Service for Full {
    fn call(&self, request: Request<'_>, reply: Reply<'_>) {
        match request.target {
            Target::Method("full") => reply.error(&Status::new(Code::Overloaded, "full")),
            Target::Method("wrong") => reply.error(&Status::new(Code::Decoding, "wrong")),
            Target::Method("later") => self.tickets.send(reply.detach()).unwrap(),
            _ => reply.ok(|out| out.map(0)),
        }
    }

    fn lull(&self) -> Duration {
        self.lull
    }
}

fn start(lull: Duration) -> (Transport, mpsc::Receiver<Ticket>) {
    let (tickets, told) = mpsc::sync_channel(16);
    let service = Full { lull, tickets };
    let options = options(1, Patience::default());
    let transport = Transport::start(loopback(), Vec::new(), "net", options, service).unwrap();
    (transport, told)
}

fn lulls(transport: &Transport) -> u64 {
    transport.counters().lulls.load(Ordering::Relaxed)
}

#[test]
fn refusals_bring_a_lull_and_other_calls_none() {
    let (transport, _tickets) = start(Duration::from_secs(1));
    let mut stream = connect(&transport);
    for (seq, method) in (0..).zip(["echo", "wrong", "echo"]) {
        stream.write_all(&quest(method, seq, b"\x80")).unwrap();
        answers(&mut stream, 1);
    }
    assert_eq!(lulls(&transport), 0);
    // The next call is served after the lull of the one before it, so each had its own by then.
    for seq in 0..20 {
        stream.write_all(&quest("full", seq, b"\x80")).unwrap();
        assert_eq!(answers(&mut stream, 1), [(1, seq)]);
    }
    stream.write_all(&quest("echo", 20, b"\x80")).unwrap();
    assert_eq!(answers(&mut stream, 1), [(0, 20)]);
    assert_eq!(lulls(&transport), 20);
    transport.close(Duration::from_secs(5));
}

#[test]
fn answers_leave_in_a_lull_and_a_stop_ends_it() {
    let (transport, tickets) = start(Duration::from_secs(1));
    let (mut slow, mut refused) = (connect(&transport), connect(&transport));
    for round in 0..50 {
        slow.write_all(&quest("later", round, b"\x80")).unwrap();
        let ticket = tickets.recv().unwrap();
        refused.write_all(&quest("full", round, b"\x80")).unwrap();
        assert_eq!(answers(&mut refused, 1), [(1, round)]);
        ticket.ok(|out| out.map(0));
        assert_eq!(answers(&mut slow, 1), [(0, round)]);
    }
    refused.write_all(&quest("full", 50, b"\x80")).unwrap();
    assert_eq!(answers(&mut refused, 1), [(1, 50)]);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_service_that_allows_none_gets_none() {
    let (transport, _tickets) = start(Duration::ZERO);
    let mut stream = connect(&transport);
    for seq in 0..5 {
        stream.write_all(&quest("full", seq, b"\x80")).unwrap();
        assert_eq!(answers(&mut stream, 1), [(1, seq)]);
    }
    assert_eq!(lulls(&transport), 0);
    transport.close(Duration::from_secs(5));
}
