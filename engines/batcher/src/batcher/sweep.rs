//! Requests that the thread which brings them runs itself, when its turn ends: no queue, no hop, and batches that grow with
//! the load by themselves.
//!
//! It decides no order. Its invariants: no request sweeps past one that waits; what a turn gathers is expected to take no longer
//! than its models allow; what an instance would keep waiting for callers that come back soon goes to the instance; and whatever is
//! gathered is answered as on an instance thread.

use super::queue::{Cut, Waiting};
use super::returns::Noticed;
use super::state::Swept;
use super::worker::{self, Runner};
use super::{Batcher, Rejected, Request, stats};
use crate::Error;
use rustix::time::{ClockId, clock_gettime};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Drain;

/// A request that is read so soon after a run has come during it, or may have: the answers are written meanwhile.
const JUST: Duration = Duration::from_micros(50);

/// What the calls of a thread's turn ask of models, for the end of that turn.
#[derive(Default)]
pub struct Sweep {
    parts: Vec<Part>,
    /// Filled for each run, and empty between two.
    scratch: Scratch,
    /// When the last turn's runs began and ended: meanwhile this thread saw no request come.
    ran: Option<(Instant, Instant)>,
}

/// What is filled for each run, and empty between two.
#[derive(Default)]
struct Scratch {
    cut: Cut,
    /// Sources and rows of the requests that the run answers.
    answered: Vec<(u64, usize)>,
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
        let noticed = self.noticed(submitted);
        let taken = (batcher.shared.queue.lock()).takes_inline(&request, rows, others, noticed);
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

    /// When a request came that was read now.
    fn noticed(&self, now: Instant) -> Noticed {
        let just = |ended: Instant| now.saturating_duration_since(ended) < JUST;
        let away_since = self.ran.filter(|&(_, ended)| just(ended)).map(|(began, _)| began);
        Noticed { at: now, away_since }
    }

    /// Runs and answers what waits.
    pub fn run(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut ran: Option<(Instant, Instant)> = None;
        for mut part in self.parts.drain(..) {
            let its = part.run(&mut scratch);
            ran = ran.map_or(its, |(began, ended)| {
                Some((began, its.map_or(ended, |its| its.1)))
            });
        }
        (self.scratch, self.ran) = (scratch, ran);
    }
}

impl Part {
    /// Whether an instance would wait with these requests for callers that come back soon. Run here, they would keep those waiting
    /// instead, and every caller would run alone for good.
    fn would_wait(&self) -> bool {
        let Some(last) = self.waiting.last() else {
            return false;
        };
        let shared = &*self.batcher.shared;
        if self.rows >= shared.options.batch_size_max {
            return false;
        }
        let deadline = (self.waiting.iter()).filter_map(|waiting| waiting.request.deadline);
        let asked = (self.waiting.len(), self.rows);
        shared
            .queue
            .lock()
            .would_wait_with(asked, deadline.min(), last.submitted)
    }

    /// Returns when its runs began and ended, if there were any.
    fn run(&mut self, scratch: &mut Scratch) -> Option<(Instant, Instant)> {
        let waits = self.would_wait();
        let Part {
            batcher,
            waiting,
            bytes,
            ..
        } = self;
        if waits {
            waiting.drain(..).for_each(|next| hand_over(batcher, next, bytes));
            return None;
        }
        let shared = &*batcher.shared;
        let instances = || (shared.inline_instances.lock()).unwrap_or_else(PoisonError::into_inner);
        let mut runner = Runner::inline(shared, instances().pop());
        let is_new = runner.instance.is_none();
        let ran = match runner.build() {
            Ok(()) => serve(batcher, &mut runner, scratch, waiting.drain(..), bytes, is_new),
            Err(error) => {
                tracing::warn!(model = shared.name, %error, "its own threads run the model");
                shared.queue.lock().inline_max = Duration::ZERO;
                waiting.drain(..).for_each(|next| hand_over(batcher, next, bytes));
                None
            }
        };
        if let Some(instance) = runner.instance {
            instances().push(instance);
        }
        ran
    }
}

/// Answers all of it, in runs of up to `batch_size_max` rows; `held` is what is left of its bytes. Requests that fail together
/// go to the queue: the turn allowed for one run of them. Returns when the first run began and the last one ended.
fn serve(
    batcher: &Batcher,
    runner: &mut Runner<'_>,
    Scratch { cut, answered }: &mut Scratch,
    waiting: Drain<'_, Waiting>,
    held: &mut usize,
    is_new: bool,
) -> Option<(Instant, Instant)> {
    let shared = &*batcher.shared;
    let budget = Duration::from_micros(shared.options.inline_us_max);
    let mut waiting = waiting.peekable();
    // The first run of a new instance does what happens once; it tells nothing of the others.
    let mut is_first = is_new;
    let mut all: Option<(Instant, Instant)> = None;
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
                    answered.push((next.request.source, next.request.rows));
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
        let lasted = began.elapsed();
        let ended = began + lasted;
        all = Some((all.map_or(began, |all| all.0), ended));
        let ran = took.filter(|_| !is_first).map(|took| Swept {
            rows,
            // No more than it took, so the processor's clock is read behind long runs alone.
            used: match took > budget {
                true => took.min(processor_time().saturating_sub(used_before)),
                false => took,
            },
            lasted,
            ended,
            answered,
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
        answered.clear();
        // A panic takes the instance, and the next run builds it again.
        is_first = runner.instance.is_none() || is_first && rows == 0;
    }
    all
}

/// What this thread has used of its processor so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Has a request run as others do, of whose bytes so many are `held`.
fn hand_over(batcher: &Batcher, waiting: Waiting, held: &mut usize) {
    let Waiting { request, submitted } = waiting;
    *held = held.saturating_sub(request.bytes());
    if let Err((reason, request)) = batcher.count(batcher.shared.queue.hand_over(request)) {
        let model = batcher.name().to_owned();
        let waiting = Waiting { request, submitted };
        worker::deliver(&batcher.shared, waiting, Err(Error::Rejected { model, reason }));
    }
}
