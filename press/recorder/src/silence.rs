//! Stretches in which requests waited and no answer came: outages that are shorter than a second of a series.
//!
//! A thread notes its own stretches; of all threads together, no answer came only where none of them got one. Its invariant:
//! a stretch counts only as far as a request waited in it and the load generator itself was awake to see the answer.

use serde::{Deserialize, Serialize};

/// Shorter stretches are not noted.
pub const SILENCE_NS_MIN: u64 = 100_000_000;
/// A thread that does not look at its sockets for so long has itself to blame.
const AWAY_NS_MAX: u64 = 40_000_000;
/// Stretches one thread keeps; there are at most ten a second.
const KEPT_MAX: usize = 100_000;
const NEVER: u64 = u64::MAX;

/// A stretch without an answer; times in nanoseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// The answer before it.
    pub from_ns: u64,
    /// Since when a request waited; `to_ns` where none did.
    pub waiting_ns: u64,
    /// The answer after it; the largest number where none came.
    pub to_ns: u64,
}

/// Listens for the silences of one thread.
#[derive(Debug, Default)]
pub struct Listening {
    /// The last answer.
    last_ns: u64,
    /// Since when a request waits.
    waiting_ns: Option<u64>,
    awake_ns: u64,
    kept: Vec<Silence>,
}

impl Listening {
    /// A load begins.
    pub fn begin(&mut self, now_ns: u64) {
        *self = Listening {
            last_ns: now_ns,
            awake_ns: now_ns,
            ..Listening::default()
        };
    }

    /// A request was sent.
    #[inline]
    pub fn asked(&mut self, now_ns: u64) {
        if self.waiting_ns.is_none() {
            self.waiting_ns = Some(now_ns);
        }
    }

    /// The server said something; `outstanding` requests wait for more.
    #[inline]
    pub fn answered(&mut self, now_ns: u64, outstanding: u64) {
        self.note(now_ns);
        self.last_ns = now_ns;
        self.waiting_ns = (outstanding > 0).then_some(now_ns);
    }

    /// The thread looks after its sockets: what came while it did not is no silence of the server.
    #[inline]
    pub fn awake(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.awake_ns) > AWAY_NS_MAX {
            self.note(self.awake_ns);
            self.last_ns = now_ns;
            self.waiting_ns = self.waiting_ns.map(|_| now_ns);
        }
        self.awake_ns = now_ns;
    }

    #[inline]
    fn note(&mut self, to_ns: u64) {
        if to_ns.saturating_sub(self.last_ns) >= SILENCE_NS_MIN && self.kept.len() < KEPT_MAX {
            self.kept.push(self.until(to_ns));
        }
    }

    fn until(&self, to_ns: u64) -> Silence {
        let waiting = self.waiting_ns.unwrap_or(NEVER);
        Silence {
            from_ns: self.last_ns,
            waiting_ns: waiting.clamp(self.last_ns, to_ns),
            to_ns,
        }
    }

    /// The load is over. The last stretch has no end: how long it counts depends on the other threads.
    pub fn end(&mut self) -> Vec<Silence> {
        let last = self.until(NEVER);
        let mut kept = std::mem::take(&mut self.kept);
        kept.push(last);
        kept
    }
}

/// The stretches in which neither of two threads got an answer, each list in order of time.
pub fn both_silent(one: &[Silence], other: &[Silence]) -> Vec<Silence> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(&a), Some(&b)) = (one.peek(), other.peek()) {
        let (from_ns, to_ns) = (a.from_ns.max(b.from_ns), a.to_ns.min(b.to_ns));
        if from_ns < to_ns {
            // In each of them a request waited from then to the end, if in any.
            let waiting_ns = a.waiting_ns.min(b.waiting_ns).clamp(from_ns, to_ns);
            both.push(Silence {
                from_ns,
                waiting_ns,
                to_ns,
            });
        }
        if a.to_ns <= b.to_ns {
            one.next();
        } else {
            other.next();
        }
    }
    both
}

/// The longest time in which a request waited and no answer came, within these bounds; in nanoseconds.
pub fn longest_silence(silences: &[Silence], from_ns: u64, to_ns: u64) -> u64 {
    let waited = |silence: &Silence| {
        let from = silence.waiting_ns.max(from_ns);
        silence.to_ns.min(to_ns).saturating_sub(from)
    };
    silences.iter().map(waited).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that looks after its sockets every ten milliseconds.
    fn listen(until_ms: u64, mut at: impl FnMut(&mut Listening, u64)) -> Vec<Silence> {
        let mut listening = Listening::default();
        listening.begin(0);
        for ms in (0..=until_ms).step_by(10) {
            listening.awake(ms * MS);
            at(&mut listening, ms);
        }
        listening.end()
    }

    /// Answers every ten milliseconds, but not from 300 to 550, with another request on its way always.
    fn outage(listening: &mut Listening, ms: u64) {
        listening.asked(ms * MS);
        if ms <= 300 || ms >= 550 {
            listening.answered(ms * MS, 1);
        }
    }

    #[test]
    fn an_outage_is_as_long_as_it_was() {
        let silences = listen(1_000, outage);
        assert_eq!(longest_silence(&silences, 0, 1_000 * MS), 250 * MS);
        assert_eq!(longest_silence(&silences, 400 * MS, 1_000 * MS), 150 * MS);
        assert_eq!(longest_silence(&silences, 600 * MS, 1_000 * MS), 0);
    }

    #[test]
    fn nothing_asked_is_nothing_missed() {
        let silences = listen(1_000, |listening, ms| {
            if ms % 500 == 0 {
                listening.asked(ms * MS);
            }
            if ms % 500 == 10 {
                listening.answered(ms * MS, 0);
            }
        });
        // Half a second without an answer, of which a request waited for ten milliseconds.
        assert_eq!(longest_silence(&silences, 0, 1_000 * MS), 10 * MS);
    }

    #[test]
    fn a_server_that_never_comes_back_is_silent_to_the_end() {
        let silences = listen(1_000, |listening, ms| {
            listening.asked(ms * MS);
            if ms < 200 {
                listening.answered(ms * MS, 0);
            }
        });
        assert_eq!(longest_silence(&silences, 0, 2_000 * MS), 1_800 * MS);
    }

    #[test]
    fn a_thread_that_was_away_blames_nobody() {
        let mut listening = Listening::default();
        listening.begin(0);
        listening.asked(0);
        listening.awake(10 * MS);
        // It did not run for 400 ms; the answer lay there.
        listening.awake(410 * MS);
        listening.answered(411 * MS, 1);
        listening.awake(420 * MS);
        listening.answered(421 * MS, 0);
        assert_eq!(longest_silence(&listening.end(), 0, 500 * MS), 0);
    }

    #[test]
    fn threads_are_silent_together_or_not_at_all() {
        let one = listen(1_000, outage);
        let answered = listen(1_000, |listening, ms| {
            listening.asked(ms * MS);
            listening.answered(ms * MS, 1);
        });
        assert_eq!(longest_silence(&both_silent(&one, &answered), 0, 1_000 * MS), 0);
        let idle = listen(1_000, |_, _| ());
        for both in [both_silent(&one, &idle), both_silent(&idle, &one)] {
            assert_eq!(longest_silence(&both, 0, 1_000 * MS), 250 * MS);
        }
        let later = listen(1_000, |listening, ms| {
            listening.asked(ms * MS);
            if ms <= 400 || ms >= 700 {
                listening.answered(ms * MS, 1);
            }
        });
        assert_eq!(
            longest_silence(&both_silent(&one, &later), 0, 1_000 * MS),
            150 * MS
        );
    }
}
