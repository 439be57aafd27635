//! Requests that the thread which brings them runs itself, when its turn ends: no queue, no hop, and batches that grow with
//! the load by themselves.
//!
//! It decides no order. Its invariants: no request sweeps past one that waits; what a turn gathers is expected to take no longer
//! than its models allow; and whatever is gathered is answered as on an instance thread.

use super::queue::{Cut, Waiting};
use super::state::Swept;
use super::worker::{self, Runner};
use super::{Batcher, Rejected, Request, stats};
use crate::Error;
use rustix::time::{ClockId, clock_gettime};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Drain;

/// What the calls of a thread's turn ask of models, for the end of that turn.
#[derive(Default)]
pub struct Sweep {
    parts: Vec<Part>,
    /// Filled for each run, and empty between two.
    cut: Cut,
}

/// What they ask of one model.
struct Part {
    batcher: Arc<Batcher>,
    waiting: Vec<Waiting>,
    rows: usize,
    /// Seconds that their run is expected to take.
    seconds: f64,
    /// What their model counts among the bytes that it holds, until it is told that they are held no more.
    bytes: usize,
}

/// Of requests that a panic took, too.
impl Drop for Part {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.batcher.shared.queue.lock().swept(self.bytes, None);
        }
    }
}

impl Sweep {
    /// Whether nothing waits for the end of the turn.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Rows that wait for that model, and the seconds that the others' runs are expected to take.
    pub(super) fn beside(&self, batcher: &Batcher) -> (usize, f64) {
        self.parts.iter().fold((0, 0.0), |(rows, others), part| {
            match ptr::eq(&*part.batcher, batcher) {
                true => (part.rows, others),
                false => (rows, others + part.seconds),
            }
        })
    }

    /// As [`Batcher::submit`], but the request waits for the end of this turn where the model is known to be fast enough.
    ///
    /// # Errors
    /// As [`Batcher::submit`].
    pub fn submit(&mut self, batcher: &Arc<Batcher>, request: Request) -> Result<(), (Rejected, Request)> {
        let (rows, others) = self.beside(batcher);
        let submitted = Instant::now();
        let taken = (batcher.shared.queue.lock()).takes_inline(&request, rows, others, submitted);
        let Some(seconds) = taken else {
            return batcher.submit(request);
        };
        let (rows, bytes) = (rows.saturating_add(request.rows), request.bytes());
        let waiting = Waiting { request, submitted };
        let is_its = |part: &&mut Part| Arc::ptr_eq(&part.batcher, batcher);
        match self.parts.iter_mut().find(is_its) {
            Some(part) => {
                (part.rows, part.seconds) = (rows, seconds);
                part.bytes = part.bytes.saturating_add(bytes);
                part.waiting.push(waiting);
            }
            None => self.parts.push(Part {
                batcher: Arc::clone(batcher),
                waiting: vec![waiting],
                rows,
                seconds,
                bytes,
            }),
        }
        Ok(())
    }

    /// Runs and answers what waits.
    pub fn run(&mut self) {
        let mut cut = std::mem::take(&mut self.cut);
        for mut part in self.parts.drain(..) {
            part.run(&mut cut);
        }
        self.cut = cut;
    }
}

impl Part {
    fn run(&mut self, cut: &mut Cut) {
        let Part {
            batcher,
            waiting,
            bytes,
            ..
        } = self;
        let shared = &*batcher.shared;
        let instances = || (shared.inline_instances.lock()).unwrap_or_else(PoisonError::into_inner);
        let mut runner = Runner::inline(shared, instances().pop());
        let is_new = runner.instance.is_none();
        match runner.build() {
            Ok(()) => serve(batcher, &mut runner, cut, waiting.drain(..), bytes, is_new),
            Err(error) => {
                tracing::warn!(model = shared.name, %error, "its own threads run the model");
                shared.queue.lock().inline_max = Duration::ZERO;
                waiting.drain(..).for_each(|next| hand_over(batcher, next, bytes));
            }
        }
        if let Some(instance) = runner.instance {
            instances().push(instance);
        }
    }
}

/// Answers all of it, in runs of up to `batch_size_max` rows; `held` is what is left of its bytes. Requests that fail together
/// go to the queue: the turn allowed for one run of them.
fn serve(
    batcher: &Batcher,
    runner: &mut Runner<'_>,
    cut: &mut Cut,
    waiting: Drain<'_, Waiting>,
    held: &mut usize,
    is_new: bool,
) {
    let shared = &*batcher.shared;
    let budget = Duration::from_micros(shared.options.inline_us_max);
    let mut waiting = waiting.peekable();
    // The first run of a new instance does what happens once; it tells nothing of the others.
    let mut is_first = is_new;
    while waiting.peek().is_some() {
        let began = Instant::now();
        let (mut rows, mut bytes) = (0usize, 0usize);
        let fits = |rows: usize, next: &Waiting| {
            rows == 0 || rows.saturating_add(next.request.rows) <= shared.options.batch_size_max
        };
        while let Some(next) = waiting.next_if(|next| fits(rows, next)) {
            bytes = bytes.saturating_add(next.request.bytes());
            match next.dropped(began) {
                Some(reason) => cut.dropped.push((next, reason)),
                None => {
                    rows = rows.saturating_add(next.request.rows);
                    cut.batch.push(next);
                }
            }
        }
        let taken = cut.batch.len() + cut.dropped.len();
        let used_before = processor_time();
        let took = runner.serve_once(cut);
        stats::add(&shared.counters.accepted, (taken - cut.batch.len()) as u64);
        cut.batch.drain(..).for_each(|failed| {
            bytes = bytes.saturating_sub(failed.request.bytes());
            hand_over(batcher, failed, held);
        });
        let ran = took.filter(|_| !is_first).map(|took| Swept {
            rows,
            // No more than it took, so the processor's clock is read behind long runs alone.
            used: match took > budget {
                true => took.min(processor_time().saturating_sub(used_before)),
                false => took,
            },
            lasted: began.elapsed(),
        });
        *held = held.saturating_sub(bytes);
        if shared.queue.lock().swept(bytes, ran) {
            let us = took.map(stats::micros);
            tracing::warn!(
                model = shared.name,
                rows,
                us,
                "a run held a net thread up (inline_us_max); its own threads run the model from now on"
            );
        }
        // A panic takes the instance, and the next run builds it again.
        is_first = runner.instance.is_none() || is_first && rows == 0;
    }
}

/// What this thread has used of its processor so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Has a request run as others do, of whose bytes so many are `held`.
fn hand_over(batcher: &Batcher, waiting: Waiting, held: &mut usize) {
    let Waiting { request, submitted } = waiting;
    *held = held.saturating_sub(request.bytes());
    batcher.shared.queue.lock().swept(request.bytes(), None);
    if let Err((reason, request)) = batcher.submit(request) {
        let model = batcher.name().to_owned();
        let waiting = Waiting { request, submitted };
        worker::deliver(&batcher.shared, waiting, Err(Error::Rejected { model, reason }));
    }
}
