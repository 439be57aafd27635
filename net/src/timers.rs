//! The few clocks of a net thread: coarse, and shared by all its connections.
//!
//! A connection has one timer, while it lingers, is refused or its session asks for it; everything else is looked at in sweeps, a
//! part of all connections a second, so that an idle connection arms nothing. It reads no clock: the loop says
//! what time it is. Its invariant: a thread without connections is never woken by it.

use crate::mailbox::Key;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

/// From one sweep to the next.
const TICK: Duration = Duration::from_secs(1);
/// Connections' timers end no more often than this.
const END_TICK: Duration = Duration::from_millis(100);
/// Sweeps that go once over all connections.
const SWEEPS: usize = 4;

/// How long a peer may keep this server waiting; zero is for ever. Each is kept to within five seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Without a request.
    pub idle: Duration,
    /// From the first byte of a request to its last.
    pub request: Duration,
    /// Without taking a byte of the answers that wait for it.
    pub write: Duration,
}

impl Default for Timeouts {
    /// FPNN's minute without a request (its core/Config.h), and half of it for the others.
    fn default() -> Timeouts {
        Timeouts {
            idle: Duration::from_secs(60),
            request: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// For which part of [`Timeouts`] a peer's time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// It asked nothing.
    Idle,
    /// It did not send the rest of a request.
    Request,
    /// It did not read its answers.
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
    pub(crate) fn overdue(&self, timeouts: &Timeouts, now_s: u32, works: bool) -> Option<Overdue> {
        let past = |since: u32, limit: Duration| {
            !limit.is_zero() && u64::from(now_s.saturating_sub(since)) > limit.as_secs()
        };
        match (self.stuck_s, self.partial_s) {
            (Some(since), _) if past(since, timeouts.write) => Some(Overdue::Write),
            (_, Some(since)) if past(since, timeouts.request) => Some(Overdue::Request),
            (None, None) if !works && past(self.active_s, timeouts.idle) => Some(Overdue::Idle),
            _ => None,
        }
    }
}

/// Nanoseconds since the thread's clock started. A turn compares a few of them, which as an `Instant` would take ten times as long.
pub(crate) type Nanos = u64;

/// A net thread's clocks.
#[derive(Debug)]
pub(crate) struct Timers {
    started: Instant,
    /// The time since then.
    now_ns: Nanos,
    sweeps: bool,
    /// When the next sweep is due.
    sweep_ns: Nanos,
    part: usize,
    /// Slot and generation of connections whose timers run, the first end in front.
    ends: BTreeSet<(Nanos, usize, u64)>,
}

fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Timers {
    pub(crate) fn start(timeouts: Timeouts, now: Instant) -> Timers {
        let Timeouts { idle, request, write } = timeouts;
        Timers {
            started: now,
            now_ns: 0,
            sweeps: !(idle.is_zero() && request.is_zero() && write.is_zero()),
            sweep_ns: nanos(TICK),
            part: 0,
            ends: BTreeSet::new(),
        }
    }

    /// Tells it the time.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now_ns = nanos(now.saturating_duration_since(self.started));
    }

    /// Whole seconds since the start.
    pub(crate) fn now_s(&self) -> u32 {
        (self.now_ns / nanos(Duration::from_secs(1))) as u32
    }

    /// Has a connection's timer end then, or not at all, in the place of its end before; it is put off to the next tick, so that those
    /// near each other are one. Returns the end, to be given back.
    pub(crate) fn set(&mut self, key: Key, before: Option<Nanos>, at: Option<Instant>) -> Option<Nanos> {
        let tick = nanos(END_TICK);
        let end = at.map(|at| {
            let since = nanos(at.saturating_duration_since(self.started));
            since.div_ceil(tick).saturating_mul(tick)
        });
        if end != before {
            let entry = |end| (end, key.slot, key.generation);
            before.map(|before| self.ends.remove(&entry(before)));
            end.map(|end| self.ends.insert(entry(end)));
        }
        end
    }

    /// A connection whose timer has ended.
    pub(crate) fn ended(&mut self) -> Option<Key> {
        let (end, slot, generation) = *self.ends.first()?;
        if end > self.now_ns {
            return None;
        }
        self.ends.pop_first();
        Some(Key { slot, generation })
    }

    /// The first of the connections with a timer that `is` so.
    pub(crate) fn first(&self, is: impl Fn(Key) -> bool) -> Option<Key> {
        let ends = self.ends.iter();
        let mut keys = ends.map(|&(_, slot, generation)| Key { slot, generation });
        keys.find(|key| is(*key))
    }

    /// How long nothing of all this is due; for ever where there is nothing.
    pub(crate) fn next(&self, connections: usize) -> Option<Duration> {
        let sweep = (self.sweeps && connections > 0).then_some(self.sweep_ns);
        let end = self.ends.first().map(|(end, ..)| *end);
        let first = sweep.into_iter().chain(end).min()?;
        Some(Duration::from_nanos(first.saturating_sub(self.now_ns)))
    }

    /// The slots to look at now, of `slots` in all; nothing between two ticks.
    pub(crate) fn sweep(&mut self, slots: usize) -> Option<Range<usize>> {
        if !self.sweeps || self.now_ns < self.sweep_ns {
            return None;
        }
        self.sweep_ns = self.now_ns + nanos(TICK);
        self.part = (self.part + 1) % SWEEPS;
        let at = |part: usize| slots * part / SWEEPS;
        Some(at(self.part)..at(self.part + 1))
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
        let mut timers = Timers::start(Timeouts::default(), start);
        assert_eq!(timers.next(0), None);
        assert_eq!(timers.next(1), Some(TICK));
        let never = Timeouts {
            idle: Duration::ZERO,
            request: Duration::ZERO,
            write: Duration::ZERO,
        };
        assert_eq!(Timers::start(never, start).next(1_000_000), None);
        timers.set(key(3), None, Some(start + TICK));
        assert_eq!(timers.next(0), Some(TICK));
    }

    #[test]
    fn timers_end_in_their_order_and_with_their_tick() {
        let start = Instant::now();
        let mut timers = Timers::start(Timeouts::default(), start);
        let at = |ms| Some(start + Duration::from_millis(ms));
        timers.set(key(1), None, at(1950));
        timers.set(key(2), None, at(301));
        timers.set(key(3), None, at(400));
        assert_eq!(timers.next(0), Some(Duration::from_millis(400)));
        timers.set_now(start + Duration::from_millis(399));
        assert_eq!(timers.ended(), None);
        timers.set_now(start + Duration::from_millis(401));
        let due: Vec<usize> = std::iter::from_fn(|| timers.ended())
            .map(|key| key.slot)
            .collect();
        assert_eq!(due, [2, 3]);
        assert_eq!(timers.first(|key| key.slot > 1), None);
        assert_eq!(timers.first(|_| true), Some(key(1)));
        timers.set_now(start + Duration::from_secs(2));
        assert_eq!(timers.ended(), Some(key(1)));
        assert_eq!(timers.next(0), None);
    }

    #[test]
    fn a_connection_has_one_end_however_often_it_is_set() {
        let start = Instant::now();
        let mut timers = Timers::start(Timeouts::default(), start);
        let mut last = [None; 4];
        for seconds in (1000..80_000).rev() {
            let slot = seconds as usize % 4;
            last[slot] = timers.set(key(slot), last[slot], Some(start + Duration::from_secs(seconds)));
            assert!(timers.ends.len() <= 4);
        }
        timers.set(key(3), last[3], None);
        timers.set_now(start + Duration::from_secs(1003));
        let due = std::iter::from_fn(|| timers.ended()).map(|key| key.slot);
        assert_eq!(due.collect::<Vec<usize>>(), [0, 1, 2]);
    }

    #[test]
    fn sweeps_see_every_slot_once_a_round() {
        let start = Instant::now();
        let mut timers = Timers::start(Timeouts::default(), start);
        let mut seen = [0; 10];
        assert_eq!(timers.sweep(10), None);
        for second in 1..=4 {
            timers.set_now(start + Duration::from_secs(second));
            assert_eq!(u64::from(timers.now_s()), second);
            timers.sweep(10).unwrap().for_each(|slot| seen[slot] += 1);
            assert_eq!(timers.sweep(10), None);
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn a_peer_is_overdue_for_what_it_keeps_waiting() {
        let timeouts = Timeouts {
            idle: Duration::from_secs(60),
            request: Duration::from_secs(30),
            write: Duration::from_secs(10),
        };
        let mut ages = Ages {
            active_s: 100,
            ..Ages::default()
        };
        assert_eq!(ages.overdue(&timeouts, 160, false), None);
        assert_eq!(ages.overdue(&timeouts, 161, false), Some(Overdue::Idle));
        assert_eq!(
            ages.overdue(&timeouts, 161, true),
            None,
            "it waits for this server"
        );
        ages.partial_s = Some(120);
        assert_eq!(ages.overdue(&timeouts, 151, false), Some(Overdue::Request));
        ages.stuck_s = Some(145);
        assert_eq!(
            ages.overdue(&timeouts, 155, true),
            Some(Overdue::Request),
            "answers that wait are no excuse"
        );
        assert_eq!(ages.overdue(&timeouts, 156, true), Some(Overdue::Write));
        ages.partial_s = None;
        assert_eq!(ages.overdue(&timeouts, 155, true), None);
        assert_eq!(ages.overdue(&timeouts, 155, false), None, "it is not idle either");
        let endless = Timeouts {
            write: Duration::ZERO,
            ..timeouts
        };
        assert_eq!(ages.overdue(&endless, u32::MAX, true), None);
    }
}
