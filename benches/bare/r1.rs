//! What one core could do with R1's requests if nothing but the work were there: hash, look up, assemble, run the model.
//!
//! No parsing of JSON, no queue, no other thread: requests lie in memory as text, and a byte that comes asks for the next one. The model
//! runs at a batch of one request. Its invariant: it computes what the server answers; every score is
//! compared once, before the first byte is taken.

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context as _, ensure};
use millpond_backends_interface::{Backend as _, Instance};
use millpond_backends_onnxruntime::OnnxRuntime;
use millpond_engines_features::Table;
use millpond_pipelines::key_hash;
use millpond_tensor::Tensor;
use serde::Deserialize;

/// Samples of one request.
pub(crate) const SAMPLES: usize = 15;
/// How far a score may lie from ONNX Runtime's.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Request {
    samples: Vec<[String; 2]>,
}

#[derive(Deserialize)]
struct Scores {
    scores: Vec<f32>,
}

/// The loop with its table and model.
pub(crate) struct Loop {
    table: Table,
    pub(crate) instance: Box<dyn Instance>,
    requests: Vec<Request>,
    /// The scores of each request.
    expected: Vec<Scores>,
    next: usize,
}

/// Works off a request for each byte.
pub(crate) fn serve(address: &str, folder: &Path) -> anyhow::Result<()> {
    let mut bare = Loop::open(folder)?;
    answer_bytes(address, |count| {
        for _ in 0..count {
            black_box(bare.request()?);
        }
        Ok(())
    })
}

/// Serves one connection after the other: `work` gets how many bytes came, which then go back.
pub(crate) fn answer_bytes(
    address: &str,
    mut work: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let mut buffer = [0; 256];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            work(count)?;
            if stream.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
    }
}

impl Loop {
    /// Opens table and model, and compares every score once.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Loop> {
        let mut table = Table::open_version(&folder.join("tables/embeddings"), None)?;
        table.make_resident()?;
        let model = OnnxRuntime::at(folder.join("model.onnx")).load()?;
        let mut bare = Loop {
            table,
            instance: model.instance()?,
            requests: lines(&folder.join("requests.jsonl"))?,
            expected: lines(&folder.join("expected.jsonl"))?,
            next: 0,
        };
        let is_whole = |request: &Request| request.samples.len() == SAMPLES;
        ensure!(
            !bare.expected.is_empty()
                && bare.requests.len() == bare.expected.len()
                && bare.requests.iter().all(is_whole),
            "requests.jsonl and expected.jsonl do not belong together, or hold other than {SAMPLES} samples"
        );
        for number in 0..bare.expected.len() {
            let outputs = bare.request()?;
            bare.compare(number, 1, &outputs)?;
        }
        Ok(bare)
    }

    /// That these are the scores of so many requests from `first` on.
    pub(crate) fn compare(&self, first: usize, count: usize, outputs: &[Tensor]) -> anyhow::Result<()> {
        let scores = outputs.first().and_then(Tensor::f32);
        let scores = scores.context("the model gives no f32")?;
        let expected = self.expected.iter().skip(first).take(count);
        let expected: Vec<f32> = expected
            .flat_map(|request| request.scores.iter().copied())
            .collect();
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= TOLERANCE;
        ensure!(
            scores.len() == expected.len() && scores.iter().zip(&expected).all(is_near),
            "the scores from request {} on, {count} of them, are not the expected ones",
            first + 1
        );
        Ok(())
    }

    /// The next request. Everything it needs is new, as it is for a request that comes in.
    fn request(&mut self) -> anyhow::Result<Vec<Tensor>> {
        let x = self.assemble(self.next, 1)?;
        self.next = (self.next + 1) % self.requests.len();
        Ok(self.instance.run(vec![x])?)
    }

    /// The model's input for so many requests from `first` on, side by side.
    pub(crate) fn assemble(&self, first: usize, count: usize) -> anyhow::Result<Tensor> {
        let requests = self.requests.get(first..first + count);
        let requests =
            requests.with_context(|| format!("there are fewer than {} requests", first + count))?;
        let samples: Vec<&[String; 2]> = requests.iter().flat_map(|request| &request.samples).collect();
        let rows = samples.len();
        let keys_of = |at: usize, slot: &str| -> Vec<u64> {
            samples.iter().map(|sample| key_hash(slot, &sample[at])).collect()
        };
        let dim = self.table.dim();
        let mut found = vec![0; rows.div_ceil(8)];
        let columns = [keys_of(0, "0"), keys_of(1, "1")].map(|keys| {
            let mut values = vec![0.0; rows * dim];
            self.table.lookup(&keys, &mut values, &mut found);
            values
        });
        let mut x = Vec::with_capacity(2 * rows * dim);
        for row in 0..rows {
            for column in &columns {
                x.extend_from_slice(&column[row * dim..(row + 1) * dim]);
            }
        }
        Ok(Tensor::new(vec![rows, 2 * dim], x)?)
    }
}

fn lines<T: for<'de> Deserialize<'de>>(file: &Path) -> anyhow::Result<Vec<T>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let lines = text.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .with_context(|| format!("{shown} is not as expected"))
}
