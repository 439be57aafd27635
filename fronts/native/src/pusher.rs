//! Calls in the other direction, over FPNN: the [`Push`] of a connection.
//!
//! A push goes through the mailbox of the connection's net thread: in order with the answers of tickets, and after an answer
//! that was made on the spot. Its invariants: callbacks run under no lock; a number is not used again while its answer is
//! awaited; and the pushes that await an answer are bounded.
//! Source: FPNN (github.com/highras/fpnn), core/IQuestProcessor.h.

use super::NativeOptions;
use millpond_calls::{OnAnswer, Push, PushAnswer, PushError};
use millpond_net::{PushOutlet, Unsent, limited};
use millpond_threads::contain;
use millpond_wire_frame::websocket::{begin_message, finish_message};
use millpond_wire_frame::{FrameKind, write_frame};
use millpond_wire_payload::Encoding;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a frame beside its method and payload.
const HEADER_BYTES: usize = 16;
/// Bytes of the head of a WebSocket's message at most.
const MESSAGE_BYTES: usize = 10;
/// Bytes of a method's name: a frame has one byte for its length.
const METHOD_BYTES_MAX: usize = 255;
/// Pushes of all connections that wait for an answer.
const PUSHES_TOTAL_MAX: usize = 65_536;
/// Bytes that they take: each its place among those of its connection, and what the answer is for.
pub const PUSH_BYTES_MAX: u64 = (PUSHES_TOTAL_MAX as u64) << 10;
/// How long one waits that names no time of its own: the five seconds of FPNN's core/Config.h.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Lines of the log.
const PANICKED: &str = "panics of receivers of a peer's answer";
/// A timeout longer than this is this.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// What the pushers of a connection and its session share.
#[derive(Debug)]
pub(crate) struct Line {
    options: Arc<NativeOptions>,
    /// Frames are messages of a WebSocket.
    in_message: bool,
    outlet: PushOutlet,
    calls: Mutex<Calls>,
}

/// The calls of one connection to its peer.
#[derive(Debug, Default)]
struct Calls {
    /// No push goes out any more.
    closed: bool,
    /// The last number used; 0 is none.
    last: u32,
    /// The numbers have begun again: any of them was used once.
    wrapped: bool,
    waiting: BTreeMap<u32, Waiting>,
}

impl Calls {
    /// The next number, from 1 as FPNN's servers count; fewer are awaited than there are.
    fn number(&mut self) -> u32 {
        loop {
            self.last = self.last.checked_add(1).unwrap_or_else(|| {
                self.wrapped = true;
                1
            });
            if !self.waiting.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn was_used(&self, number: u32) -> bool {
        number != 0 && (self.wrapped || number <= self.last)
    }
}

impl Line {
    pub(crate) fn new(options: Arc<NativeOptions>, in_message: bool, outlet: PushOutlet) -> Line {
        Line {
            options,
            in_message,
            outlet,
            calls: Mutex::default(),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No answer will come any more: every push that awaits one fails.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut calls = self.calls();
            calls.closed = true;
            std::mem::take(&mut calls.waiting)
        };
        drop(waiting);
    }

    /// Whether an answer of the peer is awaited.
    pub(crate) fn awaits_peer(&self) -> bool {
        !self.calls().waiting.is_empty()
    }

    /// Takes the peer's answer; false if nothing was ever asked under that number.
    pub(crate) fn take_answer(&self, seq: u32, answer: PushAnswer<'_>) -> bool {
        let waiting = {
            let mut calls = self.calls();
            if !calls.was_used(seq) {
                return false;
            }
            calls.waiting.remove(&seq)
        };
        let counters = &self.options.counters;
        match waiting {
            Some(mut waiting) => {
                counters.push_answers.fetch_add(1, Ordering::Relaxed);
                waiting.tell(Ok(answer));
            }
            None => {
                counters.push_answers_late.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }

    /// Fails the pushes whose time is up; when to look again.
    pub(crate) fn time_out(&self, now: Instant) -> Option<Instant> {
        let late: Vec<(u32, Waiting)> = {
            let mut calls = self.calls();
            let late = calls.waiting.extract_if(.., |_, waiting| waiting.until <= now);
            late.collect()
        };
        let timeouts = &self.options.counters.push_timeouts;
        for (_, mut waiting) in late {
            timeouts.fetch_add(1, Ordering::Relaxed);
            let after = waiting.after;
            waiting.tell(Err(PushError::TimedOut { after }));
        }
        self.calls().waiting.values().map(|waiting| waiting.until).min()
    }

    /// Sends a call; `waiting`, if there is one, is taken until its answer comes, and left where nothing is sent.
    fn send(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
        waiting: &mut Option<Waiting>,
    ) -> Result<(), PushError> {
        if method.is_empty() || method.len() > METHOD_BYTES_MAX {
            let bytes = method.len();
            return Err(PushError::Method { bytes });
        }
        let bytes_max = HEADER_BYTES + method.len() + payload.len();
        let limit = self.options.limits.frame_bytes_max;
        if bytes_max > limit {
            let bytes = bytes_max;
            return Err(PushError::TooLarge { bytes, limit });
        }
        let wake_at = waiting.as_ref().map(|waiting| waiting.until);
        let seq = self.register(waiting)?;
        let kind = match seq {
            None => FrameKind::Oneway { method },
            Some(seq) => FrameKind::Twoway { method, seq },
        };
        let mut bytes = Vec::with_capacity(bytes_max + MESSAGE_BYTES);
        let message = self.in_message.then(|| begin_message(&mut bytes, None));
        // Its lengths are those of a frame.
        let _ = write_frame(&mut bytes, encoding, kind, payload);
        if let Some(message) = message {
            finish_message(&mut bytes, message);
        }
        let sent = self.outlet.send(bytes, wake_at);
        if sent.is_err()
            && let Some(seq) = seq
        {
            *waiting = self.calls().waiting.remove(&seq);
        }
        sent.map_err(|error| match error {
            Unsent::Closed => PushError::Closed,
            Unsent::Full(why) => PushError::Overloaded(why),
        })?;
        self.options.counters.pushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Numbers a push that awaits an answer.
    fn register(&self, waiting: &mut Option<Waiting>) -> Result<Option<u32>, PushError> {
        let mut calls = self.calls();
        let limit = self.options.pushes_max;
        if calls.closed {
            return Err(PushError::Closed);
        }
        if waiting.is_some() && calls.waiting.len() >= limit {
            let why =
                format!("{limit} pushes wait for the peer's answers already; push less, or wait for them");
            return Err(PushError::Overloaded(why));
        }
        Ok(waiting.take().map(|waiting| {
            let seq = calls.number();
            calls.waiting.insert(seq, waiting);
            seq
        }))
    }
}

/// A push that awaits its answer; dropped without one, it fails with `Closed`.
struct Waiting {
    until: Instant,
    after: Duration,
    on_answer: Option<OnAnswer>,
    options: Arc<NativeOptions>,
    /// Its connection's way, for the log.
    outlet: PushOutlet,
}

impl Waiting {
    /// Runs the callback. It is the caller's code: a panic in it ends nothing else.
    fn tell(&mut self, result: Result<PushAnswer<'_>, PushError>) {
        let Some(on_answer) = self.on_answer.take() else {
            return;
        };
        // Counted out first: the callback may push again.
        let waiting = &self.options.counters.pushes_waiting;
        waiting.fetch_sub(1, Ordering::Relaxed);
        if let Err(panic) = contain(|| on_answer(result)) {
            limited!(error, self.outlet.counters().quiet, PANICKED, [%panic], "the receiver of a peer's answer panicked");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.tell(Err(PushError::Closed));
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Waiting")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl Push for Line {
    fn tell(&self, method: &str, encoding: Encoding, payload: &[u8]) -> Result<(), PushError> {
        self.send(method, encoding, payload, &mut None)
    }

    fn ask(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
        timeout: Option<Duration>,
        on_answer: OnAnswer,
    ) {
        let waiting = &self.options.counters.pushes_waiting;
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let after = timeout.unwrap_or(TIMEOUT).min(TIMEOUT_MAX);
        let mut waiting = Some(Waiting {
            until: Instant::now() + after,
            after,
            on_answer: Some(on_answer),
            options: Arc::clone(&self.options),
            outlet: self.outlet.clone(),
        });
        let limit = PUSHES_TOTAL_MAX;
        let sent = match before < limit as u64 {
            true => self.send(method, encoding, payload, &mut waiting),
            false => Err(PushError::Overloaded(format!(
                "{limit} pushes of all connections wait for their peers' answers already; push less, or wait for them"
            ))),
        };
        if let (Err(error), Some(mut waiting)) = (sent, waiting) {
            waiting.tell(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_one_and_are_not_used_twice_at_a_time() {
        let mut calls = Calls::default();
        assert!(!calls.was_used(0) && !calls.was_used(1));
        assert_eq!((calls.number(), calls.number()), (1, 2));
        assert!(calls.was_used(2) && !calls.was_used(3) && !calls.was_used(0));
        calls.last = u32::MAX - 1;
        assert_eq!((calls.number(), calls.number()), (u32::MAX, 1));
        assert!(calls.was_used(u32::MAX) && calls.was_used(77) && !calls.was_used(0));
    }
}
