//! What TLS connections begin with: certificate, private key, and who must show a certificate of their own.
//!
//! TLS 1.3 alone, without early data. What was read is replaced as a whole or not at all: a connection that has begun keeps
//! what it began with, and files that are wrong leave what was right before. Its invariant: no private key is in any text.
//! Sources: RFC 8446 (TLS 1.3), RFC 5280 (certificates), RFC 7468 (PEM).

mod files;
mod layer;
mod outward;
mod problem;
mod validity;

pub(crate) use layer::TlsLayer;
pub use outward::{OutwardTls, OutwardTlsFiles, TlsKeys, TlsStream, TlsTo};
pub use validity::Validity;

use crate::Error;
use files::{Stamps, certificates, private_key};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// A file of PEM.
#[derive(Debug, Clone)]
pub struct TlsFile {
    /// The configuration key that names it.
    pub key: &'static str,
    /// Where it lies.
    pub path: PathBuf,
}

/// The files of a port.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate and, after it, those between it and what clients trust.
    pub certificate: TlsFile,
    /// Its private key, not encrypted.
    pub private_key: TlsFile,
    /// Certificates of those who sign clients' certificates; none asks clients for nothing.
    pub client_certificates: Option<TlsFile>,
    /// Whether a client without a certificate is refused; one with a wrong certificate always is.
    pub client_certificates_required: bool,
}

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &TlsFile> {
        let own = [&self.certificate, &self.private_key];
        own.into_iter().chain(&self.client_certificates)
    }
}

/// What TLS connections begin with, as it was read last.
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    validity: Validity,
    /// What the files were when they were last looked into, with or without success.
    seen: Stamps,
}

impl Tls {
    /// Reads everything.
    ///
    /// # Errors
    /// [`Error::Tls`] naming the key, the file, and the hint.
    pub fn read(files: TlsFiles) -> Result<Tls, Error> {
        let seen = Stamps::of(files.all());
        let (config, validity) = build(&files)?;
        let current = RwLock::new(Current {
            config,
            validity,
            seen,
        });
        Ok(Tls { files, current })
    }

    /// Reads everything again, for the connections that begin after it.
    ///
    /// # Errors
    /// As [`Tls::read`]; then all is as before.
    pub fn reload(&self) -> Result<Validity, Error> {
        // What changes while it is read is seen as another change.
        let seen = Stamps::of(self.files.all());
        let built = build(&self.files);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.seen = seen;
        (current.config, current.validity) = built?;
        Ok(current.validity)
    }

    /// Whether a file is another one than when it was last looked into.
    pub fn is_stale(&self) -> bool {
        self.with(|current| current.seen != Stamps::of(self.files.all()))
    }

    /// From when to when the server's certificate holds.
    pub fn validity(&self) -> Validity {
        self.with(|current| current.validity)
    }

    /// Where the private key lies, if users other than the owner and its group may read it.
    pub fn open_private_key(&self) -> Option<&Path> {
        Some(self.files.private_key.path.as_path()).filter(|path| files::is_open_to_all(path))
    }

    /// The beginning of a connection.
    pub(crate) fn begin(&self) -> Result<UnbufferedServerConnection, rustls::Error> {
        UnbufferedServerConnection::new(self.with(|current| Arc::clone(&current.config)))
    }

    fn with<T>(&self, read: impl FnOnce(&Current) -> T) -> T {
        read(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

fn build(files: &TlsFiles) -> Result<(Arc<ServerConfig>, Validity), Error> {
    let wrong = |problem| Error::tls(&files.certificate, problem);
    let chain = certificates(&files.certificate)?;
    let key = private_key(&files.private_key)?;
    let validity = chain.first().and_then(|own| Validity::of(own));
    let validity =
        validity.ok_or_else(|| wrong(problem::bad_certificate("it does not say until when it holds")))?;
    let provider = Arc::new(default_provider());
    let verifier = verifier(files, &provider)?;
    let asks = files.client_certificates.is_some();
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| wrong(problem::refused(error)))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| of_pair(&error, &files.certificate, &files.private_key))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if asks {
        // Who shows a certificate shows it every time: one that has run out since opens nothing.
        config.send_tls13_tickets = 0;
    } else {
        // The ticket is the client's to keep. Its key is made here and ends with the next reload, or twelve hours later.
        config.ticketer = Ticketer::new().map_err(|error| wrong(problem::refused(error)))?;
    }
    Ok((Arc::new(config), validity))
}

/// The file that is to blame where a certificate and a key are none together.
fn of_pair(error: &rustls::Error, certificate: &TlsFile, private_key: &TlsFile) -> Error {
    match problem::of_pair(error, &certificate.path) {
        Err(of_certificate) => Error::tls(certificate, of_certificate),
        Ok(of_key) => Error::tls(private_key, of_key),
    }
}

/// Those who sign, of a file that somebody named: each of its certificates is one of them.
fn roots(file: &TlsFile) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| Error::tls(file, problem::bad_certificate(error)))?;
    }
    Ok(roots)
}

/// Who looks at the certificates of clients.
fn verifier(files: &TlsFiles, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let Some(file) = &files.client_certificates else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let wrong = |problem| Error::tls(file, problem);
    let roots = roots(file)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if files.client_certificates_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().map_err(|error| wrong(problem::refused(error)))
}
