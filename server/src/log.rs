//! The log: a bounded queue and a thread of its own; a full queue or disk drops lines and counts them.
//!
//! It decides no level per module and rotates nothing. Its invariant: writing a log line never waits for the disk.

use crate::Error;
use crate::config::{Format, Level, Log};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};

/// The running log; dropping it writes what is queued.
pub struct Logging {
    /// Writes the rest when it is dropped.
    _worker: WorkerGuard,
    dropped: Dropped,
}

/// Counts the lines that were not written: the queue was full, or the file could not be written to.
#[derive(Clone)]
pub struct Dropped {
    queue: ErrorCounter,
    file: Arc<AtomicU64>,
}

impl Dropped {
    /// Lines since the start.
    pub fn lines(&self) -> u64 {
        self.queue.dropped_lines() as u64 + self.file.load(Ordering::Relaxed)
    }
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
        let file = Arc::new(AtomicU64::new(0));
        let (writer, worker) = match &config.file {
            None => builder.finish(Lines::new(std::io::stderr(), &file)),
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                let opened = opened.map_err(|source| Error::Log {
                    path: path.display().to_string(),
                    source,
                })?;
                builder.finish(Lines::new(opened, &file))
            }
        };
        let queue = writer.error_counter();
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
            dropped: Dropped { queue, file },
        })
    }

    /// Counts lines that were not written.
    pub fn dropped(&self) -> Dropped {
        self.dropped.clone()
    }
}

/// Writes whole lines, and counts those that fail: the log's thread has nobody to tell.
struct Lines<W> {
    to: W,
    failed: Arc<AtomicU64>,
    /// The last line ended in its middle; the next one starts afresh.
    torn: bool,
}

impl<W: Write> Lines<W> {
    fn new(to: W, failed: &Arc<AtomicU64>) -> Lines<W> {
        let failed = Arc::clone(failed);
        Lines {
            to,
            failed,
            torn: false,
        }
    }

    fn line(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.torn {
            self.to.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    rest = &rest[bytes..];
                    self.torn = !rest.is_empty();
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if let Err(error) = self.line(line) {
            // Once on standard error, where somebody may look; afterwards in the count alone.
            if self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
                let _ = writeln!(
                    std::io::stderr(),
                    "millpond: the log cannot be written: {error}; lines are being lost"
                );
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// Takes this many bytes, then has no room until it is given more.
    struct Small {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.text.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_fail_are_counted_and_the_next_starts_afresh() {
        let failed = Arc::new(AtomicU64::new(0));
        let mut lines = Lines::new(
            Small {
                room: 6,
                text: Vec::new(),
            },
            &failed,
        );
        for line in ["one\n", "two\n", "three\n"] {
            assert_eq!(lines.write(line.as_bytes()).unwrap(), line.len());
        }
        assert_eq!(failed.load(Ordering::Relaxed), 2);
        lines.to.room = 100;
        lines.write_all(b"four\n").unwrap();
        assert_eq!(String::from_utf8(lines.to.text).unwrap(), "one\ntw\nfour\n");
    }
}
