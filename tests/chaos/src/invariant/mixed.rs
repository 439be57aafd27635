//! Everything that a store under mixed load has, read over the wire while nobody writes it.

use crate::front::{Connection, Front};
use crate::mixed::Found;
use crate::mixed::read::{NoAnswer, everything};
use crate::plan::generator;
use crate::scene::ANSWER_MAX;
use crate::server::Server;
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is refused is asked for again for so long: a server that has just started may still be busy.
const AGAIN: Duration = Duration::from_secs(20);

/// All keys, with their values and versions.
///
/// # Errors
/// A call that has no good answer.
pub fn read(server: &Server, tls: &Arc<ClientConfig>, table: &str) -> anyhow::Result<Found> {
    let until = Instant::now() + AGAIN;
    loop {
        let random = &mut generator(0, 0);
        let mut connection = Connection::open(Front::of(0), server, tls, ANSWER_MAX, random)?;
        match everything(&mut connection, table, "") {
            Ok(found) => return Ok(found),
            Err(NoAnswer::Refused) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(NoAnswer::Refused) => anyhow::bail!("it is refused again and again"),
            Err(NoAnswer::Closed) => anyhow::bail!("the connection was closed"),
            Err(NoAnswer::Wrong(wrong)) => anyhow::bail!("{wrong}"),
        }
    }
}
