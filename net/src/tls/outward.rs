//! TLS of the connections that this side opens: whom it trusts, who it is, and what to do where they do not agree.
//!
//! It opens nothing: bytes go through `TlsLayer` on net threads, and through [`TlsStream`] elsewhere. Its invariant: nobody
//! is trusted whom neither a named file nor, where none is named, the system's names; what a failure says holds no address.

mod stream;

pub use stream::TlsStream;

use super::files::{Stamps, certificates, private_key};
use super::layer::Side;
use super::{TlsFile, Validity, files, of_pair, problem, roots};
use crate::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::unbuffered::UnbufferedStatus;
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Where systems keep what they trust, the first that is there: Debian and Alpine, Red Hat, SUSE.
const SYSTEM_FILES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// The configuration keys that errors name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsKeys {
    /// Of the file of authorities.
    pub authorities: &'static str,
    /// Of the certificate that is shown.
    pub certificate: &'static str,
    /// Of its key.
    pub private_key: &'static str,
    /// Of the name that certificates are to be for.
    pub server_name: &'static str,
}

/// Whom to trust, and who to be.
#[derive(Debug, Clone)]
pub struct OutwardTlsFiles {
    /// What errors name.
    pub keys: TlsKeys,
    /// PEM: the authorities of the certificates of those who are called; the system's where none is named.
    pub authorities: Option<PathBuf>,
    /// PEM: the certificate to show to those who ask for one, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the certificates of all who are called are for; that of its address where none is given.
    pub server_name: Option<String>,
}

impl OutwardTlsFiles {
    fn authorities(&self) -> TlsFile {
        let system = || {
            let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
            let mut files = named
                .into_iter()
                .chain(SYSTEM_FILES.into_iter().map(PathBuf::from));
            let found = files.find(|file| file.exists());
            found.unwrap_or_else(|| PathBuf::from(SYSTEM_FILES[0]))
        };
        TlsFile {
            key: self.keys.authorities,
            path: self.authorities.clone().unwrap_or_else(system),
        }
    }

    fn identity(&self) -> Option<(TlsFile, TlsFile)> {
        let file = |key, path: &Path| TlsFile {
            key,
            path: path.to_owned(),
        };
        let (certificate, key) = self.identity.as_ref()?;
        Some((
            file(self.keys.certificate, certificate),
            file(self.keys.private_key, key),
        ))
    }

    fn stamps(&self) -> Stamps {
        let (certificate, key) = self.identity().unzip();
        let authorities = self.authorities();
        Stamps::of(
            [Some(&authorities), certificate.as_ref(), key.as_ref()]
                .into_iter()
                .flatten(),
        )
    }
}

/// What such connections begin with, as it was read last.
pub struct OutwardTls {
    files: OutwardTlsFiles,
    server_name: Option<ServerName<'static>>,
    current: RwLock<Current>,
}

struct Current {
    config: Arc<ClientConfig>,
    /// Of the certificate that is shown.
    validity: Option<Validity>,
    /// What the files were when they were last looked into, with or without success.
    seen: Stamps,
}

/// One of those who are called.
#[derive(Clone)]
pub struct TlsTo {
    tls: Arc<OutwardTls>,
    name: ServerName<'static>,
}

impl OutwardTls {
    /// Reads everything.
    ///
    /// # Errors
    /// [`Error::Tls`] naming the key, the file, and the hint; [`Error::TlsName`].
    pub fn read(files: OutwardTlsFiles) -> Result<OutwardTls, Error> {
        let name = files.server_name.as_deref();
        let server_name = name
            .map(|text| server_name(files.keys.server_name, text))
            .transpose()?;
        let seen = files.stamps();
        let (config, validity) = build(&files)?;
        Ok(OutwardTls {
            files,
            server_name,
            current: RwLock::new(Current {
                config,
                validity,
                seen,
            }),
        })
    }

    /// Reads everything again, for the connections that are opened after it.
    ///
    /// # Errors
    /// As [`OutwardTls::read`]; then all is as before.
    pub fn reload(&self) -> Result<(), Error> {
        // What changes while it is read is seen as another change.
        let seen = self.files.stamps();
        let built = build(&self.files);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.seen = seen;
        (current.config, current.validity) = built?;
        Ok(())
    }

    /// Whether a file is another one than when it was last looked into.
    pub fn is_stale(&self) -> bool {
        let seen = self.files.stamps();
        self.with(|current| current.seen != seen)
    }

    /// From when to when the certificate that is shown holds, where one is.
    pub fn validity(&self) -> Option<Validity> {
        self.with(|current| current.validity)
    }

    /// Where the private key lies, if users other than the owner and its group may read it.
    pub fn open_private_key(&self) -> Option<&Path> {
        let (_, key) = self.files.identity.as_ref()?;
        Some(key.as_path()).filter(|path| files::is_open_to_all(path))
    }

    /// A connection to `host`, which its certificate has to name where no other name is configured.
    ///
    /// # Errors
    /// [`Error::TlsName`]: no certificate can be for it.
    pub fn to(self: &Arc<Self>, host: &str) -> Result<TlsTo, Error> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(self.files.keys.server_name, host)?,
        };
        let tls = Arc::clone(self);
        Ok(TlsTo { tls, name })
    }

    fn with<T>(&self, read: impl FnOnce(&Current) -> T) -> T {
        read(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for OutwardTls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OutwardTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsTo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("TlsTo").field(&self.name).finish()
    }
}

impl TlsTo {
    /// The beginning of a connection.
    pub(crate) fn begin(&self) -> Result<Opener, rustls::Error> {
        let config = self.tls.with(|current| Arc::clone(&current.config));
        Ok(Opener {
            tls: UnbufferedClientConnection::new(config, self.name.clone())?,
            keys: self.tls.files.keys,
        })
    }
}

fn server_name(key: &'static str, text: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(text.to_owned()).map_err(|_| Error::TlsName {
        key,
        name: text.to_owned(),
    })
}

fn build(files: &OutwardTlsFiles) -> Result<(Arc<ClientConfig>, Option<Validity>), Error> {
    let authorities = files.authorities();
    let roots = match &files.authorities {
        Some(_) => roots(&authorities)?,
        None => system_roots(&authorities)?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| Error::tls(&authorities, problem::refused(error)))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = files.identity() else {
        return Ok((Arc::new(config.with_no_client_auth()), None));
    };
    let chain = certificates(&certificate)?;
    let validity = chain.first().and_then(|own| Validity::of(own));
    let config = config.with_client_auth_cert(chain, private_key(&key)?);
    let config = config.map_err(|error| of_pair(&error, &certificate, &key))?;
    Ok((Arc::new(config), validity))
}

/// Old files hold certificates that no library takes any more; those are left out.
fn system_roots(file: &TlsFile) -> Result<RootCertStore, Error> {
    if !file.path.exists() {
        let problem = format!(
            "is not there, and is where this system would keep whom it trusts; install ca-certificates, or name a file as {}",
            file.key
        );
        return Err(Error::tls(file, problem));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let _ = roots.add(certificate);
    }
    Ok(roots)
}

/// The side that opens a connection.
pub(crate) struct Opener {
    tls: UnbufferedClientConnection,
    keys: TlsKeys,
}

impl Side for Opener {
    type Data = ClientConnectionData;
    const OPENS: bool = true;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.tls.process_tls_records(bytes)
    }

    fn explain(&self, error: Option<&rustls::Error>) -> Option<String> {
        Some(self.keys.explain(error))
    }
}

impl TlsKeys {
    /// Why a handshake failed, and which key helps; no error where the other side ended it without a word.
    fn explain(self, error: Option<&rustls::Error>) -> String {
        let TlsKeys {
            authorities,
            certificate,
            server_name,
            ..
        } = self;
        let what = match error {
            None => "it closed the connection during the handshake; address a port that speaks TLS".to_owned(),
            Some(error) => match error {
                rustls::Error::InvalidMessage(_) => {
                    "its port does not speak it; address its server.tls.listen, or leave tls:// out of its address".to_owned()
                }
                rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                ) => {
                    format!("nobody who is trusted has signed its certificate; name its authority in {authorities}")
                }
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => format!(
                    "{error}; address it by a name of its certificate, or write that name as {server_name}"
                ),
                rustls::Error::AlertReceived(
                    AlertDescription::CertificateRequired
                    | AlertDescription::BadCertificate
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::CertificateExpired
                    | AlertDescription::UnknownCA
                    | AlertDescription::DecryptError,
                ) => format!(
                    "it does not accept whom this server shows ({error}); name a certificate that it trusts in {certificate}"
                ),
                error => error.to_string(),
            },
        };
        format!("TLS failed: {what}")
    }
}

#[cfg(test)]
mod tests;
