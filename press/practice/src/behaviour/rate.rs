//! One queue, served at exactly one rate.
//!
//! Request i leaves at max(its arrival, the leaving of i - 1 plus 1 / rate) of a virtual clock, so an answer that was written late
//! makes none after it late. Its invariant: the queue holds no more than its limit.

use super::Behaviour;
use crate::connections::{Connections, Id};
use std::collections::VecDeque;

const PS_PER_NS: u128 = 1_000;

/// When requests leave. Counted in picoseconds, since 1 / rate is seldom a whole number of nanoseconds.
struct Schedule {
    interval_ps: u128,
    /// When the server is free for the next.
    free_ps: u128,
}

impl Schedule {
    fn new(rate: f64) -> Schedule {
        Schedule {
            interval_ps: (1e12 / rate).round() as u128,
            free_ps: 0,
        }
    }

    /// When a request leaves that came at `at_ns`.
    fn leave_ns(&mut self, at_ns: u64) -> u64 {
        let leave_ps = (u128::from(at_ns) * PS_PER_NS).max(self.free_ps);
        self.free_ps = leave_ps + self.interval_ps;
        leave_ps.div_ceil(PS_PER_NS) as u64
    }
}

pub(crate) struct Rated {
    schedule: Schedule,
    /// When whose request leaves. A closed connection's requests keep their place: the time for them is spent.
    queue: VecDeque<(u64, Id)>,
    queue_max: usize,
}

impl Rated {
    pub(crate) fn new(rate: f64, queue_max: usize) -> Rated {
        Rated {
            schedule: Schedule::new(rate),
            queue: VecDeque::new(),
            queue_max,
        }
    }
}

impl Behaviour for Rated {
    fn arrived(&mut self, id: Id, requests: &[u8], at_ns: u64, connections: &mut Connections) {
        connections.hold(id, requests);
        for _ in 0..requests.len() / connections.request_bytes() {
            if self.queue.len() >= self.queue_max {
                return connections.close(id);
            }
            self.queue.push_back((self.schedule.leave_ns(at_ns), id));
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.queue.front().map(|(leave_ns, _)| *leave_ns)
    }

    fn due(&mut self, connections: &mut Connections) {
        let now_ns = connections.now_ns();
        while let Some((_, id)) = self.queue.pop_front_if(|(leave_ns, _)| *leave_ns <= now_ns) {
            connections.answer(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_at_the_rate_and_no_idle_time_is_saved_up() {
        let mut schedule = Schedule::new(3.0);
        let leave: Vec<u64> = [10, 20, 30, 5_000_000_000, 5_000_000_000]
            .map(|at_ns| schedule.leave_ns(at_ns))
            .to_vec();
        let third = 333_333_333;
        assert_eq!(
            leave,
            [
                10,
                third + 11,
                2 * third + 11,
                5_000_000_000,
                5_000_000_000 + third + 1
            ]
        );
    }

    #[test]
    fn a_million_requests_do_not_drift() {
        let mut schedule = Schedule::new(7_000.0);
        let last = (0..=7_000_000).map(|_| schedule.leave_ns(0)).last();
        // 1 / 7000 s is rounded to a picosecond: seven million of them are off by less than 7 µs.
        assert!(last.is_some_and(|ns| ns.abs_diff(1_000_000_000_000) < 7_000));
    }
}
