//! What one run costs: a perceptron of 256 -> 512 -> 256 -> 1 with relu and sigmoid, the
//! shape of R1's heavy variant, at several batch sizes, by the symbolic plan and by a
//! concrete one. It stands for the compute of one batch on one idle core, copies in and
//! out included. It hides batching, queueing and everything on the way.
//!
//! `cargo bench -p millpond-backends-tract`
#![allow(clippy::print_stdout)]

use millpond_backends_interface::{Backend, Data, Error, Instance, Tensor};
use millpond_backends_tract::Tract;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 51;
const RUNS_A_ROUND: usize = 100;

fn main() -> Result<(), Error> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bench_mlp.onnx");
    let model = Tract.load(&file)?;
    println!("| rows | symbolic, us (best / median) | concrete, us (best / median) | preparing it, ms |");
    println!("|---:|---:|---:|---:|");
    for rows in [1, 15, 60, 64] {
        let symbolic = time(&mut *model.instance()?, rows)?;
        let started = Instant::now();
        model.prepare(rows)?;
        let prepare_ms = started.elapsed().as_secs_f64() * 1e3;
        let concrete = time(&mut *model.instance()?, rows)?;
        println!(
            "| {rows} | {:.1} / {:.1} | {:.1} / {:.1} | {prepare_ms:.1} |",
            symbolic.0, symbolic.1, concrete.0, concrete.1
        );
    }
    Ok(())
}

/// The best and the median round, in microseconds a run.
fn time(instance: &mut dyn Instance, rows: usize) -> Result<(f64, f64), Error> {
    let values: Vec<f32> = (0..rows * 256)
        .map(|index| ((index * 37) % 101) as f32 / 101.0)
        .collect();
    let input = Tensor::new(vec![rows, 256], Data::F32(values))?;
    let mut rounds_us = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..RUNS_A_ROUND {
            black_box(instance.run(vec![black_box(input.clone())])?);
        }
        rounds_us.push(started.elapsed().as_secs_f64() * 1e6 / RUNS_A_ROUND as f64);
    }
    rounds_us.sort_by(f64::total_cmp);
    Ok((rounds_us[0], rounds_us[ROUNDS / 2]))
}
