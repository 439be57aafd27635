//! `millpond ordered promote`: has a running server's store, which follows another, take writes.

use crate::connect::{TlsFiles, connect, runtime};
use anyhow::Context as _;
use clap::Args;
use millpond_client_rust::Encoding;
use millpond_client_rust::schema::payload::Payload;
use millpond_client_rust::schema::{Field as _, Method as _, OrderedPromote, ordered_promote};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
The store begins a new epoch: its old leader refuses writes once it hears of that, and this store takes none of its records any more. What
the old leader had not sent is not here. Take ordered.NAME.follow out of the configuration of the server that was promoted before its next
start. Then set follow on the old leader and start it again; it needs a copy of this store only if its log is refused as one that has gone
another way (docs/operations.md).

Example:
  millpond ordered promote events --server follower:8090 --token-file admin.token";

/// A store and the server that has it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Promote {
    /// The store's name; the server's default store when left out.
    store: Option<String>,
    /// The server: HOST:PORT, unix:PATH or tls://HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    server: String,
    /// The file that holds the server's token for it: admin.token, or one of a group that names "ordered.promote".
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Give up after this long; the server goes on.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    #[command(flatten)]
    tls: TlsFiles,
}

pub(super) fn run(promote: &Promote) -> anyhow::Result<()> {
    let file = promote.token_file.display();
    let token = std::fs::read_to_string(&promote.token_file);
    let token = token.with_context(|| format!("ordered.promote: cannot read {file}"))?;
    let mut payload = json!({"_token": token.trim()});
    if let Some(store) = &promote.store {
        payload["table"] = json!(store);
    }
    let (payload, timeout) = (payload.to_string(), Duration::from_secs(promote.timeout_s));
    let answer = runtime()?.block_on(async {
        let client = connect(&promote.server, &promote.tls).await?;
        let called = client.call_raw(
            OrderedPromote::NAME,
            Encoding::Json,
            payload.as_bytes(),
            Some(timeout),
        );
        anyhow::Ok(called.await?)
    })?;
    let payload = Payload::new(Encoding::Json, &answer).context("the answer is not JSON")?;
    let (answer, _) =
        <ordered_promote::Answer<'static>>::decode(&payload).context("the answer is not understood")?;
    crate::print(&format!(
        "promoted: the store takes writes behind record {}, in epoch {}",
        answer.record, answer.epoch
    ));
    Ok(())
}
