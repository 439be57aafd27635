//! Transports that call one another: a node that echoes or does what a test says, and a proxy that sends every call on to it.

use millpond_calls::{
    Call, NodeAnswer, NodeCall, NodeError, NodeSink, Nodes, NodesOptions, Outbound, Reply, Service, Ticket,
};
use millpond_fronts_answer::{Reach, Serving};
use millpond_fronts_native::{self as native, Names, NativeOptions, NodePool, PoolOptions};
use millpond_net::{Fronts, Hints, Listener, Options, Timeouts, Transport};
use millpond_nodes::Node;
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Value, decode_map};
use millpond_wire_schema::{Code, Status};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Answers what it was sent, with an error where that is empty.
#[derive(Clone)]
pub struct Echo;

impl Service for Echo {
    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        match call.payload {
            [0x80] => reply.error(&Status::new(Code::BadArgument, "empty")),
            payload => reply.ok(|out| out.raw(payload)),
        }
    }
}

/// Sends every call on to a node: to the one whose turn the call's number says.
pub struct Forwarder {
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
            encoding: Encoding::Msgpack,
            method: "echo",
            payload: call.payload.to_vec(),
            sink: Box::new(Answers(reply.later())),
        });
    }

    fn outbound(&self) -> Option<&Outbound> {
        Some(&self.outbound)
    }
}

pub struct Answers(Ticket);

impl NodeSink for Answers {
    fn ended(self: Box<Self>, _: &Outbound, _: Instant, answer: Result<NodeAnswer<'_>, NodeError>) {
        match answer {
            Ok(answer) => self.0.ok(|out| out.raw(answer.payload)),
            Err(error) => self.0.error(&error.status),
        }
    }
}

pub fn options() -> Options {
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

pub fn serve<S: Service>(listener: Listener, service: S, reach: Option<Box<dyn Reach<S>>>) -> Transport {
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

pub fn loopback() -> Listener {
    Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), "here").unwrap()
}

/// Forwards to a node at that address.
pub struct Proxy {
    pub transport: Transport,
    pub nodes: Arc<Nodes>,
}

impl Proxy {
    pub fn to(address: &str, pool: PoolOptions) -> Proxy {
        Proxy::to_each(&[address], pool)
    }

    /// To one node that several maps have at several addresses.
    pub fn to_each(addresses: &[&str], pool: PoolOptions) -> Proxy {
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

    pub fn client(&self) -> Client {
        let stream = TcpStream::connect(self.transport.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client {
            stream,
            input: Vec::new(),
        }
    }

    pub fn counted(&self) -> [u64; 3] {
        let counts = self.nodes.counts("b");
        [&counts.calls, &counts.failures, &counts.outstanding].map(|count| count.load(Ordering::Relaxed))
    }
}

pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    pub fn send(&mut self, seq: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        let kind = FrameKind::Twoway { method: "any", seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, payload).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next answer: its number, status and payload.
    pub fn answer(&mut self) -> (u32, u8, Vec<u8>) {
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
    pub fn call(&mut self, payload: &[u8]) -> Result<Vec<u8>, String> {
        self.send(1, payload);
        match self.answer() {
            (_, 0, payload) => Ok(payload),
            (_, _, error) => Err(error_of(&error)),
        }
    }
}

pub fn error_of(payload: &[u8]) -> String {
    let map = decode_map(Encoding::Msgpack, payload).unwrap();
    let retryable = matches!(map.get("retryable"), Some(Value::Bool(true)));
    format!("{} retryable={retryable}", Status::decode(&map))
}

/// {"n": number}, as long as is asked.
pub fn payload(number: u8, bytes: u16) -> Vec<u8> {
    let mut payload = vec![0x82, 0xa1, b'n', number & 0x7f, 0xa1, b'x', 0xc5];
    payload.extend(bytes.to_be_bytes());
    payload.resize(payload.len() + usize::from(bytes), number);
    payload
}

/// A node that does with its first connection what a test says.
pub fn by_hand(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    (address, thread)
}

/// Answers a connection's next call, which is sent after the answer to the one before, with its own payload; returns its method.
pub fn answer_next(stream: &mut TcpStream) -> String {
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
