//! The log: a bounded queue and a thread of its own; a full queue drops lines and counts them.
//!
//! It decides no level per module and rotates nothing. Its invariant: writing a log line never waits for the disk.

use crate::Error;
use crate::config::{Format, Level, Log};
use std::fs::OpenOptions;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};

/// The running log; dropping it writes what is queued.
pub struct Logging {
    /// Writes the rest when it is dropped.
    _worker: WorkerGuard,
    dropped: ErrorCounter,
}

impl Logging {
    /// Installs the log for this process; a second call in one process keeps the first one's subscriber.
    ///
    /// # Errors
    /// [`Error::Log`] when the file cannot be appended to.
    pub fn start(config: &Log) -> Result<Logging, Error> {
        let builder = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(config.queue_lines_max);
        let (writer, worker) = match &config.file {
            None => builder.finish(std::io::stderr()),
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let file = file.map_err(|source| Error::Log {
                    path: path.display().to_string(),
                    source,
                })?;
                builder.finish(file)
            }
        };
        let dropped = writer.error_counter();
        let level = match config.level {
            Level::Debug => LevelFilter::DEBUG,
            Level::Info => LevelFilter::INFO,
            Level::Warn => LevelFilter::WARN,
            Level::Error => LevelFilter::ERROR,
        };
        let base = tracing_subscriber::fmt()
            .with_writer(writer)
            .with_max_level(level)
            .with_ansi(false)
            .with_target(false);
        let _ = match config.format {
            Format::Text => tracing::subscriber::set_global_default(base.finish()),
            Format::Json => tracing::subscriber::set_global_default(base.json().flatten_event(true).finish()),
        };
        Ok(Logging {
            _worker: worker,
            dropped,
        })
    }

    /// Counts lines that found the queue full.
    pub fn dropped(&self) -> ErrorCounter {
        self.dropped.clone()
    }
}
