//! Peers that mean harm, or do it: none of them holds up another, or holds memory.

use crate::probe::{
    Probe, Transport, answers, connect, find, loopback, name, options, quest, serve, serve_with, start,
    started,
};
use crate::websocket::upgrade;
use millpond_calls::{Call, MethodId, Reply, Service, Ticket};
use millpond_net::Timeouts;
use millpond_wire_frame::websocket::write_message;
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Value, decode_map};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Notes the order of calls; the first one waits for the test.
#[derive(Clone)]
pub(crate) struct Ordered {
    served: Arc<Mutex<Vec<String>>>,
    go: Arc<Mutex<mpsc::Receiver<()>>>,
}

/// With what lets the first call go on.
pub(crate) fn ordered() -> (Ordered, mpsc::SyncSender<()>) {
    let (go, wait) = mpsc::sync_channel(1);
    let service = Ordered {
        served: Arc::default(),
        go: Arc::new(Mutex::new(wait)),
    };
    (service, go)
}

impl Service for Ordered {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        let first = {
            let mut served = self.served.lock().unwrap();
            served.push(name(call.method.unwrap()).to_owned());
            served.len() == 1
        };
        if first {
            self.go.lock().unwrap().recv().unwrap();
        }
        reply.ok(|out| out.map(|_| ()));
    }
}

/// The frames of that many calls.
pub(crate) fn calls(method: &str, count: u32) -> Vec<u8> {
    (0..count).flat_map(|seq| quest(method, seq, &[0x80])).collect()
}

/// Writes to that socket, on a thread of its own.
fn write(socket: &TcpStream, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut socket = socket.try_clone().unwrap();
    std::thread::spawn(move || socket.write_all(&bytes).unwrap())
}

/// Writes ten thousand calls of one peer to its socket, and lets another call once: how many were served before that one.
pub(crate) fn calls_before(
    (service, go): &(Ordered, mpsc::SyncSender<()>),
    (greedy, socket, calls): (&mut impl Read, &TcpStream, Vec<u8>),
    modest: &mut (impl Read + Write),
) -> usize {
    let writing = write(socket, calls);
    while service.served.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    modest.write_all(&quest("modest", 1, &[0x80])).unwrap();
    go.send(()).unwrap();
    assert_eq!(answers(modest, 1), [(0, 1)]);
    assert_eq!(answers(greedy, 10_000).len(), 10_000);
    writing.join().unwrap();
    let served = service.served.lock().unwrap();
    served.iter().position(|name| name == "modest").unwrap()
}

#[test]
fn one_connection_with_thousands_of_calls_does_not_hold_up_another() {
    let ordered = ordered();
    let transport = serve_with(ordered.0.clone(), 1, Timeouts::default());
    let (mut greedy, mut modest) = (connect(&transport), connect(&transport));
    let socket = greedy.try_clone().unwrap();
    let greedy = (&mut greedy, &socket, calls("greedy", 10_000));
    let before = calls_before(&ordered, greedy, &mut modest);
    assert!(
        before <= 2 * 256,
        "the other connection waited for {before} calls"
    );
    transport.close(Duration::from_secs(5));
}

/// Answers with ten kilobytes, and counts.
#[derive(Clone, Default)]
pub(crate) struct Large {
    served: Arc<AtomicUsize>,
}

impl Service for Large {
    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        self.served.fetch_add(1, Ordering::Relaxed);
        reply.ok(|out| {
            out.map(|out| {
                out.key("bytes");
                out.bytes(&[7; 10_000]);
            });
        });
    }
}

/// Writes so many calls of one peer to its socket, which it reads only once another has had two hundred answers: how many of
/// its calls were served by then.
pub(crate) fn served_unread(
    service: &Large,
    (silent, socket, calls, count): (&mut impl Read, &TcpStream, Vec<u8>, usize),
    other: &mut (impl Read + Write),
) -> usize {
    let before = service.served.load(Ordering::Relaxed);
    let writing = write(socket, calls);
    // These calls give the first one's the time to be served, were they.
    for seq in 0..200 {
        other.write_all(&quest("large", seq, &[0x80])).unwrap();
        assert_eq!(answers(other, 1), [(0, seq)]);
    }
    let so_far = service.served.load(Ordering::Relaxed) - before - 200;
    assert_eq!(answers(silent, count).len(), count, "nothing is lost");
    writing.join().unwrap();
    so_far
}

#[test]
fn a_peer_that_does_not_read_is_served_no_further() {
    const CALLS: u32 = 20_000;
    let service = Large::default();
    let transport = serve(service.clone(), 10, 16);
    let (mut silent, mut other) = (connect(&transport), connect(&transport));
    let socket = silent.try_clone().unwrap();
    let silent = (&mut silent, &socket, calls("large", CALLS), CALLS as usize);
    let served = served_unread(&service, silent, &mut other);
    assert!(
        served < CALLS as usize / 4,
        "{served} calls were served to a peer that reads nothing"
    );
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_peer_that_is_owed_too_much_is_cut_off_and_counted() {
    let (tickets, taken) = mpsc::sync_channel(64);
    let service = Later {
        tickets: Arc::new(Mutex::new(tickets)),
    };
    let mut options = options(1, Timeouts::default());
    options.write_buffer_bytes_max = 4 << 20;
    options.native.in_flight_max = 64;
    let transport = started(vec![loopback()], options, service);
    let counters = transport.counters();
    let (mut silent, mut reader) = (connect(&transport), connect(&transport));
    let answer = |ticket: Ticket| {
        ticket.ok(|out| {
            out.map(|out| {
                out.key("bytes");
                out.bytes(&vec![7; 1 << 20]);
            });
        });
    };
    // A single answer may be as large as it is.
    reader.write_all(&quest("later", 1, &[0x80])).unwrap();
    let ticket = taken.recv().unwrap();
    ticket.ok(|out| {
        out.map(|out| {
            out.key("bytes");
            out.bytes(&vec![7; 6 << 20]);
        });
    });
    assert_eq!(answers(&mut reader, 1), [(0, 1)]);
    // Sixty-four answers of a megabyte are more than the kernel takes for a peer that does not read.
    silent.write_all(&calls("later", 64)).unwrap();
    let tickets: Vec<Ticket> = (0..64).map(|_| taken.recv().unwrap()).collect();
    let gone = tickets[0].gone();
    tickets.into_iter().for_each(answer);
    while counters.live.load(Ordering::Relaxed) > 1 {
        std::thread::yield_now();
    }
    assert!(gone.load(Ordering::Relaxed));
    assert_eq!(counters.overfull_readers.load(Ordering::Relaxed), 1);
    // The other one is served as before, and what the silent one still gets ends in the middle.
    reader.write_all(&quest("later", 2, &[0x80])).unwrap();
    answer(taken.recv().unwrap());
    assert_eq!(answers(&mut reader, 1), [(0, 2)]);
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(rest.len() < 64 << 20);
    transport.close(Duration::from_secs(5));
}

/// Hands its tickets to the test.
#[derive(Clone)]
struct Later {
    tickets: Arc<Mutex<mpsc::SyncSender<Ticket>>>,
}

impl Service for Later {
    fn call(&self, _: &Call<'_>, reply: Reply<'_>) {
        self.tickets.lock().unwrap().send(reply.later()).unwrap();
    }
}

#[test]
fn peers_that_keep_the_server_waiting_are_closed_and_counted() {
    let second = Duration::from_secs(1);
    let timeouts = Timeouts {
        idle: second,
        request: second,
        write: second,
    };
    let transport = serve_with(Large::default(), 1, timeouts);
    let counters = transport.counters();
    let (mut idle, mut slow, mut unread) = (connect(&transport), connect(&transport), connect(&transport));
    slow.write_all(&quest("large", 1, &[0x80])[..20]).unwrap();
    unread.write_all(&calls("large", 2000)).unwrap();
    assert_eq!(idle.read(&mut [0; 8]).unwrap(), 0);
    // What was unread in the server makes its close a reset.
    let _ = slow.read(&mut [0; 8]);
    while counters.live.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let counts = [&counters.idle, &counters.slow_requests, &counters.slow_readers].map(count);
    assert_eq!(counts, [1, 1, 1]);
    transport.close(Duration::from_secs(5));
}

#[test]
fn a_storm_of_resets_leaves_nothing_behind() {
    let (transport, _tickets) = start(100_000, 16);
    let counters = transport.counters();
    for turn in 0..2000 {
        let stream = TcpStream::connect(transport.local_addr()).unwrap();
        if turn % 2 == 0 {
            (&stream).write_all(&quest("echo", 1, &[0x80])).unwrap();
        }
        socket2::SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
    let mut after = connect(&transport);
    after.write_all(&quest("echo", 5, &[0x80])).unwrap();
    assert_eq!(answers(&mut after, 1), [(0, 5)]);
    while counters.live.load(Ordering::Relaxed) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    transport.close(Duration::from_secs(5));
}

/// Sends until all is sent or the server has closed; all that it has said.
fn said(transport: &Transport, upgraded: bool, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(transport);
    if upgraded {
        upgrade(&mut stream);
    }
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut said = Vec::new();
        reader.read_to_end(&mut said).map(|_| said)
    });
    // It closes before all is sent, and reads on for a while.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    reading.join().unwrap().unwrap()
}

#[test]
fn each_protocol_says_in_its_own_words_that_too_much_is_held() {
    let mut options = options(1, Timeouts::default());
    options.partial_bytes_max = 1 << 20;
    options.native.limits.frame_bytes_max = 8 << 20;
    options.http.limits = options.native.limits;
    let transport = started(vec![loopback()], options, Probe::new().0);
    let answer = said(&transport, false, &quest("any", 7, &vec![0xc0; 4 << 20]));
    let Parsed::Whole { message, .. } = parse_frame(&answer, Limits::default()).unwrap() else {
        panic!("{answer:?}")
    };
    assert_eq!(message.kind, FrameKind::Answer { status: 1, seq: 7 });
    let payload = decode_map(message.encoding, message.payload).unwrap();
    assert_eq!(payload.get("code"), Some(&Value::UInt(30101)));
    let ex = format!("{:?}", payload.get("ex"));
    assert!(ex.contains("1048576 bytes"), "{ex}");

    let head = b"POST /service/any HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n".to_vec();
    let answer = said(&transport, false, &[head, vec![b' '; 4 << 20]].concat());
    let text = String::from_utf8(answer).unwrap();
    assert!(text.starts_with("HTTP/1.1 429"), "{text}");
    assert!(
        text.contains("Connection: close") && text.contains("30101"),
        "{text}"
    );

    let mut fragments = Vec::new();
    for at in 0..40 {
        let start = fragments.len();
        write_message(&mut fragments, &[7; 100_000], Some([1, 2, 3, 4]));
        fragments[start] = if at == 0 { 0x02 } else { 0x00 };
    }
    let answer = said(&transport, true, &fragments);
    assert_eq!(answer[0], 0x88, "a close frame");
    assert_eq!(answer[2..4], 1013_u16.to_be_bytes());

    let mut oneway = Vec::new();
    let kind = FrameKind::Oneway { method: "any" };
    write_frame(&mut oneway, Encoding::Msgpack, kind, &vec![0xc0; 4 << 20]).unwrap();
    assert_eq!(said(&transport, false, &oneway), b"");
    let refused = &transport.counters().partial_refused;
    assert_eq!(refused.load(Ordering::Relaxed), 4);
    transport.close(Duration::from_secs(5));
}
