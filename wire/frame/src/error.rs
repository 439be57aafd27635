//! What can be wrong with bytes from a peer; each case says what was found and what was expected.
//! It decides no status code: wire/schema maps these to the wire.

use crate::is_http;
use crate::websocket::close_code;
use thiserror::Error;

/// A frame that cannot be served. The connection closes after it, because the next frame's start is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct FrameError {
    /// What is wrong with it.
    pub problem: FrameProblem,
    /// The sequence number an error answer can carry, if the frame got that far and has one.
    pub seq: Option<u32>,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameProblem {
    /// The first four bytes are neither `FPNN` nor an HTTP method.
    #[error("{}", not_magic(*.0))]
    Magic([u8; 4]),
    /// A version this build does not speak.
    #[error("frame version {0}; this server speaks version 1")]
    Version(u8),
    /// Both or neither of the msgpack and JSON flags, or a reserved flag.
    #[error("frame flags {0:#04x}; expected 0x80 (msgpack) or 0x40 (JSON) alone")]
    Flags(u8),
    /// A message type that does not exist.
    #[error("message type {0}; expected 0 (oneway), 1 (twoway) or 2 (answer)")]
    Kind(u8),
    /// A quest without a method, or one whose name is no UTF-8.
    #[error("the method name is {0}; expected 1 to 255 bytes of UTF-8")]
    Method(&'static str),
    /// A payload of no bytes; the smallest is an empty map.
    #[error("the payload is empty; expected a map (an empty one is the byte 80, or {{}})")]
    EmptyPayload,
    /// Larger than this side accepts.
    #[error(
        "the frame is {bytes} bytes; the limit is {limit} (split the call, or raise server.frame_bytes_max)"
    )]
    TooLarge {
        /// Bytes of the whole frame.
        bytes: usize,
        /// The limit in force.
        limit: usize,
    },
}

fn not_magic(found: [u8; 4]) -> String {
    match is_http(&found) {
        Some(true) => {
            "an HTTP request; this connection speaks frames since its first one: open another for HTTP"
                .to_owned()
        }
        _ => format!("the first bytes are {found:02x?}; expected the magic \"FPNN\" or an HTTP request"),
    }
}

impl FrameProblem {
    /// The error, of a frame with this sequence number.
    pub(crate) fn of(self, seq: Option<u32>) -> FrameError {
        FrameError { problem: self, seq }
    }
}

/// An HTTP request that cannot be served; the connection closes after the answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpError {
    /// Not HTTP/1.1, or against its rules.
    #[error("bad HTTP request: {0}")]
    Malformed(String),
    /// More head than is accepted.
    #[error("{0}")]
    HeadTooLarge(String),
    /// A body whose announced length has more than 64 bits; its first digits where it is long.
    #[error(
        "Content-Length is {0}, which is more than any body has; split the call, and send its length in bytes"
    )]
    Length(String),
    /// More body than is accepted.
    #[error(
        "the HTTP body is {bytes} bytes; the limit is {limit} (split the call, or raise server.frame_bytes_max)"
    )]
    BodyTooLarge {
        /// Bytes announced or read.
        bytes: u64,
        /// The limit in force.
        limit: usize,
    },
    /// An upgrade to a WebSocket version other than 13, or to none; answered 426 with the version that is spoken.
    #[error("Sec-WebSocket-Version is {0:?}; this server speaks 13")]
    UpgradeVersion(String),
}

/// What a RESP peer sent against the protocol or past the limit, in Redis's words; the connection closes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RespError {
    /// A count of arguments that is no number, or whose command would be over the limit.
    #[error("invalid multibulk length")]
    Count,
    /// The same of the length of an argument.
    #[error("invalid bulk length")]
    Length,
    /// An argument that is no bulk string: arrays hold no arrays.
    #[error("expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    /// More bytes than an argument was announced with.
    #[error("expected a line end behind a bulk string")]
    LineEnd,
    /// An inline command that does not end.
    #[error("too big inline request")]
    Line,
    /// An inline command with a quote that is not closed, or with a word that goes on behind one.
    #[error("unbalanced quotes in request")]
    Quotes,
}

/// What a WebSocket peer sent against RFC 6455 or past the limit; the connection closes after it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebSocketError {
    /// A frame's header that may not be, or may not come here.
    #[error("a WebSocket frame starts with {found:02x?}: {problem}")]
    Header {
        /// Its first two bytes.
        found: [u8; 2],
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A close frame whose payload is neither empty nor a code and a reason.
    #[error("a close frame holds {0}; expected nothing, or a code from 1000 to 4999 that may be sent")]
    CloseBody(String),
    /// Text that is no UTF-8.
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// A message that is more than is accepted, with its fragments so far.
    #[error(
        "the WebSocket message has {bytes} bytes or more; the limit is {limit} (split the call, or raise server.frame_bytes_max)"
    )]
    TooLarge {
        /// Bytes announced.
        bytes: u64,
        /// The limit in force.
        limit: usize,
    },
}

impl WebSocketError {
    /// The status code that the close frame after it carries (RFC 6455 section 7.4.1).
    pub fn close_code(&self) -> u16 {
        match self {
            WebSocketError::Header { .. } | WebSocketError::CloseBody(_) => close_code::PROTOCOL,
            WebSocketError::Text(_) => close_code::INVALID_TEXT,
            WebSocketError::TooLarge { .. } => close_code::TOO_LARGE,
        }
    }
}
