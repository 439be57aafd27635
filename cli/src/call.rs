//! `millpond call METHOD JSON`: one call over the native protocol, its answer printed as JSON.
//! Its invariant: an error answer is printed with its code, and the exit code is 1.

use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::{Client, Encoding, Options, Tls, TlsIdentity};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millpond call '*ping'
  millpond call rank '{\"user\": {\"id\": \"7\"}, \"items\": [50, 181], \"top\": 1}'
  millpond call '*infos' --addr unix:/run/millpond.sock
  millpond call '*ping' --addr tls://millpond.example:13503 --tls-ca ca.pem";

/// Calls one method of a running server.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    /// The method: *ping, *status, *infos, *tune, infer, rank, features.lookup, ordered.get, ordered.put, ordered.scan.
    method: String,
    /// The payload's map.
    #[arg(default_value = "{}")]
    json: String,
    /// The server: HOST:PORT, unix:PATH or tls://HOST:PORT. Of several, with commas between, one that can be reached.
    #[arg(long, default_value = "127.0.0.1:13500", value_name = "ADDRESS")]
    addr: String,
    /// Give up after this long; the server is told.
    #[arg(long, default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
    /// Send the call and want no answer: nothing is printed, and nothing says whether it ran.
    #[arg(long, conflicts_with = "raw")]
    oneway: bool,
    /// Print the answer as it came, on one line.
    #[arg(long)]
    raw: bool,
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

pub(crate) fn run(arguments: &Call) -> anyhow::Result<()> {
    let payload = serde_json::from_str(&arguments.json).context("the payload is not JSON")?;
    let serde_json::Value::Object(mut payload) = payload else {
        anyhow::bail!("the payload is no JSON object; write a map such as '{{\"keys\": [1]}}'");
    };
    // The client sends the deadline itself, and gives up when it is over.
    let deadline_ms = match payload.remove("_deadline_ms") {
        None => arguments.deadline_ms,
        Some(said) => said.as_u64().with_context(|| {
            format!("key \"_deadline_ms\" is {said}; expected milliseconds, a whole number")
        })?,
    };
    let deadline = Duration::from_millis(deadline_ms);
    let payload = serde_json::Value::Object(payload).to_string();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    if arguments.oneway {
        return runtime.block_on(send(arguments, &payload, deadline));
    }
    let answer = runtime.block_on(async {
        let client = connect(arguments).await?;
        let payload = payload.as_bytes();
        let answer = client.call_raw(&arguments.method, Encoding::Json, payload, Some(deadline));
        anyhow::Ok(answer.await?)
    })?;
    if arguments.raw {
        crate::print(&String::from_utf8_lossy(&answer));
        return Ok(());
    }
    let answer: serde_json::Value = serde_json::from_slice(&answer).context("the answer is not JSON")?;
    crate::print(&serde_json::to_string_pretty(&answer)?);
    Ok(())
}

/// Sends the call and returns once it is written.
async fn send(arguments: &Call, payload: &str, deadline: Duration) -> anyhow::Result<()> {
    let sent = async {
        let client = connect(arguments).await?;
        client
            .oneway_raw(&arguments.method, Encoding::Json, payload.as_bytes())
            .await?;
        client.close().await;
        Ok(())
    };
    let late = || {
        format!(
            "the call could not be written to {} within {deadline:?}",
            arguments.addr
        )
    };
    tokio::time::timeout(deadline, sent).await.with_context(late)?
}

async fn connect(arguments: &Call) -> anyhow::Result<Client> {
    let identity = arguments.tls_cert.clone().zip(arguments.tls_key.clone());
    let tls = arguments.tls_ca.clone().map(|ca| Tls {
        ca,
        server_name: arguments.tls_name.clone(),
        identity: identity.map(|(certificate, key)| TlsIdentity { certificate, key }),
    });
    let options = Options {
        tls,
        ..Options::default()
    };
    Ok(Client::connect(&arguments.addr, options).await?)
}
