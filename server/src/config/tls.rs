//! `[server.tls]`: the port where everything is encrypted by TLS 1.3.
//! It opens no file. Its invariant: a section that passes [`check`] says what a client without a certificate gets.

use super::{Config, address};
use millpond_net::{TlsFile, TlsFiles};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `[server.tls]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Frames, HTTP and WebSockets as on `server.listen`, encrypted.
    #[serde(default = "listen", deserialize_with = "address")]
    pub listen: SocketAddr,
    /// The server's certificate and those behind it, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub private_key: PathBuf,
    /// Who signs clients' certificates, PEM; clients are asked for none when left out.
    pub client_certificates: Option<PathBuf>,
    /// Whether a client needs one; so where `client_certificates` is given, unless it says false.
    pub client_certificates_required: Option<bool>,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 13503))
}

impl Tls {
    /// Where its files lie.
    pub(crate) fn files(&self) -> TlsFiles {
        let file = |key, path: &PathBuf| TlsFile {
            key,
            path: path.clone(),
        };
        let clients = self.client_certificates.as_ref();
        TlsFiles {
            certificate: file("server.tls.certificate", &self.certificate),
            private_key: file("server.tls.private_key", &self.private_key),
            client_certificates: clients.map(|path| file("server.tls.client_certificates", path)),
            client_certificates_required: self.client_certificates_required.unwrap_or(true),
        }
    }

    /// Every path of it.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.certificate, &mut self.private_key];
        files.into_iter().chain(&mut self.client_certificates)
    }
}

pub(super) fn check(config: &Config) -> Result<(), String> {
    let Some(tls) = &config.server.tls else {
        return Ok(());
    };
    if tls.client_certificates_required.is_some() && tls.client_certificates.is_none() {
        return Err(
            "server.tls.client_certificates_required says nothing without server.tls.client_certificates; name the file of \
             the certificates that sign clients', or leave both out"
                .into(),
        );
    }
    Ok(())
}
