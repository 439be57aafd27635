//! `millpond ordered promote`: has a running server's store, which follows another, take writes.

use crate::connect::{TlsFiles, call, token_in};
use clap::Args;
use millpond_client_rust::schema::OrderedPromote;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
The store begins a new epoch, and takes none of its old leader's records any more. What the old leader had not sent is not here. Where \
this store follows it by its configuration, it is told within seconds and refuses writes from then on; the promoted server's log says so, or \
says to stop it. Take ordered.NAME.follow out of the configuration of the server that was promoted before its next \
start. Then set follow on the old leader and start it again; it needs a copy of this store only if its log is refused as one that has gone \
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
    let mut payload = json!({"_token": token_in(&promote.token_file)?});
    if let Some(store) = &promote.store {
        payload["table"] = json!(store);
    }
    let timeout = Duration::from_secs(promote.timeout_s);
    let server = (promote.server.as_str(), &promote.tls);
    let answer = call::<OrderedPromote>(server, &payload, timeout, Into::into)?;
    crate::print(&format!(
        "promoted: the store takes writes behind record {}, in epoch {}",
        answer.record, answer.epoch
    ));
    Ok(())
}
