//! How a call can end without an answer; each case is one that a caller handles differently.
//!
//! It is not the server's table of errors: that one is `wire/schema`'s `Status`, carried here whole. Its invariant:
//! every text says what, where, and a hint, and every case says whether the call may have run.

use millpond_wire_schema::{Code, Status};
use std::time::Duration;
use thiserror::Error;

/// Why a call has no answer. [`CallError::may_have_run`] says whether repeating it can do something twice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// No connection could be made. The call was not sent.
    #[error(
        "cannot connect to {addr}: {detail}{}; start a server there (millpond serve), or correct the address (HOST:PORT, unix:PATH or tls://HOST:PORT)",
        next_try(.retry_after)
    )]
    Connect {
        /// Where to.
        addr: String,
        /// The system's words.
        detail: String,
        /// How long no connection to it is tried; calls until then fail at once. Zero: the next call tries.
        retry_after: Duration,
    },
    /// The TLS settings cannot be used, or one side does not take the other's certificate or does not speak TLS 1.3. The call
    /// was not sent.
    #[error(
        "no TLS with {addr}: {detail}{}; check that the address is a port that speaks TLS 1.3, and the certificates of both sides",
        next_try(.retry_after)
    )]
    Tls {
        /// Where to.
        addr: String,
        /// Which setting cannot be used, or the words of the TLS library.
        detail: String,
        /// How long no connection to it is tried; calls until then fail at once. Zero: the next call tries.
        retry_after: Duration,
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
    /// The server answered with an error. Where its code is retryable, the call was refused and has not run; where it is
    /// `OutcomeUnknown`, not even the server knows what was written.
    #[error(transparent)]
    Status(#[from] Status),
    /// The server sent what no server of this protocol sends. The call may have run or not.
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
    /// The bucket map of a client of many nodes cannot be read or used. Nothing was sent.
    #[error("the bucket map cannot be used: {0}")]
    Map(
        /// Where it is from, and what is wrong with it.
        String,
    ),
    /// The call cannot be written as a frame. It was not sent.
    #[error("the call to {method:?} cannot be sent: {detail}")]
    Unsendable {
        /// The method called.
        method: String,
        /// What was found and what was expected.
        detail: String,
    },
}

impl CallError {
    /// Whether the call may have been worked on. Where it is false, repeating the call is safe whatever it does.
    ///
    /// ```
    /// use millpond_client_rust::{CallError, Code, Status};
    ///
    /// let refused = CallError::Status(Status::new(Code::Overloaded, "the queue is full"));
    /// assert!(!refused.may_have_run());
    /// let closed = CallError::Closed { addr: "a:1".into(), detail: "the server closed it".into() };
    /// assert!(closed.may_have_run());
    /// ```
    pub fn may_have_run(&self) -> bool {
        match self {
            CallError::Connect { .. }
            | CallError::Tls { .. }
            | CallError::TooManyInFlight { .. }
            | CallError::Map(_)
            | CallError::Unsendable { .. } => false,
            // Nothing is written to what is full, and repeating it helps nobody.
            CallError::Status(status) => !status.code.retryable() && status.code != Code::Full,
            CallError::Closed { .. } | CallError::Timeout { .. } | CallError::Protocol { .. } => true,
        }
    }

    /// Where the store's writes are taken, where this is a refusal of a write by a server that does not lead the store
    /// ([`Code::NotLeader`]) and knows which does: an address as that server's configuration names it.
    ///
    /// ```
    /// use millpond_client_rust::{CallError, Code, Status};
    ///
    /// let refused = Status::new(Code::NotLeader, "not the leader").led_by(Some("b:8090".into()));
    /// assert_eq!(CallError::Status(refused).leader(), Some("b:8090"));
    /// ```
    pub fn leader(&self) -> Option<&str> {
        match self {
            CallError::Status(status) if status.code == Code::NotLeader => status.leader.as_deref(),
            _ => None,
        }
    }

    /// How long no connection is tried, when that is what the error says.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::Connect { retry_after, .. } | CallError::Tls { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The same error, seen when the next try is `wait` away. What says nothing of a next try becomes an error that
    /// does: callers whose call was not sent receive it.
    pub(crate) fn seen_before_next_try(&self, wait: Duration) -> CallError {
        let mut seen = self.clone();
        match &mut seen {
            CallError::Connect { retry_after, .. } | CallError::Tls { retry_after, .. } => {
                *retry_after = wait
            }
            CallError::Closed { addr, detail } | CallError::Protocol { addr, detail } => {
                return CallError::Connect {
                    addr: std::mem::take(addr),
                    detail: format!("the connection closed again: {detail}"),
                    retry_after: wait,
                };
            }
            _ => {}
        }
        seen
    }
}

/// The words for the next try; none when the next call is it.
fn next_try(retry_after: &Duration) -> String {
    if retry_after.is_zero() {
        return String::new();
    }
    // Rounded up, so that a caller that waits for the stated time has waited long enough.
    let wait_ms = retry_after.as_nanos().div_ceil(1_000_000);
    format!(" (next try in {wait_ms} ms)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: Code, may_have_run: bool) {
        let error = CallError::Status(Status::new(code, "of the server"));
        assert_eq!(error.may_have_run(), may_have_run, "{code:?}");
    }

    #[test]
    fn only_what_was_surely_not_written_may_be_repeated_blindly() {
        check(Code::Overloaded, false);
        check(Code::StorageFailed, false);
        check(Code::OutcomeUnknown, true);
        check(Code::Full, false);
        check(Code::Internal, true);
    }
}
