//! Services for the tests, and the bytes of calls and answers.

use millpond_calls::{Call, MethodId, Peer, Reply, Service, Ticket};
use millpond_fronts_answer::Serving;
use millpond_fronts_http::{self as http, Hosts, HttpOptions};
use millpond_fronts_native::{self as native, NativeOptions};
use millpond_fronts_websocket as websocket;
use millpond_net::{Fronts, Hints, Listener, Options as NetOptions, Timeouts, Transport as Net};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// What services of these tests tell apart; all other names are one method.
const NAMES: [&str; 13] = [
    "echo", "later", "long", "timed", "panic", "half", "push", "block", "duplex", "early", "pusher",
    "greedy", "modest",
];

pub(crate) fn find(name: &str) -> Option<MethodId> {
    let place = NAMES.iter().position(|known| *known == name);
    Some(MethodId::new(place.unwrap_or(NAMES.len()) as u16, false))
}

/// What a method was found by; nothing where that was another name.
pub(crate) fn name(method: MethodId) -> &'static str {
    NAMES.get(method.index()).copied().unwrap_or_default()
}

/// "echo" answers at once; "later" hands its ticket to the test; "drop" answers nothing.
#[derive(Clone)]
pub(crate) struct Probe {
    tickets: Arc<Mutex<mpsc::SyncSender<Ticket>>>,
}

impl Probe {
    pub(crate) fn new() -> (Probe, mpsc::Receiver<Ticket>) {
        let (sender, tickets) = mpsc::sync_channel(64);
        let probe = Probe {
            tickets: Arc::new(Mutex::new(sender)),
        };
        (probe, tickets)
    }
}

impl Service for Probe {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        match name(call.method.unwrap()) {
            "echo" => reply.ok(|out| {
                out.map(|out| {
                    out.key("bytes");
                    out.uint(call.payload.len() as u64);
                });
            }),
            "later" => self.tickets.lock().unwrap().send(reply.later()).unwrap(),
            _ => {}
        }
    }
}

/// Answers from a ticket, most with the time since when it is ready, and notes what it hears of their writing.
#[derive(Clone)]
pub(crate) struct Timed(mpsc::SyncSender<(&'static str, Duration)>);

impl Timed {
    /// The service, and so many of the answers that it hears of.
    pub(crate) fn new(most: usize) -> (Timed, mpsc::Receiver<(&'static str, Duration)>) {
        let (written, told) = mpsc::sync_channel(most);
        (Timed(written), told)
    }
}

impl Service for Timed {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        let mut ticket = reply.later();
        match name(call.method.unwrap()) {
            // Long enough to find the kernel without room.
            "long" => {
                ticket.set_ready(Instant::now(), call.method.unwrap());
                ticket.ok(|out| {
                    out.map(|out| {
                        out.key("bytes");
                        out.bytes(&vec![7; 100_000]);
                    });
                });
            }
            "timed" => {
                ticket.set_ready(Instant::now(), call.method.unwrap());
                ticket.ok(|out| out.map(|_| ()));
            }
            _ => ticket.ok(|out| out.map(|_| ())),
        }
    }

    fn turned(&self, _: Instant, written: impl Iterator<Item = (MethodId, Instant)>) {
        for (method, since) in written {
            self.0.send((name(method), since.elapsed())).unwrap();
        }
    }
}

/// Answers at once, and notes for each turn that answered when it began, when its calls were received and how many there were.
#[derive(Clone)]
pub(crate) struct Turns {
    told: mpsc::SyncSender<(Instant, Vec<Instant>)>,
    received: RefCell<Vec<Instant>>,
}

impl Turns {
    pub(crate) fn new(most: usize) -> (Turns, mpsc::Receiver<(Instant, Vec<Instant>)>) {
        let (told, turns) = mpsc::sync_channel(most);
        let received = RefCell::default();
        (Turns { told, received }, turns)
    }
}

impl Service for Turns {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        assert!(call.clock.last() >= call.received);
        assert!(call.clock.read() >= call.received && call.clock.began() == call.received);
        self.received.borrow_mut().push(call.received);
        reply.ok(|out| out.map(|_| ()));
    }

    fn turned(&self, began: Instant, _: impl Iterator<Item = (MethodId, Instant)>) {
        let received = self.received.take();
        if !received.is_empty() {
            self.told.send((began, received)).unwrap();
        }
    }
}

pub(crate) fn start(connections_max: usize, in_flight_max: usize) -> (Transport, mpsc::Receiver<Ticket>) {
    let (service, tickets) = Probe::new();
    (serve(service, connections_max, in_flight_max), tickets)
}

/// The service of [`start`], with FPNN's encryption; its public key.
#[cfg(feature = "fpnn-encryption")]
pub(crate) fn start_encrypted(
    curve: &str,
    key: &std::path::Path,
) -> (Transport, mpsc::Receiver<Ticket>, [u8; 64]) {
    let (service, tickets) = Probe::new();
    let encryption = millpond_fronts_native::Encryption::read(curve, key).unwrap();
    let public = encryption.public_key();
    let mut options = options(2, Timeouts::default());
    options.native.encryption = Some(Arc::new(encryption));
    let transport = started(vec![loopback()], options, service);
    (transport, tickets, public)
}

/// Serves on two net threads.
pub(crate) fn serve(service: impl Service, connections_max: usize, in_flight_max: usize) -> Transport {
    let mut options = options(2, Timeouts::default());
    options.connections_max = connections_max;
    options.native.in_flight_max = in_flight_max;
    started(vec![loopback()], options, service)
}

/// Serves with these timeouts.
pub(crate) fn serve_with(service: impl Service, threads: usize, timeouts: Timeouts) -> Transport {
    started(vec![loopback()], options(threads, timeouts), service)
}

/// Tells who calls.
#[derive(Clone)]
struct Who {
    peers: mpsc::SyncSender<Peer>,
}

impl Service for Who {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        self.peers.send(call.caller.peer).unwrap();
        reply.ok(|out| {
            out.map(|_| ());
        });
    }
}

/// Listens on `others` too, and tells who calls.
pub(crate) fn start_at(others: Vec<Listener>) -> (Transport, mpsc::Receiver<Peer>) {
    let (peers, told) = mpsc::sync_channel(64);
    let options = options(2, Timeouts::default());
    let mut listeners = vec![loopback()];
    listeners.extend(others);
    let transport = started(listeners, options, Who { peers });
    (transport, told)
}

/// Serves at that listener when it is told to accept, and tells who calls.
pub(crate) fn prepare_with(listener: Listener) -> (Transport, mpsc::Receiver<Peer>) {
    let (peers, told) = mpsc::sync_channel(256);
    let options = options(1, Timeouts::default());
    let transport = prepared(vec![listener], options, Who { peers });
    (transport, told)
}

/// What a port and its protocols may use.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) net: NetOptions,
    pub(crate) native: NativeOptions,
    pub(crate) http: HttpOptions,
}

impl Deref for Options {
    type Target = NetOptions;

    fn deref(&self) -> &NetOptions {
        &self.net
    }
}

impl DerefMut for Options {
    fn deref_mut(&mut self) -> &mut NetOptions {
        &mut self.net
    }
}

/// A transport, and what its fronts have counted.
pub(crate) struct Transport {
    net: Net,
    pub(crate) native: Arc<native::Counters>,
    pub(crate) http: Arc<http::Counters>,
}

impl Transport {
    pub(crate) fn close(self, grace: Duration) -> Vec<String> {
        self.net.close(grace)
    }
}

impl Deref for Transport {
    type Target = Net;

    fn deref(&self) -> &Net {
        &self.net
    }
}

impl DerefMut for Transport {
    fn deref_mut(&mut self) -> &mut Net {
        &mut self.net
    }
}

/// Speaks all protocols, and does not accept yet.
pub(crate) fn prepared(listeners: Vec<Listener>, options: Options, service: impl Service) -> Transport {
    let native = Arc::new(options.native);
    let counters = (Arc::clone(&native.counters), Arc::clone(&options.http.counters));
    let fronts: Fronts<_> = Arc::new([
        http::front(options.http, websocket::upgrade(Arc::clone(&native))),
        native::front(native),
    ]);
    let net = Net::prepare(
        listeners,
        "net",
        options.net,
        Arc::new([fronts]),
        Serving::new(service),
    )
    .unwrap();
    let (native, http) = counters;
    Transport { net, native, http }
}

pub(crate) fn started(listeners: Vec<Listener>, options: Options, service: impl Service) -> Transport {
    let mut transport = prepared(listeners, options, service);
    transport.accept().unwrap();
    transport
}

pub(crate) fn loopback() -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), "server.listen").unwrap()
}

pub(crate) fn options(threads: usize, timeouts: Timeouts) -> Options {
    let limits = Limits {
        frame_bytes_max: 1 << 20,
    };
    let net = NetOptions {
        threads,
        cpus: Vec::new(),
        connections_max: 1000,
        idlest_gives_way: false,
        write_buffer_bytes_max: 32 << 20,
        write_buffers_total_bytes_max: 64 << 20,
        partial_bytes_max: 64 << 20,
        timeouts,
        busy_poll: Duration::ZERO,
        hints: Hints::default(),
    };
    Options {
        net,
        native: NativeOptions {
            in_flight_max: 16,
            pushes_max: 1024,
            limits,
            encryption: None,
            counters: Arc::default(),
        },
        http: HttpOptions {
            limits,
            cors_origins: vec!["https://app.example"],
            hosts: Hosts {
                listed: vec!["app.internal"],
                key: "server.hosts",
            },
            counters: Arc::default(),
        },
    }
}

pub(crate) fn connect(transport: &Transport) -> TcpStream {
    let stream = TcpStream::connect(transport.local_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub(crate) fn quest(method: &str, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(
        &mut bytes,
        Encoding::Msgpack,
        FrameKind::Twoway { method, seq },
        payload,
    )
    .unwrap();
    bytes
}

/// Reads `count` answers: (status, seq) each.
pub(crate) fn answers(stream: &mut impl Read, count: usize) -> Vec<(u8, u32)> {
    let (mut bytes, mut found, mut chunk) = (Vec::new(), Vec::new(), [0; 65536]);
    while found.len() < count {
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "closed after {} of {count} answers", found.len());
        bytes.extend_from_slice(&chunk[..read]);
        let mut used = 0;
        while let Parsed::Whole { message, len } = parse_frame(&bytes[used..], Limits::default()).unwrap() {
            let FrameKind::Answer { status, seq } = message.kind else {
                panic!("not an answer")
            };
            found.push((status, seq));
            used += len;
            if used == bytes.len() {
                break;
            }
        }
        bytes.drain(..used);
    }
    assert!(bytes.is_empty());
    found
}

pub(crate) fn http(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if read == 0 || text.ends_with('}') {
            return text;
        }
    }
}
