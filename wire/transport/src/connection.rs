//! One connection on its net thread: read what is readable, serve every whole request in it, flush once.
//!
//! It is not shared with other threads: answers from them come through the mailbox. Its invariant: while it is blocked
//! (a bound is reached, or an HTTP answer must come first) it serves nothing and reads little; an idle one holds no buffer.

mod requests;

use crate::mailbox::Delivery;
use crate::net_thread::{Kind, Net};
use crate::peer::Peer;
use crate::service::{Origin, Service};
use millpond_wire_frame::is_http;
use requests::{Step, serve_frame, serve_http};
use socket2::SockRef;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

/// Unsent answers past which no further request is served: a reader that stops reading holds this much.
const OUT_BYTES_HIGH: usize = 1 << 20;
/// Bytes a blocked connection reads ahead: enough to notice that its peer leaves, and to go on at once.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Places for the times of unsent answers that an idle connection keeps.
const READY_KEPT: usize = 64;
/// How long a closing connection is drained, so that a reset does not overtake the last answer.
const LINGER: Duration = Duration::from_secs(1);
/// How long a refused connection may take to send the request that is answered `Overloaded`.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);

/// A connection; the net thread's slab and its own task hold it.
pub(crate) struct Connection {
    /// Dropping it sends the end of the stream.
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) peer: Peer,
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    pub(crate) state: RefCell<State>,
    /// Set by the stop: everything that the peer had sent by then was read.
    pub(crate) drained: Cell<bool>,
    /// Rung when a delivery unblocked it.
    pub(crate) resume: Notify,
}

/// What changes while a connection lives.
#[derive(Default)]
pub(crate) struct State {
    /// Bytes read and not yet served: less than one request, unless blocked.
    input: Vec<u8>,
    /// Input length below which no request can be whole.
    needed: usize,
    /// Answers not yet sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Since when answers in `out` are ready, where that is measured; fewer than `out` has bytes.
    ready: Vec<Instant>,
    in_flight: usize,
    /// An HTTP answer is outstanding: HTTP/1.1 has no numbers, so the next request waits.
    http_waits: bool,
    /// Close once everything is answered and flushed.
    closing: bool,
    /// The peer has sent its last byte.
    ended: bool,
    /// Writing failed; nothing more can be said.
    broken: bool,
    continue_sent: bool,
    /// The connection's task waits for nothing but an answer.
    parked: bool,
}

/// Events that a connection waits for; an answer from another thread is always one.
struct Waits {
    read: bool,
    write: bool,
    parked: bool,
}

impl State {
    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    fn finished(&self) -> bool {
        self.broken || ((self.closing || self.ended) && self.in_flight == 0 && self.unsent() == 0)
    }

    fn blocked(&self, in_flight_max: usize) -> bool {
        self.closing || self.http_waits || self.in_flight >= in_flight_max || self.unsent() >= OUT_BYTES_HIGH
    }

    /// What a connection that can serve nothing waits for.
    fn waits(&mut self, in_flight_max: usize) -> Waits {
        let blocked = self.blocked(in_flight_max);
        let read = !self.ended && !self.closing && (!blocked || self.input.len() < READ_AHEAD_BYTES);
        self.parked = blocked && !read && !self.ended;
        Waits {
            read,
            write: self.unsent() > 0,
            parked: self.parked,
        }
    }

    /// Whether the input may hold a request that can be served now.
    fn servable(&self, in_flight_max: usize) -> bool {
        !self.input.is_empty() && self.input.len() >= self.needed && !self.blocked(in_flight_max)
    }
}

impl Connection {
    fn refused(&self) -> bool {
        self.kind == Kind::Refused
    }

    /// Adds an answer from another thread.
    pub(crate) fn deliver(&self, delivery: &Delivery) {
        let mut state = self.state.borrow_mut();
        state.out.extend_from_slice(&delivery.bytes);
        // A oneway call has nothing to be written, and a rehearsal is counted nowhere.
        if self.kind == Kind::Served && !delivery.bytes.is_empty() {
            state.ready.extend(delivery.ready);
        }
        state.in_flight = state.in_flight.saturating_sub(1);
        state.http_waits = false;
        state.closing |= delivery.close;
    }

    /// Sends what is unsent, as far as the socket takes it; wakes the connection's own task if that has work to do.
    pub(crate) fn flush_and_resume<S: Service>(&self, net: &Net<S>) {
        let in_flight_max = net.options.in_flight_max;
        let mut state = self.state.borrow_mut();
        send(net, &self.writer, &mut state);
        let unparked = state.parked && !state.blocked(in_flight_max);
        if unparked || state.unsent() > 0 || state.finished() || state.servable(in_flight_max) {
            self.resume.notify_one();
        }
    }

    /// Whether nothing is owed to the peer, not even the look at what it had sent when it was first asked.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state.borrow();
        if state.in_flight > 0 || state.unsent() > 0 {
            return false;
        }
        let unread = self.kind == Kind::Served && !state.closing && !state.ended && !state.broken;
        if unread && !self.drained.get() {
            self.drained.set(!has_unread(&self.writer));
        }
        !unread || self.drained.get()
    }
}

/// Whether the peer has sent what was not read yet.
fn has_unread(writer: &OwnedWriteHalf) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    matches!(SockRef::from(writer.as_ref()).peek(&mut byte), Ok(1..))
}

/// Flushes, and tells the service how long the measured answers took once all of them have left.
fn send<S: Service>(net: &Net<S>, writer: &OwnedWriteHalf, state: &mut State) {
    flush(writer, state);
    if state.ready.is_empty() || state.unsent() > 0 {
        return;
    }
    let now = Instant::now();
    for ready in state.ready.drain(..) {
        net.service.written(now.saturating_duration_since(ready));
    }
    if state.ready.capacity() > READY_KEPT {
        state.ready = Vec::new();
    }
}

/// Writes without waiting.
fn flush(writer: &OwnedWriteHalf, state: &mut State) {
    while state.sent < state.out.len() {
        match writer.try_write(&state.out[state.sent..]) {
            Ok(0) => state.broken = true,
            Ok(bytes) => {
                state.sent += bytes;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => state.broken = true,
        }
        return;
    }
    state.sent = 0;
    state.out.clear();
    if state.out.capacity() > 4096 {
        state.out = Vec::new();
    }
}

/// The life of a connection, until either side ends it.
pub(crate) async fn run<S: Service>(net: Rc<Net<S>>, connection: Rc<Connection>, mut reader: OwnedReadHalf) {
    if connection.refused() {
        let _ = tokio::time::timeout(REFUSAL_WAIT, serve_loop(&net, &connection, &mut reader)).await;
    } else {
        serve_loop(&net, &connection, &mut reader).await;
    }
    connection.origin.gone.store(true, Ordering::Relaxed);
    let linger = {
        let state = connection.state.borrow();
        if state.ended && !state.broken && !state.input.is_empty() && !connection.refused() {
            let (peer, bytes) = (connection.peer, state.input.len());
            tracing::info!(%peer, bytes, "connection closed by its peer in the middle of a request");
            net.counters.malformed.fetch_add(1, Ordering::Relaxed);
        }
        !state.broken && !state.ended
    };
    net.forget(&connection);
    drop(connection);
    if linger {
        let _ = tokio::time::timeout(LINGER, discard(&mut reader)).await;
    }
}

/// Reads to the end, keeping nothing.
async fn discard(reader: &mut OwnedReadHalf) {
    let mut sink = [0; 4096];
    while let Ok(1..) = reader.read(&mut sink).await {}
}

async fn serve_loop<S: Service>(net: &Net<S>, connection: &Connection, reader: &mut OwnedReadHalf) {
    let in_flight_max = net.options.in_flight_max;
    loop {
        let waits = {
            let mut state = connection.state.borrow_mut();
            serve_buffered(net, connection, &mut state);
            send(net, &connection.writer, &mut state);
            if state.finished() {
                return;
            }
            if state.servable(in_flight_max) {
                continue;
            }
            state.waits(in_flight_max)
        };
        let incoming = async {
            if waits.read {
                poll_fn(|context| poll_read(net, connection, reader, context)).await;
            } else if waits.parked {
                until_gone(connection, reader).await;
            } else {
                std::future::pending().await
            }
        };
        tokio::select! {
            biased;
            () = connection.resume.notified() => {}
            () = incoming => {}
            result = connection.writer.writable(), if waits.write => {
                if result.is_err() {
                    connection.state.borrow_mut().broken = true;
                }
            }
        }
    }
}

/// Serves what was read before and could not be served then.
fn serve_buffered<S: Service>(net: &Net<S>, connection: &Connection, state: &mut State) {
    if state.servable(net.options.in_flight_max) {
        let mut input = std::mem::take(&mut state.input);
        let used = serve(net, connection, state, &input);
        input.drain(..used);
        if !input.is_empty() {
            state.input = input;
        }
    }
}

/// Reads once into the net thread's buffer and serves from there; only an unfinished request is copied out.
fn poll_read<S: Service>(
    net: &Net<S>,
    connection: &Connection,
    reader: &mut OwnedReadHalf,
    context: &mut Context<'_>,
) -> Poll<()> {
    let mut scratch = net.scratch.borrow_mut();
    let mut buffer = ReadBuf::new(&mut scratch);
    let result = ready!(Pin::new(reader).poll_read(context, &mut buffer));
    let mut state = connection.state.borrow_mut();
    let bytes = buffer.filled();
    match result {
        Ok(()) if bytes.is_empty() => state.ended = true,
        Ok(()) if state.input.is_empty() => {
            let used = serve(net, connection, &mut state, bytes);
            state.input.extend_from_slice(&bytes[used..]);
        }
        Ok(()) => {
            state.input.extend_from_slice(bytes);
            serve_buffered(net, connection, &mut state);
        }
        Err(_) => state.broken = true,
    }
    if state.ended || state.broken {
        connection.origin.gone.store(true, Ordering::Relaxed);
    }
    Poll::Ready(())
}

/// Returns when the peer closes a parked connection; its bytes stay unread.
async fn until_gone(connection: &Connection, reader: &mut OwnedReadHalf) {
    let mut byte = [0; 1];
    match reader.peek(&mut byte).await {
        Ok(1..) => return std::future::pending().await,
        Ok(0) => connection.state.borrow_mut().ended = true,
        Err(_) => connection.state.borrow_mut().broken = true,
    }
    connection.origin.gone.store(true, Ordering::Relaxed);
}

/// Serves whole requests from the front of `input` until none is left or the connection is blocked; returns bytes used.
fn serve<S: Service>(net: &Net<S>, connection: &Connection, state: &mut State, input: &[u8]) -> usize {
    let received = Instant::now();
    let mut used = 0;
    state.needed = 0;
    while used < input.len() && !state.blocked(net.options.in_flight_max) {
        let rest = &input[used..];
        let step = match is_http(rest) {
            None => Step::Partial {
                needed: 4,
                wants_continue: false,
            },
            Some(true) => serve_http(net, connection, state, rest, received),
            Some(false) => serve_frame(net, connection, state, rest, received),
        };
        match step {
            Step::Served(len) => {
                used += len;
                state.continue_sent = false;
            }
            Step::Partial {
                needed,
                wants_continue,
            } => {
                state.needed = needed;
                if wants_continue && !state.continue_sent {
                    state.continue_sent = true;
                    state.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                break;
            }
            Step::Malformed => {
                net.counters.malformed.fetch_add(1, Ordering::Relaxed);
                state.closing = true;
                used = input.len();
            }
        }
        if connection.refused() {
            state.closing = true;
        }
    }
    used
}
