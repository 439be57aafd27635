//! One thread of the load generator: its event loop.
//!
//! One turn takes commands, fires timers, sends what is due, waits for sockets and serves them. Sending lives in `sending`.
//! Its invariant: no turn takes longer than what its sockets bring, and the waits between turns end in time for the next
//! request of the schedule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live, Tally};
use millpond_press_workload::Order;

use super::connection::{Connection, Status};
use super::poller::{Poller, wake_precisely};
use super::{Amount, Command, Handed, Line, Pace, Phase, Plan, Report};
use crate::check::Sampling;
use crate::system::Cores;
use crate::target::{Found, Protocol, Read, Said};

/// Read at once from a socket.
const BUFFER_BYTES: usize = 256 << 10;
/// The longest wait: commands are looked for this often.
const WAIT_NS_MAX: u64 = 10_000_000;
/// Sleeping for less than this is not worth it while a schedule is played: the kernel may wake the thread too late.
pub(super) const SPIN_NS: u64 = 60_000;
pub(super) const SECOND: u64 = 1_000_000_000;

/// Where a thread is in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing is offered.
    Waiting,
    Offering,
    /// Nothing more is sent; answers are awaited.
    Draining,
}

pub(super) struct ClientThread<P> {
    pub(super) plan: std::sync::Arc<Plan<P>>,
    pub(super) line: Line,
    pub(super) poller: Poller,
    pub(super) connections: Vec<Connection>,
    pub(super) tally: Tally,
    pub(super) stage: Stage,
    pub(super) phase: Phase,
    /// When the measurement begins and ends, as far as that is known.
    pub(super) measure_from: Option<u64>,
    pub(super) until: Option<u64>,
    /// The place in the schedule.
    pub(super) next: usize,
    /// How many requests of the warm-up's schedule come before the measured ones.
    pub(super) warm_up_taken: usize,
    /// Connections that can take a request of a schedule, in turn.
    pub(super) ring: VecDeque<u32>,
    pub(super) dirty: Vec<u32>,
    /// When a connection is to be made again, or to send again.
    pub(super) timers: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) outstanding: u64,
    pub(super) sent: u64,
    pub(super) warm_up_answers: u64,
    pub(super) idle_ns: u64,
    pub(super) last_end: Option<u64>,
    /// Connections that still have requests of a fixed number to send or to get answered.
    pub(super) busy: usize,
    next_roll: u64,
    next_look: u64,
    commands: u64,
    pub(super) connecting: usize,
    pub(super) queue: VecDeque<u32>,
    pub(super) unready: usize,
    pub(super) opened: u64,
    pub(super) numbers: Vec<f32>,
    /// What was decrypted last.
    pub(super) plain: Vec<u8>,
    pub(super) sampling: Sampling,
}

/// The body of a thread: connects, offers what it is told, ends when it is told.
pub(super) fn run<P: Protocol>(plan: std::sync::Arc<Plan<P>>, line: Line) {
    let reports = line.reports.clone();
    let broken = |error: io::Error| {
        let _ = reports.try_send(Report::Broken(error.to_string()));
    };
    if !plan.client_cpus.is_empty() {
        let core = plan.client_cpus[line.index % plan.client_cpus.len()];
        if let Err(error) = Cores::of(&[core]).and_then(|cores| cores.bind()) {
            return broken(error);
        }
    }
    wake_precisely();
    match Poller::new() {
        Ok(poller) => {
            if let Err(error) = ClientThread::new(plan, line, poller).live() {
                broken(error);
            }
        }
        Err(error) => broken(error),
    }
}

impl<P: Protocol> ClientThread<P> {
    fn new(plan: std::sync::Arc<Plan<P>>, line: Line, poller: Poller) -> ClientThread<P> {
        let numbers = (line.index..plan.connections).step_by(plan.client_threads);
        let order = |number: usize| {
            let (seed, number, len) = (plan.seed, number as u64, plan.protocol.requests().len());
            if plan.in_sequence {
                Order::in_sequence(seed, number, len)
            } else {
                Order::new(seed, number, len)
            }
        };
        let connections: Vec<Connection> = numbers.map(|number| Connection::new(order(number))).collect();
        ClientThread {
            tally: Tally::with_operations(plan.operations),
            stage: Stage::Waiting,
            phase: Phase {
                begin: 0,
                amount: Amount::For(Duration::ZERO),
                pace: Pace::Closed { think_ns: 0 },
            },
            measure_from: None,
            until: None,
            next: 0,
            warm_up_taken: 0,
            ring: VecDeque::with_capacity(connections.len()),
            dirty: Vec::with_capacity(connections.len()),
            timers: BinaryHeap::new(),
            outstanding: 0,
            sent: 0,
            warm_up_answers: 0,
            idle_ns: 0,
            last_end: None,
            busy: 0,
            next_roll: u64::MAX,
            next_look: 0,
            commands: 0,
            connecting: 0,
            queue: VecDeque::new(),
            unready: connections.len(),
            opened: 0,
            numbers: Vec::new(),
            plain: Vec::new(),
            sampling: Sampling::default(),
            connections,
            poller,
            line,
            plan,
        }
    }

    fn live(mut self) -> io::Result<()> {
        for number in 0..self.connections.len() {
            self.want_connection(number);
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut scratch = Vec::new();
        loop {
            let now = self.plan.clock.now();
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
            let count = self.poller.wait(wait)?;
            for at in 0..count {
                let event = self.poller.event(at);
                let number = event.token as usize;
                if event.writable {
                    self.on_writable(number);
                }
                if event.readable {
                    self.on_readable(number, event.ended, &mut buffer, &mut scratch);
                }
            }
            if wait == 0 && count == 0 && self.measure_from.is_some_and(|from| looked >= from) {
                self.idle_ns += self.plan.clock.now() - looked;
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
        if self.measure_from.is_none() && self.stage == Stage::Offering {
            self.look_for_measurement();
        }
        while now >= self.next_roll {
            self.tally.roll();
            let ended = self.tally.seconds.last();
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
            self.stage = Stage::Draining;
        }
        if self.stage == Stage::Draining && self.outstanding == 0 {
            self.hand_over();
        }
    }

    fn look_for_measurement(&mut self) {
        let from = self.line.control.measure_from.load(Relaxed);
        if from != 0 {
            self.measure_from = Some(from);
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
                Amount::For(span) => Some(from + span.as_nanos() as u64),
            };
        }
    }

    fn offer(&mut self, phase: Phase, now: u64) {
        // What happened while connecting belongs to this load.
        let before =
            std::mem::replace(&mut self.tally, Tally::with_operations(self.plan.operations)).counters;
        let counters = &mut self.tally.counters;
        counters.connections_opened = before.connections_opened + std::mem::take(&mut self.opened);
        counters.connections_failed = before.connections_failed;
        counters.first = before.first;
        self.phase = phase;
        self.stage = Stage::Offering;
        (self.measure_from, self.until, self.next_roll, self.last_end) = (None, None, u64::MAX, None);
        (self.next, self.sent, self.warm_up_answers, self.idle_ns) = (0, 0, 0, 0);
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
        let mut tally = std::mem::take(&mut self.tally);
        tally.counters.cut = self.outstanding;
        tally.counters.not_sent += self.count_not_sent();
        tally.finish();
        // What is still on its way belongs to no later load.
        if self.outstanding > 0 {
            for number in 0..self.connections.len() {
                if self.connections[number].outstanding > 0 {
                    self.outstanding -= self.connections[number].close().len() as u64;
                    self.want_connection(number);
                }
            }
        }
        let handed = Handed {
            tally,
            last_end: self.last_end,
            sent: self.sent,
            warm_up_answers: self.warm_up_answers,
            idle: Duration::from_nanos(self.idle_ns),
        };
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
            wait = wait.min(left.saturating_sub(SPIN_NS));
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
    pub(super) fn is_done(&mut self, number: usize) {
        if !std::mem::replace(&mut self.connections[number].is_done, true) {
            self.busy -= 1;
        }
    }

    /// Reads what has come and takes every whole answer in it.
    fn on_readable(&mut self, number: usize, ended: bool, buffer: &mut [u8], scratch: &mut Vec<u8>) {
        if !matches!(self.connections[number].status, Status::Up | Status::Shaking(_)) {
            return;
        }
        // A socket is told of once, so it is read until it is empty.
        loop {
            let read = self.connections[number].read(buffer);
            let now = self.plan.clock.now();
            match read {
                Ok(None) => break,
                Ok(Some(count)) => {
                    if !self.take_read(number, &buffer[..count], now, scratch) {
                        return;
                    }
                    // A read that does not fill the buffer has emptied the socket, but for the end that was told with it.
                    if count < buffer.len() && !ended {
                        break;
                    }
                }
                Err(error) if matches!(self.connections[number].status, Status::Shaking(_)) => {
                    return self.not_shaken(number, &error.to_string());
                }
                Err(error) => return self.lose(number, ErrorKind::Reset, &error.to_string(), now),
            }
        }
        self.flush(number);
    }

    /// Takes whole answers out of the bytes; 0 bytes are the end. False when the connection has gone.
    pub(super) fn take_bytes(
        &mut self,
        number: usize,
        fresh: &[u8],
        now: u64,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let ended = fresh.is_empty();
        let mut kept = std::mem::take(&mut self.connections[number].inbox);
        if !kept.is_empty() {
            kept.extend_from_slice(fresh);
        }
        let bytes: &[u8] = if kept.is_empty() { fresh } else { &kept };
        let mut used = 0;
        if bytes.len() >= self.connections[number].needs || ended {
            match self.take_answers(number, bytes, ended, now, scratch) {
                Some(count) => used = count,
                None => return false,
            }
        }
        if ended {
            let left = bytes.len() - used;
            let why = match (left, self.connections[number].outstanding) {
                (0, _) => "the server closed the connection".to_owned(),
                (left, _) => format!("the connection ended after {left} bytes of an answer"),
            };
            self.lose(number, ErrorKind::Closed, &why, now);
            return false;
        }
        let rest = bytes.len() - used;
        if rest
            > self
                .plan
                .answer_bytes_max
                .saturating_mul(2)
                .saturating_add(64 << 10)
        {
            self.lose(number, ErrorKind::TooLarge, "an answer grew without an end", now);
            return false;
        }
        if rest > 0 {
            let connection = &mut self.connections[number];
            if kept.is_empty() {
                kept.extend_from_slice(&fresh[used..]);
            } else {
                kept.drain(..used);
            }
            connection.inbox = kept;
        }
        true
    }

    /// The bytes that whole answers took; nothing when the connection has gone.
    fn take_answers(
        &mut self,
        number: usize,
        bytes: &[u8],
        ended: bool,
        now: u64,
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut used = 0;
        self.connections[number].needs = 0;
        let plan = self.plan.clone();
        while used < bytes.len() {
            // What has not been handed to the kernel cannot have an answer.
            let front = self.connections[number].sent.front().filter(|sent| sent.at != 0);
            let front = front.map(|sent| sent.index as usize);
            let Some(index) = front.or(P::NUMBERED.then_some(0)) else {
                let why = "bytes came that nothing asked for";
                self.lose(number, ErrorKind::Unexpected, why, now);
                return None;
            };
            match plan.protocol.read(index, &bytes[used..], ended, scratch) {
                Ok(Read::Found(found)) => {
                    used += found.used.max(1);
                    if !self.take_answer(number, &found, now) {
                        return None;
                    }
                }
                Ok(Read::Needs(needed)) => {
                    self.connections[number].needs = needed;
                    break;
                }
                Err(malformed) => {
                    self.lose(number, malformed.kind(), &malformed.to_string(), now);
                    return None;
                }
            }
        }
        Some(used)
    }

    /// Counts one answer and sends the next request; false when the connection has gone.
    fn take_answer(&mut self, number: usize, found: &Found<'_>, now: u64) -> bool {
        let connection = &mut self.connections[number];
        let sent = if P::NUMBERED {
            connection.answered_by_number(found.serial)
        } else {
            connection.answered_in_order()
        };
        let Some(sent) = sent else {
            return self.unexpected(number, found.serial, now);
        };
        self.outstanding -= 1;
        let mut is_refused = false;
        match &found.said {
            Said::Answer(answer) => {
                self.connections[number].failures = 0;
                self.answered(&sent, *answer, now);
            }
            Said::Refused {
                code,
                whole_connection,
            } => {
                is_refused = *whole_connection;
                self.refused(&sent, *code, now);
            }
            Said::Failed { code, why } => {
                self.failed(&sent, ErrorKind::Status, Some(*code), why, now);
            }
        }
        if is_refused {
            self.connections[number].refused = true;
            self.connections[number].failures += 1;
            self.tally.counters.connections_refused += 1;
        }
        if found.closes || is_refused {
            self.drop_connection(number, ErrorKind::Closed, "the server closed the connection", now);
            return false;
        }
        self.slot_is_free(number, now);
        true
    }

    /// An answer that no request waits for: a late one is counted, any other ends the connection.
    fn unexpected(&mut self, number: usize, serial: u32, now: u64) -> bool {
        let connection = &mut self.connections[number];
        if connection.given_up > 0 {
            connection.given_up -= 1;
            self.tally.counters.late += 1;
            return true;
        }
        let why =
            format!("an answer to request number {serial} of the connection, which does not wait for one");
        self.lose(number, ErrorKind::Unexpected, &why, now);
        false
    }

    /// The connection broke.
    pub(super) fn lose(&mut self, number: usize, kind: ErrorKind, why: &str, now: u64) {
        self.connections[number].failures += 1;
        // Where no request was on its way to be counted, the breach of the protocol is.
        if kind == ErrorKind::Unexpected && self.connections[number].outstanding == 0 {
            self.tally.error(0, kind, None, || why.to_owned());
            Live::bump(&self.line.live.failed);
        }
        self.drop_connection(number, kind, why, now);
    }

    fn drop_connection(&mut self, number: usize, kind: ErrorKind, why: &str, now: u64) {
        let was_refused = self.connections[number].refused;
        let lost = self.connections[number].close();
        self.outstanding -= lost.len() as u64;
        for sent in &lost {
            if was_refused {
                self.refused(sent, crate::target::OVERLOADED, now);
            } else {
                self.failed(sent, kind, None, why, now);
            }
        }
        self.later(number);
    }

    /// Gives up requests that wait for too long, and connections that do not come up.
    fn give_up(&mut self, now: u64, timeout: u64) {
        let before = now.saturating_sub(timeout);
        for number in 0..self.connections.len() {
            match self.connections[number].status {
                Status::Connecting(since) | Status::Shaking(since) if since < before => {
                    self.connecting -= 1;
                    let why = format!("no connection within {} ms", timeout / 1_000_000);
                    self.not_connected(number, &why);
                    self.connect_queued();
                }
                Status::Up if self.connections[number].outstanding > 0 => {
                    self.give_up_on(number, before, now, timeout);
                }
                _ => {}
            }
        }
        self.give_up_unsent(now, timeout);
    }

    fn give_up_on(&mut self, number: usize, before: u64, now: u64, timeout: u64) {
        let why = || format!("no answer within {} ms", timeout / 1_000_000);
        let mut any = false;
        while let Some(sent) = self.connections[number].give_up_before(before) {
            any = true;
            self.outstanding -= 1;
            self.failed(&sent, ErrorKind::Timeout, None, &why(), now);
        }
        if !any {
            return;
        }
        if P::NUMBERED {
            self.slot_is_free(number, now);
            self.flush(number);
        } else {
            // The answers that come now could no longer be told apart.
            self.connections[number].failures += 1;
            self.drop_connection(number, ErrorKind::Closed, "given up after a time limit", now);
        }
    }
}
