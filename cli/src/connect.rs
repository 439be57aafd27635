//! How commands reach a running server.
//! It decides nothing about a call. Its invariant: a server by TLS is believed for the authorities that were named, and no other.

use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::schema::payload::Payload;
use millpond_client_rust::schema::{Field as _, Method, Of};
use millpond_client_rust::{CallError, Client, Encoding, Options, Tls, TlsIdentity};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// The token that a file has, which is nothing else.
pub(crate) fn token_in(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let token = text.trim();
    anyhow::ensure!(
        !token.is_empty(),
        "{} is empty; expected the server's token",
        file.display()
    );
    Ok(token.to_owned())
}

/// Makes one call of a server and reads its answer; `explained` says more of its error.
pub(crate) fn call<M: Method>(
    (addr, files): (&str, &TlsFiles),
    payload: &serde_json::Value,
    timeout: Duration,
    explained: impl FnOnce(CallError) -> anyhow::Error,
) -> anyhow::Result<Of<'static, M::Answer>> {
    let payload = payload.to_string();
    let answer = runtime()?.block_on(async {
        let client = connect(addr, files).await?;
        let called = client.call_raw(M::NAME, Encoding::Json, payload.as_bytes(), Some(timeout));
        called.await.map_err(explained)
    })?;
    let payload = Payload::new(Encoding::Json, &answer).context("the answer is not JSON")?;
    let (answer, _) = M::Answer::decode(&payload).context("the answer is not understood")?;
    Ok(M::Answer::own(answer))
}
