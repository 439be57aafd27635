//! The log: a bounded queue and a thread of its own; a full queue or disk drops lines and counts them.
//!
//! It decides no level per module and rotates nothing. Its invariant: writing a log line never waits for the disk.

use crate::Error;
use crate::config::{Format, Level, Log};
use crate::slow;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The running log; dropping it writes what is queued.
pub struct Logging {
    /// Writes the rest when it is dropped.
    _worker: WorkerGuard,
    handle: LogHandle,
}

/// The running log, for those who look at it and tune it.
#[derive(Clone)]
pub struct LogHandle {
    queue: ErrorCounter,
    file: Arc<AtomicU64>,
    floor: Floor,
}

impl LogHandle {
    /// Lines that were not written since the start: the queue was full, or the file could not be written to.
    pub fn lines_dropped(&self) -> u64 {
        self.queue.dropped_lines() as u64 + self.file.load(Ordering::Relaxed)
    }

    /// How much is logged now.
    pub fn level(&self) -> Level {
        Level::ALL[usize::from(self.floor.0.load(Ordering::Relaxed)) % Level::ALL.len()]
    }

    /// Logs so much from now on.
    pub fn set_level(&self, level: Level) {
        self.floor.0.store(level as u8, Ordering::Relaxed);
        // Every place that logs remembers whether it is heard.
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Lets pass what the level permits, and the slow log.
#[derive(Clone)]
struct Floor(Arc<AtomicU8>);

impl Floor {
    fn filter(&self) -> LevelFilter {
        const FILTERS: [LevelFilter; Level::ALL.len()] = [
            LevelFilter::DEBUG,
            LevelFilter::INFO,
            LevelFilter::WARN,
            LevelFilter::ERROR,
        ];
        FILTERS[usize::from(self.0.load(Ordering::Relaxed)) % FILTERS.len()]
    }

    fn passes(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.filter() || metadata.target() == slow::TARGET
    }
}

impl<S: Subscriber> Layer<S> for Floor {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.passes(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        self.passes(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The slow log's lines are warnings.
        Some(self.filter().max(LevelFilter::WARN))
    }
}

impl Logging {
    /// Installs the log for this process; a second call in one process keeps the first one's subscriber.
    ///
    /// # Errors
    /// [`Error::Log`] when the file cannot be appended to.
    pub fn start(config: &Log) -> Result<Logging, Error> {
        Logging::start_as(config, None)
    }

    /// As [`Logging::start`], for one of several processes that write to the same place: each line says its number.
    ///
    /// # Errors
    /// As [`Logging::start`].
    pub fn start_as(config: &Log, process: Option<usize>) -> Result<Logging, Error> {
        let mark = process.map(|process| Mark::new(process, config.format));
        let builder = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(config.queue_lines_max);
        let file = Arc::new(AtomicU64::new(0));
        let (writer, worker) = match &config.file {
            None => builder.finish(Lines::new(std::io::stderr(), &file, mark)),
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                let opened = opened.map_err(|source| Error::Log {
                    path: path.display().to_string(),
                    source,
                })?;
                builder.finish(Lines::new(opened, &file, mark))
            }
        };
        let queue = writer.error_counter();
        let floor = Floor(Arc::new(AtomicU8::new(config.level as u8)));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(false)
            .with_target(false);
        let base = tracing_subscriber::registry();
        // The floor is asked first, so it goes on last.
        let _ = match config.format {
            Format::Text => {
                let all = base.with(lines).with(floor.clone());
                tracing::subscriber::set_global_default(all)
            }
            Format::Json => {
                let all = base.with(lines.json().flatten_event(true)).with(floor.clone());
                tracing::subscriber::set_global_default(all)
            }
        };
        Ok(Logging {
            _worker: worker,
            handle: LogHandle { queue, file, floor },
        })
    }

    /// To look at it and to tune it.
    pub fn handle(&self) -> LogHandle {
        self.handle.clone()
    }
}

/// The number of one of several processes, as its lines show it.
struct Mark {
    format: Format,
    text: String,
    /// The line with its mark.
    line: Vec<u8>,
}

impl Mark {
    fn new(process: usize, format: Format) -> Mark {
        let text = match format {
            Format::Text => format!(" process={process}"),
            Format::Json => format!("\"process\":{process},"),
        };
        Mark {
            format,
            text,
            line: Vec::new(),
        }
    }

    fn put(&mut self, line: &[u8]) -> &[u8] {
        let at = match self.format {
            // Behind the other fields, before the end of the line.
            Format::Text => line.len() - usize::from(line.ends_with(b"\n")),
            // The first of the object.
            Format::Json => usize::from(line.starts_with(b"{")),
        };
        let (before, behind) = line.split_at(at);
        self.line.clear();
        self.line.extend_from_slice(before);
        self.line.extend_from_slice(self.text.as_bytes());
        self.line.extend_from_slice(behind);
        &self.line
    }
}

/// Writes whole lines, and counts those that fail: the log's thread has nobody to tell.
struct Lines<W> {
    to: W,
    failed: Arc<AtomicU64>,
    /// The last line ended in its middle; the next one starts afresh.
    torn: bool,
    /// What each line says of its process.
    mark: Option<Mark>,
}

impl<W: Write> Lines<W> {
    fn new(to: W, failed: &Arc<AtomicU64>, mark: Option<Mark>) -> Lines<W> {
        let failed = Arc::clone(failed);
        Lines {
            to,
            failed,
            torn: false,
            mark,
        }
    }

    fn line(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.torn {
            self.to.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = match &mut self.mark {
            Some(mark) => mark.put(line),
            None => line,
        };
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
            None,
        );
        for line in ["one\n", "two\n", "three\n"] {
            assert_eq!(lines.write(line.as_bytes()).unwrap(), line.len());
        }
        assert_eq!(failed.load(Ordering::Relaxed), 2);
        lines.to.room = 100;
        lines.write_all(b"four\n").unwrap();
        assert_eq!(String::from_utf8(lines.to.text).unwrap(), "one\ntw\nfour\n");
    }

    #[test]
    fn lines_of_one_of_several_processes_say_its_number() {
        let check = |format, line: &str, expected: &str| {
            let failed = Arc::default();
            let mut lines = Lines::new(Vec::new(), &failed, Some(Mark::new(3, format)));
            lines.write_all(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(lines.to).unwrap(), expected);
        };
        check(Format::Text, "INFO ready ms=4\n", "INFO ready ms=4 process=3\n");
        check(
            Format::Json,
            "{\"level\":\"INFO\"}\n",
            "{\"process\":3,\"level\":\"INFO\"}\n",
        );
        check(Format::Text, "cut off", "cut off process=3");
    }
}
