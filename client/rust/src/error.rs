//! How a call can end without an answer; each case is one that a caller handles differently.
//!
//! It is not the server's table of errors: that one is `wire/schema`'s `Status`, carried here whole. Its invariant:
//! every text says what, where, and the mend.

use millpond_wire_schema::Status;
use std::time::Duration;
use thiserror::Error;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// No connection could be made. The call was not sent.
    #[error(
        "cannot connect to {addr}: {detail}; start a server there (millpond serve), or correct the address (HOST:PORT)"
    )]
    Connect {
        /// Where to.
        addr: String,
        /// The system's words.
        detail: String,
    },
    /// The connection closed before the answer. The call may have run or not.
    #[error(
        "the connection to {addr} closed before the answer: {detail}; the call may have run: repeat it only if that is safe"
    )]
    Closed {
        /// Where to.
        addr: String,
        /// Who closed it, or the system's words.
        detail: String,
    },
    /// The deadline passed first. The call may have run or not.
    #[error(
        "no answer to {method} from {addr} within {deadline:?}; allow more, or find out what keeps the server"
    )]
    Timeout {
        /// The method called.
        method: String,
        /// Where to.
        addr: String,
        /// The caller's deadline.
        deadline: Duration,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Status(#[from] Status),
    /// The server sent what no server of this protocol sends.
    #[error(
        "{addr} does not speak the protocol: {detail}; check that a server of this version listens there"
    )]
    Protocol {
        /// Where to.
        addr: String,
        /// What was found and what was expected.
        detail: String,
    },
    /// Every connection has as many calls under way as it may have. The call was not sent.
    #[error(
        "{in_flight_max} calls are in flight on each of {connections} connections to {addr}; await answers first, or raise Options::in_flight_max"
    )]
    TooManyInFlight {
        /// Where to.
        addr: String,
        /// Calls allowed on one connection.
        in_flight_max: usize,
        /// Connections in the pool.
        connections: usize,
    },
    /// The call cannot be written as a frame. It was not sent.
    #[error("the call to {method:?} cannot be sent: {detail}")]
    Unsendable {
        /// The method called.
        method: String,
        /// What was found and what was expected.
        detail: String,
    },
}
