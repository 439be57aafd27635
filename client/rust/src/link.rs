//! One place of the pool: a connection, what waits to be written to it, and who waits for its answers.
//!
//! A link outlives its connections: when one closes, the next call opens another in its place. The task that reads and
//! writes the socket is in `stream.rs`; here is what callers touch. Its invariant: under one lock, a call is either
//! registered on an open connection or fails, so that closing one finds every caller that waits on it.

mod stream;

use crate::{CallError, Options};
use millpond_wire_schema::frame::{Encoding, FrameKind, write_frame};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Header and sequence number of a twoway frame.
const FRAME_HEAD_BYTES: usize = 16;

/// An answer as it came.
pub(crate) struct Answer {
    /// 0 is success.
    pub(crate) status: u8,
    /// How `payload` is written.
    pub(crate) encoding: Encoding,
    /// One map.
    pub(crate) payload: Vec<u8>,
}

type Waiter = oneshot::Sender<Result<Answer, CallError>>;

/// A connection that is opened again when it has closed.
pub(crate) struct Link {
    addr: String,
    connect_timeout: Duration,
    frame_bytes_max: usize,
    /// Calls under way, also those that still wait for room: what the pool chooses by.
    outstanding: AtomicUsize,
    state: Mutex<State>,
    /// Tells the writer that `State::out` is no longer empty, or that the link is closing.
    wake: Notify,
    /// Tells callers that `State::out` has been taken, or that the connection closed.
    room: Notify,
    /// Tells the connection's task that nobody needs it any more.
    closing: Notify,
    /// Held while connecting, so that callers who find the connection closed make one attempt together.
    reconnect: tokio::sync::Mutex<LastAttempt>,
    /// Attempts finished so far; a caller compares it with what it saw before it waited.
    attempts: AtomicU64,
    /// Answers that came after their caller had gone.
    late_answers: AtomicU64,
}

/// What callers and the connection's task share.
struct State {
    /// Why there is no connection now; `None` while there is one.
    closed: Option<CallError>,
    /// The last client is gone: what is queued may still be written, then the connection ends.
    closing: bool,
    /// Whole frames to write. Callers append while the writer writes the batch before.
    out: Vec<u8>,
    /// Who waits for which answer.
    pending: HashMap<u32, Waiter>,
    /// The number of the next call. It goes on over reconnects, so that a caller never takes back another's entry.
    seq_next: u32,
    /// The number of this connection's first call, and how many it has given out: tells late answers from made-up ones.
    seq_first: u32,
    issued: u64,
}

/// How the last attempt to connect ended.
#[derive(Default)]
struct LastAttempt {
    count: u64,
    error: Option<CallError>,
}

impl Link {
    /// A link that has no connection yet.
    pub(crate) fn new(addr: &str, options: &Options) -> Link {
        let addr = addr.to_owned();
        let closed = CallError::Closed {
            addr: addr.clone(),
            detail: "it was never open".to_owned(),
        };
        Link {
            addr,
            connect_timeout: options.connect_timeout,
            frame_bytes_max: options.frame_bytes_max,
            outstanding: AtomicUsize::new(0),
            state: Mutex::new(State {
                closed: Some(closed),
                closing: false,
                out: Vec::new(),
                pending: HashMap::new(),
                seq_next: 1,
                seq_first: 1,
                issued: 0,
            }),
            wake: Notify::new(),
            room: Notify::new(),
            closing: Notify::new(),
            reconnect: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            late_answers: AtomicU64::new(0),
        }
    }

    /// Calls under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Answers that came after their caller had gone.
    pub(crate) fn late_answers(&self) -> u64 {
        self.late_answers.load(Ordering::Relaxed)
    }

    /// Counts one more call, unless `max` are under way.
    pub(crate) fn reserve(self: &Arc<Self>, max: usize) -> Option<Reserved> {
        let more = |count| (count < max).then_some(count + 1);
        self.outstanding
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Reserved { link: self.clone() })
    }

    /// Returns once there is a connection.
    ///
    /// # Errors
    /// [`CallError::Connect`]; callers that waited for the same attempt get the same error.
    pub(crate) async fn open(self: &Arc<Self>) -> Result<(), CallError> {
        if self.is_open() {
            return Ok(());
        }
        let seen = self.attempts.load(Ordering::Acquire);
        let mut last = self.reconnect.lock().await;
        if self.is_open() {
            return Ok(());
        }
        if last.count > seen
            && let Some(error) = &last.error
        {
            return Err(error.clone());
        }
        let connected = self.connect().await;
        last.count += 1;
        last.error = connected.as_ref().err().cloned();
        self.attempts.store(last.count, Ordering::Release);
        self.start(connected?);
        Ok(())
    }

    /// Sends a call and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`] when the frame cannot be written or the connection closes.
    pub(crate) async fn call(
        &self,
        encoding: Encoding,
        method: &str,
        payload: &[u8],
    ) -> Result<Answer, CallError> {
        self.check_size(method, payload)?;
        let (waiter, answer) = oneshot::channel();
        let seq = {
            let mut state = self.with_room().await?;
            let seq = state.give_seq();
            self.append(&mut state, encoding, FrameKind::Twoway { method, seq }, payload)?;
            state.pending.insert(seq, waiter);
            seq
        };
        let mut registered = Registered {
            link: self,
            seq: Some(seq),
        };
        let answer = answer.await;
        registered.seq = None;
        answer.unwrap_or_else(|_| {
            let detail = "its answer was dropped".to_owned();
            Err(CallError::Closed {
                addr: self.addr.clone(),
                detail,
            })
        })
    }

    /// Queues a call that has no answer.
    ///
    /// # Errors
    /// [`CallError`] when the frame cannot be written or there is no connection.
    pub(crate) async fn oneway(
        &self,
        encoding: Encoding,
        method: &str,
        payload: &[u8],
    ) -> Result<(), CallError> {
        self.check_size(method, payload)?;
        let mut state = self.with_room().await?;
        self.append(&mut state, encoding, FrameKind::Oneway { method }, payload)
    }

    /// The last client is gone: lets the connection's task write what is queued and end.
    pub(crate) fn retire(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
        self.closing.notify_one();
    }

    async fn connect(&self) -> Result<TcpStream, CallError> {
        let connecting = async {
            let stream = TcpStream::connect(&self.addr).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let failed = |detail| CallError::Connect {
            addr: self.addr.clone(),
            detail,
        };
        match timeout(self.connect_timeout, connecting).await {
            Ok(connected) => connected.map_err(|error: std::io::Error| failed(error.to_string())),
            Err(_) => Err(failed(format!(
                "nothing answered within {:?}",
                self.connect_timeout
            ))),
        }
    }

    /// Waits until a frame may be queued, and holds the lock for it. A link that is not written as fast as it is
    /// filled makes its callers wait here, with nothing of theirs in memory but what they hold themselves.
    async fn with_room(&self) -> Result<MutexGuard<'_, State>, CallError> {
        loop {
            // Made before the look, so that no news between look and wait is lost.
            let room = self.room.notified();
            {
                let state = self.lock();
                if let Some(closed) = &state.closed {
                    return Err(closed.clone());
                }
                if state.out.len() < self.frame_bytes_max {
                    return Ok(state);
                }
            }
            room.await;
        }
    }

    fn append(
        &self,
        state: &mut State,
        encoding: Encoding,
        kind: FrameKind<'_>,
        payload: &[u8],
    ) -> Result<(), CallError> {
        let was_empty = state.out.is_empty();
        write_frame(&mut state.out, encoding, kind, payload).map_err(|error| {
            let (FrameKind::Twoway { method, .. } | FrameKind::Oneway { method }) = kind else {
                return CallError::Unsendable {
                    method: String::new(),
                    detail: error.to_string(),
                };
            };
            CallError::Unsendable {
                method: method.to_owned(),
                detail: error.to_string(),
            }
        })?;
        if was_empty {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// What a server would close the connection for is refused here: the calls of others are on it too.
    fn check_size(&self, method: &str, payload: &[u8]) -> Result<(), CallError> {
        let refuse = |detail| {
            Err(CallError::Unsendable {
                method: method.to_owned(),
                detail,
            })
        };
        let bytes = FRAME_HEAD_BYTES + method.len() + payload.len();
        if payload.is_empty() {
            return refuse(
                "the payload is empty; expected a map (an empty one is the byte 80, or {})".to_owned(),
            );
        }
        if bytes > self.frame_bytes_max {
            let limit = self.frame_bytes_max;
            return refuse(format!(
                "its frame is {bytes} bytes, over the limit of {limit}; split it, or raise Options::frame_bytes_max"
            ));
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.lock().closed.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A number that no waiting call has.
    fn give_seq(&mut self) -> u32 {
        loop {
            let seq = self.seq_next;
            self.seq_next = seq.wrapping_add(1);
            self.issued += 1;
            if !self.pending.contains_key(&seq) {
                return seq;
            }
        }
    }

    /// Whether this connection has given out `seq`.
    fn has_issued(&self, seq: u32) -> bool {
        u64::from(seq.wrapping_sub(self.seq_first)) < self.issued
    }
}

/// One call counted on a link, for as long as it lives.
pub(crate) struct Reserved {
    /// The link it is counted on.
    pub(crate) link: Arc<Link>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.link.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes the caller's entry back when it stops waiting: its deadline passed, or its future was dropped.
struct Registered<'l> {
    link: &'l Link,
    /// `None` once the answer came.
    seq: Option<u32>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if let Some(seq) = self.seq {
            self.link.lock().pending.remove(&seq);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use tokio::net::TcpListener;

    async fn open_link() -> (Arc<Link>, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let link = Arc::new(Link::new(&addr, &Options::default()));
        link.open().await.unwrap();
        (link, listener)
    }

    #[tokio::test]
    async fn a_caller_that_leaves_takes_its_entry_along() {
        let (link, _listener) = open_link().await;
        tokio::time::pause();
        let call = link.call(Encoding::Msgpack, "m", &[0x80]);
        timeout(Duration::from_secs(1), call).await.err().unwrap();
        assert!(link.lock().pending.is_empty());
    }

    #[tokio::test]
    async fn numbers_wrap_around_those_that_wait() {
        let (link, _listener) = open_link().await;
        let mut state = link.lock();
        (state.seq_first, state.seq_next) = (u32::MAX, u32::MAX);
        state.pending.insert(0, oneshot::channel().0);
        assert_eq!([state.give_seq(), state.give_seq()], [u32::MAX, 1]);
        assert!([u32::MAX, 0, 1].into_iter().all(|seq| state.has_issued(seq)));
        assert!([u32::MAX - 1, 2].into_iter().all(|seq| !state.has_issued(seq)));
    }
}
