//! `millpond call METHOD JSON`: one call over the native protocol, its answer printed as JSON.
//! Its invariant: an error answer is printed with its code, and the exit code is 1.

use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::{Client, Encoding, Options};
use std::time::Duration;

/// Calls one method of a running server:
///   millpond call '*ping' '{}'
///   millpond call rank '{"user": {"id": "7"}, "items": [50, 181], "top": 1}'
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Call {
    /// The method: *ping, *status, *infos, *tune, infer, rank, features.lookup, ordered.get, ordered.put, ordered.scan.
    method: String,
    /// The payload's map.
    #[arg(default_value = "{}")]
    json: String,
    /// The server.
    #[arg(long, default_value = "127.0.0.1:13500")]
    addr: String,
    /// Give up after this long; the server is told.
    #[arg(long, default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
    /// Print the answer as it came, on one line.
    #[arg(long)]
    raw: bool,
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let answer = runtime.block_on(async {
        let client = Client::connect(&arguments.addr, Options::default()).await?;
        let deadline = Some(Duration::from_millis(deadline_ms));
        client
            .call_raw(
                &arguments.method,
                Encoding::Json,
                serde_json::Value::Object(payload).to_string().as_bytes(),
                deadline,
            )
            .await
    })?;
    if arguments.raw {
        crate::print(&String::from_utf8_lossy(&answer));
        return Ok(());
    }
    let answer: serde_json::Value = serde_json::from_slice(&answer).context("the answer is not JSON")?;
    crate::print(&serde_json::to_string_pretty(&answer)?);
    Ok(())
}
