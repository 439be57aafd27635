//! FPNN frames, HTTP/1.1 messages, WebSocket frames and RESP commands of Millpond.
//!
//! It is not a connection: nothing here reads or writes a socket. The server and the Rust client share this copy; press has
//! its own. What a frame carries is wire/payload's to read.
//! Its invariant: no input makes it panic or allocate beyond what the caller's limits and the input's own length allow.
//!
//! ```
//! use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
//!
//! let mut bytes = Vec::new();
//! write_frame(&mut bytes, Encoding::Msgpack, FrameKind::Twoway { method: "*ping", seq: 7 }, &[0x80]).unwrap();
//! match parse_frame(&bytes, Limits::default()).unwrap() {
//!     Parsed::Whole { message, len } => {
//!         assert_eq!(message.kind, FrameKind::Twoway { method: "*ping", seq: 7 });
//!         assert_eq!(len, bytes.len());
//!     }
//!     Parsed::Partial { .. } => unreachable!(),
//! }
//! ```

mod awaited;
mod error;
mod fpnn;
mod http;
mod resp;
pub mod websocket;

pub use awaited::{Awaited, Returned};
pub use error::{FrameError, FrameProblem, HttpError, RespError, WebSocketError};
pub use fpnn::{
    Frame, FrameKind, answer_form, begin_answer, finish_answer, parse_frame, payloads_of_alike, write_frame,
};
pub use http::{
    HttpAnswer, HttpProgress, HttpRequest, is_http, parse_http, service_method, service_payload, write_http,
    write_preflight, write_switching,
};
pub use millpond_wire_payload::Encoding;
pub use resp::{
    RespCommand, RespProgress, RespReply, RespVersion, RespWords, parse_resp, parse_resp_on,
    write_resp_command,
};

/// What a peer may make this side hold, checked before anything is allocated.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one whole frame, of one HTTP body, or of one RESP command.
    pub frame_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 8 << 20,
        }
    }
}

/// What a parser found at the front of the bytes it was given.
#[derive(Debug)]
pub enum Parsed<T> {
    /// One whole message, `len` bytes long.
    Whole {
        /// The message, borrowing from the input where it can.
        message: T,
        /// Bytes of input that it used.
        len: usize,
    },
    /// Not whole yet.
    Partial {
        /// Bytes of input known to be needed in all (a lower bound).
        needed: usize,
    },
}
