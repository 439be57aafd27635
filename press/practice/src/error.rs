//! What can keep the practice server from starting or ending well.
//!
//! Its invariant: a case names what was given and what would do, and nothing here speaks of a single connection.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the practice server did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line does not hold together; the text is complete.
    #[error("{0}")]
    Usage(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address as it was given.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A file that was named cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    File {
        /// The file as it was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused a thread, a descriptor or a wait.
    #[error("the practice server cannot go on: {0}")]
    System(#[from] io::Error),
}

impl Error {
    /// The exit code of a program that ends with this: 2 where the command line is wrong, 1 elsewhere.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Listen { .. } | Error::File { .. } | Error::System(_) => 1,
        }
    }
}
