//! What the batcher adds to a model's run, in microseconds, by the clock of one process: no payload, no socket, no pipeline.
//!
//! Its invariant: the model itself notes when its run begins and ends, so everything between is the batcher's and the kernel's.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions, Priority, Request};
use millpond_tensor::{ElementType, Tensor};

/// What a run takes, of the processor.
const RUN: Duration = Duration::from_micros(200);
/// Rows a run takes at most.
const ROWS: usize = 8;
/// Requests that wait or run at a time.
const QUEUED: usize = 1000;
/// Runs, or calls, that are not looked at, and those that are.
const WARM_UP: usize = 500;
const COUNTED: usize = 5000;

/// When runs began and ended.
type Runs = Arc<Mutex<Vec<(Instant, Instant)>>>;

struct Clocked {
    signature: Signature,
    runs: Runs,
}

struct Clock(Runs);

impl Model for Clocked {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(Clock(Arc::clone(&self.runs))))
    }
}

impl Instance for Clock {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let began = Instant::now();
        while began.elapsed() < RUN {
            std::hint::spin_loop();
        }
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push((began, Instant::now()));
        Ok(inputs)
    }
}

/// One client that waits for each answer: from its submission to the beginning of the run, at the median.
pub(crate) fn submit() -> anyhow::Result<()> {
    let (batcher, runs) = start()?;
    let mut waits = Vec::with_capacity(COUNTED);
    for call in 0..WARM_UP + COUNTED {
        let (answers, answer) = mpsc::sync_channel(1);
        let request = request(move |result| drop(answers.send(result)))?;
        let submitted = Instant::now();
        batcher
            .run_here(request)
            .map_err(|(rejected, _)| anyhow::anyhow!("refused: {rejected:?}"))?;
        answer.recv().context("no answer")??;
        let began = runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last()
            .map(|run| run.0);
        if call >= WARM_UP {
            waits.push(began.context("the model did not run")?.duration_since(submitted));
        }
    }
    print_median(waits)
}

/// A queue of a thousand: from the end of one run to the beginning of the next, at the median. Each answer has its request submitted again, by another thread.
pub(crate) fn hand_over() -> anyhow::Result<()> {
    let (batcher, runs) = start()?;
    let (answers, answered) = mpsc::sync_channel(QUEUED);
    let submit = || {
        let answers = answers.clone();
        let request = request(move |result| drop(answers.send(result)))?;
        batcher
            .submit(request)
            .map_err(|(rejected, _)| anyhow::anyhow!("refused: {rejected:?}"))
    };
    for _ in 0..QUEUED {
        submit()?;
    }
    for _ in 0..(WARM_UP + COUNTED) * ROWS {
        answered.recv().context("no answer")??;
        submit()?;
        // Other answers of the run are there already; the core is the instance's as soon as they are submitted again.
        thread::yield_now();
    }
    let runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = runs.get(WARM_UP..WARM_UP + COUNTED).context("too few runs")?;
    print_median(counted.windows(2).map(|pair| pair[1].0 - pair[0].1).collect())
}

fn start() -> anyhow::Result<(Batcher, Runs)> {
    let port = |name: &str| Port {
        name: name.into(),
        element_type: ElementType::F32,
        shape: vec![None],
    };
    let runs = Runs::default();
    let model = Clocked {
        signature: Signature {
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            batched: true,
        },
        runs: Arc::clone(&runs),
    };
    let options = BatcherOptions {
        batch_size_max: ROWS,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("clocked", Arc::new(model), options)?;
    batcher.warm_up(&[1, ROWS])?;
    runs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    Ok((batcher, runs))
}

fn request(
    done: impl FnOnce(Result<millpond_engines_batcher::Answer, millpond_engines_batcher::Error>) + Send + 'static,
) -> anyhow::Result<Request> {
    Ok(Request {
        source: 0,
        priority: Priority::default(),
        inputs: vec![Tensor::new(vec![1], vec![1.0_f32])?],
        rows: 1,
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
        done: Box::new(done),
    })
}

fn print_median(mut took: Vec<Duration>) -> anyhow::Result<()> {
    took.sort_unstable();
    let Some(median) = took.get(took.len() / 2) else {
        bail!("nothing was measured");
    };
    writeln!(io::stdout(), "{:.3}", median.as_secs_f64() * 1e6)?;
    Ok(())
}
