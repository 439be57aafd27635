//! The client thread of targets without a network: it calls, and the answer is there when the call returns.
//!
//! The same loads, tallies and reports as over a network, so that the cost of the network is the difference of two rows. Its
//! invariant: a thread has one call at a time; connections only say how many threads call.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millpond_press_recorder::{ErrorKind, Live};
use millpond_press_workload::Order;

use crate::check::Answer;
use crate::counting::{Counting, Sent};
use crate::event_loop::{SECOND, spin_ns};
use crate::local::{InProcess, Local};
use crate::plan::{Amount, Command, Line, Pace, Phase, Plan, Report};

/// Commands and seconds are looked for this often when nothing is due.
const NAP: Duration = Duration::from_millis(1);

struct Caller<'t, L: Local> {
    target: &'t InProcess<L>,
    engine: &'t L::Engine,
    plan: Arc<Plan>,
    line: Line,
    state: L::State,
    counting: Counting,
    order: Order,
    /// The last part of a wait, spent looking at the clock.
    spin_ns: u64,
}

/// The body of a thread: offers what it is told, ends when it is told.
pub(crate) fn run<L: Local>(target: &InProcess<L>, plan: Arc<Plan>, line: Line) -> Result<(), String> {
    let engine = target.engine()?;
    Live::bump(&line.live.connected);
    let _ = line.reports.try_send(Report::Ready {
        opened: 1,
        failure: None,
    });
    let mut caller = Caller {
        target,
        engine,
        state: L::State::default(),
        counting: Counting::new(&plan, &line.live),
        order: Order::new(plan.seed, line.index as u64, target.commands.len()),
        spin_ns: spin_ns(plan.client_threads, &plan.client_cpus),
        plan,
        line,
    };
    while let Ok(Command::Offer(phase)) = caller.line.commands.recv() {
        caller.offer(&phase);
    }
    Ok(())
}

impl<L: Local> Caller<'_, L> {
    fn offer(&mut self, phase: &Phase) {
        self.counting.begin();
        let mut not_sent = 0;
        match &phase.pace {
            Pace::Closed { think_ns } => self.closed(phase, *think_ns),
            Pace::Open { warm_up, measured } => {
                self.warm_up(phase.begin, warm_up);
                not_sent = self.open(phase, measured);
            }
        }
        // A caller that waits for its own call cannot tell who is slow, and has no silences.
        let handed = self.counting.hand_over(Vec::new(), |tally| {
            tally.counters.not_sent = not_sent;
            tally.counters.connections_opened = 1;
        });
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
                self.counting.measure_from = Some(from);
                match phase.amount {
                    Amount::Requests(each) => left = each,
                    Amount::For(span) => until = from + span.as_nanos() as u64,
                }
                continue;
            }
            self.roll(&mut next_roll, now);
            self.call(now, now, now);
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
            self.call(begin + at, begin + at, now);
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
            Amount::For(span) => (span + phase.late_max).as_nanos() as u64,
            Amount::Requests(_) => u64::MAX / 4,
        };
        self.counting.measure_from = Some(from);
        // What was idle before belongs to no figure.
        self.counting.idle_ns = 0;
        let mut next_roll = from + SECOND;
        for (at, due) in schedule.iter().enumerate() {
            // What a call before it held up to the end is never sent; what only its wake-up made late is.
            let free = self.plan.clock.now();
            let now = self.wait_until(from + due);
            if self.is_stopped() || free >= from + span {
                return (schedule.len() - at) as u64;
            }
            self.roll(&mut next_roll, now);
            // While a call before it ran it waited for that, and not for this thread to wake up.
            self.call(from + due, free.max(from + due), now);
        }
        0
    }

    fn roll(&mut self, next_roll: &mut u64, now: u64) {
        while now >= *next_roll {
            self.counting.tally.roll();
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
                self.counting.idle_ns += after - now;
            }
            now = after;
            if self.is_stopped() {
                break;
            }
        }
        now
    }

    fn call(&mut self, due: u64, eligible: u64, now: u64) {
        let index = self.order.next();
        self.counting.sent(due);
        let outcome = L::call(self.engine, &self.target.commands[index], &mut self.state);
        let end = self.plan.clock.now();
        let sent = Sent {
            due,
            eligible,
            at: now,
            index: index as u32,
            over: false,
        };
        let verify = |index, answer: Answer<'_>| self.target.target.verify(index, answer);
        match outcome {
            Ok(answer) => self.counting.answered(&sent, answer, end, verify),
            Err(why) => self.counting.failed(&sent, ErrorKind::Status, None, &why, end),
        }
    }
}
