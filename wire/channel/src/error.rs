//! What can be wrong with keys, handshakes and encrypted bytes.
//!
//! It decides nothing: on any of these from a peer FPNN closes the connection. Its invariant: every text says what was
//! found, what was expected, and a hint; none holds a byte of a private key or of a secret.

use crate::curve::{Curve, PUBLIC_KEY_BYTES, SECRET_BYTES};
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no key, no channel, or no frame.
#[derive(Debug, Error)]
pub enum Error {
    /// The file of a private key could not be read.
    #[error(
        "cannot read the private key file {}: {source}; let this process read it, or correct the path", path.display()
    )]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The file was read and holds no private key.
    #[error(
        "the private key file {} {problem}; give the raw key, as FPNN's eccKeyMaker writes it into NAME-private.key",
        path.display()
    )]
    KeyFileContent {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        problem: KeyProblem,
    },
    /// Bytes that are no private key.
    #[error("the private key {0}")]
    PrivateKey(KeyProblem),
    /// The system gave no random numbers: its words.
    #[error("the system has no random numbers for a key: {0}; run where getrandom(2) is allowed")]
    Random(String),
    /// A curve this build does not have.
    #[error("the curve {0:?} is not known; choose secp256k1 or secp256r1")]
    CurveName(String),
    /// A size of AES key that FPNN does not have.
    #[error("a key of {0} bits; expected 128 or 256")]
    KeyBits(u64),
    /// A public key of another size.
    #[error(
        "the peer's public key has {0} bytes; expected {PUBLIC_KEY_BYTES}: X then Y, without a leading 04"
    )]
    PeerKeyLength(usize),
    /// A public key that is no point of the curve.
    #[error("the peer's public key is no point of {0}; configure the same curve on both sides")]
    PeerKeyPoint(Curve),
    /// A package longer than this side accepts, or than its length field can say.
    #[error("the encrypted package has {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// Its bytes, without the four of the length.
        bytes: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A package of no bytes; no frame is that short.
    #[error("the encrypted package is empty; expected one frame")]
    Empty,
}

/// What is wrong with bytes that should be a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyProblem {
    /// Of another size.
    #[error("has {0} bytes; expected {SECRET_BYTES}")]
    Length(usize),
    /// Longer than any key; its end was not looked for.
    #[error("has more than {SECRET_BYTES} bytes; expected {SECRET_BYTES}")]
    TooLong,
    /// Text in PEM form.
    #[error("is PEM text; expected {SECRET_BYTES} raw bytes")]
    Pem,
    /// Zero, or a number that the curve's group does not have.
    #[error("is 0 or not below the order of {0}: no key of that curve")]
    Range(Curve),
}
