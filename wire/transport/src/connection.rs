//! One connection on its net thread: read what is readable, serve every whole request in it, flush once.
//!
//! It is not shared with other threads: answers from them come through the mailbox. Its invariant: while it is blocked
//! (a bound is reached, or an HTTP answer must come first) it serves nothing and reads little; an idle one holds no buffer.

use crate::answer::Form;
use crate::mailbox::Delivery;
use crate::net_thread::Net;
use crate::service::{Meta, Origin, Outcome, Reply, Request, Service, Target};
use millpond_wire_frame::{
    Encoding, Frame, FrameKind, HttpError, HttpRequest, Parsed, is_http, parse_frame, parse_http,
    service_method, service_payload,
};
use millpond_wire_schema::{Code, Status};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
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
/// How long a closing connection is drained, so that a reset does not overtake the last answer.
const LINGER: Duration = Duration::from_secs(1);
/// How long a refused connection may take to send the request that is answered `Overloaded`.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);

/// A connection; the net thread's slab and its own task hold it.
pub(crate) struct Connection {
    /// Dropping it sends the end of the stream.
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) peer: SocketAddr,
    pub(crate) origin: Origin,
    /// Over the connection limit: its first request is answered `Overloaded`, and that is all.
    pub(crate) refused: bool,
    pub(crate) state: RefCell<State>,
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
    /// Adds an answer from another thread.
    pub(crate) fn deliver(&self, delivery: &Delivery) {
        let mut state = self.state.borrow_mut();
        state.out.extend_from_slice(&delivery.bytes);
        state.in_flight = state.in_flight.saturating_sub(1);
        state.http_waits = false;
        state.closing |= delivery.close;
    }

    /// Sends what is unsent, as far as the socket takes it; wakes the connection's own task if that has work to do.
    pub(crate) fn flush_and_resume(&self, in_flight_max: usize) {
        let mut state = self.state.borrow_mut();
        flush(&self.writer, &mut state);
        let unparked = state.parked && !state.blocked(in_flight_max);
        if unparked || state.unsent() > 0 || state.finished() || state.servable(in_flight_max) {
            self.resume.notify_one();
        }
    }

    /// Whether nothing is owed to the peer.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state.borrow();
        state.in_flight == 0 && state.unsent() == 0
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
    if connection.refused {
        let _ = tokio::time::timeout(REFUSAL_WAIT, serve_loop(&net, &connection, &mut reader)).await;
    } else {
        serve_loop(&net, &connection, &mut reader).await;
    }
    connection.origin.gone.store(true, Ordering::Relaxed);
    let linger = {
        let state = connection.state.borrow();
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
            flush(&connection.writer, &mut state);
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
        if connection.refused {
            state.closing = true;
        }
    }
    used
}

/// What came of the bytes at the front.
enum Step {
    Served(usize),
    Partial { needed: usize, wants_continue: bool },
    Malformed,
}

fn serve_frame<S: Service>(
    net: &Net<S>,
    connection: &Connection,
    state: &mut State,
    rest: &[u8],
    received: Instant,
) -> Step {
    let (frame, len): (Frame<'_>, usize) = match parse_frame(rest, net.options.limits) {
        Ok(Parsed::Whole { message, len }) => (message, len),
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => {
            return Step::Partial {
                needed,
                wants_continue,
            };
        }
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: not a frame");
            if let Some(seq) = error.seq() {
                // The reason in the caller's own encoding, as far as its flags name one.
                let json = rest.get(5).is_some_and(|flags| flags & 0xc0 == 0x40);
                let encoding = if json { Encoding::Json } else { Encoding::Msgpack };
                let form = Form::Frame { encoding, seq };
                form.error(&mut state.out, &Status::from(error));
            }
            return Step::Malformed;
        }
    };
    let (form, method) = match frame.kind {
        FrameKind::Oneway { method } => (Form::Oneway, method),
        FrameKind::Twoway { method, seq } => (
            Form::Frame {
                encoding: frame.encoding,
                seq,
            },
            method,
        ),
        // No call has gone out from here, so nothing waits for this.
        FrameKind::Answer { .. } => return Step::Served(len),
    };
    let request = Request {
        target: Target::Method(method),
        encoding: frame.encoding,
        payload: frame.payload,
        meta: Meta::default(),
        received,
        peer: connection.peer,
    };
    call(net, connection, state, form, request);
    Step::Served(len)
}

fn serve_http<S: Service>(
    net: &Net<S>,
    connection: &Connection,
    state: &mut State,
    rest: &[u8],
    received: Instant,
) -> Step {
    let (request, len) = match parse_http(rest, net.options.limits) {
        Ok(Parsed::Whole { message, len }) => (message, len),
        Ok(Parsed::Partial {
            needed,
            wants_continue,
        }) => {
            return Step::Partial {
                needed,
                wants_continue,
            };
        }
        Err(error) => {
            tracing::info!(peer = %connection.peer, %error, "connection closed: bad HTTP request");
            let code = match error {
                HttpError::BodyTooLarge { .. } => Code::TooLarge,
                HttpError::Malformed { .. } | HttpError::HeadTooLarge { .. } => Code::BadHttp,
            };
            let form = Form::Http {
                keep_alive: false,
                head_only: false,
            };
            form.error(&mut state.out, &Status::new(code, error.to_string()));
            return Step::Malformed;
        }
    };
    let keep_alive = request.keep_alive && !connection.refused;
    let form = Form::Http {
        keep_alive,
        head_only: request.verb == "HEAD",
    };
    let method = service_method(request.path);
    let Some(payload) = http_payload(&request, method.is_some()) else {
        let ex = format!(
            "{} {} is not served; call methods with POST /service/METHOD or GET /service/METHOD?fpnn=…",
            request.verb, request.path
        );
        form.error(&mut state.out, &Status::new(Code::ReadOnly, ex));
        state.closing |= !keep_alive;
        return Step::Served(len);
    };
    let target = match &method {
        Some(method) => Target::Method(method),
        None => Target::Path {
            verb: request.verb,
            path: request.path,
        },
    };
    let meta = Meta {
        deadline_ms: request.deadline_ms,
        trace: request.trace,
    };
    let call_request = Request {
        target,
        encoding: Encoding::Json,
        payload: &payload,
        meta,
        received,
        peer: connection.peer,
    };
    let outcome = call(net, connection, state, form, call_request);
    if outcome == Outcome::Detached {
        state.http_waits = true;
    } else {
        state.closing |= !keep_alive;
    }
    Step::Served(len)
}

/// The map a method is called with; `None` when the verb cannot call a method.
fn http_payload<'r>(request: &'r HttpRequest<'_>, is_method: bool) -> Option<Cow<'r, [u8]>> {
    match request.verb {
        _ if !is_method => Some(Cow::Borrowed(request.body.as_ref())),
        "POST" if request.body.is_empty() => Some(Cow::Borrowed(b"{}")),
        "POST" => Some(Cow::Borrowed(request.body.as_ref())),
        "GET" | "HEAD" => Some(service_payload(request.query)),
        _ => None,
    }
}

fn call<S: Service>(
    net: &Net<S>,
    connection: &Connection,
    state: &mut State,
    form: Form,
    request: Request<'_>,
) -> Outcome {
    if connection.refused {
        let ex = format!(
            "the connection limit of {} is reached; try again later, or raise server.connections_max",
            net.options.connections_max
        );
        form.error(&mut state.out, &Status::new(Code::Overloaded, ex));
        return Outcome::Answered;
    }
    let mut outcome = Outcome::Dropped;
    let reply = Reply {
        form,
        out: &mut state.out,
        outcome: &mut outcome,
        origin: &connection.origin,
        base64: false,
    };
    net.service.call(request, reply);
    match outcome {
        Outcome::Dropped => form.error(
            &mut state.out,
            &Status::new(Code::Internal, "the handler returned no answer"),
        ),
        Outcome::Detached => state.in_flight += 1,
        Outcome::Answered => {}
    }
    outcome
}
