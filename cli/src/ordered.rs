//! `millpond ordered load`: a file of entries into a store's folder.
//!
//! It works on a folder that no server has open; the store's own lock sees to that. Its invariant: a line that cannot be loaded
//! stops the load and is named; what was loaded before it stays.

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use millpond_engines_ordered::{Durability as Survives, Options, Put, Section};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Entries of one put: few enough to stay small, many enough that the log is synced seldom.
const ENTRIES_A_PUT: usize = 1000;

/// What to do with an ordered store's folder.
#[derive(Subcommand)]
pub(crate) enum Ordered {
    /// Load a file of entries, one JSON object {"key": "text", "value": "text"} a line
    Load(Load),
}

const LOAD_EXAMPLES: &str = "\
Examples:
  millpond ordered load --dir store entries.jsonl";

/// Loads them into the store's folder, which is made when absent.
#[derive(Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub(crate) struct Load {
    /// The store's folder (ordered.NAME.path of the configuration).
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// What each written batch survives.
    #[arg(long, value_enum, default_value_t = Durability::Synced)]
    durability: Durability,
    /// The file.
    file: PathBuf,
}

/// How sure a batch is before the next is written.
#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    /// The end of this process.
    Logged,
    /// The end of the machine's power.
    Synced,
}

pub(crate) fn run(ordered: &Ordered) -> anyhow::Result<()> {
    let Ordered::Load(load) = ordered;
    let store = Section {
        path: Some(load.dir.clone()),
        durability: match load.durability {
            Durability::Logged => Survives::Logged,
            Durability::Synced => Survives::Synced,
        },
        ..Section::default()
    };
    let started = Instant::now();
    let (entries, keys) = fill(&store, &load.file)?;
    let seconds = started.elapsed().as_secs_f64();
    crate::print(&format!(
        "{entries} entries loaded into {} in {seconds:.1} s; the store holds {keys} keys",
        load.dir.display()
    ));
    Ok(())
}

/// One line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    value: String,
}

/// Puts the file's entries into the store: how many, and how many keys it has afterwards.
fn fill(section: &Section, file: &Path) -> anyhow::Result<(usize, usize)> {
    let place = file.display();
    let opened = File::open(file).map_err(|error| anyhow!("{place}: cannot be read: {error}"))?;
    let opened_store = section.open(Options::default().queue_bytes_max);
    let (store, _) = opened_store.context("ordered.load")?;
    let (mut entries, mut shown) = (0, Instant::now());
    let mut write = |batch: &mut Vec<(Vec<u8>, Vec<u8>)>| {
        entries += batch.len();
        let put = Put {
            entries: std::mem::take(batch),
            ..Put::default()
        };
        store
            .write_wait(put)
            .map_err(|error| anyhow!("{place}: {error}"))?;
        if shown.elapsed() > Duration::from_secs(1) {
            shown = Instant::now();
            eprintln!("{entries} entries loaded");
        }
        anyhow::Ok(())
    };
    let mut batch = Vec::with_capacity(ENTRIES_A_PUT);
    for (number, line) in BufReader::new(opened).lines().enumerate() {
        let at = |problem: String| anyhow!("{place}, line {}: {problem}", number + 1);
        let line = line.map_err(|error| at(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line)
            .map_err(|error| at(format!("{error}; expected {{\"key\": \"…\", \"value\": \"…\"}}")))?;
        batch.push((line.key.into_bytes(), line.value.into_bytes()));
        if batch.len() == ENTRIES_A_PUT {
            write(&mut batch)?;
        }
    }
    if !batch.is_empty() {
        write(&mut batch)?;
    }
    let keys = store.len();
    store.close().context("ordered.load")?;
    Ok((entries, keys))
}
