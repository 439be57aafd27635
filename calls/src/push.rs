//! Calls in the other direction: from this process to its caller.
//!
//! A [`Pusher`] comes from a [`Reply`](crate::Reply), and any thread may keep it and call with it. Its invariant: each
//! call back ends exactly once, with the answer or with why there is none.

use millpond_wire_payload::Encoding;
use millpond_wire_schema::{Code, Status};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

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
    /// As much waits as may, for answers or to be read: why.
    #[error("{0}")]
    Overloaded(String),
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
            PushError::Overloaded(_) => Code::Overloaded,
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

/// What takes an answer, or why there is none.
pub type OnAnswer = Box<dyn FnOnce(Result<PushAnswer<'_>, PushError>) + Send>;

/// The way to call one caller.
pub trait Push: Send + Sync + fmt::Debug {
    /// Calls without asking for an answer. It was sent, or will be, unless the caller goes before.
    ///
    /// # Errors
    /// Any [`PushError`] but [`PushError::TimedOut`]; nothing is sent then.
    fn tell(&self, method: &str, encoding: Encoding, payload: &[u8]) -> Result<(), PushError>;

    /// Calls, and hands the answer to `on_answer`, or why there is none: exactly once, on the connection's net thread,
    /// which it must not block, or on this thread where it can be said at once. `timeout` counts from here; without one it
    /// is five seconds. It is kept to within a fifth of a second.
    fn ask(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
        timeout: Option<Duration>,
        on_answer: OnAnswer,
    );
}

/// The same for any thread to keep. It outlives the caller: then it says so.
pub type Pusher = Arc<dyn Push>;
