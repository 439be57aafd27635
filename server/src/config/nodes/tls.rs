//! `[nodes.tls]`: whom this server trusts and who it is, where the nodes' addresses begin with `tls://`.
//! It opens no file. Its invariant: a certificate has its key, in a section that passes [`Tls::check`].

use millpond_net::{OutwardTlsFiles, TlsKeys};
use serde::Deserialize;
use std::path::PathBuf;

/// What errors name.
const KEYS: TlsKeys = TlsKeys {
    authorities: "nodes.tls.ca",
    certificate: "nodes.tls.certificate",
    private_key: "nodes.tls.private_key",
    server_name: "nodes.tls.server_name",
};

/// `[nodes.tls]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// PEM: who signs the nodes' certificates; those whom the system trusts, where left out.
    pub ca: Option<PathBuf>,
    /// PEM: what this server shows to nodes that ask for a certificate.
    pub certificate: Option<PathBuf>,
    /// PEM: its key.
    pub private_key: Option<PathBuf>,
    /// The name that all nodes' certificates are for; each address's own, where left out.
    pub server_name: Option<String>,
}

impl Tls {
    /// What is read.
    pub(crate) fn files(&self) -> OutwardTlsFiles {
        OutwardTlsFiles {
            keys: KEYS,
            authorities: self.ca.clone(),
            identity: self.certificate.clone().zip(self.private_key.clone()),
            server_name: self.server_name.clone(),
        }
    }

    /// Every path of it.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.ca, &mut self.certificate, &mut self.private_key];
        files.into_iter().flatten()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match (&self.certificate, &self.private_key) {
            (Some(_), None) => Err(
                "nodes.tls.certificate needs its key; write nodes.tls.private_key, or leave both out".into(),
            ),
            (None, Some(_)) => Err(
                "nodes.tls.private_key needs its certificate; write nodes.tls.certificate, or leave both out"
                    .into(),
            ),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }
}
