//! A feature table in one process: how fast its lookups are, how soon it is ready, what it takes of memory. Beside benches/c/features.c,
//! which does the same work without a library.
//!
//! Its invariant: every key that is asked for is in the table, as the count of each lookup says.

use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use millpond_engines_features::Table;

const BATCH: usize = 100;
const KEYS: usize = 1 << 22;
const LOOP: Duration = Duration::from_secs(2);
/// Of a shard file of format 2.
const HEADER_BYTES: u64 = 128;

/// Prints a million keys a second.
pub(crate) fn lookup(folder: &Path) -> anyhow::Result<()> {
    let mut table = Table::open_version(folder, None)?;
    table.make_resident()?;
    // Those of the loop in C.
    let rows = u128::from(table.rows());
    let keys: Vec<u64> = (1..=KEYS as u64)
        .map(|number| ((u128::from(mix(number)) * rows) >> 64) as u64)
        .collect();
    let mut values = vec![0.0; BATCH * table.dim()];
    let mut found = vec![0; BATCH.div_ceil(8)];
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < LOOP {
        for keys in keys.chunks_exact(BATCH) {
            let count = table.lookup(black_box(keys), &mut values, &mut found);
            ensure!(count == BATCH, "a key is absent");
            black_box(&values);
            done += BATCH;
        }
    }
    print(done as f64 / began.elapsed().as_secs_f64() / 1e6)
}

/// Prints the seconds that it takes to open the table, read it into memory and verify it.
pub(crate) fn ready(folder: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut table = Table::open_version(folder, None)?;
    table.make_resident()?;
    print(began.elapsed().as_secs_f64())
}

/// Prints bytes an entry, without the headers and the manifest.
pub(crate) fn bytes(folder: &Path) -> anyhow::Result<()> {
    let table = Table::open_version(folder, None)?;
    let bytes: u64 = table.own_shards().map(|shard| shard.bytes - HEADER_BYTES).sum();
    print(bytes as f64 / table.rows() as f64)
}

fn print(figure: f64) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{figure:.3}")?)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
