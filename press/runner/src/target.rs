//! What the runner needs of a protocol: connect, and exchange one request for one answer. One file below is one target.
//!
//! A target counts nothing, retries nothing and checks no answer. Its invariant: every exchange ends, with an answer or a
//! [`Failure`], within the request's time.

pub(crate) mod answer;
pub(crate) mod binary;
pub(crate) mod http;
mod patience;

use std::sync::Arc;

use millpond_press_recorder::ErrorKind;

pub(crate) use crate::check::Answer;

/// FPNN's number for "overloaded", which every method of the product shares.
pub(crate) const OVERLOADED: u32 = 30_101;
/// Its number for "not ready".
pub(crate) const NOT_READY: u32 = 30_103;

/// Why an exchange gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server refused the request, and said so.
    Refused { code: u32 },
    /// Anything else; `code` is the server's where it answered with a failure.
    Error {
        kind: ErrorKind,
        code: Option<u32>,
        why: String,
    },
}

impl Failure {
    /// A failure that carries no code.
    pub(crate) fn of(kind: ErrorKind, why: impl Into<String>) -> Failure {
        Failure::Error {
            kind,
            code: None,
            why: why.into(),
        }
    }
}

/// A protocol, an address and prepared requests.
pub(crate) trait Target: Send + Sync + 'static {
    /// One place in a connection for one outstanding request.
    type Lane: Lane;

    /// Opens one connection with room for `lanes` outstanding requests; the error says why it did not open.
    async fn connect(self: Arc<Self>, lanes: usize) -> Result<Vec<Self::Lane>, String>;
}

/// One outstanding request at a time on a connection.
pub(crate) trait Lane: 'static {
    /// Sends request `index` and waits for its answer.
    async fn exchange(&mut self, index: usize) -> Result<Answer<'_>, Failure>;

    /// Whether the connection can carry another request.
    fn is_open(&self) -> bool;
}
