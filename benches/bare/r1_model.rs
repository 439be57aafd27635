//! What one core could do with R1's model if nothing else were there: full batches that lie ready, of the size that gives the most.
//!
//! A byte that comes stands for a request. Its invariant: every batch size was compared with the expected scores before the first byte
//! is taken, and a batch runs once its bytes have come.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use millpond_tensor::Tensor;

use crate::r1::{Loop, SAMPLES, answer_bytes};

/// Requests of a batch; all divide the sixteen that the press sends at a time.
const SIZES: [usize; 5] = [1, 2, 4, 8, 16];
/// Different batches of each size, so that rows do not stay in the first caches.
const BATCHES: usize = 16;
/// How long each size is tried, and how often: the sizes take turns.
const TRY: Duration = Duration::from_millis(100);
const TURNS: usize = 3;

/// Batches of one size, and how many requests a second they gave at best.
struct Batches {
    requests: usize,
    inputs: Vec<Tensor>,
    next: usize,
    per_second: f64,
}

/// Runs the model for the bytes of one connection after the other.
pub(crate) fn serve(address: &str, folder: &Path) -> anyhow::Result<()> {
    let mut bare = Loop::open(folder)?;
    let sizes = SIZES.iter().map(|&requests| Batches::of(&mut bare, requests));
    let mut sizes: Vec<Batches> = sizes.collect::<anyhow::Result<_>>()?;
    for _ in 0..TURNS {
        for size in &mut sizes {
            size.measure(&mut bare)?;
        }
    }
    for size in &sizes {
        let rows = size.requests * SAMPLES;
        eprintln!("batches of {rows} rows: {:.0} requests a second", size.per_second);
    }
    let best = sizes
        .into_iter()
        .max_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let mut best = best.context("no batch size was tried")?;
    let mut waiting = 0;
    answer_bytes(address, |count| {
        waiting += count;
        while waiting >= best.requests {
            waiting -= best.requests;
            best.run(&mut bare)?;
        }
        Ok(())
    })
}

impl Batches {
    fn of(bare: &mut Loop, requests: usize) -> anyhow::Result<Batches> {
        let mut inputs = Vec::with_capacity(BATCHES);
        for batch in 0..BATCHES {
            let first = batch * requests;
            let input = bare.assemble(first, requests)?;
            let outputs = bare.instance.run(vec![input.clone()])?;
            bare.compare(first, requests, &outputs)?;
            inputs.push(input);
        }
        Ok(Batches {
            requests,
            inputs,
            next: 0,
            per_second: 0.0,
        })
    }

    fn run(&mut self, bare: &mut Loop) -> anyhow::Result<()> {
        // Its elements are shared.
        let input = self.inputs[self.next].clone();
        self.next = (self.next + 1) % self.inputs.len();
        black_box(bare.instance.run(vec![input])?);
        Ok(())
    }

    fn measure(&mut self, bare: &mut Loop) -> anyhow::Result<()> {
        let (started, mut runs) = (Instant::now(), 0);
        while started.elapsed() < TRY {
            self.run(bare)?;
            runs += 1;
        }
        let rate = (runs * self.requests) as f64 / started.elapsed().as_secs_f64();
        self.per_second = self.per_second.max(rate);
        Ok(())
    }
}
