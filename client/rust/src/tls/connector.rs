//! TLS 1.3 over a connection that is made already, by rustls with the cryptography of ring.
//!
//! Its invariant: every file was read, and every certificate in it parsed, before the first connection.

use super::{Tls, TlsIdentity};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore};

/// A connection over TLS.
pub(crate) type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Makes connections of a client's settings.
pub(crate) struct Connector {
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// Reads the files that `tls` names.
    pub(crate) fn new(tls: &Tls) -> Result<Connector, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&tls.ca)? {
            roots
                .add(certificate)
                .map_err(|error| format!("a certificate in {} cannot be used: {error}", tls.ca.display()))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match &tls.identity {
            None => config.with_no_client_auth(),
            Some(identity) => with_identity(config, identity)?,
        };
        let server_name = tls.server_name.as_deref().map(server_name).transpose()?;
        Ok(Connector {
            connector: TlsConnector::from(Arc::new(config)),
            server_name,
        })
    }

    /// Shakes hands with `host` over `stream`.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> Result<TlsStream, String> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(host)?,
        };
        self.connector
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())
    }
}

fn server_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        format!("{text:?} is no name that a certificate can be for; expected a host name or an IP address")
    })
}

fn with_identity(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: &TlsIdentity,
) -> Result<ClientConfig, String> {
    let certificates = certificates(&identity.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(|error| {
        format!(
            "no private key can be read from {}: {error}",
            identity.key.display()
        )
    })?;
    config.with_client_auth_cert(certificates, key).map_err(|error| {
        format!(
            "the certificate in {} and the key in {} cannot be used together: {error}",
            identity.certificate.display(),
            identity.key.display()
        )
    })
}

/// Every certificate of a PEM file, of which there must be one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error| format!("no certificates can be read from {}: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(unread)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unread)?;
    if certificates.is_empty() {
        return Err(format!(
            "{} holds no certificate; expected PEM, which begins with -----BEGIN CERTIFICATE-----",
            path.display()
        ));
    }
    Ok(certificates)
}
