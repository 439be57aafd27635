//! The task of one connection: writes what is queued, a batch a write, and hands out the answers it reads.
//!
//! It knows no deadlines and no methods. Its invariant: however it ends, also when its runtime is shut down, the link is
//! closed and every waiting caller is told why.

use super::{Answer, Link};
use crate::CallError;
use millpond_wire_schema::frame::{
    Encoder, Encoding, Frame, FrameError, FrameKind, Limits, Parsed, parse_frame, write_frame,
};
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::sleep;

/// Free bytes offered to one read.
const READ_BYTES: usize = 16 << 10;
/// A buffer that grew past this for one large frame is given back when it is empty.
const KEEP_BYTES: usize = 256 << 10;
/// How long a connection may still read after a failed write, or write after the last client is gone.
const LINGER: Duration = Duration::from_secs(1);

impl Link {
    /// Makes `stream` the connection and starts its task on the caller's runtime.
    pub(super) fn start(self: &Arc<Self>, stream: TcpStream) {
        let mut state = self.lock();
        state.closed = None;
        state.seq_first = state.seq_next;
        state.issued = 0;
        drop(state);
        let ending = Ending {
            link: self.clone(),
            cause: self.closed("the runtime it was opened on has stopped"),
        };
        tokio::spawn(run(ending, stream));
    }

    fn closed(&self, detail: impl Into<String>) -> CallError {
        CallError::Closed {
            addr: self.addr.clone(),
            detail: detail.into(),
        }
    }

    fn broken(&self, detail: impl Into<String>) -> CallError {
        CallError::Protocol {
            addr: self.addr.clone(),
            detail: detail.into(),
        }
    }

    /// Writes batches until the last client is gone; returns why it stopped.
    async fn write_queued(&self, mut write: WriteHalf<'_>) -> CallError {
        let mut batch = Vec::new();
        loop {
            let closing = {
                let mut state = self.lock();
                std::mem::swap(&mut state.out, &mut batch);
                state.closing
            };
            if batch.is_empty() {
                if closing {
                    return self.closed("the last client was dropped");
                }
                self.wake.notified().await;
                continue;
            }
            self.room.notify_waiters();
            if let Err(error) = write.write_all(&batch).await {
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
    async fn read_answers(&self, mut read: ReadHalf<'_>) -> CallError {
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
    fn take_frames(&self, input: &[u8]) -> Result<usize, CallError> {
        let limits = Limits {
            frame_bytes_max: self.frame_bytes_max,
        };
        let mut used = 0;
        while used < input.len() {
            match parse_frame(&input[used..], limits) {
                Ok(Parsed::Partial { .. }) => break,
                Ok(Parsed::Whole { message, len }) => {
                    self.take_frame(message)?;
                    used += len;
                }
                Err(FrameError::TooLarge { bytes, limit, .. }) => {
                    return Err(self.broken(format!(
                        "an answer of {bytes} bytes; this client accepts {limit} (ask for less, or raise Options::frame_bytes_max)"
                    )));
                }
                Err(error) => return Err(self.broken(error.to_string())),
            }
        }
        Ok(used)
    }

    fn take_frame(&self, frame: Frame<'_>) -> Result<(), CallError> {
        match frame.kind {
            FrameKind::Answer { status, seq } => {
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
            }
            FrameKind::Twoway { seq, .. } => self.decline(frame.encoding, seq),
            // The protocol lets a server call its client; this client serves no methods, so there is nothing to do.
            FrameKind::Oneway { .. } => {}
        }
        Ok(())
    }

    /// Answers a server's call: there is no such method here. A server that floods the link is left unanswered.
    fn decline(&self, encoding: Encoding, seq: u32) {
        let mut payload = Vec::new();
        let status = Status::new(Code::UnknownMethod, "this client serves no methods");
        status.encode(&mut Encoder::new(&mut payload, encoding, false));
        let mut state = self.lock();
        if state.out.len() < self.frame_bytes_max
            && write_frame(
                &mut state.out,
                encoding,
                FrameKind::Answer { status: 1, seq },
                &payload,
            )
            .is_ok()
        {
            self.wake.notify_one();
        }
    }

    /// Returns when the last client is gone and the server has had its time to read the rest.
    async fn retired(&self) -> CallError {
        self.closing.notified().await;
        sleep(LINGER).await;
        self.closed("the last client was dropped")
    }
}

async fn run(mut ending: Ending, mut stream: TcpStream) {
    let link = ending.link.clone();
    let (read, write) = stream.split();
    ending.cause = tokio::select! {
        cause = link.read_answers(read) => cause,
        cause = link.write_queued(write) => cause,
        cause = link.retired() => cause,
    };
}

/// Closes the link when the task ends, or is dropped before it could.
struct Ending {
    link: Arc<Link>,
    cause: CallError,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        state.closed = Some(self.cause.clone());
        state.out = Vec::new();
        let waiters = std::mem::take(&mut state.pending);
        drop(state);
        for waiter in waiters.into_values() {
            // A caller that has left needs no news.
            let _ = waiter.send(Err(self.cause.clone()));
        }
        self.link.room.notify_waiters();
    }
}
