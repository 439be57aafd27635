//! Calls that wait for the end of their net thread's turn.

use crate::probe::{Transport, answers, connect, find, loopback, name, options, quest, started};
use millpond_calls::{Call, MethodId, Reply, Service, Ticket};
use millpond_net::Timeouts;
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// What happened to a net thread's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Called,
    /// So many calls were served at the end of the turn.
    Served(usize),
    Written,
    TurnEnded,
}

/// Answers all calls at the end of their turn; panics there instead where one was of "panic".
struct Gathering {
    events: SyncSender<Event>,
    waiting: RefCell<Vec<(bool, Ticket)>>,
    was_called: RefCell<bool>,
}

impl Clone for Gathering {
    fn clone(&self) -> Gathering {
        Gathering {
            events: self.events.clone(),
            waiting: RefCell::default(),
            was_called: RefCell::default(),
        }
    }
}

impl Service for Gathering {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        let panics = name(call.method.unwrap()) == "panic";
        self.waiting.borrow_mut().push((panics, reply.later()));
        self.was_called.replace(true);
        self.events.send(Event::Called).unwrap();
    }

    fn has_batch(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    fn serve_batch(&self, _: Instant) {
        let waiting = self.waiting.take();
        self.events.send(Event::Served(waiting.len())).unwrap();
        assert!(!waiting.iter().any(|(panics, _)| *panics), "at the end of a turn");
        for (_, mut ticket) in waiting {
            ticket.set_ready(Instant::now(), MethodId::default());
            ticket.ok(|out| out.map(|_| ()));
        }
    }

    fn turned(&self, _: Instant, written: impl Iterator<Item = (MethodId, Instant)>) {
        written.for_each(|_| self.events.send(Event::Written).unwrap());
        if self.was_called.take() {
            self.events.send(Event::TurnEnded).unwrap();
        }
    }
}

fn start() -> (Transport, Receiver<Event>) {
    let (events, told) = sync_channel(4096);
    let service = Gathering {
        events,
        waiting: RefCell::default(),
        was_called: RefCell::default(),
    };
    (
        started(vec![loopback()], options(1, Timeouts::default()), service),
        told,
    )
}

/// The calls of each turn, all of which were served when it ended, their answers sent.
fn turns(events: &Receiver<Event>) -> Vec<usize> {
    let events: Vec<Event> = events.try_iter().collect();
    let turns = events.split_inclusive(|event| *event == Event::TurnEnded);
    let check = |turn: &[Event]| {
        let calls = turn.iter().filter(|event| **event == Event::Called).count();
        let mut expected = vec![Event::Called; calls];
        expected.push(Event::Served(calls));
        expected.extend(vec![Event::Written; calls]);
        expected.push(Event::TurnEnded);
        assert_eq!(turn, expected);
        calls
    };
    turns.map(check).collect()
}

#[test]
fn answers_of_the_end_of_a_turn_leave_in_that_turn() {
    const CALLS: u32 = 100;
    let (transport, events) = start();
    let mut streams = [connect(&transport), connect(&transport), connect(&transport)];
    let calls: Vec<u8> = (0..CALLS).flat_map(|seq| quest("any", seq, &[0x80])).collect();
    for stream in &mut streams {
        stream.write_all(&calls).unwrap();
    }
    for stream in &mut streams {
        // More than may be in flight: what the answers made room for was served.
        let expected: Vec<(u8, u32)> = (0..CALLS).map(|seq| (0, seq)).collect();
        assert_eq!(answers(stream, CALLS as usize), expected);
    }
    let call = "POST /service/any HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    let mut stream = connect(&transport);
    let last = call.replacen("Host", "Connection: close\r\nHost", 1);
    stream.write_all([call, call, &last].concat().as_bytes()).unwrap();
    let mut answered = String::new();
    stream.read_to_string(&mut answered).unwrap();
    assert_eq!(answered.matches("200 OK").count(), 3, "{answered}");
    transport.close(Duration::from_secs(5));
    let turns = turns(&events);
    assert_eq!(turns.iter().sum::<usize>(), 3 * CALLS as usize + 3);
    assert!(turns.iter().any(|calls| *calls > 1), "{turns:?}");
}

#[test]
fn a_panic_at_the_end_of_a_turn_fails_its_calls_and_ends_no_connection() {
    let (transport, events) = start();
    let mut stream = connect(&transport);
    for seq in 0..3 {
        stream.write_all(&quest("panic", seq, &[0x80])).unwrap();
        assert_eq!(answers(&mut stream, 1), [(1, seq)]);
    }
    assert_eq!(transport.counters().panics.load(Ordering::Relaxed), 3);
    drop(events.try_iter().collect::<Vec<_>>());
    stream.write_all(&quest("any", 9, &[0x80])).unwrap();
    assert_eq!(answers(&mut stream, 1), [(0, 9)]);
    transport.close(Duration::from_secs(5));
}
