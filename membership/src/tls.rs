//! TLS 1.3 to etcd, by rustls with the cryptography of ring. Its invariant: every file was read, and every certificate in it
//! parsed, before the first connection.

use crate::options::{Tls, TlsIdentity};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore};

/// Makes connections of one setting.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
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
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands with `host` over `stream`.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is no name that a certificate can be for"))?;
        self.0
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())
    }
}

fn with_identity(
    config: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: &TlsIdentity,
) -> Result<ClientConfig, String> {
    let certificates = certificates(&identity.certificate)?;
    let path = identity.key.display();
    let key = PrivateKeyDer::from_pem_file(&identity.key)
        .map_err(|error| format!("no private key can be read from {path}: {error}"))?;
    config.with_client_auth_cert(certificates, key).map_err(|error| {
        let certificate = identity.certificate.display();
        format!("the certificate in {certificate} and the key in {path} cannot be used together: {error}")
    })
}

/// Every certificate of a PEM file, of which there must be one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error| format!("no certificates can be read from {}: {error}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(unread)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unread)?;
    match certificates.is_empty() {
        true => Err(format!("{} holds no certificate in PEM", path.display())),
        false => Ok(certificates),
    }
}
