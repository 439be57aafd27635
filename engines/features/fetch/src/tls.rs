//! The certificates that a store's may be signed by, and TLS 1.3 with them.
//!
//! It brings none of its own. Its invariant: nothing is sent over TLS to a host whose certificate was not checked.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where systems keep what they trust, the first that is there: Debian and Alpine, Red Hat, SUSE.
const FILES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// What makes TLS connections, or why it cannot.
#[derive(Clone)]
pub(crate) struct Roots(Result<TlsConnector, String>);

impl fmt::Debug for Roots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Roots")
    }
}

impl Roots {
    /// Those of a file, or of SSL_CERT_FILE, or of the system. A file that is named has to be right; the others are missed when
    /// a connection needs them.
    ///
    /// # Errors
    /// What is wrong with the file that is named.
    pub(crate) fn read(file: Option<&Path>) -> Result<Roots, String> {
        if let Some(file) = file {
            return connector(file).map(|connector| Roots(Ok(connector)));
        }
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let system = FILES.iter().map(PathBuf::from);
        let found = named.into_iter().chain(system).find(|file| file.exists());
        let none = || {
            "this system has no file of certificates; install ca-certificates, or name one as ca_file"
                .to_owned()
        };
        Ok(Roots(found.ok_or_else(none).and_then(|file| connector(&file))))
    }

    /// Shakes hands with `host` over `stream`.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = self
            .0
            .as_ref()
            .map_err(|problem| io::Error::other(problem.clone()))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        connector.connect(name, stream).await
    }
}

fn connector(file: &Path) -> Result<TlsConnector, String> {
    let path = file.display();
    let unread = |error| format!("no certificates can be read from {path}: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(unread)? {
        // Old files hold certificates that no library takes any more.
        let _ = roots.add(certificate.map_err(unread)?);
    }
    if roots.is_empty() {
        return Err(format!("{path} holds no certificate in PEM"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
