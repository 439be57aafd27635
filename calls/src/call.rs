//! A call: what is asked, by whom, and since when.
//! Its invariant: it borrows its input, so nothing of it outlives its serving; and no log can show its token, as it has no debug form.

use crate::{Clock, MethodId, Peer};
use millpond_wire_payload::Encoding;
use std::time::Instant;

/// A call of a method.
pub struct Call<'a> {
    /// The method, as its service has found it; or a name that is no method's.
    pub method: Result<MethodId, &'a str>,
    /// How the payload is written, and the answer is to be.
    pub encoding: Encoding,
    /// One map, not yet decoded.
    pub payload: &'a [u8],
    /// What stands beside the payload.
    pub meta: Meta<'a>,
    /// Who calls.
    pub caller: Caller,
    /// When its last byte was there to be read, though it may have waited for other calls of its connection since: deadlines count
    /// from here.
    pub received: Instant,
    /// The clock of the turn that serves it.
    pub clock: &'a Clock,
}

/// What stands beside a payload (HTTP headers); a payload's own reserved keys come before it.
#[derive(Clone, Copy, Default)]
pub struct Meta<'a> {
    /// `X-Deadline-Ms`.
    pub deadline_ms: Option<u64>,
    /// `X-Priority`: from 0 (first) to 9.
    pub priority: Option<u8>,
    /// `traceparent`.
    pub trace: Option<&'a str>,
    /// What follows `Bearer` in `Authorization`.
    pub token: Option<&'a str>,
}

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// The other end of its connection.
    pub peer: Peer,
    /// The connection's number: no other of this process has it.
    pub connection: u64,
    /// Whether nobody between the peer and this process can read the connection: by encryption, or because it is a Unix socket.
    pub encrypted: bool,
}
