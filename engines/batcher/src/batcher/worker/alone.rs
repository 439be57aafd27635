//! One request that shares its run with no other, in chunks where it has more rows than a run takes.
//!
//! It takes nothing from the queue. Its invariant: the request is answered once, with all its rows or the reason why not.

use super::{Loss, Ran, Runner};
use crate::batcher::queue::Waiting;
use crate::batcher::{Answer, batch, ragged};
use crate::{Error, FailureCause as Cause};
use millpond_tensor::Tensor;
use std::slice;
use std::time::{Duration, Instant};

impl Runner<'_> {
    /// A run of its own for one request, which was part of a run that lost the model so, and how long it took unless it failed; its tensors go
    /// straight in and come straight out.
    pub(super) fn serve_alone(&mut self, mut waiting: Waiting, loss: Loss) -> Option<Duration> {
        let rows = waiting.request.rows;
        let is_batched = self.signature().batched;
        if is_batched && !batch::rows_agree(&waiting) {
            let problem = format!("an input does not have the {rows} rows of its request");
            self.answer(waiting, Err(self.failed(Cause::Input, problem)));
            return None;
        }
        let signature = self.shared.model.signature();
        let padding = self.shared.padding.as_ref();
        let padded = padding
            .and_then(|padding| Some((padding, padding.length(signature, slice::from_ref(&waiting))?)));
        let inputs = match padded {
            Some((padding, length)) => match padding.pad(signature, &waiting.request.inputs, length) {
                Ok(inputs) => inputs,
                Err(problem) => {
                    self.answer(waiting, Err(self.failed(Cause::Input, problem)));
                    return None;
                }
            },
            None => std::mem::take(&mut waiting.request.inputs),
        };
        let deadline = waiting.request.deadline;
        let ran = if is_batched && rows > self.shared.options.batch_size_max {
            self.run_in_chunks(&waiting, &inputs)
        } else {
            self.run_rows(inputs, rows, deadline)
        };
        let ran = ran.map_err(|error| self.after(loss, error));
        let took = ran.as_ref().ok().map(|ran| (ran.took, ran.started + ran.took));
        if let Some((_, ended)) = took {
            self.answered_from.get_or_insert(ended);
        }
        let answer = ran.and_then(|ran| {
            let outputs = match padded {
                Some((_, length)) => self.unpadded(ran.outputs, &waiting.request.inputs, length)?,
                None => ran.outputs,
            };
            Ok(Answer {
                outputs,
                timing: self.timing(&waiting, ran.started, ran.took, (rows, 1)),
            })
        });
        self.answer(waiting, answer);
        took.map(|(took, ended)| {
            self.shared.counters.post.add_time(ended.elapsed());
            took
        })
    }

    /// The failure of a request's own run. Where no process was there for it because of a run that it was part of, it may be what ended
    /// that, and is not to be asked again.
    fn after(&self, loss: Loss, error: Error) -> Error {
        match (error, loss) {
            (
                Error::ModelFailed {
                    cause: Cause::Absent,
                    problem,
                    ..
                },
                Some(loss),
            ) => self.failed(
                loss,
                format!("a run that it shared with other requests ended the model's process, and {problem}"),
            ),
            (error, _) => error,
        }
    }

    /// The outputs of a request that was padded, with the length of its inputs again.
    pub(super) fn unpadded(
        &self,
        outputs: Vec<Tensor>,
        inputs: &[Tensor],
        padded: usize,
    ) -> Result<Vec<Tensor>, Error> {
        let signature = self.signature();
        let own = ragged::length(signature, inputs).unwrap_or(padded);
        let cut = ragged::cut(signature, outputs, padded, own);
        cut.ok_or_else(|| {
            self.failed(
                Cause::Output,
                format!("its outputs cannot be cut to a length of {own}"),
            )
        })
    }

    /// A request with more rows than a run may have: several runs, one after the other, while it is worth running.
    fn run_in_chunks(&mut self, waiting: &Waiting, inputs: &[Tensor]) -> Result<Ran, Error> {
        let (rows, deadline) = (waiting.request.rows, waiting.request.deadline);
        let first_started = Instant::now();
        let mut took = Duration::ZERO;
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < rows {
            let now = Instant::now();
            if let Some(reason) = waiting.dropped(now).filter(|_| start > 0) {
                return Err(self.dropped(waiting, reason, now));
            }
            let count = (rows - start).min(self.shared.options.batch_size_max);
            let chunk = batch::slice(inputs, start..start + count).ok_or_else(|| {
                self.failed(
                    Cause::Input,
                    format!("rows {start}.. of its inputs cannot be cut"),
                )
            })?;
            let ran = self.run_rows(chunk, count, deadline)?;
            took += ran.took;
            chunks.push(ran.outputs);
            start += count;
        }
        let outputs = batch::concat(chunks.iter().map(Vec::as_slice)).ok_or_else(|| {
            self.failed(
                Cause::Output,
                "its outputs changed shape from one chunk to the next",
            )
        })?;
        Ok(Ran {
            outputs,
            started: first_started,
            took,
        })
    }
}
