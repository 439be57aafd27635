//! The other end of a connection, driven by hand: it reads calls, and writes whatever a test says.
//!
//! It is no server: it decides nothing. Its invariant: nothing is answered that a test did not write.

use millpond_client_rust::{Client, Options};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

/// The empty msgpack map.
pub const EMPTY: &[u8] = &[0x80];

/// A call as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Quest {
    pub method: String,
    /// `None` for a oneway call.
    pub seq: Option<u32>,
    pub encoding: Encoding,
    pub payload: Vec<u8>,
}

/// A connection of any kind.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// One accepted connection.
pub struct Peer {
    stream: Box<dyn Duplex>,
    input: Vec<u8>,
}

/// A listener on a free port, and its address.
pub async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    (listener, addr)
}

/// A port that nobody listens on and that no other process can take while the socket lives.
pub fn hold(addr: &str) -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(addr.parse().unwrap()).unwrap();
    let addr = socket.local_addr().unwrap().to_string();
    (socket, addr)
}

/// A client with one connection, and that connection's other end.
pub async fn pair() -> (Client, Peer, TcpListener) {
    pair_with(Options::default()).await
}

/// The same, of a client that was told more.
pub async fn pair_with(options: Options) -> (Client, Peer, TcpListener) {
    let (listener, addr) = listen().await;
    let client = Client::connect(&addr, options).await.unwrap();
    let peer = Peer::accept(&listener).await;
    (client, peer, listener)
}

/// The payload {"n": `number`}.
pub fn number(number: u8) -> Vec<u8> {
    vec![0x81, 0xa1, b'n', 0xcc, number]
}

/// An answer's frame.
pub fn answer(seq: u32, status: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(
        &mut out,
        Encoding::Msgpack,
        FrameKind::Answer { status, seq },
        payload,
    )
    .unwrap();
    out
}

impl Peer {
    pub async fn accept(listener: &TcpListener) -> Peer {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Peer::over(stream)
    }

    pub fn over(stream: impl Duplex + 'static) -> Peer {
        Peer {
            stream: Box::new(stream),
            input: Vec::new(),
        }
    }

    /// The next frame that came, or `None` when the client has closed; answers to this peer's own calls come as frames
    /// with an empty method.
    pub async fn next(&mut self) -> Option<Quest> {
        loop {
            if let Parsed::Whole { message, len } = parse_frame(&self.input, Limits::default()).unwrap() {
                let (method, seq) = match message.kind {
                    FrameKind::Oneway { method } => (method, None),
                    FrameKind::Twoway { method, seq } => (method, Some(seq)),
                    FrameKind::Answer { seq, .. } => ("", Some(seq)),
                };
                let quest = Quest {
                    method: method.to_owned(),
                    seq,
                    encoding: message.encoding,
                    payload: message.payload.to_vec(),
                };
                self.input.drain(..len);
                return Some(quest);
            }
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next bytes as they came.
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count {
            assert_ne!(self.stream.read_buf(&mut self.input).await.unwrap(), 0, "closed");
        }
        self.input.drain(..count).collect()
    }

    /// The next call that wants an answer: its number and payload.
    pub async fn call(&mut self) -> (u32, Vec<u8>) {
        let quest = self.next().await.unwrap();
        (quest.seq.unwrap(), quest.payload)
    }

    /// Answers the next call with its own payload.
    pub async fn echo(&mut self) {
        let (seq, payload) = self.call().await;
        self.send(&answer(seq, 0, &payload)).await;
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Whether the client ends the stream as its kind of stream is ended, and not by cutting it off.
    pub async fn ends_cleanly(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.input).await, Ok(0))
    }

    /// Says that nothing more comes, and waits until the client has closed.
    pub async fn end(&mut self) {
        self.stream.shutdown().await.unwrap();
        assert_eq!(self.next().await, None);
    }
}
