//! The few clocks of a net thread: coarse, and shared by all its connections.
//!
//! Connections that linger or are refused wait in two queues, each in the order of their ends; those that wait for answers to
//! pushes have an entry for the first of them. Everything else is looked at in sweeps, a part of all connections a second, so
//! that an idle connection arms nothing. It reads no clock: the loop says
//! what time it is. Its invariant: a thread without connections is never woken by it.

use crate::mailbox::Key;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

/// How long a closing connection is drained, so that a reset does not overtake the last answer.
const LINGER: Duration = Duration::from_secs(1);
/// How long a refused connection may take to send the request that is answered `Overloaded`.
const REFUSAL_WAIT: Duration = Duration::from_secs(5);
/// From one sweep to the next.
const TICK: Duration = Duration::from_secs(1);
/// What waits for an answer is looked at no more often than this.
const ANSWER_TICK: Duration = Duration::from_millis(100);
/// Ends of waits that may be remembered in vain, beside one a connection.
const AWAITED_SPARE: usize = 64;
/// Sweeps that go once over all connections.
const SWEEPS: usize = 4;

/// How long a peer may keep this server waiting; zero is for ever. Each is kept to within five seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without a request.
    pub idle: Duration,
    /// From the first byte of a request to its last.
    pub request: Duration,
    /// Without taking a byte of the answers that wait for it.
    pub write: Duration,
}

impl Default for Patience {
    /// FPNN's minute without a request (fpnn-wire.md, 1.2), and half of it for the others.
    fn default() -> Patience {
        Patience {
            idle: Duration::from_secs(60),
            request: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// For which of them a peer's time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    Idle,
    Request,
    Write,
}

/// What a connection remembers, in whole seconds of its thread's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ages {
    /// The last request, or the last answer's leaving.
    pub(crate) active_s: u32,
    /// When the request that is not whole began.
    pub(crate) partial_s: Option<u32>,
    /// The last byte that the peer took, while more wait for it.
    pub(crate) stuck_s: Option<u32>,
}

impl Ages {
    /// What is up at `now_s`; `works` says that calls of the connection are in flight.
    pub(crate) fn overdue(&self, patience: &Patience, now_s: u32, works: bool) -> Option<Overdue> {
        let past = |since: u32, limit: Duration| {
            !limit.is_zero() && u64::from(now_s.saturating_sub(since)) > limit.as_secs()
        };
        match (self.stuck_s, self.partial_s) {
            (Some(since), _) if past(since, patience.write) => Some(Overdue::Write),
            (_, Some(since)) if past(since, patience.request) => Some(Overdue::Request),
            (None, None) if !works && past(self.active_s, patience.idle) => Some(Overdue::Idle),
            _ => None,
        }
    }
}

/// A part of the slots, to be looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub(crate) now_s: u32,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Nanoseconds since the thread's clock started. A turn compares a few of them, which as an `Instant` would take ten times as long.
type Nanos = u64;

/// A net thread's clocks.
#[derive(Debug)]
pub(crate) struct Timers {
    started: Instant,
    now: Instant,
    /// The same since the start.
    now_ns: Nanos,
    sweeps: bool,
    /// When the next sweep is due.
    sweep_ns: Nanos,
    part: usize,
    lingering: VecDeque<(Nanos, Key)>,
    refused: VecDeque<(Nanos, Key)>,
    /// Slot and generation of connections that wait for answers, the first end in front; several a connection, sometimes.
    awaiting: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
}

fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Timers {
    pub(crate) fn start(patience: Patience, now: Instant) -> Timers {
        let Patience { idle, request, write } = patience;
        Timers {
            started: now,
            now,
            now_ns: 0,
            sweeps: !(idle.is_zero() && request.is_zero() && write.is_zero()),
            sweep_ns: nanos(TICK),
            part: 0,
            lingering: VecDeque::new(),
            refused: VecDeque::new(),
            awaiting: BinaryHeap::new(),
        }
    }

    /// Tells it the time.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.now_ns = nanos(now.saturating_duration_since(self.started));
    }

    /// Whole seconds since the start.
    pub(crate) fn now_s(&self) -> u32 {
        (self.now_ns / nanos(Duration::from_secs(1))) as u32
    }

    /// Gives a connection its last second.
    pub(crate) fn linger(&mut self, key: Key) {
        self.lingering.push_back((self.now_ns + nanos(LINGER), key));
    }

    /// The connection that has lingered for longest has done so for long enough; it may be gone already.
    pub(crate) fn end_oldest_lingering(&mut self) -> Option<Key> {
        self.lingering.pop_front().map(|(_, key)| key)
    }

    /// Gives a refused connection its five.
    pub(crate) fn refuse(&mut self, key: Key) {
        self.refused.push_back((self.now_ns + nanos(REFUSAL_WAIT), key));
    }

    /// A connection waits for an answer until then; the end is put off to the next tick, so that those near each other are one.
    pub(crate) fn await_answer(&mut self, until: Instant, key: Key) {
        let end = self.end_of_tick(until);
        self.awaiting.push(Reverse((end, key.slot, key.generation)));
    }

    fn end_of_tick(&self, until: Instant) -> Nanos {
        let since = nanos(until.saturating_duration_since(self.started));
        since
            .div_ceil(nanos(ANSWER_TICK))
            .saturating_mul(nanos(ANSWER_TICK))
    }

    /// Forgets the ends that were put off or whose connections are gone, once there are many more than connections: whoever asks
    /// chooses how long, and each shorter time is an entry that would stay until its end. `until` says until when a connection
    /// waits.
    pub(crate) fn keep_few_awaited(&mut self, connections: usize, until: impl Fn(Key) -> Option<Instant>) {
        if self.awaiting.len() <= 2 * connections + AWAITED_SPARE {
            return;
        }
        let mut ends = std::mem::take(&mut self.awaiting).into_vec();
        ends.retain(|Reverse((end, slot, generation))| {
            let (slot, generation) = (*slot, *generation);
            until(Key { slot, generation }).is_some_and(|until| self.end_of_tick(until) == *end)
        });
        ends.sort_unstable();
        ends.dedup();
        ends.shrink_to(2 * connections + AWAITED_SPARE);
        self.awaiting = ends.into();
    }

    /// A connection that may have waited long enough for an answer, and what time it is; it may be gone already.
    pub(crate) fn answers_due(&mut self) -> Option<(Key, Instant)> {
        let Reverse((end, slot, generation)) = *self.awaiting.peek()?;
        if end > self.now_ns {
            return None;
        }
        self.awaiting.pop();
        Some((Key { slot, generation }, self.now))
    }

    /// How long nothing of all this is due; for ever where there is nothing.
    pub(crate) fn next(&self, connections: usize) -> Option<Duration> {
        let end = |front: Option<&(Nanos, Key)>| front.map_or(Nanos::MAX, |(end, _)| *end);
        let sweep = if self.sweeps && connections > 0 {
            self.sweep_ns
        } else {
            Nanos::MAX
        };
        let answers = self.awaiting.peek().map_or(Nanos::MAX, |Reverse((end, ..))| *end);
        let first = end(self.lingering.front())
            .min(end(self.refused.front()))
            .min(sweep)
            .min(answers);
        (first < Nanos::MAX).then(|| Duration::from_nanos(first.saturating_sub(self.now_ns)))
    }

    /// A connection whose time of lingering, or of being refused, is over; it may be gone already.
    pub(crate) fn expired(&mut self) -> Option<Key> {
        for queue in [&mut self.lingering, &mut self.refused] {
            if queue.front().is_some_and(|(end, _)| *end <= self.now_ns) {
                return queue.pop_front().map(|(_, key)| key);
            }
        }
        None
    }

    /// The slots to look at now, of `slots` in all; nothing between two ticks.
    pub(crate) fn sweep(&mut self, slots: usize) -> Option<Sweep> {
        if !self.sweeps || self.now_ns < self.sweep_ns {
            return None;
        }
        self.sweep_ns = self.now_ns + nanos(TICK);
        self.part = (self.part + 1) % SWEEPS;
        let at = |part: usize| slots * part / SWEEPS;
        Some(Sweep {
            now_s: self.now_s(),
            from: at(self.part),
            to: at(self.part + 1),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(slot: usize) -> Key {
        Key { slot, generation: 1 }
    }

    #[test]
    fn nothing_is_armed_for_a_thread_without_connections() {
        let start = Instant::now();
        let mut timers = Timers::start(Patience::default(), start);
        assert_eq!(timers.next(0), None);
        assert_eq!(timers.next(1), Some(TICK));
        let never = Patience {
            idle: Duration::ZERO,
            request: Duration::ZERO,
            write: Duration::ZERO,
        };
        assert_eq!(Timers::start(never, start).next(1_000_000), None);
        timers.linger(key(3));
        assert_eq!(timers.next(0), Some(LINGER));
    }

    #[test]
    fn ends_come_in_their_order() {
        let start = Instant::now();
        let mut timers = Timers::start(Patience::default(), start);
        timers.refuse(key(1));
        timers.set_now(start + Duration::from_millis(4500));
        timers.linger(key(2));
        assert_eq!(timers.expired(), None);
        timers.set_now(start + Duration::from_secs(5));
        assert_eq!(timers.expired(), Some(key(1)));
        assert_eq!(timers.expired(), None);
        timers.set_now(start + Duration::from_secs(6));
        assert_eq!(timers.expired(), Some(key(2)));
    }

    #[test]
    fn answers_are_awaited_to_the_end_of_their_tick() {
        let start = Instant::now();
        let mut timers = Timers::start(Patience::default(), start);
        let at = |ms| start + Duration::from_millis(ms);
        timers.await_answer(at(1950), key(1));
        timers.await_answer(at(301), key(2));
        timers.await_answer(at(400), key(3));
        assert_eq!(timers.next(0), Some(Duration::from_millis(400)));
        timers.set_now(at(399));
        assert_eq!(timers.answers_due(), None);
        timers.set_now(at(401));
        let due: Vec<usize> = std::iter::from_fn(|| timers.answers_due())
            .map(|(key, _)| key.slot)
            .collect();
        assert_eq!(due, [2, 3]);
        timers.set_now(at(2000));
        assert_eq!(timers.answers_due(), Some((key(1), at(2000))));
        assert_eq!(timers.next(0), None);
    }

    #[test]
    fn ends_that_were_put_off_are_few() {
        let start = Instant::now();
        let mut timers = Timers::start(Patience::default(), start);
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut last = [at(0); 4];
        // The fourth has gone.
        let waits = |last: [Instant; 4], key: Key| (key.slot < 3).then(|| last[key.slot]);
        for seconds in (1000..80_000).rev() {
            let slot = seconds as usize % 4;
            last[slot] = at(seconds);
            timers.await_answer(at(seconds), key(slot));
            // In the same tick.
            timers.await_answer(at(seconds) - Duration::from_micros(1), key(slot));
            timers.keep_few_awaited(3, |key| waits(last, key));
            assert!(timers.awaiting.len() <= 2 * 3 + AWAITED_SPARE);
        }
        timers.set_now(at(1003));
        let due: std::collections::BTreeSet<usize> = std::iter::from_fn(|| timers.answers_due())
            .map(|(key, _)| key.slot)
            .collect();
        assert!(due.is_superset(&[0, 1, 2].into()), "{due:?}");
    }

    #[test]
    fn sweeps_see_every_slot_once_a_round() {
        let start = Instant::now();
        let mut timers = Timers::start(Patience::default(), start);
        let mut seen = [0; 10];
        assert_eq!(timers.sweep(10), None);
        for second in 1..=4 {
            timers.set_now(start + Duration::from_secs(second));
            let Sweep { from, to, now_s } = timers.sweep(10).unwrap();
            assert_eq!(u64::from(now_s), second);
            (from..to).for_each(|slot| seen[slot] += 1);
            assert_eq!(timers.sweep(10), None);
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn a_peer_is_overdue_for_what_it_keeps_waiting() {
        let patience = Patience {
            idle: Duration::from_secs(60),
            request: Duration::from_secs(30),
            write: Duration::from_secs(10),
        };
        let mut ages = Ages {
            active_s: 100,
            ..Ages::default()
        };
        assert_eq!(ages.overdue(&patience, 160, false), None);
        assert_eq!(ages.overdue(&patience, 161, false), Some(Overdue::Idle));
        assert_eq!(
            ages.overdue(&patience, 161, true),
            None,
            "it waits for this server"
        );
        ages.partial_s = Some(120);
        assert_eq!(ages.overdue(&patience, 151, false), Some(Overdue::Request));
        ages.stuck_s = Some(145);
        assert_eq!(
            ages.overdue(&patience, 155, true),
            Some(Overdue::Request),
            "answers that wait are no excuse"
        );
        assert_eq!(ages.overdue(&patience, 156, true), Some(Overdue::Write));
        ages.partial_s = None;
        assert_eq!(ages.overdue(&patience, 155, true), None);
        assert_eq!(ages.overdue(&patience, 155, false), None, "it is not idle either");
        let endless = Patience {
            write: Duration::ZERO,
            ..patience
        };
        assert_eq!(ages.overdue(&endless, u32::MAX, true), None);
    }
}
