//! `millpond ordered dump`: a store as JSON lines.

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use millpond_engines_ordered::offline;
use serde::Serialize;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

const EXAMPLES: &str = "\
A line has key_base64, value_base64 or of a list items_base64 (the oldest first), version and, where the entry expires, expires_ms (milliseconds of Unix time). The store is read into memory, \
as a start does, and is not changed; no server may have it open: dump a backup of one that is served.

Examples:
  millpond ordered dump store > entries.jsonl
  millpond ordered dump backups/monday | millpond ordered load other";

/// Writes all entries in the order of their keys.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    /// The store's folder (ordered.NAME.path of the configuration), or a backup.
    dir: PathBuf,
}

/// One line.
#[derive(Serialize)]
struct Line {
    key_base64: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items_base64: Option<Vec<String>>,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
}

pub(crate) fn run(Dump { dir }: &Dump) -> anyhow::Result<()> {
    super::must_be_there(dir)?;
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut written = Ok(());
    let dumped = offline::dump(dir, &mut super::progress, &mut |entry| {
        let items = entry.items();
        let line = Line {
            key_base64: STANDARD.encode(entry.key),
            value_base64: items.is_none().then(|| STANDARD.encode(entry.value)),
            items_base64: items.map(|items| items.into_iter().map(|item| STANDARD.encode(item)).collect()),
            version: entry.version,
            expires_ms: entry.expires_ms,
        };
        written = serde_json::to_writer(&mut out, &line)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        written.is_ok()
    });
    let recovery = dumped.context("ordered.dump")?;
    match written.and_then(|()| out.flush()) {
        // Who reads it has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(anyhow!("ordered.dump: standard output: {error}")),
        Ok(()) => {
            eprintln!("{}: {recovery}", dir.display());
            Ok(())
        }
    }
}
