//! What can be wrong with a file of TLS.
//! Its invariant: every text follows the file's name, says what was found and the hint, and holds no byte of a key.

use rustls::InconsistentKeys;
use rustls::pki_types::pem;
use std::fmt::Display;
use std::path::Path;

/// Its text is damaged.
pub(super) fn not_pem(error: &pem::Error) -> String {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "its end is missing".into(),
        pem::Error::Base64Decode(_) => "it holds characters that are no base64".into(),
        pem::Error::IllegalSectionStart { .. } => "a -----BEGIN line is damaged".into(),
        other => other.to_string(),
    };
    format!("is not PEM: {why}; export it again")
}

/// What it says is no certificate.
pub(super) fn bad_certificate(why: impl Display) -> String {
    format!("holds a certificate that cannot be used: {why}; export it again")
}

/// TLS itself says no.
pub(super) fn refused(why: impl Display) -> String {
    format!("cannot be used: {why}")
}

/// Why the key is none of that certificate; the certificate's own problem as an error.
pub(super) fn of_pair(error: &rustls::Error, certificate: &Path) -> Result<String, String> {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Ok(format!(
            "is not the key of the first certificate in {}; name the pair that was made together",
            certificate.display()
        )),
        rustls::Error::InvalidCertificate(why) => Err(bad_certificate(why)),
        rustls::Error::General(why) => Ok(format!(
            "holds a key that cannot be used: {why}; use ECDSA (P-256 or P-384), Ed25519, or RSA of 2048 bits and more"
        )),
        other => Ok(refused(other)),
    }
}
