//! Runs one model's requests in batches on instance threads. Not a scheduler of
//! several models and not a cache. Its one invariant: every accepted request's
//! `done` is called exactly once, with this request's own rows or the reason why not.
//!
//! A request that finds an idle instance wakes it and runs at once, or runs in its place on the caller's thread. Requests that arrive
//! while all instances are busy wait together. Better priorities go first, and whatever waits gains levels; within a level sources are
//! served in turn, within one first come first served. The instance that finishes cuts the next batch from them, up to `batch_size_max`
//! rows. A free instance waits in two cases: for callers that it has just answered, where their measured return times say that this
//! pays, and, with `batch_delay_us_max`, for a batch to fill. A request that is expected to be answered after its deadline does not
//! wait at all.

// A refusal gives the request back, whole: its caller answers it. A box would be an allocation for each refusal.
#![allow(clippy::result_large_err)]

mod arrivals;
mod batch;
mod forecast;
mod here;
mod hold;
mod levels;
mod options;
mod queue;
mod ragged;
mod rejected;
mod returns;
mod run_cost;
mod service_time;
mod sizes;
mod standing;
mod state;
mod stats;
mod sweep;
mod turns;
mod warm_up;
mod worker;

pub use here::Worked;
pub use options::BatcherOptions;
pub use ragged::Ragged;
pub use rejected::Rejected;
pub use stats::Stats;
pub use sweep::Sweep;
pub use warm_up::WarmUpRun;

use crate::{Error, Priority};
use millpond_backends_interface::{Instance, Model};
use millpond_tensor::Tensor;
use millpond_threads::{LineLimit, ends_by};
use queue::{Queue, Visited, Waiting};
use ragged::Padding;
use state::Asked;
use stats::Counters;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Receives the result of a request: called once, on an instance thread or on one that
/// submits, so it must not block. A panic in it is caught and costs this request alone.
pub type Done = Box<dyn FnOnce(Result<Answer, Error>) + Send + 'static>;

/// One request for one model.
pub struct Request {
    /// Who asks, as a number: sources are served in turn, and share a full queue.
    pub source: u64,
    /// Whom it goes before while it waits.
    pub priority: Priority,
    /// In signature order, checked by `Signature::check_inputs`.
    pub inputs: Vec<Tensor>,
    /// As `Signature::rows` counts them.
    pub rows: usize,
    /// When the answer becomes worthless; a request that still waits then is dropped unrun.
    pub deadline: Option<Instant>,
    /// Set by the caller when it no longer waits; such a request is dropped unrun.
    pub gone: Arc<AtomicBool>,
    /// Bytes that `done` keeps until it is called; they count as those of the inputs do.
    pub kept_bytes: usize,
    /// Where the result goes.
    pub done: Done,
}

impl Request {
    /// Bytes that it holds until it is answered: its inputs, and `kept_bytes`.
    pub fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(Tensor::bytes);
        inputs.fold(self.kept_bytes, usize::saturating_add)
    }

    /// Answers it with the reason for which that model's batcher gave it back.
    pub fn refuse(self, model: &str, reason: Rejected) {
        let model = model.to_owned();
        (self.done)(Err(Error::Rejected { model, reason }));
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("source", &self.source)
            .field("priority", &self.priority)
            .field("rows", &self.rows)
            .field("bytes", &self.bytes())
            .field("deadline", &self.deadline)
            .field("gone", &self.gone)
            .finish_non_exhaustive()
    }
}

/// What one request gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// In signature order, this request's rows only.
    pub outputs: Vec<Tensor>,
    /// Where its time went.
    pub timing: Timing,
}

/// The run that a request was part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From submission to the start of its run.
    pub queue: Duration,
    /// The run it was part of; all its runs when it ran in chunks.
    pub compute: Duration,
    /// When that run ended.
    pub ended: Instant,
    /// Rows of that run, batch-mates included.
    pub batch_rows: usize,
    /// Requests of that run.
    pub batch_requests: usize,
}

/// What the instance threads share with the handle.
struct Shared {
    name: String,
    model: Arc<dyn Model>,
    options: BatcherOptions,
    queue: Queue,
    counters: Counters,
    /// How requests of several lengths are joined, where they are.
    padding: Option<Padding>,
    /// 1 for a model without a batch, each of whose calls counts as one row.
    request_rows_max: usize,
    /// Bounds the log's lines about panics in the model.
    model_panics: LineLimit,
    /// Bounds the log's lines about panics in `done`.
    receiver_panics: LineLimit,
    /// The instances of threads that run the model themselves, while none of them does: as many as ever ran at once, and gone with
    /// the model.
    inline_instances: Mutex<Vec<Box<dyn Instance>>>,
}

/// The running instances of one model. Dropping it does what [`Batcher::stop`] does.
pub struct Batcher {
    shared: Arc<Shared>,
    instances: Vec<JoinHandle<()>>,
    /// A stop gave up: the instances are not waited for.
    is_left: AtomicBool,
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher")
            .field("name", &self.shared.name)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Batcher {
    /// Starts `options.instances` threads for each device of the model, named `infer-NAME-i`, and waits until each has
    /// its instance of `model` and is pinned.
    ///
    /// # Errors
    /// [`Error::Option`] or [`Error::Start`]; no thread is left behind.
    pub fn start(
        name: impl Into<String>,
        model: Arc<dyn Model>,
        mut options: BatcherOptions,
    ) -> Result<Batcher, Error> {
        let name = name.into();
        let problem = |problem| Error::Option { problem };
        options.check(&format!("models.{name}")).map_err(problem)?;
        if !options.batch_sizes.is_empty() && !model.signature().batched {
            let problem = format!("models.{name}.batch_sizes: the model has no batch; leave it out");
            return Err(Error::Option { problem });
        }
        options.batch_size_max = options.rows_max();
        let padding = Padding::of(&options, model.signature(), &format!("models.{name}")).map_err(problem)?;
        let mut request_rows_max = usize::MAX;
        if !model.signature().batched {
            request_rows_max = 1;
            // A run takes one request, or several that are not joined.
            if !model.takes_requests() {
                options.batch_size_max = 1;
            }
        } else if model.takes_requests() {
            let problem =
                format!("models.{name}: it takes requests as they are, so its signature cannot have a batch");
            return Err(Error::Option { problem });
        }
        if warm_up::has_free_sizes(model.signature()) || !model.runs_inline() {
            // Callers choose what a run takes, and no estimate by rows bounds it; or the model does not bear it.
            options.inline_us_max = 0;
        }
        options.instances = options.instances.saturating_mul(model.devices());
        let queue = Queue::new(&options);
        if !model.runs_inline() {
            queue.lock().lend_no_more();
        }
        let shared = Arc::new(Shared {
            queue,
            counters: Counters::default(),
            padding,
            request_rows_max,
            model_panics: LineLimit::default(),
            receiver_panics: LineLimit::default(),
            inline_instances: Mutex::default(),
            name,
            model,
            options,
        });
        let mut batcher = Batcher {
            shared,
            instances: Vec::new(),
            is_left: AtomicBool::new(false),
        };
        let (ready, started) = mpsc::sync_channel(batcher.shared.options.instances);
        for instance in 0..batcher.shared.options.instances {
            batcher.spawn(instance, ready.clone())?;
        }
        drop(ready);
        // Each thread drops its sender once it has reported, so this ends.
        for result in started {
            result?;
        }
        Ok(batcher)
    }

    fn spawn(&mut self, instance: usize, ready: mpsc::SyncSender<Result<(), Error>>) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name(format!("infer-{}-{instance}", shared.name))
            .spawn(move || worker::run(&shared, instance, ready))
            .map_err(|error| Error::Start {
                model: self.shared.name.clone(),
                instance,
                problem: format!("no thread: {error}; configure fewer instances"),
            })?;
        self.instances.push(thread);
        Ok(())
    }

    /// Hands over a request. Never blocks on a run: it is accepted or refused at once. In a full queue it
    /// may take the place of a request of the source that has most waiting, whose `done` is then called here.
    ///
    /// # Errors
    /// [`Rejected`], and the request back, its `done` uncalled.
    pub fn submit(&self, request: Request) -> Result<(), (Rejected, Request)> {
        self.count(self.shared.queue.submit(request))
    }

    /// Counts what became of a request that was handed over.
    fn count(
        &self,
        handed_over: Result<Option<Waiting>, (Rejected, Request)>,
    ) -> Result<(), (Rejected, Request)> {
        match handed_over {
            Ok(evicted) => {
                self.count_accepted(evicted);
                Ok(())
            }
            Err((rejected, request)) => {
                self.count_refused(rejected);
                Err((rejected, request))
            }
        }
    }

    /// As [`Batcher::submit`], for a thread that would only wait for the answer: where an instance is idle and nothing waits, the
    /// thread takes its place, runs the model itself, and `done` has been called when this returns. No more run at a
    /// time than there are instances. Says whether it was so; the request waits for an instance otherwise, as it does where an
    /// instance would wait for others first.
    ///
    /// # Errors
    /// As [`Batcher::submit`].
    pub fn run_here(&self, request: Request) -> Result<bool, (Rejected, Request)> {
        match self.shared.queue.visit(request) {
            Ok(Visited::Lent(lent)) => match here::run(&self.shared, lent) {
                Ok(()) => {
                    self.count_accepted(None);
                    Ok(true)
                }
                Err(request) => self.submit(request).map(|()| false),
            },
            Ok(Visited::Queued(evicted)) => {
                self.count_accepted(evicted);
                Ok(false)
            }
            Err((rejected, request)) => {
                self.count_refused(rejected);
                Err((rejected, request))
            }
        }
    }

    /// As [`Batcher::run_here`], for a request that was not made: where an instance is idle and nothing waits, does `work` in its place, as
    /// one row and with its admission and counts; a problem that it gives, or a panic, is the model's failure. `None`, with nothing
    /// counted, where it would have to wait, and where runs may join several requests.
    ///
    /// # Errors
    /// [`Rejected`]; nothing was done.
    pub fn work_here<T>(
        &self,
        source: u64,
        bytes: usize,
        deadline: Option<Instant>,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<Option<Worked<T>>, Rejected> {
        let asked = Asked {
            source,
            // It goes before nothing: it runs where nothing waits, or not at all.
            priority: Priority::default(),
            rows: 1,
            bytes,
            deadline,
        };
        let now = Instant::now();
        let visited = self.shared.queue.lock().visit_with_work(&asked, now);
        match visited {
            Ok(Some(place)) => {
                self.count_accepted(None);
                Ok(Some(here::work(&self.shared, place, now, deadline, work)))
            }
            Ok(None) => Ok(None),
            Err(rejected) => {
                self.count_refused(rejected);
                Err(rejected)
            }
        }
    }

    fn count_accepted(&self, evicted: Option<Waiting>) {
        stats::add(&self.shared.counters.accepted, 1);
        if let Some(evicted) = evicted {
            self.answer_evicted(evicted);
        }
    }

    /// Why [`Batcher::submit`], or that of the `sweep` that it would come by, would refuse a request of so many rows and bytes
    /// ([`Request::bytes`]) now; that refusal is counted, and the request need not be made. `None` is no promise: what comes between may change it.
    pub fn refusal(
        &self,
        sweep: Option<&Sweep>,
        (source, priority): (u64, Priority),
        rows: usize,
        bytes: usize,
        deadline: Option<Instant>,
    ) -> Option<Rejected> {
        let asked = Asked {
            source,
            priority,
            rows: rows.min(self.shared.request_rows_max),
            bytes,
            deadline,
        };
        let beside = sweep.map(|sweep| sweep.beside(self));
        let mut state = self.shared.queue.lock();
        let inline = beside.and_then(|(rows, others)| state.fits_inline(&asked, rows, others));
        let refused = match inline {
            Some(_) => None,
            None => {
                let now = Instant::now();
                let refused = state.refusal(&asked, now);
                if let Some(rejected) = refused {
                    state.note_refused(rejected, &asked, now);
                }
                refused
            }
        };
        drop(state);
        if let Some(rejected) = refused {
            self.count_refused(rejected);
        }
        refused
    }

    fn count_refused(&self, rejected: Rejected) {
        let counters = &self.shared.counters;
        stats::add(&counters.refused, 1);
        match rejected {
            Rejected::QueueFull { .. } => stats::add(&counters.queue_full, 1),
            Rejected::BytesFull { .. } | Rejected::TooManyBytes { .. } => {
                stats::add(&counters.queue_bytes, 1);
            }
            Rejected::TooLate { .. } => stats::add(&counters.too_late, 1),
            Rejected::Standing { .. } => stats::add(&counters.standing, 1),
            Rejected::Stopping => stats::add(&counters.stopping, 1),
        }
    }

    fn answer_evicted(&self, evicted: Waiting) {
        stats::add(&self.shared.counters.evicted, 1);
        let error = Error::Evicted {
            model: self.shared.name.clone(),
            queue_max: self.shared.options.queue_max,
            waited_us: stats::micros(evicted.submitted.elapsed()),
        };
        worker::deliver(&self.shared, evicted, Err(error));
    }

    /// Prepares the model for every size of `sizes` (rows) and runs each on every instance,
    /// twice, on zeros, and reports how long that took, so that the first request meets a
    /// model that has run. List the sizes that requests will have: backends may be faster on them. A model without a batch runs
    /// whatever the sizes; one that does not run on the least of sizes that only requests know is left as it is.
    ///
    /// # Errors
    /// [`Error::Option`] for a size of 0 or above `batch_size_max`, [`Error::WarmUp`]
    /// when the model fails, [`Error::Stopping`].
    pub fn warm_up(&self, sizes: &[usize]) -> Result<Vec<WarmUpRun>, Error> {
        warm_up::warm_up(&self.shared, sizes)
    }

    /// The counters, now.
    pub fn stats(&self) -> Stats {
        let restarts = self.shared.model.worker_restarts();
        self.shared
            .counters
            .read(self.shared.queue.lock().occupancy(), restarts)
    }

    /// Lets the counters begin at zero again; meant for the moment before the first request.
    pub fn forget_counts(&self) {
        self.shared.counters.clear();
        self.shared.queue.lock().forget_counts();
    }

    /// The name it was started with.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The model it runs.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.shared.model
    }

    /// The options it was started with.
    pub fn options(&self) -> &BatcherOptions {
        &self.shared.options
    }

    /// Whether every instance thread lives; they end only by a stop, or by a panic outside of a run.
    pub fn is_whole(&self) -> bool {
        self.shared.queue.lock().stopping || !self.instances.iter().any(JoinHandle::is_finished)
    }

    /// Refuses new requests from here on, and waits for nothing.
    pub fn begin_stop(&self) {
        self.shared.queue.stop();
    }

    /// Like [`Batcher::stop`], until `until` at most; returns whether all threads have ended. Threads that have not are left to
    /// their runs, and dropping the batcher does not wait for them.
    pub fn stop_by(&self, until: Instant) -> bool {
        self.begin_stop();
        let ended = ends_by(until, || self.instances.iter().all(JoinHandle::is_finished));
        self.is_left.store(!ended, Ordering::Relaxed);
        ended
    }

    /// Refuses new requests, finishes the accepted ones, and ends the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.shared.queue.stop();
        let is_left = self.is_left.load(Ordering::Relaxed);
        let waited_for = |thread: &JoinHandle<()>| !is_left || thread.is_finished();
        for thread in self.instances.drain(..).filter(waited_for) {
            // The last handle may be dropped by a `done` on an instance thread, which cannot join itself.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!(model = self.shared.name, "an instance thread ended by a panic");
            }
        }
    }
}
