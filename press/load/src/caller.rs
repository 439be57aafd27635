//! The client thread of targets without a network: it calls, and the answer is there when the call returns.
//!
//! The same loads, tallies and reports as over a network, so that the cost of the network is the difference of two rows. Its
//! invariant: a thread has one call at a time; connections only say how many threads call.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live, Tally};
use millpond_press_workload::Order;

use crate::Cores;
use crate::check::Sampling;
use crate::event_loop::{SECOND, spin_ns, wake_precisely};
use crate::local::Local;
use crate::plan::{Amount, Command, Handed, Line, Pace, Phase, Plan, Report};

/// Commands and seconds are looked for this often when nothing is due.
const NAP: Duration = Duration::from_millis(1);

struct Caller<P: Local> {
    target: Arc<P>,
    plan: Arc<Plan>,
    line: Line,
    state: P::State,
    numbers: Vec<f32>,
    sampling: Sampling,
    order: Order,
    tally: Tally,
    sent: u64,
    warm_up_answers: u64,
    warm_up_failed: u64,
    idle_ns: u64,
    last_end: Option<u64>,
    /// The last part of a wait, spent looking at the clock.
    spin_ns: u64,
}

/// The body of a thread: offers what it is told, ends when it is told.
pub(crate) fn run<P: Local>(target: Arc<P>, plan: Arc<Plan>, line: Line) {
    if !plan.client_cpus.is_empty() {
        let core = plan.client_cpus[line.index % plan.client_cpus.len()];
        if let Err(error) = Cores::of(&[core]).and_then(|cores| cores.bind()) {
            let _ = line.reports.try_send(Report::Broken(error.to_string()));
            return;
        }
    }
    let state = match target.state() {
        Ok(state) => state,
        Err(why) => {
            let _ = line.reports.try_send(Report::Broken(why));
            return;
        }
    };
    wake_precisely();
    Live::bump(&line.live.connected);
    let _ = line.reports.try_send(Report::Ready {
        opened: 1,
        failure: None,
    });
    let order = Order::new(plan.seed, line.index as u64, target.len());
    let mut caller = Caller {
        state,
        numbers: Vec::new(),
        sampling: Sampling::default(),
        order,
        tally: Tally::with_operations(plan.operations),
        sent: 0,
        warm_up_answers: 0,
        warm_up_failed: 0,
        idle_ns: 0,
        last_end: None,
        spin_ns: spin_ns(plan.client_threads, &plan.client_cpus),
        target,
        plan,
        line,
    };
    while let Ok(Command::Offer(phase)) = caller.line.commands.recv() {
        caller.offer(&phase);
    }
}

impl<P: Local> Caller<P> {
    fn offer(&mut self, phase: &Phase) {
        self.tally = Tally::with_operations(self.plan.operations);
        (self.sent, self.idle_ns, self.last_end) = (0, 0, None);
        (self.warm_up_answers, self.warm_up_failed) = (0, 0);
        let mut not_sent = 0;
        match &phase.pace {
            Pace::Closed { think_ns } => self.closed(phase, *think_ns),
            Pace::Open { warm_up, measured } => {
                self.warm_up(phase.begin, warm_up);
                not_sent = self.open(phase, measured);
            }
        }
        let mut tally = std::mem::take(&mut self.tally);
        tally.counters.not_sent = not_sent;
        tally.counters.connections_opened = 1;
        tally.finish();
        let handed = Handed {
            tally,
            last_end: self.last_end,
            sent: self.sent,
            warm_up_answers: self.warm_up_answers,
            warm_up_failed: self.warm_up_failed,
            idle: Duration::from_nanos(self.idle_ns),
            // A caller that waits for its own call cannot tell who is slow.
            silences: Vec::new(),
        };
        let _ = self.line.reports.try_send(Report::Done(Box::new(handed)));
    }

    fn is_stopped(&self) -> bool {
        self.line.control.stop.load(Relaxed)
    }

    /// When the measurement began, if it has.
    fn measured_from(&self, now: u64) -> Option<u64> {
        let from = self.line.control.measure_from.load(Relaxed);
        (from != 0 && now >= from).then_some(from)
    }

    fn closed(&mut self, phase: &Phase, think_ns: u64) {
        let (mut left, mut next_roll) = (u64::MAX, u64::MAX);
        let mut until = u64::MAX;
        let mut now = self.wait_until(phase.begin);
        while !self.is_stopped() && left > 0 && now < until {
            let measured = self.measured_from(now);
            if let Some(from) = measured
                && next_roll == u64::MAX
            {
                next_roll = from + SECOND;
                match phase.amount {
                    Amount::Requests(each) => left = each,
                    Amount::For(span) => until = from + span.as_nanos() as u64,
                }
                continue;
            }
            self.roll(&mut next_roll, now);
            self.call(now, now, measured.is_some());
            left -= u64::from(measured.is_some());
            now = self.plan.clock.now();
            if think_ns > 0 {
                now = self.wait_until(now + think_ns);
            }
        }
    }

    /// Plays the schedule of the warm-up until the measurement begins.
    fn warm_up(&mut self, begin: u64, schedule: &[u64]) {
        for at in schedule {
            let mut now = self.plan.clock.now();
            while now < begin + at && self.measured_from(now).is_none() && !self.is_stopped() {
                now = self.wait_until((begin + at).min(now + NAP.as_nanos() as u64));
            }
            if self.measured_from(now).is_some() || self.is_stopped() {
                return;
            }
            self.call(begin + at, now, false);
        }
    }

    fn open(&mut self, phase: &Phase, schedule: &[u64]) -> u64 {
        let from = loop {
            let now = self.plan.clock.now();
            match self.measured_from(now) {
                Some(from) => break from,
                None if self.is_stopped() => return 0,
                None => self.wait_until(now + NAP.as_nanos() as u64),
            };
        };
        let span = match phase.amount {
            Amount::For(span) => span.as_nanos() as u64,
            Amount::Requests(_) => u64::MAX / 4,
        };
        // What was idle before belongs to no figure.
        self.idle_ns = 0;
        let mut next_roll = from + SECOND;
        for (at, due) in schedule.iter().enumerate() {
            // What a call before it held up to the end is never sent; what only its wake-up made late is.
            let free = self.plan.clock.now();
            let now = self.wait_until(from + due);
            if self.is_stopped() || free >= from + span {
                return (schedule.len() - at) as u64;
            }
            self.roll(&mut next_roll, now);
            self.call(from + due, now, true);
        }
        0
    }

    fn roll(&mut self, next_roll: &mut u64, now: u64) {
        while now >= *next_roll {
            self.tally.roll();
            *next_roll += SECOND;
        }
    }

    /// Waits until then, the last part of it awake; gives the time.
    fn wait_until(&mut self, then: u64) -> u64 {
        let begin = self.plan.clock.now();
        let mut now = begin;
        while now < then {
            if then - now > self.spin_ns {
                let nap = Duration::from_nanos(then - now - self.spin_ns).min(NAP * 10);
                std::thread::sleep(nap);
            } else {
                std::hint::spin_loop();
            }
            let after = self.plan.clock.now();
            if then - now <= self.spin_ns {
                self.idle_ns += after - now;
            }
            now = after;
            if self.is_stopped() {
                break;
            }
        }
        now
    }

    fn call(&mut self, due: u64, now: u64, measured: bool) {
        let index = self.order.next();
        Live::bump(&self.line.live.sent);
        let outcome = self.target.call(index, &mut self.state);
        let end = self.plan.clock.now();
        if outcome.is_ok() {
            Live::bump(&self.line.live.answers);
            Live::add(&self.line.live.latency_ns_sum, end - due);
        }
        if !measured {
            match outcome {
                Ok(_) => self.warm_up_answers += 1,
                Err(_) => self.warm_up_failed += 1,
            }
            return;
        }
        self.sent += 1;
        self.last_end = Some(end);
        let operation = self.plan.operation_of.get(index).map_or(0, |&at| usize::from(at));
        let checked = match outcome {
            Ok(_) if !self.sampling.takes(self.plan.checker.share()) => {
                return self.tally.unchecked(operation, end - due, end - now, now - due);
            }
            Ok(answer) => {
                let verified = self.target.verify(index, answer);
                verified.and_then(|()| {
                    let checked = self.plan.checker.check(index, answer, &mut self.numbers);
                    checked.map_err(|wrong| wrong.to_string())
                })
            }
            Err(why) => {
                Live::bump(&self.line.live.failed);
                return self.tally.error(operation, ErrorKind::Status, None, || {
                    format!("request {}: {why}", index + 1)
                });
            }
        };
        match checked {
            Ok(()) => self.tally.answer(operation, end - due, end - now, now - due),
            Err(wrong) => {
                Live::bump(&self.line.live.failed);
                self.tally
                    .wrong(operation, || format!("request {}: {wrong}", index + 1));
            }
        }
    }
}
