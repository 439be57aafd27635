//! The lines that wait for the log's thread, bounded in lines and in bytes.
//!
//! It knows no format and no file. Its invariants: putting a line in waits for nobody who writes; a line that found no room
//! is counted; and no more is held than the bounds say, what is being written included.

use super::mark::Mark;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are written to a file at once, where as many wait.
pub(super) const FILE_CHUNK_BYTES: usize = 64 << 10;
/// And to what may be a pipe that others write to as well: no more is written there as one piece, which no other one's bytes come
/// into (`PIPE_BUF` of Linux, pipe(7)).
pub(super) const PIPE_CHUNK_BYTES: usize = 4096;

/// Whole lines, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Chunk {
    pub(super) fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.ends.push(self.bytes.len());
    }

    /// All of it, as it is to be written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many of its lines do not lie within its first bytes.
    pub(super) fn lines_beyond(&self, bytes: usize) -> usize {
        self.ends.len() - self.ends.partition_point(|end| *end <= bytes)
    }

    /// Whether it stays within so many bytes with one more line.
    fn has_room(&self, line: &[u8], chunk_bytes: usize) -> bool {
        self.bytes.len() + line.len() <= chunk_bytes
    }
}

/// The queue between all threads and the log's own.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the log's thread.
    lines: Condvar,
    /// Wakes whoever waits for the end.
    progress: Condvar,
    lines_max: usize,
    bytes_max: usize,
    /// Bytes of a chunk; a longer line is a chunk alone.
    chunk_bytes: usize,
    /// What each line says of its process.
    mark: Option<Mark>,
}

#[derive(Debug, Default)]
struct State {
    /// Full ones, and the one that is being filled.
    chunks: VecDeque<Chunk>,
    /// The memory of one that was written, for the next.
    spare: Chunk,
    /// Not written yet, whether in `chunks` or with the log's thread.
    lines: usize,
    bytes: usize,
    /// Lines that found no room.
    dropped: u64,
    /// The log's thread has nothing to do.
    idle: bool,
    stopping: bool,
    end: Option<End>,
    /// Chunks written so far, by which a stop sees that it goes on.
    written: u64,
}

/// How the log's thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was told to, and has written everything.
    InOrder,
    /// By a panic, in a program that does not end by one: nobody writes any more.
    Died,
}

/// What the log's thread does while it lives; however it ends, the queue knows.
pub(super) struct Writing<'a>(&'a Queue);

impl Writing<'_> {
    /// It has written its last.
    pub(super) fn end(self) {
        self.0.end(End::InOrder);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.end(End::Died);
    }
}

/// What the log's thread has to write.
#[derive(Debug)]
pub(super) struct Taken {
    /// May be empty where lines were dropped meanwhile.
    pub(super) chunk: Chunk,
    /// Lines that had found no room when it was taken, since the start.
    pub(super) dropped: u64,
}

impl Queue {
    /// Bounded in lines and bytes, and written in chunks of `chunk_bytes` at most, but for a longer line.
    pub(super) fn new(lines_max: usize, bytes_max: usize, chunk_bytes: usize, mark: Option<Mark>) -> Queue {
        Queue {
            state: Mutex::default(),
            lines: Condvar::new(),
            progress: Condvar::new(),
            lines_max,
            bytes_max,
            chunk_bytes,
            mark,
        }
    }

    /// No code that can panic runs under this lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line as it is written.
    pub(super) fn marked<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.mark {
            Some(mark) => mark.put(line).into(),
            None => line.into(),
        }
    }

    /// Takes a line in, or counts it.
    fn put(&self, line: &[u8]) {
        let line = &*self.marked(line);
        let mut state = self.lock();
        if state.lines >= self.lines_max || line.len() > self.bytes_max.saturating_sub(state.bytes) {
            state.dropped += 1;
            return;
        }
        state.lines += 1;
        state.bytes += line.len();
        let last = state.chunks.back_mut();
        match last.filter(|chunk| chunk.has_room(line, self.chunk_bytes)) {
            Some(chunk) => chunk.push(line),
            None => {
                let mut chunk = std::mem::take(&mut state.spare);
                chunk.push(line);
                state.chunks.push_back(chunk);
            }
        }
        if std::mem::take(&mut state.idle) {
            drop(state);
            self.lines.notify_one();
        }
    }

    /// Gives `written` back, and waits for more lines, or for more dropped ones than `seen`. `None`: a stop was asked for, and all is written.
    pub(super) fn next(&self, mut written: Chunk, seen: u64) -> Option<Taken> {
        let mut state = self.lock();
        state.lines -= written.ends.len();
        state.bytes -= written.bytes.len();
        state.written += 1;
        self.progress.notify_all();
        written.bytes.clear();
        written.ends.clear();
        if written.bytes.capacity() <= 2 * self.chunk_bytes {
            state.spare = written;
        }
        loop {
            let chunk = state.chunks.pop_front();
            if chunk.is_some() || state.dropped > seen {
                return Some(Taken {
                    chunk: chunk.unwrap_or_default(),
                    dropped: state.dropped,
                });
            }
            if state.stopping {
                return None;
            }
            state.idle = true;
            state = self.lines.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The log's thread begins.
    pub(super) fn begin(&self) -> Writing<'_> {
        Writing(self)
    }

    /// The first word counts.
    fn end(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.progress.notify_all();
    }

    /// Whether the log's thread has ended without being told to.
    pub(super) fn has_died(&self) -> bool {
        self.lock().end == Some(End::Died)
    }

    /// Lines that found no room, since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Waits until everything is written that lies there, or until then: for the last words of a process.
    pub(super) fn flush_by(&self, until: Instant) {
        let mut state = self.lock();
        while state.lines > 0 && state.end.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until everything is written, or nothing was for so long, or nobody writes: whether all of it was.
    pub(super) fn stop(&self, patience: Duration) -> bool {
        let mut state = self.lock();
        state.stopping = true;
        self.lines.notify_one();
        while state.end.is_none() {
            let before = state.written;
            let waited = self.progress.wait_timeout(state, patience);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if timeout.timed_out() && state.written == before && state.end.is_none() {
                return false;
            }
        }
        state.end == Some(End::InOrder)
    }
}

/// A write is a line.
impl io::Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::sync::Arc;

    fn put(queue: &Queue, lines: &[&str]) -> u64 {
        lines.iter().for_each(|line| queue.put(line.as_bytes()));
        queue.dropped()
    }

    #[test]
    fn lines_and_bytes_are_bounded_and_what_is_being_written_counts() {
        let check = |lines_max, bytes_max, lines: &[&str], dropped, kept: &str| {
            let queue = Queue::new(lines_max, bytes_max, FILE_CHUNK_BYTES, None);
            assert_eq!(put(&queue, lines), dropped, "{lines:?}");
            let taken = queue.next(Chunk::default(), 0).unwrap();
            assert_eq!((taken.chunk.bytes(), taken.dropped), (kept.as_bytes(), dropped));
            // Nothing is written yet, so there is no more room than before.
            let full = put(&queue, &["abcd\n"]) - dropped;
            assert_eq!(full == 1, lines_max == 2 || bytes_max == 10, "{lines:?}");
            let again = queue.next(taken.chunk, dropped).unwrap();
            assert_eq!(put(&queue, &["ab\n"]), dropped + full);
            drop(again);
        };
        check(2, 1000, &["one\n", "two\n", "three\n"], 1, "one\ntwo\n");
        check(9, 10, &["one\n", "three\n", "x\n"], 1, "one\nthree\n");
        check(9, 1000, &["one\n", "two\n"], 0, "one\ntwo\n");
    }

    #[test]
    fn a_line_longer_than_all_room_is_dropped_and_the_next_is_not() {
        let queue = Queue::new(10, 8, FILE_CHUNK_BYTES, None);
        assert_eq!(put(&queue, &["far too long\n", "short\n"]), 1);
        assert_eq!(queue.next(Chunk::default(), 0).unwrap().chunk.bytes(), b"short\n");
    }

    #[test]
    fn many_lines_come_out_in_order_in_chunks() {
        for chunk_bytes in [FILE_CHUNK_BYTES, PIPE_CHUNK_BYTES] {
            let queue = Queue::new(usize::MAX, usize::MAX, chunk_bytes, None);
            let long = format!("{}\n", "x".repeat(chunk_bytes));
            let number = |number: usize| match number {
                20_000 => long.clone(),
                _ => format!("{number}\n"),
            };
            let all: String = (0..50_000).map(number).collect();
            all.split_inclusive('\n')
                .for_each(|line| queue.put(line.as_bytes()));
            queue.lock().stopping = true;
            let (mut seen, mut chunk) = (Vec::new(), Chunk::default());
            while let Some(taken) = queue.next(chunk, 0) {
                let bytes = taken.chunk.bytes();
                assert!(bytes.len() <= chunk_bytes || bytes == long.as_bytes());
                assert!(bytes.ends_with(b"\n"));
                seen.extend_from_slice(bytes);
                chunk = taken.chunk;
            }
            assert_eq!(seen, all.as_bytes());
            let state = queue.lock();
            assert_eq!((state.lines, state.bytes), (0, 0));
        }
    }

    #[test]
    fn a_stop_waits_for_a_writer_that_goes_on_and_for_no_other() {
        let queue = Arc::new(Queue::new(10, 1000, FILE_CHUNK_BYTES, None));
        put(&queue, &["one\n"]);
        assert!(!queue.stop(Duration::from_millis(1)), "nobody writes");
        let writer = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            let (writing, mut chunk) = (writer.begin(), Chunk::default());
            while let Some(taken) = writer.next(chunk, 0) {
                chunk = taken.chunk;
            }
            writing.end();
        });
        assert!(queue.stop(Duration::from_secs(60)));
        thread.join().unwrap();
        assert!(!queue.has_died());
    }

    #[test]
    fn nobody_waits_for_a_writer_that_died() {
        let queue = Queue::new(10, 1000, FILE_CHUNK_BYTES, None);
        put(&queue, &["one\n"]);
        let panics = || {
            let _writing = queue.begin();
            panic!("in the log's thread")
        };
        assert!(millpond_threads::contain(panics).is_err());
        assert!(queue.has_died());
        queue.flush_by(Instant::now() + Duration::from_secs(3600));
        assert!(!queue.stop(Duration::from_secs(3600)), "a line was lost");
    }
}
