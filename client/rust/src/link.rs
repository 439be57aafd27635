//! One place of the pool: a connection, what waits to be written to it, and who waits for its answers.
//!
//! A link outlives its connections: when one closes, another is opened in its place (`dial.rs`). The task that reads and
//! writes the socket is in `stream.rs`; here is what callers touch. Its invariant: under one lock, a call is either
//! registered on an open connection or not sent, so that closing one finds every caller that waits on it.

mod dial;
mod pushes;
mod stream;

use crate::CallError;
use crate::address::Address;
use crate::backoff::Waits;
use crate::pool::Terms;
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

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

/// How a call ended without an answer.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The connection had closed before anything of the call was written.
    NotSent,
    /// For good.
    Failed(CallError),
}

/// Whether calls can go to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    Open,
    Opening,
    Down,
}

type Waiter = oneshot::Sender<Result<Answer, CallError>>;

/// A connection that is opened again when it has closed.
pub(crate) struct Link {
    address: Address,
    terms: Arc<Terms>,
    /// Calls under way, also those that still wait for space: what the pool chooses by.
    outstanding: AtomicUsize,
    /// `State::phase` as a [`Standing`], for those who choose a link without its lock. Written under the lock.
    standing: AtomicU8,
    state: Mutex<State>,
    /// Tells the writer that `State::out` is no longer empty, or that the link is closing.
    wake: Notify,
    /// Tells callers that `State::out` has been taken, or that the connection closed.
    space: Notify,
    /// Tells the connection's task that nobody needs it any more.
    closing: Notify,
    /// Frames that came on this connection. The first proves that the peer serves the connections that it accepts.
    frames_in: AtomicU64,
    /// Answers that came after their caller had gone.
    late_answers: AtomicU64,
    /// Places for the server's calls that are being worked on.
    pushes: Arc<Semaphore>,
    /// Calls of the server's that found no place.
    pushes_refused: AtomicU64,
}

/// What callers and the connection's task share.
struct State {
    phase: Phase,
    /// Nobody needs the link any more: what is queued may still be written, then the connection ends.
    closing: bool,
    /// Counts the connections: tells the one that a call of the server's came over from those that follow it.
    connection: u64,
    /// Whole frames to write. Callers append while the writer writes the batch before.
    out: Vec<u8>,
    /// Who waits for which answer.
    pending: HashMap<u32, Waiter>,
    /// The number of the next call. It goes on over reconnects, so that a caller never takes back another's entry.
    seq_next: u32,
    /// The number of this connection's first call, and how many it has given out: tells late answers from made-up ones.
    seq_first: u32,
    issued: u64,
    waits: Waits,
}

/// What the link's task is doing; there is none while it is closed and not waiting to open again by itself.
enum Phase {
    /// Since when.
    Open(Instant),
    Opening,
    Closed {
        cause: CallError,
        /// No attempt before this.
        try_at: Instant,
    },
}

impl Link {
    /// A link that has no connection yet; `at` is its number in the pool.
    pub(crate) fn new(address: Address, at: usize, terms: Arc<Terms>) -> Link {
        let cause = CallError::Closed {
            addr: address.text.clone(),
            detail: "it was never open".to_owned(),
        };
        let phase = Phase::Closed {
            cause,
            try_at: Instant::now(),
        };
        let waits = Waits::new(&terms.options.backoff, at);
        let pushes_max = terms.options.pushes_max.clamp(1, Semaphore::MAX_PERMITS);
        Link {
            address,
            terms,
            outstanding: AtomicUsize::new(0),
            standing: AtomicU8::new(Standing::Down as u8),
            state: Mutex::new(State {
                phase,
                closing: false,
                connection: 0,
                out: Vec::new(),
                pending: HashMap::new(),
                seq_next: 1,
                seq_first: 1,
                issued: 0,
                waits,
            }),
            wake: Notify::new(),
            space: Notify::new(),
            closing: Notify::new(),
            frames_in: AtomicU64::new(0),
            late_answers: AtomicU64::new(0),
            pushes: Arc::new(Semaphore::new(pushes_max)),
            pushes_refused: AtomicU64::new(0),
        }
    }

    /// Whether calls can go here. A link that has closed and may be tried is opened on the way, if `may_open`.
    pub(crate) fn standing(self: &Arc<Self>, may_open: bool) -> Standing {
        match self.standing.load(Ordering::Acquire) {
            standing if standing == Standing::Open as u8 => Standing::Open,
            standing if standing == Standing::Opening as u8 => Standing::Opening,
            _ if may_open && self.begin(Instant::now()) => {
                tokio::spawn(dial::drive(dial::Ending::new(self.clone())));
                Standing::Opening
            }
            _ => Standing::Down,
        }
    }

    /// Why there is no connection, and when the next try is.
    pub(crate) fn why_down(&self) -> CallError {
        let state = self.lock();
        let detail = match &state.phase {
            _ if state.closing => "this client was closed",
            Phase::Closed { cause, try_at } => {
                return cause.seen_before_next_try(try_at.saturating_duration_since(Instant::now()));
            }
            Phase::Open(_) | Phase::Opening => "connections closed again while the call waited for them",
        };
        CallError::Connect {
            addr: self.address.text.clone(),
            detail: detail.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    /// Where it connects to.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Calls under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Answers that came after their caller had gone.
    pub(crate) fn late_answers(&self) -> u64 {
        self.late_answers.load(Ordering::Relaxed)
    }

    /// Calls of the server's that found no place.
    pub(crate) fn pushes_refused(&self) -> u64 {
        self.pushes_refused.load(Ordering::Relaxed)
    }

    /// Counts one more call, unless `max` are under way.
    pub(crate) fn reserve(self: &Arc<Self>, max: usize) -> Option<Reserved> {
        let more = |count| (count < max).then_some(count + 1);
        self.outstanding
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Reserved { link: self.clone() })
    }

    /// Sends a call and waits for its answer.
    pub(crate) async fn call(
        &self,
        encoding: Encoding,
        method: &str,
        payload: &[u8],
    ) -> Result<Answer, Ended> {
        self.check_size(method, payload)?;
        let (waiter, answer) = oneshot::channel();
        let seq = {
            let mut state = self.with_space().await?;
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
        let dropped = || Err(self.closed("its answer was dropped"));
        answer.unwrap_or_else(|_| dropped()).map_err(Ended::Failed)
    }

    /// Queues a call that has no answer.
    pub(crate) async fn oneway(&self, encoding: Encoding, method: &str, payload: &[u8]) -> Result<(), Ended> {
        self.check_size(method, payload)?;
        let mut state = self.with_space().await?;
        self.append(&mut state, encoding, FrameKind::Oneway { method }, payload)
    }

    /// Nobody needs the link any more: lets the connection's task write what is queued and end.
    pub(crate) fn retire(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
        self.closing.notify_one();
    }

    /// From closed to opening, if an attempt may be made at `now`. A caller that gets true must make a [`dial::Ending`].
    fn begin(&self, now: Instant) -> bool {
        let mut state = self.lock();
        match &state.phase {
            Phase::Closed { try_at, .. } if !state.closing && *try_at <= now => {
                self.enter(&mut state, Phase::Opening);
                true
            }
            _ => false,
        }
    }

    fn enter(&self, state: &mut State, phase: Phase) {
        let standing = match &phase {
            Phase::Open(_) => Standing::Open,
            Phase::Opening => Standing::Opening,
            Phase::Closed { .. } => Standing::Down,
        };
        state.phase = phase;
        self.standing.store(standing as u8, Ordering::Release);
    }

    /// Waits until a frame may be queued, and holds the lock for it. A link that is not written as fast as it is
    /// filled makes its callers wait here, with nothing of theirs in memory but what they hold themselves.
    async fn with_space(&self) -> Result<MutexGuard<'_, State>, Ended> {
        loop {
            // Made before the look, so that no news between look and wait is lost.
            let space = self.space.notified();
            {
                let state = self.lock();
                if state.closing || !matches!(state.phase, Phase::Open(_)) {
                    return Err(Ended::NotSent);
                }
                if state.out.len() < self.frame_bytes_max() {
                    return Ok(state);
                }
            }
            space.await;
        }
    }

    fn append(
        &self,
        state: &mut State,
        encoding: Encoding,
        kind: FrameKind<'_>,
        payload: &[u8],
    ) -> Result<(), Ended> {
        let was_empty = state.out.is_empty();
        write_frame(&mut state.out, encoding, kind, payload).map_err(|error| {
            let method = match kind {
                FrameKind::Twoway { method, .. } | FrameKind::Oneway { method } => method,
                FrameKind::Answer { .. } => "",
            };
            unsendable(method, error.to_string())
        })?;
        if was_empty {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// What a server would close the connection for is refused here: the calls of others are on it too.
    fn check_size(&self, method: &str, payload: &[u8]) -> Result<(), Ended> {
        let bytes = FRAME_HEAD_BYTES + method.len() + payload.len();
        let limit = self.frame_bytes_max();
        if payload.is_empty() {
            let detail = "the payload is empty; expected a map (an empty one is the byte 80, or {})";
            return Err(unsendable(method, detail.to_owned()));
        }
        if bytes > limit {
            let detail = format!(
                "its frame is {bytes} bytes, over the limit of {limit}; split it, or raise Options::frame_bytes_max"
            );
            return Err(unsendable(method, detail));
        }
        Ok(())
    }

    fn frame_bytes_max(&self) -> usize {
        self.terms.options.frame_bytes_max
    }

    fn keep_alive_interval(&self) -> Option<Duration> {
        self.terms
            .options
            .keep_alive
            .filter(|interval| !interval.is_zero())
    }

    fn closed(&self, detail: impl Into<String>) -> CallError {
        CallError::Closed {
            addr: self.address.text.clone(),
            detail: detail.into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unsendable(method: &str, detail: String) -> Ended {
    let method = method.to_owned();
    Ended::Failed(CallError::Unsendable { method, detail })
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
    use crate::Options;
    use crate::pool::Pool;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    async fn open_link() -> (Arc<Link>, Pool, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let pool = Pool::new(&addr, Options::default()).unwrap();
        pool.open().await.unwrap();
        (pool.links()[0].clone(), pool, listener)
    }

    #[tokio::test]
    async fn a_caller_that_leaves_takes_its_entry_along() {
        let (link, _pool, _listener) = open_link().await;
        tokio::time::pause();
        let call = link.call(Encoding::Msgpack, "m", &[0x80]);
        timeout(Duration::from_secs(1), call).await.err().unwrap();
        assert!(link.lock().pending.is_empty());
    }

    #[tokio::test]
    async fn numbers_wrap_around_those_that_wait() {
        let (link, _pool, _listener) = open_link().await;
        let mut state = link.lock();
        (state.seq_first, state.seq_next) = (u32::MAX, u32::MAX);
        state.pending.insert(0, oneshot::channel().0);
        assert_eq!([state.give_seq(), state.give_seq()], [u32::MAX, 1]);
        assert!([u32::MAX, 0, 1].into_iter().all(|seq| state.has_issued(seq)));
        assert!([u32::MAX - 1, 2].into_iter().all(|seq| !state.has_issued(seq)));
    }
}
