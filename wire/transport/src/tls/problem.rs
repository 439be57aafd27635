//! What can be wrong with a file of TLS.
//! Its invariant: every text follows the file's name, says what was found and the mend, and holds no byte of a key.

use rustls::InconsistentKeys;
use rustls::pki_types::pem;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum TlsProblem {
    /// The system does not give it.
    #[error("cannot be read: {0}; let this process read it, or correct the path")]
    Unreadable(std::io::Error),
    /// It is something else.
    #[error("has more than {most} bytes; name a file of PEM")]
    TooLarge {
        /// Bytes that are read at most.
        most: u64,
    },
    /// Its text is damaged.
    #[error("is not PEM: {0}; export it again")]
    NotPem(String),
    /// PEM, or text, without a certificate.
    #[error("holds no certificate; expected PEM with a line -----BEGIN CERTIFICATE-----{0}")]
    NoCertificate(&'static str),
    /// PEM, or text, without a private key.
    #[error("holds no private key; expected PEM with a line -----BEGIN PRIVATE KEY-----{0}")]
    NoKey(&'static str),
    /// Nobody is there to be asked for the password.
    #[error(
        "holds an encrypted key, and no password can be given; decrypt it: openssl pkey -in FILE -out OTHER"
    )]
    EncryptedKey,
    /// A kind or size of key that is not known.
    #[error(
        "holds a key that cannot be used: {0}; use ECDSA (P-256 or P-384), Ed25519, or RSA of 2048 bits and more"
    )]
    BadKey(String),
    /// A pair that is none.
    #[error("is not the key of the first certificate in {}; name the pair that was made together", certificate.display())]
    OtherKey {
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// What it says is no certificate.
    #[error("holds a certificate that cannot be used: {0}; export it again")]
    BadCertificate(String),
    /// TLS itself says no.
    #[error("cannot be used: {0}")]
    Refused(String),
}

impl TlsProblem {
    /// What a damaged text is.
    pub(super) fn of_text(error: &pem::Error) -> TlsProblem {
        TlsProblem::NotPem(match error {
            pem::Error::MissingSectionEnd { .. } => "its end is missing".into(),
            pem::Error::Base64Decode(_) => "it holds characters that are no base64".into(),
            pem::Error::IllegalSectionStart { .. } => "a -----BEGIN line is damaged".into(),
            other => other.to_string(),
        })
    }

    /// Why certificate and key are no pair.
    pub(super) fn of_pair(error: &rustls::Error, certificate: &Path) -> TlsProblem {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsProblem::OtherKey {
                certificate: certificate.to_owned(),
            },
            rustls::Error::InvalidCertificate(why) => TlsProblem::BadCertificate(why.to_string()),
            rustls::Error::General(why) => TlsProblem::BadKey(why.clone()),
            other => TlsProblem::Refused(other.to_string()),
        }
    }
}
