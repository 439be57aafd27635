//! Calls from one transport to another, over connections that net threads open: answers, errors, and nodes that are not there.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use millpond_calls::{
    Call, NodeAnswer, NodeCall, NodeError, NodeSink, Nodes, NodesOptions, Outbound, Reply, Service, Ticket,
};
use millpond_fronts_answer::{Reach, Serving};
use millpond_fronts_native::{self as native, Names, NativeOptions, NodePool, PoolOptions};
use millpond_net::{Fronts, Hints, Listener, Options, Timeouts, Transport};
use millpond_nodes::{BucketMap, Node, RetryOptions};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Value, decode_map};
use millpond_wire_schema::{Code, Status};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Answers what it was sent, with an error where that is empty.
#[derive(Clone)]
struct Echo;

impl Service for Echo {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        match call.payload {
            [0x80] => reply.error(&Status::new(Code::BadArgument, "empty")),
            payload => reply.ok(|out| out.raw(payload)),
        }
    }
}

/// Sends every call on to a node: to the one whose turn the call's number says.
struct Forwarder {
    nodes: Vec<Arc<Node>>,
    outbound: Outbound,
}

impl Clone for Forwarder {
    fn clone(&self) -> Forwarder {
        Forwarder {
            nodes: self.nodes.clone(),
            outbound: Outbound::default(),
        }
    }
}

impl Service for Forwarder {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        let number = call.payload.get(3).copied().unwrap_or(0);
        self.outbound.send(NodeCall {
            node: Arc::clone(&self.nodes[usize::from(number) % self.nodes.len()]),
            method: "echo",
            payload: call.payload.to_vec(),
            sink: Box::new(Answers(reply.later())),
        });
    }

    fn outbound(&self) -> Option<&Outbound> {
        Some(&self.outbound)
    }
}

struct Answers(Ticket);

impl NodeSink for Answers {
    fn ended(self: Box<Self>, _: &Outbound, _: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        match answer {
            Ok(answer) => self.0.ok(|out| out.raw(answer.payload)),
            Err(error) => self.0.error(&error.status),
        }
    }
}

fn options() -> Options {
    Options {
        threads: 1,
        cpus: Vec::new(),
        connections_max: 16,
        idlest_gives_way: false,
        write_buffer_bytes_max: 1 << 20,
        write_buffers_total_bytes_max: 16 << 20,
        partial_bytes_max: 16 << 20,
        timeouts: Timeouts::default(),
        busy_poll: Duration::ZERO,
        hints: Hints::default(),
    }
}

fn serve<S: Service>(listener: Listener, service: S, reach: Option<Box<dyn Reach<S>>>) -> Transport {
    let native = NativeOptions {
        in_flight_max: 1000,
        pushes_max: 0,
        limits: Limits::default(),
        encryption: None,
        counters: Arc::default(),
    };
    let fronts: Fronts<_> = Arc::new([native::front(Arc::new(native))]);
    let serving = Serving::new(service).reaching(reach);
    let mut transport =
        Transport::prepare(vec![listener], "t", options(), Arc::new([fronts]), serving).unwrap();
    transport.accept().unwrap();
    transport
}

fn loopback() -> Listener {
    Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), "here").unwrap()
}

/// Forwards to a node at that address.
struct Proxy {
    transport: Transport,
    nodes: Arc<Nodes>,
}

impl Proxy {
    fn to(address: &str, pool: PoolOptions) -> Proxy {
        Proxy::to_each(&[address], pool)
    }

    /// To one node that several maps have at several addresses.
    fn to_each(addresses: &[&str], pool: PoolOptions) -> Proxy {
        let node_at = |address: &&str| {
            Arc::new(Node {
                name: "b".to_owned(),
                addresses: vec![(*address).to_owned()],
            })
        };
        let service = Forwarder {
            nodes: addresses.iter().map(node_at).collect(),
            outbound: Outbound::default(),
        };
        let nodes = Arc::new(Nodes::new(NodesOptions::default()));
        let pool = NodePool::new(Arc::clone(&nodes), Arc::<Names>::default(), pool);
        let transport = serve(loopback(), service, Some(Box::new(pool)));
        Proxy { transport, nodes }
    }

    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.transport.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client {
            stream,
            input: Vec::new(),
        }
    }

    fn counted(&self) -> [u64; 3] {
        let counts = self.nodes.counts("b");
        [&counts.calls, &counts.failures, &counts.outstanding].map(|count| count.load(Ordering::Relaxed))
    }
}

struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    fn send(&mut self, seq: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        let kind = FrameKind::Twoway { method: "any", seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, payload).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next answer: its number, status and payload.
    fn answer(&mut self) -> (u32, u8, Vec<u8>) {
        loop {
            if let Parsed::Whole { message, len } = parse_frame(&self.input, Limits::default()).unwrap() {
                let FrameKind::Answer { status, seq } = message.kind else {
                    panic!("{:?} is no answer", message.kind)
                };
                let payload = message.payload.to_vec();
                self.input.drain(..len);
                return (seq, status, payload);
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).unwrap();
            assert!(count > 0, "the connection closed without an answer");
            self.input.extend_from_slice(&chunk[..count]);
        }
    }

    /// What a call is answered, an error as its words.
    fn call(&mut self, payload: &[u8]) -> Result<Vec<u8>, String> {
        self.send(1, payload);
        match self.answer() {
            (_, 0, payload) => Ok(payload),
            (_, _, error) => Err(error_of(&error)),
        }
    }
}

fn error_of(payload: &[u8]) -> String {
    let map = decode_map(Encoding::Msgpack, payload).unwrap();
    let retryable = matches!(map.get("retryable"), Some(Value::Bool(true)));
    format!("{} retryable={retryable}", Status::decode(&map))
}

/// {"n": number}, as long as is asked.
fn payload(number: u8, bytes: u16) -> Vec<u8> {
    let mut payload = vec![0x82, 0xa1, b'n', number & 0x7f, 0xa1, b'x', 0xc5];
    payload.extend(bytes.to_be_bytes());
    payload.resize(payload.len() + usize::from(bytes), number);
    payload
}

#[test]
fn calls_are_answered_by_the_node_over_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("node.sock");
    let tcp = serve(loopback(), Echo, None);
    let unix = serve(Listener::bind_unix(&socket, "here").unwrap(), Echo, None);
    for address in [tcp.local_addr().to_string(), format!("unix:{}", socket.display())] {
        let proxy = Proxy::to(&address, PoolOptions::default());
        let mut client = proxy.client();
        for round in 0..3_u8 {
            // More than one connection has, and more bytes than the kernel takes at once.
            for seq in 0..200 {
                client.send(
                    seq,
                    &payload(seq as u8 ^ round, if seq % 50 == 0 { 60_000 } else { 10 }),
                );
            }
            let mut seen = [false; 200];
            for _ in 0..200 {
                let (seq, status, answer) = client.answer();
                assert_eq!(status, 0, "{}", error_of(&answer));
                let bytes = if seq % 50 == 0 { 60_000 } else { 10 };
                assert_eq!(answer, payload(seq as u8 ^ round, bytes));
                assert!(
                    !std::mem::replace(&mut seen[seq as usize], true),
                    "{seq} was answered twice"
                );
            }
        }
        let error = client.call(&[0x80]).unwrap_err();
        assert!(
            error.contains("node \"b\": empty") && error.contains("retryable=false"),
            "{error}"
        );
        assert_eq!(proxy.counted(), [601, 0, 0]);
        proxy.transport.close(Duration::ZERO);
    }
    Transport::close_all(vec![tcp, unix], Duration::ZERO);
}

#[test]
fn a_node_that_is_not_there_is_named_and_reached_once_it_is_back() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let retry = RetryOptions {
        first: Duration::from_millis(1),
        most: Duration::from_millis(1),
    };
    let pool = PoolOptions {
        retry,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address.to_string(), pool);
    let mut client = proxy.client();
    let error = client.call(&payload(1, 0)).unwrap_err();
    assert!(
        error.contains("30116") && error.contains("node \"b\" cannot be reached"),
        "{error}"
    );
    assert!(error.contains("retryable=true"), "{error}");
    let node = serve(Listener::bind(address, "here").unwrap(), Echo, None);
    let until = Instant::now() + Duration::from_secs(60);
    while client.call(&payload(1, 0)).is_err() {
        assert!(Instant::now() < until, "it is not reached again");
    }
    assert_eq!(client.call(&payload(2, 0)), Ok(payload(2, 0)));
    node.close(Duration::ZERO);
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn addresses_that_cannot_be_used_are_said() {
    for (address, words) in [
        ("tls://127.0.0.1:1", "with nodes.tls, tls://HOST:PORT"),
        ("nowhere.example:1", "no address that can be used"),
        ("unix:/nowhere/at.all", "cannot be reached: No such file"),
    ] {
        let proxy = Proxy::to(address, PoolOptions::default());
        let error = proxy.client().call(&payload(1, 0)).unwrap_err();
        assert!(error.contains(words), "{address}: {error}");
        proxy.transport.close(Duration::ZERO);
    }
}

/// A node that does with its first connection what a test says.
fn by_hand(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    (address, thread)
}

/// Answers a connection's next call, which is sent after the answer to the one before, with its own payload; returns its method.
fn answer_next(stream: &mut TcpStream) -> String {
    let mut input = Vec::new();
    loop {
        if let Parsed::Whole { message, .. } = parse_frame(&input, Limits::default()).unwrap() {
            let FrameKind::Twoway { method, seq } = message.kind else {
                panic!("{:?} is no call", message.kind)
            };
            let mut bytes = Vec::new();
            let kind = FrameKind::Answer { status: 0, seq };
            write_frame(&mut bytes, Encoding::Msgpack, kind, message.payload).unwrap();
            stream.write_all(&bytes).unwrap();
            return method.to_owned();
        }
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the connection ended before a call");
        input.extend_from_slice(&chunk[..count]);
    }
}

#[test]
fn each_call_of_a_connection_that_dies_ends_once() {
    let (told, heard) = mpsc::sync_channel::<()>(1);
    let (address, node) = by_hand(move |mut stream| {
        // Reads something of the calls, and goes.
        let _ = stream.read(&mut [0; 64]);
        heard.recv().unwrap();
    });
    let proxy = Proxy::to(&address, PoolOptions::default());
    let mut client = proxy.client();
    for seq in 0..10 {
        client.send(seq, &payload(1, 10));
    }
    told.send(()).unwrap();
    let mut seen: Vec<u32> = (0..10)
        .map(|_| {
            let (seq, status, error) = client.answer();
            assert!(
                status != 0 && error_of(&error).contains("node \"b\""),
                "{}",
                error_of(&error)
            );
            seq
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    let [calls, failures, outstanding] = proxy.counted();
    assert_eq!((calls, outstanding), (failures, 0));
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn the_wait_for_a_node_that_answers_and_dies_does_not_grow() {
    // The last of so many waits would be of eighteen minutes.
    const DEATHS: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = std::thread::spawn(move || {
        for _ in 0..DEATHS {
            let mut stream = listener.accept().unwrap().0;
            assert_eq!(answer_next(&mut stream), "echo");
            // Dies on the next.
            let _ = stream.read(&mut [0; 64]);
        }
    });
    let retry = RetryOptions {
        first: Duration::from_millis(1),
        most: Duration::from_secs(3600),
    };
    let pool = PoolOptions {
        retry,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    let mut client = proxy.client();
    let until = Instant::now() + Duration::from_secs(60);
    for death in 0..DEATHS {
        while client.call(&payload(1, 0)).is_err() {
            assert!(Instant::now() < until, "it is not reached again after {death}");
        }
        client.call(&payload(1, 0)).unwrap_err();
    }
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn a_node_that_says_nothing_or_nonsense_is_given_up() {
    let answer = |seq| {
        let mut bytes = Vec::new();
        let kind = FrameKind::Answer { status: 0, seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &[0x80]).unwrap();
        bytes
    };
    for (bytes, words) in [
        (Vec::new(), "sent nothing for 300 ms"),
        (b"no frame at all".to_vec(), "sent what is no answer"),
        (answer(999), "an answer to 999, which was not asked"),
    ] {
        let (address, node) = by_hand(move |mut stream| {
            let _ = stream.read(&mut [0; 64]);
            stream.write_all(&bytes).unwrap();
            // Until the proxy ends it.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let pool = PoolOptions {
            answer_timeout: Duration::from_millis(300),
            ..PoolOptions::default()
        };
        let proxy = Proxy::to(&address, pool);
        let error = proxy.client().call(&payload(1, 0)).unwrap_err();
        assert!(error.contains(words), "{error}");
        node.join().unwrap();
        proxy.transport.close(Duration::ZERO);
    }
}

#[test]
fn a_connection_without_calls_is_kept_open_by_pings() {
    let (address, node) = by_hand(|mut stream| {
        let methods = [(); 3].map(|()| answer_next(&mut stream));
        assert_eq!(methods, ["echo", "*ping", "*ping"]);
    });
    let pool = PoolOptions {
        keep_alive: Duration::from_millis(100),
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.client().call(&payload(1, 0)), Ok(payload(1, 0)));
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn calls_of_one_turn_reach_a_node_where_each_of_their_maps_has_it() {
    let nodes = [(); 2].map(|()| serve(loopback(), Echo, None));
    let addresses = [&nodes[0], &nodes[1]].map(|node| node.local_addr().to_string());
    let proxy = Proxy::to_each(&[&addresses[0], &addresses[1]], PoolOptions::default());
    let mut client = proxy.client();
    let mut bytes = Vec::new();
    for seq in 0..4 {
        let kind = FrameKind::Twoway { method: "any", seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &payload(seq as u8, 10)).unwrap();
    }
    client.stream.write_all(&bytes).unwrap();
    for _ in 0..4 {
        let (seq, status, answer) = client.answer();
        assert_eq!(status, 0, "{}", error_of(&answer));
        assert_eq!(answer, payload(seq as u8, 10));
    }
    proxy.transport.close(Duration::ZERO);
    Transport::close_all(nodes.into(), Duration::ZERO);
}

#[test]
fn a_connection_to_a_node_that_the_map_has_no_more_ends() {
    let map_of = |version: u64, name: &str, address: &str| {
        let text = format!(
            "version = {version}\nbuckets = 4\nnodes = [{{ name = \"{name}\", addresses = [\"{address}\"] }}]"
        );
        Arc::new(BucketMap::from_toml(&text).unwrap())
    };
    let (told, ended) = mpsc::sync_channel(1);
    let (address, node) = by_hand(move |mut stream| {
        let (mut input, mut pings) = (Vec::new(), 0);
        loop {
            while let Parsed::Whole { message, len } = parse_frame(&input, Limits::default()).unwrap() {
                let FrameKind::Twoway { method, seq } = message.kind else {
                    panic!("{:?} is no call", message.kind)
                };
                pings += u32::from(method == "*ping");
                let mut bytes = Vec::new();
                let kind = FrameKind::Answer { status: 0, seq };
                write_frame(&mut bytes, Encoding::Msgpack, kind, message.payload).unwrap();
                // It may be closed by then.
                let _ = stream.write_all(&bytes);
                input.drain(..len);
            }
            let mut chunk = [0; 1024];
            match stream.read(&mut chunk).unwrap() {
                0 => return told.send(true).unwrap(),
                count => input.extend_from_slice(&chunk[..count]),
            }
            if pings == 50 {
                return told.send(false).unwrap();
            }
        }
    });
    let pool = PoolOptions {
        keep_alive: Duration::from_millis(100),
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.nodes.offer(map_of(1, "b", &address)), Ok(true));
    assert_eq!(proxy.client().call(&payload(1, 0)), Ok(payload(1, 0)));
    assert_eq!(proxy.nodes.offer(map_of(2, "c", "127.0.0.1:1")), Ok(true));
    assert!(ended.recv().unwrap(), "it is kept open by pings");
    node.join().unwrap();
    proxy.transport.close(Duration::ZERO);
}

#[test]
fn a_node_whose_answer_takes_long_to_come_is_heard_all_the_while() {
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
    let (address, node) = by_hand(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let mut bytes = Vec::new();
        let kind = FrameKind::Answer { status: 0, seq: 1 };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &payload(7, 1000)).unwrap();
        let began = Instant::now();
        // Each piece comes soon after the one before, and all of them later than a silent node may be.
        let pieces = bytes.len().div_ceil(20);
        for piece in bytes.chunks(pieces) {
            stream.write_all(piece).unwrap();
            std::thread::sleep(ANSWER_TIMEOUT / 10);
        }
        assert!(began.elapsed() > ANSWER_TIMEOUT);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let pool = PoolOptions {
        answer_timeout: ANSWER_TIMEOUT,
        ..PoolOptions::default()
    };
    let proxy = Proxy::to(&address, pool);
    assert_eq!(proxy.client().call(&payload(7, 1000)), Ok(payload(7, 1000)));
    proxy.transport.close(Duration::ZERO);
    node.join().unwrap();
}
