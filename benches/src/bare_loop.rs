//! What one core could do with R1's requests if nothing but the work were there: hash, look up, assemble, run the model.
//!
//! No socket, no parsing of JSON, no queue, no other thread: requests lie in memory as text. The model runs at a batch of one
//! request, prepared for exactly that size. Its invariant: it computes what the server answers; every score is compared once.

use crate::r1::{self, Request, Scores};
use anyhow::{Context as _, ensure};
use millpond_backends_interface::{Backend as _, Instance};
use millpond_backends_tract::Tract;
use millpond_engines_features::{Handle, Table};
use millpond_pipelines::key_hash;
use millpond_tensor::Tensor;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests between two looks at the clock.
const STRIDE: usize = 16;

/// The loop with its table and model.
pub(crate) struct BareLoop {
    table: Arc<Table>,
    instance: Box<dyn Instance>,
    requests: Vec<Request>,
    next: usize,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub(crate) requests: u64,
    pub(crate) took: Duration,
    /// Where it went, if the clock was read between the parts.
    pub(crate) parts: [Duration; 4],
}

/// The names of [`Round::parts`].
pub(crate) const PARTS: [&str; 4] = ["hash", "look up", "assemble", "model"];

impl Round {
    pub(crate) fn qps(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

impl BareLoop {
    /// Opens table and model, and compares every score once.
    pub(crate) fn open() -> anyhow::Result<BareLoop> {
        let folder = Path::new(r1::DIR);
        let table = Handle::open(&folder.join("tables/embeddings"), None)?.pin();
        table.make_resident()?;
        let model = Tract.load(&folder.join("model.onnx"))?;
        model.prepare(r1::SAMPLES)?;
        let instance = model.instance()?;
        let (requests, expected) = r1::requests()?;
        let mut bare = BareLoop {
            table,
            instance,
            requests,
            next: 0,
        };
        bare.compare(&expected)?;
        Ok(bare)
    }

    fn compare(&mut self, expected: &[Scores]) -> anyhow::Result<()> {
        for (number, expected) in expected.iter().enumerate() {
            self.next = number;
            let outputs = self.request(&mut |_| {})?;
            let scores = outputs
                .first()
                .and_then(Tensor::f32)
                .context("the model gives no f32")?;
            ensure!(
                expected.distance(scores) <= r1::TOLERANCE,
                "the bare loop's scores of request {} are not the expected ones",
                number + 1
            );
        }
        self.next = 0;
        Ok(())
    }

    /// Works for that long, going on where the last round ended.
    pub(crate) fn run(&mut self, span: Duration) -> anyhow::Result<Round> {
        let mut round = Round::default();
        let start = Instant::now();
        while round.took < span {
            for _ in 0..STRIDE {
                black_box(self.request(&mut |_| {})?);
            }
            round.requests += STRIDE as u64;
            round.took = start.elapsed();
        }
        Ok(round)
    }

    /// The same, with the clock read after every part of every request, which costs a little itself.
    pub(crate) fn run_in_parts(&mut self, span: Duration) -> anyhow::Result<Round> {
        let mut round = Round::default();
        let start = Instant::now();
        let mut last = start;
        while round.took < span {
            let parts = &mut round.parts;
            let mut tick = |part: usize| {
                let now = Instant::now();
                parts[part] += now - last;
                last = now;
            };
            black_box(self.request(&mut tick)?);
            round.requests += 1;
            round.took = start.elapsed();
        }
        Ok(round)
    }

    /// One request; `tick` is called after each part. Everything it needs is new, as it is for a request that comes in.
    #[inline]
    fn request(&mut self, tick: &mut impl FnMut(usize)) -> anyhow::Result<Vec<Tensor>> {
        let samples = &self.requests[self.next].samples;
        self.next = (self.next + 1) % self.requests.len();
        let rows = samples.len();
        let keys_of = |at: usize, slot: &str| -> Vec<u64> {
            samples.iter().map(|sample| key_hash(slot, &sample[at])).collect()
        };
        let keys = [keys_of(0, "0"), keys_of(1, "1")];
        tick(0);
        let dim = self.table.dim();
        let mut found = vec![0; rows.div_ceil(8)];
        let columns = keys.map(|keys| {
            let mut values = vec![0.0; rows * dim];
            self.table.lookup(&keys, &mut values, &mut found);
            values
        });
        tick(1);
        let mut x = Vec::with_capacity(2 * rows * dim);
        for row in 0..rows {
            for column in &columns {
                x.extend_from_slice(&column[row * dim..(row + 1) * dim]);
            }
        }
        let x = Tensor::new(vec![rows, 2 * dim], x)?;
        tick(2);
        let outputs = self.instance.run(vec![x])?;
        tick(3);
        Ok(outputs)
    }
}
