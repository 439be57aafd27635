//! What a worker writes to its standard output and error, in the server's log; where the process has no log, as under
//! `check-config` and in Python, on standard error.
//!
//! It understands none of it. Its invariants: so many lines and bytes a second at most, the others counted; a line is one line of bounded
//! length; and the thread ends with the worker, whatever of it still holds the pipe.

use millpond_backends_interface::host;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that are passed on within a second: a Python traceback of some depth.
const LINES_MAX: u32 = 100;
/// Bytes of a line.
const LINE_BYTES_MAX: usize = 1000;
/// How often the thread looks whether the worker has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Passes on what is said until it ends, on a thread of its own; once `ended` is set, what was said by then. `about` names the worker.
/// The thread gives whether anything was said.
pub(crate) fn follow(
    said: PipeReader,
    about: String,
    ended: Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<bool>> {
    let thread = std::thread::Builder::new().name("worker-log".to_owned());
    thread.spawn(move || listen(said, &about, &ended))
}

/// Where a reader finds what a worker has said.
pub(crate) fn place() -> &'static str {
    match has_log() {
        true => "in the log",
        false if has_standard_error() => "to standard error",
        false => "to standard error, in a program that has one",
    }
}

fn has_log() -> bool {
    tracing::dispatcher::has_been_set()
}

fn listen(mut said: PipeReader, about: &str, ended: &AtomicBool) -> bool {
    let mut lines = Lines::default();
    let mut has_said = false;
    let mut chunk = [0; 4096];
    let mut tell = |line: Line<'_>| {
        has_said = true;
        tell(about, line);
    };
    loop {
        let is_over = ended.load(Ordering::Acquire);
        let mut pipe = [PollFd::new(&said, PollFlags::IN)];
        let timeout = crate::channel::timespec(if is_over { Duration::ZERO } else { LOOK });
        match poll(&mut pipe, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) if !is_over => continue,
            Ok(more) if more > 0 => {}
            _ => break,
        }
        match said.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => lines.take(&chunk[..bytes], Instant::now(), &mut tell),
        }
    }
    lines.end(Instant::now(), &mut tell);
    has_said
}

fn tell(about: &str, line: Line<'_>) {
    match (line, has_log()) {
        (Line::Said(text), true) => tracing::warn!(worker = about, "{text}"),
        (Line::LeftOut(lines), true) => {
            tracing::warn!(worker = about, left_out = lines, "the worker said more");
        }
        (Line::Said(text), false) => say(&format!("{about}: {text}\n")),
        (Line::LeftOut(lines), false) => say(&format!("{about}: {lines} more lines are left out\n")),
    }
}

/// Writes a line to standard error, past the lock of Rust's: a process that is forked meanwhile would inherit it locked. Where standard error is
/// a pipe that is full, because nobody reads it, the line is lost: a worker that writes on would stand still with this thread.
fn say(line: &str) {
    let standard_error = std::io::stderr();
    let mut polled = [PollFd::new(&standard_error, PollFlags::OUT)];
    let now = Timespec::default();
    if has_standard_error() && matches!(poll(&mut polled, Some(&now)), Ok(1)) {
        // There is nobody else to tell.
        let _ = rustix::io::write(&standard_error, line.as_bytes());
    }
}

fn has_standard_error() -> bool {
    host::interpreter().is_none_or(|host| host.has_standard_error)
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Said(&'a str),
    /// So many lines that were too many.
    LeftOut(u64),
}

/// Bytes on their way to lines.
#[derive(Debug, Default)]
struct Lines {
    /// Those of a line that has no end yet, as far as they are kept.
    partial: Vec<u8>,
    /// When the second that is counted began, and its lines.
    second: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], now: Instant, mut tell: impl FnMut(Line<'_>)) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line(now, &mut tell);
            } else if self.partial.len() < LINE_BYTES_MAX {
                self.partial.push(byte);
            }
        }
    }

    /// No more comes.
    fn end(&mut self, now: Instant, mut tell: impl FnMut(Line<'_>)) {
        self.end_line(now, &mut tell);
        if self.left_out > 0 {
            tell(Line::LeftOut(self.left_out));
        }
    }

    fn end_line(&mut self, now: Instant, tell: &mut impl FnMut(Line<'_>)) {
        let text: String = String::from_utf8_lossy(&self.partial)
            .trim_end()
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        self.partial.clear();
        if text.is_empty() {
            return;
        }
        let is_new = self
            .second
            .is_none_or(|second| now.saturating_duration_since(second) >= Duration::from_secs(1));
        if is_new {
            self.second = Some(now);
            self.lines = 0;
            if self.left_out > 0 {
                tell(Line::LeftOut(std::mem::take(&mut self.left_out)));
            }
        }
        if self.lines == LINES_MAX {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        tell(Line::Said(&text));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(line: Line<'_>) -> String {
        match line {
            Line::Said(text) => text.to_owned(),
            Line::LeftOut(lines) => format!("({lines})"),
        }
    }

    #[test]
    fn lines_are_cut_cleaned_and_counted() {
        let now = Instant::now();
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        let mut take = |bytes: &[u8], now| lines.take(bytes, now, |line| all.push(told(line)));
        take(b"one\ntw", now);
        take(b"o\x1b[31m\r\n\n\xff\n", now);
        take(&[b'x'; 5000], now);
        take(b"\n", now);
        for _ in 0..200 {
            take(b"more\n", now);
        }
        take(b"later\nunfinished", now + Duration::from_secs(1));
        lines.end(now + Duration::from_secs(1), |line| all.push(told(line)));
        assert_eq!(all[..3], ["one", "two [31m", "\u{fffd}"]);
        assert_eq!(all[3].len(), LINE_BYTES_MAX);
        assert_eq!(all[4..100], vec!["more"; 96]);
        assert_eq!(all[100..], ["(104)", "later", "unfinished"]);
    }

    #[test]
    fn the_thread_ends_though_somebody_holds_the_pipe() {
        let (reader, writer) = std::io::pipe().unwrap();
        let ended = Arc::new(AtomicBool::new(true));
        listen(reader, "test", &ended);
        drop(writer);
    }
}
