//! TLS 1.3 below a target's protocol: whom a load trusts, and the bytes of one connection.
//!
//! It reads no socket and counts nothing. Its invariant: what is not encrypted by the server that was meant is an error,
//! and never an answer.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// What the connections to a target begin with.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads whom the connections to `address` trust, and for which name: the host of the address where none is given. Nothing where
    /// they are not encrypted.
    ///
    /// # Errors
    /// The file holds no certificates of use, or the name is none; the message names the key of the scenario.
    pub fn of(authority: Option<&Path>, name: Option<&str>, address: &str) -> Result<Option<Tls>, String> {
        let Some(authority) = authority else {
            return Ok(None);
        };
        let shown = authority.display();
        let host = address.rsplit_once(':').map_or("", |(host, _)| host);
        let name = name.unwrap_or(host.trim_matches(['[', ']']));
        let found = CertificateDer::pem_file_iter(authority).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let found = found.map_err(|error| format!("target.tls_ca: {shown}: {error}; name a file of PEM"))?;
        let mut roots = RootCertStore::empty();
        for certificate in found {
            let added = roots.add(certificate);
            added
                .map_err(|error| format!("target.tls_ca: {shown} holds a certificate of no use: {error}"))?;
        }
        if roots.is_empty() {
            return Err(format!(
                "target.tls_ca: {shown} holds no certificate; expected -----BEGIN CERTIFICATE-----"
            ));
        }
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            format!("target.tls_name is {name:?}, which is no host name and no IP address; write the one in the certificate")
        })?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        Ok(Some(Tls { config, name }))
    }

    pub(crate) fn begin(&self) -> Result<Session, rustls::Error> {
        let mut tls = ClientConnection::new(self.config.clone(), self.name.clone())?;
        tls.set_buffer_limit(None);
        Ok(Session {
            tls,
            sealed: Vec::new(),
            sealed_at: 0,
        })
    }
}

/// One connection's TLS.
pub(crate) struct Session {
    tls: ClientConnection,
    /// Encrypted and not yet taken by the kernel, from `sealed_at` on.
    pub(crate) sealed: Vec<u8>,
    pub(crate) sealed_at: usize,
}

impl Session {
    /// Whether requests cannot be sent yet.
    pub(crate) fn is_shaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Appends what received bytes hold to `plain`; false once the server has said that it sends no more.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<bool, String> {
        let words = |error: io::Error| error.to_string();
        while !bytes.is_empty() {
            if self.tls.read_tls(&mut bytes).map_err(words)? == 0 {
                return Ok(false);
            }
            let state = self
                .tls
                .process_new_packets()
                .map_err(|error| error.to_string())?;
            let at = plain.len();
            plain.resize(at + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut plain[at..]).map_err(words)?;
            if state.peer_has_closed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Encrypts all of `clear`, and what TLS says by itself.
    pub(crate) fn seal(&mut self, clear: &mut Vec<u8>) -> io::Result<()> {
        if !clear.is_empty() {
            self.tls.writer().write_all(clear)?;
            clear.clear();
        }
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.sealed)?;
        }
        Ok(())
    }
}
