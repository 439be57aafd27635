//! What a start of a store takes: the log of single puts read back, and a checkpoint loaded, beside puts of one thread to a store without a log.
//!
//! The files are in the system's cache, so that all of it is about the processor. Its invariant: each start finds every key.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use millpond_engines_ordered::{Durability, Options, Store};
use millpond_press_load::Cores;

use super::keys::{self, Text};
use super::store::Ordered;
use super::{Map, print};

/// A start reads by as many threads as there are cores.
const CORES: [usize; 2] = [0, 1];

/// Prints `put`, `replay` and `checkpoint`: keys a second. The folder is made, and removed in the end.
pub(crate) fn measure(folder: &Path, count: usize) -> anyhow::Result<()> {
    Cores::of(&CORES)?.bind().context("cannot run on those cores")?;
    let texts = keys::draw(count);
    let open = || -> anyhow::Result<(Store, f64)> {
        let began = Instant::now();
        let (store, _) = Store::open(folder, options())?;
        Ok((store, began.elapsed().as_secs_f64()))
    };

    let put_s = {
        let map = Ordered::default();
        timed_puts(&map, &texts)?
    };
    let map = Ordered::of(open()?.0);
    timed_puts(&map, &texts)?;
    let entries = map.len();
    map.into_store().close()?;

    let (store, replay_s) = open()?;
    ensure!(
        store.len() == entries,
        "{} of {entries} keys came back",
        store.len()
    );
    store.checkpoint().map_err(|error| anyhow::anyhow!("{error}"))?;
    store.close()?;

    let (store, checkpoint_s) = open()?;
    ensure!(
        store.len() == entries,
        "{} of {entries} keys came back",
        store.len()
    );
    store.close()?;

    std::fs::remove_dir_all(folder)?;
    print("put", count as f64 / put_s)?;
    // The log has each put, also of a key that was there.
    print("replay", count as f64 / replay_s)?;
    print("checkpoint", entries as f64 / checkpoint_s)
}

/// Seconds until all of them are put, one at a time.
fn timed_puts(map: &Ordered, texts: &[Text]) -> anyhow::Result<f64> {
    let began = Instant::now();
    map.put(texts)?;
    Ok(began.elapsed().as_secs_f64())
}

fn options() -> Options {
    Options {
        durability: Durability::Logged,
        // No checkpoint but the one that is asked for.
        checkpoint_log_bytes: u64::MAX,
        ..Options::default()
    }
}
