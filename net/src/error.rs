//! What can fail when a listener starts.

use crate::listener::Bound;
use crate::tls::TlsFile;
use std::path::PathBuf;
use thiserror::Error;

/// Why a transport did not start.
#[derive(Debug, Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr} ({key}): {source}; {hint}")]
    Bind {
        /// The address or path.
        addr: Bound,
        /// The configuration key that names it.
        key: String,
        /// The system's words.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A thread or its runtime could not be made.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// Which one.
        what: String,
        /// The system's words.
        source: std::io::Error,
    },
    /// A thread cannot be pinned.
    #[error("cannot pin {what} to processor {cpu}: {source}; {hint}")]
    Pin {
        /// Which thread.
        what: String,
        /// The processor.
        cpu: usize,
        /// The system's words.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A file of TLS cannot be used.
    #[error("{key}: {} {problem}", path.display())]
    Tls {
        /// The configuration key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the hint.
        problem: String,
    },
    /// A name of a server over TLS cannot be one.
    #[error("{name:?} is no name that a certificate can be for; write a host name or an IP address ({key})")]
    TlsName {
        /// The configuration key that names it, or would.
        key: &'static str,
        /// The name.
        name: String,
    },
}

impl Error {
    pub(crate) fn bind(addr: Bound, key: &str, source: std::io::Error, hint: &'static str) -> Error {
        let key = key.to_owned();
        Error::Bind {
            addr,
            key,
            source,
            hint,
        }
    }

    pub(crate) fn tls(file: &TlsFile, problem: String) -> Error {
        let (key, path) = (file.key, file.path.clone());
        Error::Tls { key, path, problem }
    }
}
