//! An ordered map in one process: how fast it takes keys, finds them and scans, and what it takes of memory. One map a process:
//! the store of Millpond, or one of the crates that it is held against.
//!
//! The work is `rw1` of masstree-beta: all keys are put, then looked up in another random order; then ranges of 100 are read.
//! It hides the network and the log. Its invariants: every key that was put is found with its value, and the same count
//! of keys is the same work for every map.

mod crates;
mod keys;
pub(crate) mod recovery;
mod store;

use std::io::{self, Write as _};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use keys::{Text, VALUE_BYTES};
use millpond_press_load::Cores;
use millpond_press_recorder::memory_bytes;

/// Cores of one thread, and of two. What a map does on threads of its own shares them.
const CORES: [&[usize]; 2] = [&[1], &[0, 1]];
const SCAN_ENTRIES: usize = 100;
/// Keys that are looked up at once, where a map can do that.
const TOGETHER: usize = 64;

/// What is measured of each map. A call takes many keys, so that a thread keeps what it needs between them.
trait Map: Sync {
    /// A key as this map takes it, made before the clock runs.
    type Key: Copy + Send + Sync;

    fn key(text: Text) -> Self::Key;

    /// Puts each key with its value; all of them are visible when it returns.
    fn put(&self, keys: &[Self::Key]) -> anyhow::Result<()>;

    /// Looks each key up; how many were there with their value.
    fn get(&self, keys: &[Self::Key]) -> usize;

    /// The same, [`TOGETHER`] keys at once; nothing where the map has no such call.
    fn get_together(&self, _keys: &[Self::Key]) -> Option<usize> {
        None
    }

    /// Reads up to [`SCAN_ENTRIES`] entries from each key on; how many it read.
    fn scan(&self, starts: &[Self::Key]) -> usize;

    fn len(&self) -> usize;

    /// Memory in use by the map's own count, where it has one.
    fn counted_bytes(&self) -> Option<f64> {
        None
    }
}

/// Prints a line a figure: `put`, `get` and `scan` in operations a second, memory in bytes an entry beside its key and value.
pub(crate) fn measure(map: &str, threads: usize, count: usize) -> anyhow::Result<()> {
    let cores = threads.checked_sub(1).and_then(|at| CORES.get(at));
    let cores = *cores.context("the threads are 1 or 2")?;
    ensure!(count >= SCAN_ENTRIES, "at least {SCAN_ENTRIES} keys");
    // Threads of the map, too: one caller is not to have two cores.
    Cores::of(cores)?.bind().context("cannot run on those cores")?;
    match map {
        "store" => run(store::Ordered::default, cores, count),
        "ferntree" => run(crates::Fern::default, cores, count),
        "masstree" => run(crates::Mass::default, cores, count),
        _ => bail!("no map {map:?}; they are store, ferntree and masstree"),
    }
}

fn run<M: Map>(make: impl FnOnce() -> M, cores: &[usize], count: usize) -> anyhow::Result<()> {
    let texts = keys::draw(count);
    let text_bytes = texts.iter().map(Text::len).sum::<usize>();
    let mut keys: Vec<M::Key> = texts.into_iter().map(M::key).collect();
    let before = resident()?;
    let map = make();

    let put_s = timed(&keys, cores, |part| map.put(part))?;
    let grown = resident()?.saturating_sub(before);
    // Keys that were drawn twice are one entry.
    let entries = map.len() as f64;
    let own = text_bytes as f64 / count as f64 + VALUE_BYTES as f64;

    keys::shuffle(&mut keys);
    // A rate needs no more than half of them, and a run is to end.
    let some = keys.get(..count / 2).unwrap_or_default();
    let get_s = timed(some, cores, |part| {
        let found = map.get(part);
        ensure!(found == part.len(), "{found} of {} keys were found", part.len());
        Ok(())
    })?;

    let has_together = map.get_together(&[]).is_some();
    let at_once = if has_together { some } else { &[] };
    let together_s = timed(at_once, cores, |part| {
        let found = map.get_together(part);
        ensure!(
            found == Some(part.len()),
            "{found:?} of {} keys were found",
            part.len()
        );
        Ok(())
    })?;

    let starts = keys.get(..count / SCAN_ENTRIES).unwrap_or_default();
    let scan_s = timed(starts, cores, |part| {
        let read = map.scan(part);
        // The ranges of the last keys are shorter, and few.
        let least = part.len() * SCAN_ENTRIES / 2;
        ensure!(read >= least, "{read} entries in {} scans", part.len());
        Ok(())
    })?;

    print("put", count as f64 / put_s)?;
    print("get", some.len() as f64 / get_s)?;
    if has_together {
        print("together", some.len() as f64 / together_s)?;
    }
    print("scan", starts.len() as f64 / scan_s)?;
    print("resident", grown as f64 / entries - own)?;
    match map.counted_bytes() {
        Some(bytes) => print("counted", bytes / entries - own),
        None => Ok(()),
    }
}

/// Seconds until `work` is done with all of them: a part for each core, by a thread that is bound to it.
fn timed<K: Sync>(
    keys: &[K],
    cores: &[usize],
    work: impl Fn(&[K]) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<f64> {
    let parts = keys.chunks(keys.len().div_ceil(cores.len()).max(1));
    let began = Instant::now();
    let done: anyhow::Result<()> = std::thread::scope(|scope| {
        let start = |(part, &core)| {
            let work = &work;
            scope.spawn(move || {
                Cores::of(&[core])?.bind()?;
                work(part)
            })
        };
        let threads: Vec<_> = parts.zip(cores).map(start).collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| bail!("a thread of the bench panicked"))
        })
    });
    done.map(|()| began.elapsed().as_secs_f64())
}

fn resident() -> anyhow::Result<u64> {
    memory_bytes(std::process::id()).context("cannot read /proc/self/status")
}

fn print(name: &str, figure: f64) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{name} {figure:.3}")?)
}
