//! An authority of the campaign's own: the server's certificates, and clients that trust them.
//!
//! Its invariant: a certificate and its key are each put in place by a rename, so that a reader sees whole files.

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Signs the servers' certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    client: Arc<ClientConfig>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// Keys or certificates that cannot be made.
    pub fn new() -> anyhow::Result<Authority> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).context("our own certificate")?)?;
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Authority {
            issuer: Issuer::new(params, key),
            client: Arc::new(client),
        })
    }

    /// What connects to the servers.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// Puts a new certificate and its key in place.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn renew(&self, folder: &Path) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned()])?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        put(folder, "server.key", &key.serialize_pem())?;
        put(folder, "server.pem", &certificate.pem())
    }

    /// Puts a certificate in place whose key the server does not have.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn spoil(&self, folder: &Path) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned()])?;
        put(folder, "server.pem", &params.signed_by(&key, &self.issuer)?.pem())
    }
}

fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let begun = folder.join(format!("{name}.new"));
    std::fs::write(&begun, text).with_context(|| format!("cannot write {}", begun.display()))?;
    std::fs::rename(&begun, folder.join(name)).with_context(|| format!("cannot put {name} in place"))
}
