//! When requests came lately, and how soon rows may come that fill a batch. It decides nothing and reads no clock. Its invariants: it
//! takes the same memory whatever comes, and a caller that waits for its answer is not expected to send more meanwhile.
//!
//! A source whose requests come one at a time may be a caller that waits for each answer: while it has one waiting or running, its
//! earlier arrivals do not count, and otherwise it brings one request. A source that sent a request while another of its own was not answered yet
//! does not wait for answers: all its arrivals count.

use std::time::Instant;

/// Arrivals that are kept.
const KEPT: usize = 64;
/// The rate is the lower one of all that are kept and of so many.
const NEWEST: usize = 16;
/// With fewer nothing is expected.
const KEPT_MIN: usize = 8;
/// The next arrival is late after so many mean gaps: of arrivals at random times, one of fifty is.
const LATE_GAPS: f64 = 4.0;

#[derive(Debug, Clone, Copy)]
struct Arrival {
    source: u64,
    /// In seconds.
    at: f64,
    rows: u32,
    /// Another request of its source was not answered yet.
    is_beside: bool,
}

/// What is expected to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fill {
    /// Seconds until the rows that were asked for have come.
    pub seconds: f64,
    /// Seconds until the next arrival is late.
    pub late: f64,
}

pub(super) struct Arrivals {
    /// Round and round once there are [`KEPT`]; the next one goes to `next`.
    kept: Vec<Arrival>,
    next: usize,
    origin: Instant,
}

impl Arrivals {
    pub(super) fn new(origin: Instant) -> Arrivals {
        Arrivals {
            kept: Vec::with_capacity(KEPT),
            next: 0,
            origin,
        }
    }

    pub(super) fn came(&mut self, source: u64, rows: usize, is_beside: bool, now: Instant) {
        let arrival = Arrival {
            source,
            at: self.seconds(now),
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            is_beside,
        };
        match self.kept.get_mut(self.next) {
            Some(oldest) => *oldest = arrival,
            None => self.kept.push(arrival),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// When `room` more rows are expected to have come; `None` where they are not expected at all. `is_out` says of a source whether a request of it
    /// waits or runs.
    pub(super) fn fill(&self, room: usize, is_out: impl Fn(u64) -> bool, now: Instant) -> Option<Fill> {
        let kept = self.kept.len();
        let newest = self.newest_first().next().filter(|_| kept >= KEPT_MIN)?;
        let mut counts = [false; KEPT];
        let (mut sources, mut rows_at_most) = (0, 0u64);
        for (at, arrival) in self.newest_first().enumerate() {
            let is_known = self
                .newest_first()
                .take(at)
                .any(|newer| newer.source == arrival.source);
            let may_come = arrival.is_beside || !is_out(arrival.source);
            // What waits has come, too: its own arrival is one of those at this rate, and those before it are answered calls of its source.
            counts[at] = may_come || !is_known;
            sources += usize::from(!is_known);
            rows_at_most = match arrival.is_beside {
                true => u64::MAX,
                false if may_come && !is_known => rows_at_most.saturating_add(arrival.rows.into()),
                false => rows_at_most,
            };
        }
        // Where each arrival is of another source, there are more of them than are kept.
        if rows_at_most < room as u64 && sources < KEPT {
            return None;
        }
        let now = self.seconds(now);
        let (mut rate, mut gap) = (f64::INFINITY, 0.0);
        for window in [NEWEST.min(kept), kept] {
            // It begins with its oldest arrival, which is not counted.
            let span = now - self.newest_first().nth(window - 1)?.at;
            let within = self.newest_first().take(window - 1).zip(&counts);
            let counting = within.filter(|(_, counts)| **counts);
            let (count, rows) = counting.fold((0.0, 0.0), |(count, rows), (arrival, _)| {
                (count + 1.0, rows + f64::from(arrival.rows))
            });
            rate = f64::min(rate, rows / span.max(1e-9));
            gap = f64::max(gap, span / f64::max(count, 1.0));
        }
        let late = newest.at + LATE_GAPS * gap - now;
        (rate > 0.0 && late > 0.0).then(|| Fill {
            seconds: room as f64 / rate,
            late,
        })
    }

    fn newest_first(&self) -> impl Iterator<Item = &Arrival> {
        let (newer, older) = self.kept.split_at(self.next.min(self.kept.len()));
        newer.iter().rev().chain(older.iter().rev())
    }

    fn seconds(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.origin).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    /// Arrivals of one row each, of these sources, a millisecond apart; asked a millisecond after the last.
    fn fill(
        sources: impl IntoIterator<Item = u64>,
        is_beside: bool,
        room: usize,
        out: &[u64],
    ) -> Option<Fill> {
        let mut now = Instant::now();
        let mut arrivals = Arrivals::new(now);
        for source in sources {
            now += Duration::from_millis(1);
            arrivals.came(source, 1, is_beside, now);
        }
        now += Duration::from_millis(1);
        arrivals.fill(room, |source| out.contains(&source), now)
    }

    fn ms(fill: Option<Fill>) -> f64 {
        (fill.unwrap().seconds * 1e3).round()
    }

    #[test]
    fn rows_come_at_the_rate_of_late() {
        assert_eq!(ms(fill(0..200, false, 3, &[])), 3.0);
        assert_eq!(
            ms(fill([7; 200], true, 3, &[7])),
            3.0,
            "it does not wait for answers"
        );
        assert_eq!(fill(0..7, false, 1, &[]), None, "too few to tell");
    }

    #[test]
    fn a_caller_that_waits_for_its_answer_sends_nothing_meanwhile() {
        assert_eq!(fill([7; 200], false, 1, &[7]), None);
        let two = (0..200).map(|at| at % 2);
        // Its own last one and every one of the other's, at the lower rate of late.
        let found = fill(two.clone(), false, 1, &[0]);
        assert!((1.8..2.1).contains(&(found.unwrap().seconds * 1e3)), "{found:?}");
        assert_eq!(fill(two, false, 2, &[0]), None, "it brings one request, not two");
    }

    #[test]
    fn the_lower_rate_counts_and_a_late_arrival_ends_it() {
        let mut now = Instant::now();
        let mut arrivals = Arrivals::new(now);
        let mut come = |count: u64, gap_us: u64| {
            for at in 0..count {
                now += Duration::from_micros(gap_us);
                arrivals.came(gap_us << 32 | at, 1, false, now);
            }
            arrivals.fill(10, |_| false, now)
        };
        assert_eq!(ms(come(100, 1000)), 10.0);
        // A burst does not make the rate.
        assert!(ms(come(16, 10)) > 6.0);
        // Slower arrivals are noticed before the old ones are forgotten.
        assert!(ms(come(16, 10_000)) > 90.0);
        let later = |ms: u64| arrivals.fill(10, |_| false, now + Duration::from_millis(ms));
        assert!(later(30).is_some());
        assert_eq!(later(80), None);
    }
}
