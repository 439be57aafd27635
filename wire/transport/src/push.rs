//! Calls in the other direction: from this server to the peer of a connection.
//!
//! A [`Pusher`] comes from a [`Reply`](crate::Reply), and any thread may keep it and call with it. What it sends takes its turn
//! in the mailbox of the connection's net thread, behind what lies there: in order with the answers of tickets, and after an
//! answer that was made on the spot. It is not for HTTP, where a server has no word of its own. Its invariants: whoever asks is
//! told exactly once, by the answer or by why there is none; and what a connection has outstanding and owes is bounded.
//! Source: fpnn-wire.md, 1.3.

use crate::mailbox::{Key, Mailbox};
use crate::quiet::{Cause, LeftOut, Quiet};
use crate::totals::Totals;
use millpond_threads::contain;
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::{Code, Status};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes that a connection may owe its peer before further pushes are refused; the last one taken may be as large as a frame.
const OWED_BYTES_MAX: usize = 256 << 10;
/// Bytes of a frame beside its method and payload.
const HEADER_BYTES: usize = 16;
/// Bytes of a method's name: a frame has one byte for its length.
const METHOD_BYTES_MAX: usize = 255;
/// A timeout longer than this is this.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// What pushes of one connection may use.
#[derive(Debug, Clone, Copy)]
pub struct PushLimits {
    /// Pushes that wait for the peer's answer.
    pub outstanding_max: usize,
    /// The same over all connections.
    pub outstanding_total_max: usize,
    /// How long one waits that names no time of its own.
    pub timeout: Duration,
}

impl Default for PushLimits {
    /// FPNN's five seconds (fpnn-wire.md, 1.3).
    fn default() -> PushLimits {
        PushLimits {
            outstanding_max: 1024,
            outstanding_total_max: 65_536,
            timeout: Duration::from_secs(5),
        }
    }
}

/// Why a push has no answer, or was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PushError {
    /// The connection speaks HTTP.
    #[error("a server cannot call its peer over HTTP; call by frames or over a WebSocket")]
    Http,
    /// The connection is over, or its peer sends no more.
    #[error("the connection closed before the answer")]
    Closed,
    /// No answer came in time.
    #[error("the peer did not answer within {} ms", .after.as_millis())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// Too many wait for answers, over all connections.
    #[error(
        "{limit} pushes of all connections wait for their peers' answers already; push less, or wait for them"
    )]
    OutstandingInAll {
        /// How many may.
        limit: usize,
    },
    /// Too much waits for all peers to read.
    #[error(
        "{limit} bytes wait for all peers to read them; push again later, or raise server.write_buffers_total_bytes_max"
    )]
    Full {
        /// How many may.
        limit: usize,
    },
    /// Too many wait for answers.
    #[error("{limit} pushes wait for the peer's answers already; push less, or wait for them")]
    Outstanding {
        /// How many may.
        limit: usize,
    },
    /// The peer does not read what it is sent.
    #[error("{bytes} bytes wait for the peer to read them; the limit is {limit}")]
    Unread {
        /// Bytes that wait.
        bytes: usize,
        /// How many may before a push is refused.
        limit: usize,
    },
    /// Larger than a frame may be.
    #[error(
        "the push is a frame of {bytes} bytes; the limit is {limit} (push less at once, or raise server.frame_bytes_max)"
    )]
    TooLarge {
        /// Bytes of the whole frame.
        bytes: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A method's name that no frame can carry.
    #[error("the method's name has {bytes} bytes; expected 1 to 255")]
    Method {
        /// Its length.
        bytes: usize,
    },
}

impl From<PushError> for Status {
    /// What a call is answered whose answer needed the peer's.
    fn from(error: PushError) -> Status {
        let code = match error {
            PushError::Http => Code::InvalidConnection,
            PushError::Closed => Code::ConnectionClosed,
            PushError::TimedOut { .. } => Code::Timeout,
            PushError::Outstanding { .. }
            | PushError::OutstandingInAll { .. }
            | PushError::Unread { .. }
            | PushError::Full { .. } => Code::Overloaded,
            PushError::TooLarge { .. } => Code::TooLarge,
            PushError::Method { .. } => Code::BadArgument,
        };
        Status::new(code, error.to_string())
    }
}

/// What the peer answered.
#[derive(Debug, Clone, Copy)]
pub struct PushAnswer<'a> {
    /// 0 is success; anything else is an error map.
    pub status: u8,
    /// How the payload is written: the push's own encoding, from a peer that keeps to the protocol.
    pub encoding: Encoding,
    /// Bytes of what should be one map; nobody has looked at them yet.
    pub payload: &'a [u8],
}

type OnAnswer = Box<dyn FnOnce(Result<PushAnswer<'_>, PushError>) + Send>;

/// What the pushers of a connection and the connection share.
#[derive(Debug)]
pub(crate) struct Line {
    limits: PushLimits,
    frame_bytes_max: usize,
    /// What all connections hold together.
    totals: Arc<Totals>,
    /// No push goes out any more.
    closed: AtomicBool,
    /// Pushes that wait for an answer, those in the mailbox included.
    outstanding: AtomicUsize,
    /// Bytes of pushes in the mailbox.
    queued_bytes: AtomicUsize,
    /// What the connection owes its peer, as of its last turn.
    unsent_bytes: AtomicUsize,
}

impl Line {
    pub(crate) fn new(limits: PushLimits, frame_bytes_max: usize, totals: Arc<Totals>) -> Line {
        Line {
            limits,
            frame_bytes_max,
            totals,
            closed: AtomicBool::new(false),
            outstanding: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            unsent_bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_unsent(&self, bytes: usize) {
        self.unsent_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a push on their way to its connection.
#[derive(Debug)]
struct Queued {
    line: Arc<Line>,
    bytes: usize,
    /// Those of them that count for all connections; none once the connection counts them.
    counted: usize,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.line.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.line.totals.take(self.counted);
    }
}

/// Somebody who waits for an answer; who is dropped unanswered is told that the connection closed.
pub(crate) struct Waiting {
    line: Arc<Line>,
    pub(crate) until: Instant,
    after: Duration,
    on_answer: Option<OnAnswer>,
}

impl Waiting {
    pub(crate) fn answered(self, answer: PushAnswer<'_>) {
        self.end(Ok(answer));
    }

    pub(crate) fn timed_out(self) {
        let after = self.after;
        self.end(Err(PushError::TimedOut { after }));
    }

    fn end(mut self, result: Result<PushAnswer<'_>, PushError>) {
        let on_answer = self.on_answer.take();
        let totals = Arc::clone(&self.line.totals);
        // Counted out first: who is told may ask the next thing.
        drop(self);
        if let Some(on_answer) = on_answer {
            tell(on_answer, result, totals.quiet());
        }
    }
}

/// Tells whoever waits. The code is the caller's: a panic in it ends nothing else.
fn tell(on_answer: OnAnswer, result: Result<PushAnswer<'_>, PushError>, quiet: &Quiet) {
    if let Err(panic) = contain(|| on_answer(result))
        && let Some(LeftOut(left_out)) = quiet.admits(Cause::ReceiverPanicked)
    {
        tracing::error!(%panic, left_out, "the receiver of a peer's answer panicked");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.line.outstanding.fetch_sub(1, Ordering::Relaxed);
        self.line.totals.forget_push();
        if let Some(on_answer) = self.on_answer.take() {
            tell(on_answer, Err(PushError::Closed), self.line.totals.quiet());
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Waiting")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// A call to a peer that its connection has not sent yet.
#[derive(Debug)]
pub(crate) struct Push {
    pub(crate) key: Key,
    pub(crate) method: String,
    pub(crate) encoding: Encoding,
    pub(crate) payload: Vec<u8>,
    /// Who waits for its answer; nobody, where it has none.
    pub(crate) waiting: Option<Waiting>,
    /// Counts its bytes until it is sent.
    queued: Queued,
}

impl Push {
    /// From here on whoever sends it counts its bytes among those of all connections: how many are counted.
    pub(crate) fn take_counted(&mut self) -> usize {
        std::mem::take(&mut self.queued.counted)
    }
}

/// The way to call the peer of one connection. It is cheap to clone, and outlives the connection: then it says so.
#[derive(Debug, Clone)]
pub struct Pusher {
    pub(crate) key: Key,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) line: Arc<Line>,
}

impl Pusher {
    /// Calls the peer without asking for an answer. It was sent, or will be, unless the connection ends before.
    ///
    /// # Errors
    /// Any [`PushError`] but [`PushError::TimedOut`]; nothing is sent then.
    pub fn tell(
        &self,
        method: &str,
        encoding: Encoding,
        write: impl FnOnce(&mut Encoder<'_>),
    ) -> Result<(), PushError> {
        let push = self.make(method, encoding, write)?;
        self.post(push)
    }

    /// Calls the peer and hands its answer to `on_answer`, or why there is none: exactly once, on the connection's net thread,
    /// which it must not block, or on this thread where it can be said at once. `timeout` counts from here; without one that
    /// of [`PushLimits`] holds. It is kept to within a fifth of a second.
    pub fn ask(
        &self,
        method: &str,
        encoding: Encoding,
        timeout: Option<Duration>,
        write: impl FnOnce(&mut Encoder<'_>),
        on_answer: impl FnOnce(Result<PushAnswer<'_>, PushError>) + Send + 'static,
    ) {
        let (limits, line) = (self.line.limits, &self.line);
        let before = line.outstanding.fetch_add(1, Ordering::Relaxed);
        let has_place = line.totals.await_push();
        let after = timeout.unwrap_or(limits.timeout).min(TIMEOUT_MAX);
        let waiting = Waiting {
            line: Arc::clone(line),
            until: Instant::now() + after,
            after,
            on_answer: Some(Box::new(on_answer)),
        };
        if before >= limits.outstanding_max {
            let limit = limits.outstanding_max;
            return waiting.end(Err(PushError::Outstanding { limit }));
        }
        if !has_place {
            let limit = line.totals.pushes_max();
            return waiting.end(Err(PushError::OutstandingInAll { limit }));
        }
        match self.make(method, encoding, write) {
            Ok(mut push) => {
                push.waiting = Some(waiting);
                // What cannot be posted is dropped, and with it the one who waits is told.
                let _ = self.post(push);
            }
            Err(error) => waiting.end(Err(error)),
        }
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.line.closed.load(Ordering::Relaxed)
    }

    fn make(
        &self,
        method: &str,
        encoding: Encoding,
        write: impl FnOnce(&mut Encoder<'_>),
    ) -> Result<Box<Push>, PushError> {
        if method.is_empty() || method.len() > METHOD_BYTES_MAX {
            let bytes = method.len();
            return Err(PushError::Method { bytes });
        }
        if self.is_closed() {
            return Err(PushError::Closed);
        }
        let mut payload = Vec::new();
        write(&mut Encoder::new(&mut payload, encoding, false));
        let (bytes, limit) = (
            HEADER_BYTES + method.len() + payload.len(),
            self.line.frame_bytes_max,
        );
        if bytes > limit {
            return Err(PushError::TooLarge { bytes, limit });
        }
        if !self.line.totals.admit(bytes) {
            let limit = self.line.totals.write_bytes_max();
            return Err(PushError::Full { limit });
        }
        let before = self.line.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queued = Queued {
            line: Arc::clone(&self.line),
            bytes,
            counted: bytes,
        };
        let owed = before + self.line.unsent_bytes.load(Ordering::Relaxed);
        if owed >= OWED_BYTES_MAX {
            return Err(PushError::Unread {
                bytes: owed,
                limit: OWED_BYTES_MAX,
            });
        }
        Ok(Box::new(Push {
            key: self.key,
            method: method.to_owned(),
            encoding,
            payload,
            waiting: None,
            queued,
        }))
    }

    fn post(&self, push: Box<Push>) -> Result<(), PushError> {
        // Dropped outside of the mailbox's lock.
        self.mailbox.push(push).map_err(|_| PushError::Closed)
    }
}
