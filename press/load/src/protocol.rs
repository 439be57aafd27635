//! What the event loop needs of a target with connections: the bytes of a request, and where an answer ends.
//!
//! A protocol does no input or output, counts nothing, retries nothing. Its invariant: whatever bytes a server sends, reading them ends
//! in an answer, a wish for more bytes, or [`Malformed`]; never in a panic, and never in memory beyond the limit.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live};
use tokio::sync::mpsc::Sender;

use crate::check::{Answer, Verified};
use crate::event_loop;
use crate::fill::fill_over;
use crate::kind::{Given, Takes, Target, TargetKind};
use crate::plan::{Plan, Report};
use crate::{Error, Part, Threads};

/// FPNN's number for "overloaded", which every method of the product shares.
pub(crate) const OVERLOADED: u32 = 30_101;
/// Its number for "not ready".
pub(crate) const NOT_READY: u32 = 30_103;

/// What a server said to one request.
#[derive(Debug)]
pub(crate) enum Said<'b> {
    /// An answer, whose content is still to be checked.
    Answer(Answer<'b>),
    /// The request was refused, and the server said so; `whole_connection` when the connection is refused with it.
    Refused { code: u32, whole_connection: bool },
    /// The server answered that it failed.
    Failed { code: u32, why: String },
}

/// One answer found in the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Found<'b> {
    /// Bytes it took.
    pub(crate) used: usize,
    /// The number it carries, for protocols that number their requests.
    pub(crate) serial: u32,
    pub(crate) said: Said<'b>,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
}

impl<'b> Found<'b> {
    /// One without a number, which leaves the connection open.
    pub(crate) fn next(used: usize, said: Said<'b>) -> Read<'b> {
        Read::Found(Found {
            used,
            serial: 0,
            said,
            closes: false,
        })
    }
}

/// The outcome of looking for an answer.
#[derive(Debug)]
pub(crate) enum Read<'b> {
    Found(Found<'b>),
    /// Not whole yet: at least so many bytes are needed in all.
    Needs(usize),
}

/// Why the bytes are not an answer that is accepted.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("{0}")]
    Garbage(String),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl Malformed {
    pub(crate) fn garbage(what: impl Into<String>) -> Malformed {
        Malformed::Garbage(what.into())
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Malformed::Garbage(_) => ErrorKind::Garbage,
            Malformed::TooLarge(_) => ErrorKind::TooLarge,
        }
    }
}

/// What has come on a connection and is not read yet.
pub(crate) struct Input<'b> {
    pub(crate) bytes: &'b [u8],
    /// The server will send no more.
    pub(crate) ended: bool,
    /// The largest answer that is awaited.
    pub(crate) bytes_max: usize,
    /// Where an answer in pieces is joined.
    pub(crate) scratch: &'b mut Vec<u8>,
}

#[cfg(test)]
impl<'b> Input<'b> {
    /// Bytes after which more may come.
    pub(crate) fn of(bytes: &'b [u8], bytes_max: usize) -> Input<'b> {
        Input {
            bytes,
            ended: false,
            bytes_max,
            scratch: Box::leak(Box::default()),
        }
    }
}

/// A kind of target with connections.
pub(crate) trait Protocol: Sized + Send + Sync + 'static {
    /// What is remembered of one connection, from its first byte to its last.
    type State: Default + Send;

    /// What a scenario may ask of it.
    const TAKES: Takes;

    /// Whether answers carry the number of their request; otherwise they come in the order of the requests.
    const NUMBERED: bool = false;

    /// Writes the requests as they are sent, but for their numbers, and what is known of the answers.
    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Self, String>;

    /// Appends a request to `out`, numbered `serial` where the protocol numbers.
    #[inline]
    fn write(&self, _state: &mut Self::State, request: &[u8], _serial: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(request);
    }

    /// Looks for the answer to `request` (for numbered protocols: to any) at the start of the bytes.
    fn read<'b>(
        &self,
        state: &mut Self::State,
        request: &[u8],
        input: Input<'b>,
    ) -> Result<Read<'b>, Malformed>;

    /// Checks what only the protocol can know of the answer to `request`, the one at `index`.
    fn verify(&self, _index: usize, _request: &[u8], _answer: Answer<'_>) -> Result<Verified, String> {
        Ok(Verified::Nothing)
    }
}

/// A target with connections.
pub(crate) struct OnWire<P> {
    pub(crate) protocol: P,
    pub(crate) requests: Prepared,
}

impl<P: Protocol> OnWire<P> {
    pub(crate) fn new(given: &Given<'_>) -> Result<OnWire<P>, String> {
        let mut requests = Prepared::default();
        let protocol = P::prepare(given, &mut requests)?;
        Ok(OnWire { protocol, requests })
    }
}

/// A kind with connections.
pub(crate) const fn on_wire<P: Protocol>(names: &'static [&'static str]) -> TargetKind {
    TargetKind::new(names, P::TAKES, |given| {
        Ok(Arc::new(Arc::new(OnWire::<P>::new(given)?)))
    })
}

impl<P: Protocol> Target for Arc<OnWire<P>> {
    fn fill(&self, given: &Given<'_>, address: Option<SocketAddr>, timeout: Duration) -> Result<(), String> {
        if P::TAKES.any_bytes {
            return Err("an echo server keeps nothing".into());
        }
        fill_over::<P>(given, address.ok_or("it has no address")?, timeout)
    }

    fn drive(
        &self,
        plan: Plan,
        part: Part,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error> {
        let target = self.clone();
        let body = move |plan: &Arc<Plan>, line| event_loop::run(target.clone(), plan.clone(), line);
        Threads::start(plan, part, body, reports, lives)
    }
}

/// The start of some bytes, for a message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown: String = bytes[..bytes.len().min(48)].escape_ascii().to_string();
    let more = if bytes.len() > 48 { "…" } else { "" };
    format!("\"{shown}\"{more} ({} bytes)", bytes.len())
}

/// The words of a command.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// A word with each `\x20` in it as the byte that it stands for; a backslash before anything else stands for itself.
pub(crate) fn plain(word: &[u8]) -> Cow<'_, [u8]> {
    if !word.contains(&b'\\') {
        return Cow::Borrowed(word);
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = rest.strip_prefix(b"\\x").and_then(|digits| digits.get(..2));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let escaped = digits
            .filter(is_hex)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &rest[4..] } else { after };
    }
    Cow::Owned(bytes)
}

/// Requests as whole byte strings, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Prepared {
    /// Appends one request, written by `write`.
    pub(crate) fn push<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let written = write(&mut self.bytes);
        self.ends.push(self.bytes.len());
        written
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}
