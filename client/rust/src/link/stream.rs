//! What is done with one connection: writes what is queued, a batch a write, and hands out the answers it reads.
//!
//! It knows no deadlines and no methods but `*ping`. Its invariant: it ends with the reason why, and leaves it to
//! `dial.rs` to tell those who wait.

use super::dial::Stream;
use super::{Answer, Link};
use crate::CallError;
use millpond_wire_frame::{Encoding, Frame, FrameKind, FrameProblem, Limits, Parsed, parse_frame};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

/// Free bytes offered to one read.
const READ_BYTES: usize = 16 << 10;
/// A buffer that grew past this for one large frame is given back when it is empty.
const KEEP_BYTES: usize = 256 << 10;
/// How long a connection may still read after a failed write, or write after the client was closed.
const LINGER: Duration = Duration::from_secs(1);
/// Unanswered keep-alive pings in a row after which a server is gone (FPNN's clients: three).
const PINGS_UNANSWERED_MAX: u32 = 3;

/// Works on a connection until it ends; returns why it did.
pub(super) async fn run(link: &Arc<Link>, stream: Stream) -> CallError {
    match stream {
        Stream::Tcp(mut stream) => {
            let (read, write) = stream.split();
            exchange(link, read, write).await
        }
        Stream::Unix(mut stream) => {
            let (read, write) = stream.split();
            exchange(link, read, write).await
        }
        Stream::Tls(stream) => {
            let (read, write) = tokio::io::split(*stream);
            exchange(link, read, write).await
        }
    }
}

async fn exchange(
    link: &Arc<Link>,
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
) -> CallError {
    tokio::select! {
        cause = link.read_answers(read) => cause,
        cause = link.write_queued(write) => cause,
        cause = link.keep_alive() => cause,
        cause = link.retired() => cause,
    }
}

impl Link {
    fn broken(&self, detail: impl Into<String>) -> CallError {
        CallError::Protocol {
            addr: self.address.text.clone(),
            detail: detail.into(),
        }
    }

    /// Writes batches until nobody needs the link; returns why it stopped.
    async fn write_queued(&self, mut write: impl AsyncWrite + Unpin) -> CallError {
        let mut batch = Vec::new();
        loop {
            let closing = {
                let mut state = self.lock();
                std::mem::swap(&mut state.out, &mut batch);
                state.closing
            };
            if batch.is_empty() {
                if closing {
                    // What cannot be shut down is gone already.
                    let _ = write.shutdown().await;
                    return self.closed("the client was closed");
                }
                self.wake.notified().await;
                continue;
            }
            self.space.notify_waiters();
            // An encrypted stream keeps what it could not write at once, until it is flushed.
            let written = async {
                write.write_all(&batch).await?;
                write.flush().await
            };
            if let Err(error) = written.await {
                // A server that refuses a connection answers and closes: what it said is still to be read.
                sleep(LINGER).await;
                return self.closed(format!("writing failed ({error})"));
            }
            batch.clear();
            if batch.capacity() > KEEP_BYTES {
                batch = Vec::new();
            }
        }
    }

    /// Hands out answers until the connection ends; returns why it did.
    async fn read_answers(self: &Arc<Self>, mut read: impl AsyncRead + Unpin) -> CallError {
        let mut input = Vec::new();
        loop {
            input.reserve(READ_BYTES);
            match read.read_buf(&mut input).await {
                Ok(0) if input.is_empty() => return self.closed("the server closed it"),
                Ok(0) => {
                    return self.closed(format!("the server closed it {} bytes into a frame", input.len()));
                }
                Err(error) => return self.closed(format!("reading failed ({error})")),
                Ok(_) => {}
            }
            match self.take_frames(&input) {
                Ok(used) => drop(input.drain(..used)),
                Err(cause) => return cause,
            }
            if input.is_empty() && input.capacity() > KEEP_BYTES {
                input = Vec::new();
            }
        }
    }

    /// Hands out every whole frame at the front of `input`; returns the bytes they took.
    fn take_frames(self: &Arc<Self>, input: &[u8]) -> Result<usize, CallError> {
        let limits = Limits {
            frame_bytes_max: self.frame_bytes_max(),
        };
        let mut used = 0;
        while used < input.len() {
            match parse_frame(&input[used..], limits) {
                Ok(Parsed::Partial { .. }) => break,
                Ok(Parsed::Whole { message, len }) => {
                    self.take_frame(message)?;
                    used += len;
                }
                Err(error) => {
                    let what = match error.problem {
                        FrameProblem::TooLarge { bytes, limit } => format!(
                            "an answer of {bytes} bytes; this client accepts {limit} (ask for less, or raise Options::frame_bytes_max)"
                        ),
                        problem => problem.to_string(),
                    };
                    return Err(self.broken(what));
                }
            }
        }
        Ok(used)
    }

    fn take_frame(self: &Arc<Self>, frame: Frame<'_>) -> Result<(), CallError> {
        match frame.kind {
            FrameKind::Answer { status, seq } => self.take_answer(frame, status, seq)?,
            FrameKind::Twoway { method, seq } => self.take_push(frame, method, Some(seq)),
            FrameKind::Oneway { method } => self.take_push(frame, method, None),
        }
        self.frames_in.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn take_answer(&self, frame: Frame<'_>, status: u8, seq: u32) -> Result<(), CallError> {
        let mut state = self.lock();
        let Some(waiter) = state.pending.remove(&seq) else {
            if !state.has_issued(seq) {
                return Err(self.broken(format!("an answer to call {seq}, which was never made")));
            }
            self.late_answers.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        drop(state);
        let answer = Answer {
            status,
            encoding: frame.encoding,
            payload: frame.payload.to_vec(),
        };
        // A caller that left in this very moment no longer wants it.
        if waiter.send(Ok(answer)).is_err() {
            self.late_answers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Pings the server, if that was asked for; returns when it has not answered for too long.
    async fn keep_alive(&self) -> CallError {
        let Some(interval) = self.keep_alive_interval() else {
            return std::future::pending().await;
        };
        let mut unanswered = 0;
        while unanswered < PINGS_UNANSWERED_MAX {
            if unanswered == 0 {
                sleep(interval).await;
            }
            let frames_before = self.frames_in.load(Ordering::Relaxed);
            let answered = timeout(interval, self.call(Encoding::Msgpack, "*ping", &[0x80])).await;
            // Whatever else came shows as well that somebody is there.
            let is_alive = answered.is_ok() || self.frames_in.load(Ordering::Relaxed) > frames_before;
            unanswered = if is_alive { 0 } else { unanswered + 1 };
        }
        self.closed(format!(
            "the server left {PINGS_UNANSWERED_MAX} pings in a row unanswered, one each {interval:?}"
        ))
    }

    /// Returns when nobody needs the link and the server has had its time to read the rest.
    async fn retired(&self) -> CallError {
        self.closing.notified().await;
        sleep(LINGER).await;
        self.closed("the client was closed")
    }
}
