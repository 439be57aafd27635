//! The log: a bounded queue and a thread of its own; a full queue or disk drops lines, counts them, and says so later.
//!
//! It decides no level per module and rotates nothing. Its invariant: writing a log line never waits for the disk.

mod lines;
mod mark;
mod queue;
mod target;

use crate::Error;
use crate::config::{Format, Level, Log};
use lines::{Lines, write_all};
use mark::Mark;
use millpond_calls::SLOW_TARGET;
use millpond_metrics::Metric;
use queue::Queue;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::{Registry, reload};

/// Lines that wait to be written; their bytes are bounded by `log.queue_bytes_max`.
pub(crate) const QUEUE_LINES_MAX: usize = 100_000;
pub use target::{say, say_within};

/// How long the end waits for a log that takes no more lines.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// The running log; dropping it writes what is queued, as long as that gets on.
pub struct Logging {
    handle: LogHandle,
}

/// The running log, for those who look at it and tune it.
#[derive(Clone)]
pub struct LogHandle {
    queue: Arc<Queue>,
    file: Arc<AtomicU64>,
    /// What is logged.
    floor: reload::Handle<Targets, Registry>,
    /// It is not on standard error, where the process prints why it ends.
    is_apart: bool,
}

impl LogHandle {
    /// What a page and `*infos` have of a log, or of none.
    pub(crate) const METRICS: &'static [Metric<Option<LogHandle>>] = &[Metric::counter(
        "millpond_log_lines_dropped_total",
        "Log lines that found the queue full.",
        |log: &Option<LogHandle>| log.as_ref().map_or(0, LogHandle::lines_dropped) as f64,
    )
    .info("log_lines_dropped")];

    /// Lines that were not written since the start: the queue was full, or the file could not be written to.
    pub fn lines_dropped(&self) -> u64 {
        self.queue.dropped() + self.file.load(Ordering::Relaxed)
    }

    /// Whether its thread has ended by a panic: nothing is written any more.
    pub(crate) fn has_died(&self) -> bool {
        self.queue.has_died()
    }

    /// Waits until everything is written that was logged, and until then at most.
    pub(crate) fn flush_by(&self, until: Instant) {
        self.queue.flush_by(until);
    }

    /// Logs why the process ends, where those who read the log would not see it on standard error.
    pub fn note_failure(&self, why: &str) {
        if self.is_apart {
            tracing::error!("{why}");
        }
    }

    /// How much is logged now.
    pub fn level(&self) -> Level {
        let default = self.floor.with_current(Targets::default_level).ok().flatten();
        let is = |level: &Level| default == Some(level.filter());
        Level::ALL.into_iter().find(is).unwrap_or_default()
    }

    /// Logs so much from now on.
    pub fn set_level(&self, level: Level) {
        // It fails only where the process logs by another subscriber, which has a level of its own.
        let _ = self.floor.reload(floor(level));
    }
}

/// What a level lets pass: the slow log's lines, which are warnings, at every level.
fn floor(level: Level) -> Targets {
    Targets::new()
        .with_default(level.filter())
        .with_target(SLOW_TARGET, level.filter().max(LevelFilter::WARN))
}

#[cfg(test)]
impl LogHandle {
    /// Of a log whose thread has died.
    pub(crate) fn dead() -> LogHandle {
        let queue = Arc::new(Queue::new(1, 1, 1, None));
        drop(queue.begin());
        LogHandle {
            queue,
            file: Arc::default(),
            floor: reload::Layer::new(floor(Level::Info)).1,
            is_apart: true,
        }
    }
}

impl Logging {
    /// Installs the log for this process; a second call in one process keeps the first one's subscriber.
    ///
    /// # Errors
    /// [`Error::Log`] when the file cannot be appended to, or the log's thread cannot be started.
    pub fn start(config: &Log) -> Result<Logging, Error> {
        Logging::start_as(config, None)
    }

    /// As [`Logging::start`], for one of several processes that write to the same place: each line says its number.
    ///
    /// # Errors
    /// As [`Logging::start`].
    pub fn start_as(config: &Log, process: Option<usize>) -> Result<Logging, Error> {
        let mark = process.map(|process| Mark::new(process, config.format));
        let opened = target::open(config.file.as_deref());
        let (to, chunk_bytes) = opened.map_err(|source| log_error(config, source))?;
        let queue = Queue::new(QUEUE_LINES_MAX, config.queue_bytes_max, chunk_bytes, mark);
        let queue = Arc::new(queue);
        let file = Arc::new(AtomicU64::new(0));
        start_thread(&queue, Lines::new(to, &file), config)?;
        let (layer, floor) = reload::Layer::new(floor(config.level));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(Arc::clone(&queue))
            .with_ansi(false)
            .with_target(false);
        let lines = match config.format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        let all = tracing_subscriber::registry().with(layer).with(lines);
        let _ = tracing::subscriber::set_global_default(all);
        Ok(Logging {
            handle: LogHandle {
                queue,
                file,
                floor,
                is_apart: config.file.is_some(),
            },
        })
    }

    /// To look at it and to tune it.
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }

    /// Ends it: true where everything queued was written; false where its thread hangs in a write, or has died.
    #[must_use]
    pub fn end(self) -> bool {
        self.stop()
    }

    fn stop(&self) -> bool {
        self.handle.queue.stop(STOP_PATIENCE)
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start_thread(queue: &Arc<Queue>, lines: Lines<File>, config: &Log) -> Result<(), Error> {
    let (queue, format) = (Arc::clone(queue), config.format);
    let thread = std::thread::Builder::new().name("log".into());
    let started = thread.spawn(move || write_all(&queue, lines, format));
    started.map(drop).map_err(|source| log_error(config, source))
}

fn log_error(config: &Log, source: std::io::Error) -> Error {
    let path = config.file.as_ref();
    Error::Log {
        path: path.map_or_else(|| "standard error".into(), |path| path.display().to_string()),
        source,
    }
}
