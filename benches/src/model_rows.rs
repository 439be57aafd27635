//! What one run of R1's model costs by its number of rows, on a size that it was prepared for and on one that it was not.
//!
//! One core, nothing but the model: it stands for the compute of one batch, copies in and out included. Sizes take turns, so
//! that a slow moment of the machine falls on all of them. Its invariant: both variants run on equal rows.

use crate::r1;
use millpond_backends_interface::{Backend as _, Instance};
use millpond_backends_tract::Tract;
use millpond_press_verdict::Series;
use millpond_tensor::Tensor;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZES: [usize; 7] = [1, 15, 30, 45, 60, 120, 240];
/// How long a size runs before the next has its turn.
const TURN: Duration = Duration::from_millis(20);

/// One number of rows.
pub(crate) struct Row {
    pub(crate) rows: usize,
    /// Microseconds a run on a prepared size, a value a turn.
    pub(crate) prepared: Series,
    /// The same where the size was not prepared.
    pub(crate) unprepared: Series,
}

/// Runs every size `turns` times.
pub(crate) fn measure(turns: usize) -> anyhow::Result<Vec<Row>> {
    let file = Path::new(r1::DIR).join("model.onnx");
    let (with, without) = (Tract.load(&file)?, Tract.load(&file)?);
    for rows in SIZES {
        with.prepare(rows)?;
    }
    let (mut prepared, mut unprepared) = (with.instance()?, without.instance()?);
    let mut table: Vec<Row> = SIZES
        .iter()
        .map(|&rows| Row {
            rows,
            prepared: Series::default(),
            unprepared: Series::default(),
        })
        .collect();
    for _ in 0..turns {
        for row in &mut table {
            row.prepared.push(us_a_run(&mut *prepared, row.rows)?);
            row.unprepared.push(us_a_run(&mut *unprepared, row.rows)?);
        }
    }
    Ok(table)
}

/// One turn; the first run is not counted.
fn us_a_run(instance: &mut dyn Instance, rows: usize) -> anyhow::Result<f64> {
    const WIDTH: usize = 256;
    let values = (0..rows * WIDTH).map(|index| ((index * 37) % 101) as f32 / 101.0);
    let input = Tensor::new(vec![rows, WIDTH], values.collect::<Vec<f32>>())?;
    black_box(instance.run(vec![input.clone()])?);
    let started = Instant::now();
    let mut runs = 0;
    while started.elapsed() < TURN {
        black_box(instance.run(vec![black_box(input.clone())])?);
        runs += 1;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(runs))
}
