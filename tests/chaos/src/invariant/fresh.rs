//! What a server shows of the table that takes upserts, asked after a start.

use crate::finding::{Broken, Findings};
use crate::fresh::{DIM, Fresh, NAME, Shown, WRITERS, keys_of, shown};
use crate::front::{Answer, Came, Connection, Front};
use crate::load::{bytes, floats};
use crate::plan::generator;
use crate::scene::ANSWER_MAX;
use crate::server::Server;
use crate::tally::Tally;
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::sync::Arc;

/// Holds every row against what callers know of it.
///
/// # Errors
/// A lookup that is not answered with rows.
pub fn check(
    fresh: &Fresh,
    server: &Server,
    tls: &Arc<ClientConfig>,
    findings: &Findings,
    tally: &Tally,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(Front::of(0), server, tls, ANSWER_MAX, &mut generator(0, 0))?;
    for writer in 0..WRITERS {
        let keys: Vec<u64> = keys_of(writer).collect();
        let answer = match connection.call("features.lookup", json!({"table": NAME, "keys": keys})) {
            Came::Answer(_, Answer::Good(answer)) => answer,
            other => anyhow::bail!("a lookup was answered {other:?}"),
        };
        match read(&keys, &answer) {
            Ok((shown, _)) => fresh.check(writer, &shown, findings, tally),
            Err(wrong) => findings.tell(Broken::UpsertWrong, format!("after a restart {wrong}")),
        }
    }
    Ok(())
}

/// What an answer shows of each key, and up to which sequence.
pub(crate) fn read(keys: &[u64], answer: &Value) -> Result<(Vec<Shown>, u64), String> {
    let found = bytes(&answer["found"]).ok_or("no found bits")?;
    let values = floats(&answer["values"], keys.len() * DIM).ok_or("not as many numbers as asked for")?;
    let sequence = answer["overlay_sequence"].as_u64().ok_or("no overlay_sequence")?;
    let rows = keys.iter().zip(values.chunks(DIM)).enumerate();
    let shown = rows.map(|(at, (key, row))| {
        let is_found = found.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        shown(*key, is_found, row)
    });
    Ok((shown.collect::<Result<_, _>>()?, sequence))
}
