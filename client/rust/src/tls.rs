//! How an address "tls://HOST:PORT" is spoken to: TLS 1.3, and a certificate authority that the caller names.
//!
//! What uses the settings is in `tls/connector.rs`. Its invariant: nobody is trusted whom the settings do not name.

mod connector;

use crate::CallError;
use crate::address::{Address, Place};
pub(crate) use connector::{Connector, TlsStream};
use std::path::PathBuf;
use std::time::Duration;

/// Whom to trust, and who to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// A PEM file with the certificates of the authorities that a server's certificate must come from. Those of the
    /// system are not used.
    pub ca: PathBuf,
    /// The name that the server's certificate must be for; `None` is the host of the address.
    pub server_name: Option<String>,
    /// What to show to a server that asks who calls.
    pub identity: Option<TlsIdentity>,
}

/// A certificate and the key that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// A PEM file with the certificate, and with those between it and its authority.
    pub certificate: PathBuf,
    /// A PEM file with its private key.
    pub key: PathBuf,
}

/// What connects to the addresses that begin with tls://, if any does.
pub(crate) fn prepare(addresses: &[Address], tls: Option<&Tls>) -> Result<Option<Connector>, CallError> {
    let refuse = |address: Option<&Address>, detail: String| CallError::Tls {
        addr: address.map_or_else(String::new, |address| address.text.clone()),
        detail,
        retry_after: Duration::ZERO,
    };
    let encrypted = addresses
        .iter()
        .find(|address| matches!(address.place, Place::Tls { .. }));
    match (encrypted, tls) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(refuse(
            addresses.first(),
            "TLS is set up, and no address begins with tls://".to_owned(),
        )),
        (Some(_), None) => Err(refuse(
            encrypted,
            "nobody is trusted: name a certificate authority (--tls-ca FILE, tls_ca in Python, Options::tls in Rust)".to_owned(),
        )),
        (Some(_), Some(tls)) => Connector::new(tls)
            .map(Some)
            .map_err(|detail| refuse(encrypted, detail)),
    }
}
