//! What can go wrong between this process and etcd. Its invariant: each case names the endpoint and the call, and no value of a
//! key and no secret.

use std::time::Duration;

/// Why etcd could not be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that cannot be used.
    #[error("{option}: {why}")]
    Options {
        /// Which option.
        option: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// There can be no thread.
    #[error("no thread can be started to follow etcd: {0}")]
    Thread(String),
    /// No connection.
    #[error("cannot connect to etcd at {endpoint}: {detail}; start it, or correct the endpoint")]
    Connect {
        /// Where.
        endpoint: String,
        /// What failed.
        detail: String,
    },
    /// No answer in time.
    #[error("etcd at {endpoint} did not answer {call} within {timeout:?}")]
    Timeout {
        /// Where.
        endpoint: String,
        /// Which call.
        call: &'static str,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// The connection failed, or an answer ended too early.
    #[error("etcd at {endpoint} broke off {call}: {detail}")]
    Broken {
        /// Where.
        endpoint: String,
        /// Which call.
        call: &'static str,
        /// What failed.
        detail: String,
    },
    /// etcd answered an error.
    #[error("etcd at {endpoint} refused {call}: {message} (status {status})")]
    Refused {
        /// Where.
        endpoint: String,
        /// Which call.
        call: &'static str,
        /// The status of HTTP.
        status: u16,
        /// gRPC's code, where there was one.
        code: Option<i64>,
        /// What etcd said.
        message: String,
    },
    /// More bytes than an answer may have.
    #[error("etcd at {endpoint} answered {call} with more than {bytes_max} bytes")]
    TooLong {
        /// Where.
        endpoint: String,
        /// Which call.
        call: &'static str,
        /// How many it may have.
        bytes_max: usize,
    },
    /// An answer that is none of etcd's.
    #[error(
        "etcd at {endpoint} answered {call} with something that cannot be read: {detail}; is this etcd, from version 3.4 on?"
    )]
    Garbage {
        /// Where.
        endpoint: String,
        /// Which call.
        call: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// The watch ended: its revisions were compacted, or etcd cancelled it. Everything is read again.
    #[error("etcd at {endpoint} ended the watch: {reason}; everything is read again")]
    WatchEnded {
        /// Where.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// Somebody else published a map meanwhile.
    #[error(
        "the bucket map of cluster {cluster:?} was changed by somebody else meanwhile; read it, and publish again"
    )]
    Conflict {
        /// The cluster.
        cluster: String,
    },
    /// A map that may not be published over the one that is there.
    #[error("the bucket map of cluster {cluster:?} cannot be published: {error}")]
    Map {
        /// The cluster.
        cluster: String,
        /// What is wrong with it.
        error: millpond_nodes::Error,
    },
}

/// gRPC's code of a thing that is not there.
const NOT_FOUND: i64 = 5;

impl Error {
    pub(crate) fn thread(error: std::io::Error) -> Error {
        Error::Thread(error.to_string())
    }

    /// Whether etcd does not know what was named: a lease, here.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(
            self,
            Error::Refused {
                code: Some(NOT_FOUND),
                ..
            }
        )
    }
}
