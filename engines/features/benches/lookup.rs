//! Batch lookup of random present keys, one core.
//!
//! Stands for the keyed reads of a ranking request against a table far larger than the caches, without an overlay and beside one that
//! has a fresh row of one key in twenty. It hides the wire, the page faults of a cold table and every key that is popular. Invariant:
//! every lookup's count is checked.
//!
//! `cargo bench -p millpond-engines-features -- [ROWS] [DIM]`
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use millpond_engines_features::{Overlay, OverlaySection, Schema, Table, Upsert, write::Writer};

const BATCH: usize = 1000;
/// Keys of which one has a fresh row.
const KEYS_A_FRESH_ROW: usize = 20;
const QUEUE_BYTES_MAX: usize = 1 << 24;
const REPEATS: usize = 3;
const MEASURED_FOR: Duration = Duration::from_millis(700);

/// A fixed sequence of numbers that look random (an xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<usize>().ok());
    let rows = numbers.next().unwrap_or(1_000_000);
    let dim = numbers.next().unwrap_or(10);

    let dir = tempfile::tempdir().unwrap();
    let mut keys = Vec::with_capacity(rows);
    let mut random = Numbers(0x1234_5678_9abc_def1);
    let began = Instant::now();
    let mut writer = Writer::create(dir.path(), "bench", 1, Schema::floats(dim), 1).unwrap();
    for number in 0..rows {
        let key = random.next();
        let row: Vec<f32> = (0..dim).map(|at| (number + at) as f32).collect();
        writer.push(key, &row).unwrap();
        keys.push(key);
    }
    let path = writer.finish().unwrap().path;
    println!("written: {rows} rows of {dim} in {:.2?}", began.elapsed());
    let began = Instant::now();
    let mut table = Table::open(&path).unwrap();
    let opened = began.elapsed();
    table.make_resident().unwrap();
    println!("opened in {opened:.2?}, resident after {:.2?}", began.elapsed());

    for at in (1..keys.len()).rev() {
        keys.swap(at, random.next() as usize % (at + 1));
    }
    println!("keys/s in batches of {BATCH}, M, {REPEATS} repeats:");
    measure("quiet", &keys, dim, |k, v, f| table.lookup(k, v, f));
    let (overlay, _) = Overlay::open(&OverlaySection::default(), &table, QUEUE_BYTES_MAX).unwrap();
    table.see(&overlay).unwrap();
    let table = Arc::new(table);
    for keys in keys[..rows / KEYS_A_FRESH_ROW].chunks(BATCH) {
        let values = vec![0.5; keys.len() * dim];
        let upsert = Upsert::new(&table, keys.to_vec(), &[] as &[&str], &values, vec![]).unwrap();
        let (done, upserted) = mpsc::sync_channel(1);
        overlay.upsert(upsert, move |result| done.send(result).unwrap());
        upserted.recv().unwrap().unwrap();
    }
    for at in (1..keys.len()).rev() {
        keys.swap(at, random.next() as usize % (at + 1));
    }
    measure("one in 20 fresh", &keys, dim, |k, v, f| table.lookup(k, v, f));
}

fn measure(what: &str, keys: &[u64], dim: usize, lookup: impl Fn(&[u64], &mut [f32], &mut [u8]) -> usize) {
    let mut values = vec![0.0; BATCH * dim];
    let mut found = vec![0; BATCH.div_ceil(8)];
    let mut rates = Vec::new();
    for _ in 0..REPEATS {
        let (began, mut done) = (Instant::now(), 0);
        while began.elapsed() < MEASURED_FOR {
            for keys in keys.chunks_exact(BATCH) {
                assert_eq!(lookup(black_box(keys), &mut values, &mut found), BATCH);
                black_box(&values);
                done += BATCH;
            }
        }
        rates.push(format!(
            "{:.1}",
            done as f64 / began.elapsed().as_secs_f64() / 1e6
        ));
    }
    println!("{what:>16}: {}", rates.join("  "));
}
