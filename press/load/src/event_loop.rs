//! One thread of the load generator: its event loop.
//!
//! One turn takes commands, fires timers, sends what is due, waits for sockets and serves them. Sending lives in
//! `sending`, what comes back in `receiving`.
//! Its invariant: no turn takes longer than what its sockets bring, and the waits between turns end in time for the next
//! request of the schedule.

mod connecting;
mod connection;
mod handshake;
mod poller;
mod receiving;
mod sending;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millpond_press_recorder::Listening;
use millpond_press_workload::Order;
use rustix::event::epoll::EventFlags;

use crate::counting::Counting;
use crate::plan::{Amount, Command, Line, Pace, Phase, Plan, Report};
use crate::protocol::{OnWire, Protocol};
use connection::{Connection, Status};
use poller::Poller;

/// Read at once from a socket.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest wait: commands are looked for this often.
const WAIT_NS_MAX: u64 = 10_000_000;
/// Sleeping for less than this is not worth it while a schedule is played: the kernel may wake the thread too late.
const SPIN_NS: u64 = 60_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// How long threads look at the clock before a request's time: not at all where they share cores, whose time they would take from
/// each other.
pub(crate) fn spin_ns(threads: usize, cpus: &[usize]) -> u64 {
    let cores = match cpus {
        [] => std::thread::available_parallelism().map_or(1, usize::from),
        named => named.iter().collect::<BTreeSet<_>>().len(),
    };
    if threads > cores { 0 } else { SPIN_NS }
}

/// Where a thread is in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is offered.
    Waiting,
    Offering,
    /// Nothing more is sent; answers are awaited.
    Draining,
}

pub(crate) struct ClientThread<P: Protocol> {
    target: Arc<OnWire<P>>,
    plan: Arc<Plan>,
    line: Line,
    poller: Poller,
    connections: Vec<Connection<P::State>>,
    counting: Counting,
    /// Stretches without an answer.
    listening: Listening,
    stage: Stage,
    phase: Phase,
    /// When the measurement ends, as far as that is known.
    until: Option<u64>,
    /// The place in the schedule.
    next: usize,
    /// How many requests of the warm-up's schedule come before the measured ones.
    warm_up_taken: usize,
    /// Connections that can take a request of a schedule, in turn.
    ring: VecDeque<u32>,
    dirty: Vec<u32>,
    /// When a connection is to be made again, or to send again.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    outstanding: u64,
    /// Connections that still have requests of a fixed number to send or to get answered.
    busy: usize,
    next_roll: u64,
    next_look: u64,
    commands: u64,
    connecting: usize,
    queue: VecDeque<u32>,
    unready: usize,
    opened: u64,
    /// What was decrypted last.
    plain: Vec<u8>,
    /// The last part of a wait for a request's time, spent looking at the clock.
    spin_ns: u64,
}

/// The body of a thread: connects, offers what it is told, ends when it is told.
pub(crate) fn run<P: Protocol>(target: Arc<OnWire<P>>, plan: Arc<Plan>, line: Line) -> Result<(), String> {
    let thread = Poller::new().map(|poller| ClientThread::new(target, plan, line, poller));
    let ended = thread.and_then(ClientThread::live);
    ended.map_err(|error| error.to_string())
}

impl<P: Protocol> ClientThread<P> {
    fn new(target: Arc<OnWire<P>>, plan: Arc<Plan>, line: Line, poller: Poller) -> ClientThread<P> {
        let numbers = (line.index..plan.connections).step_by(plan.client_threads);
        let order = |number: usize| {
            let (seed, number, len) = (plan.seed, number as u64, target.requests.len());
            if plan.in_sequence {
                Order::in_sequence(seed, number, len)
            } else {
                Order::new(seed, number, len)
            }
        };
        let connections: Vec<_> = numbers.map(|number| Connection::new(order(number))).collect();
        ClientThread {
            counting: Counting::new(&plan, &line.live),
            listening: Listening::default(),
            stage: Stage::Waiting,
            phase: Phase {
                begin: 0,
                amount: Amount::For(Duration::ZERO),
                late_max: Duration::ZERO,
                pace: Pace::Closed { think_ns: 0 },
            },
            until: None,
            next: 0,
            warm_up_taken: 0,
            ring: VecDeque::with_capacity(connections.len()),
            dirty: Vec::with_capacity(connections.len()),
            timers: BinaryHeap::new(),
            outstanding: 0,
            busy: 0,
            next_roll: u64::MAX,
            next_look: 0,
            commands: 0,
            connecting: 0,
            queue: VecDeque::new(),
            unready: connections.len(),
            opened: 0,
            plain: Vec::new(),
            spin_ns: spin_ns(plan.client_threads, &plan.client_cpus),
            connections,
            poller,
            line,
            target,
            plan,
        }
    }

    fn live(mut self) -> io::Result<()> {
        for number in 0..self.connections.len() {
            self.want_connection(number);
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut scratch, mut events) = (Vec::new(), Vec::new());
        loop {
            let now = self.plan.clock.now();
            self.listening.awake(now);
            if self.line.control.stop.load(Relaxed) && self.stage != Stage::Waiting {
                self.hand_over();
            }
            if self.line.control.commands.load(Relaxed) != self.commands {
                self.commands += 1;
                match self.line.commands.recv() {
                    Ok(Command::Offer(phase)) => self.offer(phase, now),
                    Ok(Command::Leave) | Err(_) => return Ok(()),
                }
            }
            self.keep_time(now);
            self.send_due(now);
            self.line.live.outstanding.store(self.outstanding, Relaxed);
            let looked = self.plan.clock.now();
            let wait = self.wait_ns(looked);
            self.poller.wait(wait, &mut events)?;
            for event in &events {
                let (number, ready) = (event.data.u64() as usize, event.flags);
                let is_broken = ready.intersects(EventFlags::HUP | EventFlags::ERR);
                if is_broken || ready.contains(EventFlags::OUT) {
                    self.on_writable(number);
                }
                // The other side sends no more: what is there is to be read to its end.
                let ended = is_broken || ready.contains(EventFlags::RDHUP);
                if ended || ready.contains(EventFlags::IN) {
                    self.on_readable(number, ended, &mut buffer, &mut scratch);
                }
            }
            if wait == 0 && events.is_empty() && self.counting.is_measured(looked) {
                self.counting.idle_ns += self.plan.clock.now() - looked;
            }
        }
    }

    /// Timers, seconds, time limits, and the end of a load.
    fn keep_time(&mut self, now: u64) {
        while let Some(&Reverse((at, number))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.on_timer(number as usize, now);
        }
        if self.counting.measure_from.is_none() && self.stage == Stage::Offering {
            self.look_for_measurement();
        }
        while now >= self.next_roll {
            let tally = &mut self.counting.tally;
            tally.roll();
            let ended = tally.seconds.last();
            let us = ended.and_then(|second| second.latency.us_p99_at_a_glance());
            self.line.live.us_p99.store(us.unwrap_or(0.0) as u64, Relaxed);
            self.next_roll += SECOND;
        }
        if now >= self.next_look {
            let timeout = self.plan.timeout.as_nanos() as u64;
            self.next_look = now + (timeout / 20).clamp(1_000_000, 100_000_000);
            self.give_up(now, timeout);
        }
        if self.stage == Stage::Offering && self.is_all_sent(now) {
            // What fell due before the end, and had a connection then, is late by a wake-up and no reason to leave it out.
            self.send_due(now);
            self.stage = Stage::Draining;
        }
        if self.stage == Stage::Draining && self.outstanding == 0 {
            self.hand_over();
        }
    }

    fn look_for_measurement(&mut self) {
        let from = self.line.control.measure_from.load(Relaxed);
        if from != 0 {
            self.counting.measure_from = Some(from);
            // Those of the warm-up's schedule that lie later are never sent.
            self.warm_up_taken = match &self.phase.pace {
                Pace::Open { warm_up, .. } => {
                    let before = warm_up.partition_point(|at| self.phase.begin + at < from);
                    before.max(self.next)
                }
                Pace::Closed { .. } => 0,
            };
            self.next_roll = from + SECOND;
            self.until = match self.phase.amount {
                Amount::Requests(_) => None,
                Amount::For(span) => Some(from + (span + self.phase.late_max).as_nanos() as u64),
            };
        }
    }

    fn offer(&mut self, phase: Phase, now: u64) {
        // What happened while connecting belongs to this load.
        let before = self.counting.begin().counters;
        let counters = &mut self.counting.tally.counters;
        counters.connections_opened = before.connections_opened + std::mem::take(&mut self.opened);
        counters.connections_failed = before.connections_failed;
        counters.first = before.first;
        self.phase = phase;
        self.stage = Stage::Offering;
        self.listening.begin(now);
        (self.until, self.next_roll, self.next) = (None, u64::MAX, 0);
        self.look_for_measurement();
        let each = match self.phase.amount {
            Amount::Requests(each) => each,
            Amount::For(_) => 0,
        };
        self.busy = if each > 0 { self.connections.len() } else { 0 };
        self.ring.clear();
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            (connection.left, connection.in_ring, connection.is_done) = (each, false, each == 0);
            if connection.status == Status::Over {
                connection.status = Status::Down;
            }
            match connection.status {
                Status::Up => self
                    .timers
                    .push(Reverse((self.phase.begin.max(now), number as u32))),
                Status::Down => self.want_connection(number),
                _ => {}
            }
        }
    }

    /// Gives the tally away and waits for the next command.
    fn hand_over(&mut self) {
        self.stage = Stage::Waiting;
        let (cut, not_sent, down) = (self.outstanding, self.count_not_sent(), self.count_down());
        let silences = self.listening.end();
        let handed = self.counting.hand_over(silences, |tally| {
            tally.counters.cut = cut;
            tally.counters.not_sent += not_sent;
            tally.counters.connections_down = down;
        });
        // What is still on its way belongs to no later load.
        if self.outstanding > 0 {
            for number in 0..self.connections.len() {
                if self.connections[number].outstanding > 0 {
                    self.outstanding -= self.connections[number].close().len() as u64;
                    self.want_connection(number);
                }
            }
        }
        let _ = self.line.reports.try_send(Report::Done(Box::new(handed)));
    }

    /// How long nothing needs to be done.
    fn wait_ns(&self, now: u64) -> u64 {
        let mut wait = WAIT_NS_MAX;
        if let Some(&Reverse((at, _))) = self.timers.peek() {
            wait = wait.min(at.saturating_sub(now));
        }
        // Without a free connection it is an answer that is waited for.
        if let Some(at) = self.next_due().filter(|_| !self.ring.is_empty()) {
            let left = at.saturating_sub(now);
            // The rest is spent looking, so that the request goes out on time.
            wait = wait.min(left.saturating_sub(self.spin_ns));
        }
        wait
    }

    fn on_timer(&mut self, number: usize, now: u64) {
        match self.connections[number].status {
            Status::Down => self.want_connection(number),
            Status::Up => {
                self.refill(number, now);
                self.flush(number);
            }
            _ => {}
        }
    }

    /// The connection has nothing left of its fixed number.
    fn is_done(&mut self, number: usize) {
        if !std::mem::replace(&mut self.connections[number].is_done, true) {
            self.busy -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_share_a_core_do_not_look_at_the_clock() {
        assert_eq!(spin_ns(2, &[4, 5]), SPIN_NS);
        assert_eq!(spin_ns(2, &[5, 5]), 0);
        assert_eq!(spin_ns(12, &[1]), 0);
        assert_eq!(spin_ns(1, &[]), SPIN_NS);
        assert_eq!(spin_ns(usize::MAX, &[]), 0);
    }
}
