//! Runs every instance once before requests come, so that the first of them meets
//! touched memory. Not a benchmark, though it reports what it saw.
//! Invariant: it reaches every instance, however the instances share their work.

use super::worker::Runner;
use super::{Rejected, Shared};
use crate::Error;
use millpond_backends_interface::{Error as ModelError, Signature};
use millpond_tensor::Tensor;
use millpond_threads::ends_by;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Bytes of an input that a model is warmed up with at most.
const ZEROS_BYTES_MAX: usize = 1 << 30;

/// What one batch size cost on one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUpRun {
    /// Which instance.
    pub instance: usize,
    /// The batch size.
    pub rows: usize,
    /// The first run, with all that happens once.
    pub first: Duration,
    /// The second run.
    pub second: Duration,
}

/// A warm-up that one instance is sent on.
pub(super) struct Errand {
    sizes: Arc<[usize]>,
    report: mpsc::SyncSender<Result<Vec<WarmUpRun>, Error>>,
}

impl Errand {
    /// Does it and reports. A caller that stopped listening is nobody's loss.
    pub(super) fn run(self, runner: &mut Runner<'_>) {
        let mut runs = Vec::with_capacity(self.sizes.len());
        for &rows in self.sizes.iter() {
            match warm_up_one(runner, rows) {
                Ok(run) => runs.push(run),
                Err(error) if has_free_sizes(runner.signature()) => {
                    tracing::warn!(%error, "not warm: sizes that only requests know are free, and the least do not run");
                }
                Err(error) => {
                    drop(self.report.send(Err(error)));
                    return;
                }
            }
        }
        drop(self.report.send(Ok(runs)));
    }
}

fn warm_up_one(runner: &mut Runner<'_>, rows: usize) -> Result<WarmUpRun, Error> {
    let first = timed(runner, rows)?;
    let second = timed(runner, rows)?;
    // The shorter one of two tells what a size costs: either may be held up.
    runner.learn(rows, first);
    runner.learn(rows, second);
    Ok(WarmUpRun {
        instance: runner.instance_number(),
        rows,
        first,
        second,
    })
}

/// A run of zeros, and how long it took.
fn timed(runner: &mut Runner<'_>, rows: usize) -> Result<Duration, Error> {
    let run = |runner: &mut Runner<'_>| {
        let inputs = zeros(runner.signature(), rows)?;
        let started = Instant::now();
        runner.warm(inputs)?;
        Ok(started.elapsed())
    };
    run(runner).map_err(|source| Error::WarmUp {
        model: runner.model_name().to_string(),
        rows,
        source,
    })
}

/// How long a warm-up waits for instances to come back from it; requests may have come meanwhile.
const IDLE_MAX: Duration = Duration::from_millis(100);

/// Whether there are free sizes besides the batch.
pub(super) fn has_free_sizes(signature: &Signature) -> bool {
    let first_is_free = |shape: &[Option<usize>]| !signature.batched && shape.first() == Some(&None);
    let mut inputs = signature.inputs.iter();
    inputs.any(|port| port.row_len().is_none() || first_is_free(&port.shape))
}

/// Zeros are in range for every input there is, indices into tables included. Sizes that are free besides the batch are 1.
fn zeros(signature: &Signature, rows: usize) -> Result<Vec<Tensor>, ModelError> {
    let inputs = signature.inputs.iter().map(|port| {
        let mut shape: Vec<usize> = port.shape.iter().map(|dim| dim.unwrap_or(1)).collect();
        if let Some(first) = shape.first_mut().filter(|_| signature.batched) {
            *first = rows;
        }
        let width = port.element_type.bytes().unwrap_or(size_of::<usize>());
        let bytes = shape.iter().try_fold(width, |bytes, size| bytes.checked_mul(*size));
        if bytes.is_none_or(|bytes| bytes > ZEROS_BYTES_MAX) {
            let problem = format!("input {port} takes more than {ZEROS_BYTES_MAX} bytes for {rows} rows, which is too much to warm up with; set warm_up = []");
            return Err(ModelError::Run { problem });
        }
        Ok(Tensor::zeros(port.element_type, shape)?)
    });
    inputs.collect()
}

pub(super) fn warm_up(shared: &Shared, sizes: &[usize]) -> Result<Vec<WarmUpRun>, Error> {
    let is_batched = shared.model.signature().batched;
    if is_batched {
        check(shared, sizes)?;
    }
    let stopping = || Error::Stopping {
        model: shared.name.clone(),
    };
    // A model without a batch has one size, which is tried unless none is to be.
    let sizes: Arc<[usize]> = match is_batched {
        true => sizes.into(),
        false => sizes.iter().take(1).map(|_| 1).collect(),
    };
    let (report, reports) = mpsc::sync_channel(shared.options.instances);
    let errands = (0..shared.options.instances)
        .map(|_| Errand {
            sizes: Arc::clone(&sizes),
            report: report.clone(),
        })
        .collect();
    drop(report);
    shared
        .queue
        .send_errands(errands)
        .map_err(|_: Rejected| stopping())?;
    let mut runs = Vec::new();
    for _ in 0..shared.options.instances {
        runs.extend(reports.recv().map_err(|_| stopping())??);
    }
    runs.sort_by_key(|run| run.instance);
    // The first request should find instances idle, as all others do.
    let is_idle = || shared.queue.lock().occupancy().busy == 0;
    ends_by(Instant::now() + IDLE_MAX, is_idle);
    Ok(runs)
}

/// Refuses sizes that no batch has.
fn check(shared: &Shared, sizes: &[usize]) -> Result<(), Error> {
    let batch_size_max = shared.options.batch_size_max;
    match sizes.iter().find(|&&size| size == 0 || size > batch_size_max) {
        None => Ok(()),
        Some(size) => {
            let name = &shared.name;
            let problem = format!(
                "models.{name}.warm_up holds {size}; expected rows from 1 to batch_size_max ({batch_size_max})"
            );
            Err(Error::Option { problem })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_backends_interface::Port;
    use millpond_tensor::ElementType;

    #[test]
    fn zeros_that_no_machine_holds_are_refused() {
        let signature = Signature {
            inputs: vec![Port {
                name: "x".to_owned(),
                element_type: ElementType::F32,
                shape: vec![None, Some(1 << 42)],
            }],
            outputs: Vec::new(),
            batched: true,
        };
        let refused = zeros(&signature, 1).unwrap_err().to_string();
        assert!(
            refused.contains("input x: f32[N, 4398046511104]") && refused.contains("set warm_up = []"),
            "{refused}"
        );
    }
}
