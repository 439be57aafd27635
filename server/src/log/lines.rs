//! What the log's thread does: writes the queue's lines, and says how many were lost once it can write again.
//!
//! It decides nothing about what is logged. Its invariant: a line that is not in the file is in a count.

use super::queue::{Chunk, Queue};
use super::target::say;
use crate::config::Format;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Writes until the queue says that it is over.
pub(super) fn write_all(queue: &Queue, mut lines: Lines<impl Write>, format: Format) {
    let writing = queue.begin();
    let (mut chunk, mut seen, mut told) = (Chunk::default(), 0, 0);
    while let Some(taken) = queue.next(chunk, seen) {
        lines.write(&taken.chunk);
        seen = taken.dropped;
        let lost = seen + lines.failed.load(Ordering::Relaxed);
        // Where this cannot be written either, the next chunk's loss is told with it.
        if lost > told
            && lines
                .bytes(&queue.marked(notice(format, lost - told).as_bytes()))
                .is_ok()
        {
            told = lost;
        }
        chunk = taken.chunk;
    }
    writing.end();
}

/// The line that says how many are missing before it, in the form of the others.
fn notice(format: Format, lines: u64) -> String {
    let mut time = String::new();
    // A time that cannot be written is left out.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let message = "log lines dropped: they came faster than they were written";
    match format {
        Format::Text => format!("{time}  WARN {message} lines={lines}\n"),
        Format::Json => {
            let line = serde_json::json!({
                "timestamp": time,
                "level": "WARN",
                "message": message,
                "lines": lines,
            });
            format!("{line}\n")
        }
    }
}

/// Writes whole lines, and counts those that fail: the log's thread has nobody to tell.
pub(super) struct Lines<W> {
    to: W,
    failed: Arc<AtomicU64>,
    /// The last line ended in its middle; the next one starts afresh.
    torn: bool,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(to: W, failed: &Arc<AtomicU64>) -> Lines<W> {
        let failed = Arc::clone(failed);
        Lines {
            to,
            failed,
            torn: false,
        }
    }

    fn write(&mut self, chunk: &Chunk) {
        let Err((written, error)) = self.bytes(chunk.bytes()) else {
            return;
        };
        // Once on standard error, where somebody may look; afterwards in the count alone.
        let lost = chunk.lines_beyond(written) as u64;
        if self.failed.fetch_add(lost, Ordering::Relaxed) == 0 {
            say(&format!(
                "millpond: the log cannot be written: {error}; lines are being lost"
            ));
        }
    }

    /// Writes all bytes, or says how many of them it wrote and what kept it from the rest.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), (usize, std::io::Error)> {
        if self.torn && !bytes.is_empty() {
            self.to.write_all(b"\n").map_err(|error| (0, error))?;
            self.torn = false;
        }
        let mut written = 0;
        let problem = loop {
            if written == bytes.len() {
                return Ok(());
            }
            match self.to.write(&bytes[written..]) {
                Ok(0) => break std::io::ErrorKind::WriteZero.into(),
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
        };
        self.torn = bytes[..written].last().is_some_and(|last| *last != b'\n');
        Err((written, problem))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::log::queue::FILE_CHUNK_BYTES;
    use std::time::Duration;

    /// Takes this many bytes, then has no room until it is given more.
    #[derive(Default)]
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

    fn chunk(lines: &[&str]) -> Chunk {
        let mut chunk = Chunk::default();
        lines.iter().for_each(|line| chunk.push(line.as_bytes()));
        chunk
    }

    #[test]
    fn lines_that_fail_are_counted_and_the_next_starts_afresh() {
        let check = |room, failed_expected, expected: &str| {
            let failed = Arc::new(AtomicU64::new(0));
            let text = Vec::new();
            let mut lines = Lines::new(Small { room, text }, &failed);
            lines.write(&chunk(&["one\n", "two\n", "three\n"]));
            lines.write(&chunk(&["x\n"]));
            assert_eq!(failed.load(Ordering::Relaxed), failed_expected, "room for {room}");
            lines.to.room = 100;
            lines.write(&chunk(&["four\n"]));
            assert_eq!(String::from_utf8(lines.to.text).unwrap(), expected);
        };
        check(6, 3, "one\ntw\nfour\n");
        check(8, 2, "one\ntwo\nfour\n");
        check(0, 4, "four\n");
    }

    #[test]
    fn what_was_lost_is_told_in_the_form_of_the_other_lines() {
        let text = notice(Format::Text, 7);
        assert!(
            text.contains("  WARN log lines dropped") && text.ends_with(" lines=7\n"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&notice(Format::Json, 7)).unwrap();
        assert_eq!(
            (json["level"].as_str(), json["lines"].as_u64()),
            (Some("WARN"), Some(7))
        );
        assert!(json["timestamp"].as_str().unwrap().ends_with('Z'), "{json}");
    }

    #[test]
    fn every_loss_is_told_once_behind_the_lines_before_it() {
        let queue = Queue::new(2, 1000, FILE_CHUNK_BYTES, None);
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            let _ = (&queue).write(line.as_bytes()).unwrap();
        }
        assert!(!queue.stop(Duration::ZERO), "nobody writes yet");
        let mut sink = Small {
            room: 1000,
            ..Small::default()
        };
        write_all(&queue, Lines::new(&mut sink, &Arc::default()), Format::Text);
        assert!(queue.stop(Duration::from_secs(60)));
        let text = String::from_utf8(sink.text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["one", "two"]);
        assert!(lines[2].ends_with("lines=2") && lines.len() == 3, "{text}");
    }
}
