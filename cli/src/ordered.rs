//! `millpond ordered load`.
//! Its invariant: it works on a folder that no server has open; the store's own lock sees to that.

use clap::{Args, Subcommand, ValueEnum};
use millpond_server::config::ordered::{Durability as Survives, Section};
use millpond_server::load_events;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to do with an ordered store's folder.
#[derive(Subcommand)]
pub(crate) enum Ordered {
    /// Load a file of entries.
    Load(Load),
}

/// Loads one JSON object {"key": "text", "value": "text"} a line into the store's folder, which is made when absent.
#[derive(Args)]
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
    let (started, mut shown) = (Instant::now(), Instant::now());
    let summary = load_events(&store, &load.file, &mut |entries| {
        if shown.elapsed() > Duration::from_secs(1) {
            shown = Instant::now();
            eprintln!("{entries} entries loaded");
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    crate::print(&format!(
        "{} entries loaded into {} in {seconds:.1} s; the store holds {} keys",
        summary.entries,
        load.dir.display(),
        summary.keys
    ));
    Ok(())
}
