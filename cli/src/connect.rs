//! How commands reach a running server.
//! It decides nothing about a call. Its invariant: a server by TLS is believed for the authorities that were named, and no other.

use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::{Client, Options, Tls, TlsIdentity};
use std::path::PathBuf;

/// What it takes to reach a `tls://` address.
#[derive(Args)]
pub(crate) struct TlsFiles {
    /// Certificates (PEM) of the authorities that a tls:// server's certificate must come from.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name in the server's certificate, where it is not the address' host.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// A certificate (PEM) to show to a server that asks for one.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether any was named.
    pub(crate) fn are_named(&self) -> bool {
        self.tls_ca.is_some()
    }
}

/// Those of a client that reaches `tls://` addresses with these files.
pub(crate) fn options(files: &TlsFiles) -> Options {
    let identity = files.tls_cert.clone().zip(files.tls_key.clone());
    let tls = files.tls_ca.clone().map(|ca| Tls {
        ca,
        server_name: files.tls_name.clone(),
        identity: identity.map(|(certificate, key)| TlsIdentity { certificate, key }),
    });
    Options {
        tls,
        ..Options::default()
    }
}

pub(crate) async fn connect(addr: &str, files: &TlsFiles) -> anyhow::Result<Client> {
    Ok(Client::connect(addr, options(files)).await?)
}

/// Where a command's calls run.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().context("cannot start a runtime")
}
