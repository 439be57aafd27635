//! The version that a server serves of the feature table, asked after a start.

use crate::front::{Answer, Came, Connection, Front};
use crate::plan::generator;
use crate::scene::ANSWER_MAX;
use crate::server::Server;
use crate::table::NAME;
use anyhow::Context as _;
use rustls::ClientConfig;
use serde_json::json;
use std::sync::Arc;

/// The version that serves.
///
/// # Errors
/// A lookup that is not answered, or not with a version.
pub fn serving(server: &Server, tls: &Arc<ClientConfig>) -> anyhow::Result<u64> {
    let mut connection = Connection::open(Front::of(0), server, tls, ANSWER_MAX, &mut generator(0, 0))?;
    match connection.call("features.lookup", json!({"table": NAME, "keys": [0]})) {
        Came::Answer(_, Answer::Good(answer)) => answer["version"].as_u64().context("no version"),
        other => anyhow::bail!("a lookup was answered {other:?}"),
    }
}
