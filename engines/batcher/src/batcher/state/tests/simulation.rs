//! Callers, instances and a clock that jumps from one event to the next, around the state that serves: what a load comes to, the same
//! on every machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::super::places::{Visit, Wake};
use super::super::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Numbers that differ from draw to draw and not from test to test.
pub(super) struct Numbers(pub u64);

impl Numbers {
    /// Evenly between 0 and 1.
    pub(super) fn even(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64) / (1u64 << 53) as f64
    }

    /// As good as normal.
    fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.even()).sum();
        mean + deviation * (sum - 6.0)
    }

    fn exponential(&mut self, rate: f64) -> f64 {
        -(1.0 - self.even()).ln() / rate
    }
}

/// Who calls. Times are in milliseconds.
#[derive(Debug, Clone)]
pub(super) enum Callers {
    /// So many that each call again some time after their answer, by so many connections.
    Closed {
        callers: usize,
        connections: usize,
        back_after: (f64, f64),
        rows: usize,
    },
    /// As [`Callers::Closed`], by connections of their own, but now this long, now that long, so many times each.
    Turning {
        callers: usize,
        back_after: [(f64, f64); 2],
        turns_after: usize,
    },
    /// Calls at random times, of random connections.
    Open { per_ms: f64, connections: u64 },
    /// So many calls at once, time and again.
    Bursts {
        calls: usize,
        every: f64,
        connections: u64,
    },
}

pub(super) fn closed(callers: usize, back_after: (f64, f64)) -> Callers {
    Callers::Closed {
        callers,
        connections: callers,
        back_after,
        rows: 1,
    }
}

/// A model and what calls it.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub callers: Vec<Callers>,
    pub instances: usize,
    pub batch_size_max: usize,
    /// Milliseconds of a run, and of each of its rows.
    pub run: (f64, f64),
    pub deadline_ms: Option<f64>,
    /// `batch_delay_us_max`.
    pub delay_us: u64,
    pub greedy: bool,
    /// Callers run their requests themselves where they can.
    pub here: bool,
    /// Deadlines alone decide who may wait, however long the queue has been.
    pub deadlines_alone: bool,
    pub ms: f64,
    /// Answers to calls before do not count.
    pub counted_from_ms: f64,
    /// After so long a closed caller calls again that was refused or dropped; without, it gives up.
    pub retry_ms: Option<f64>,
    /// Runs that take longer: from when on, and by how many milliseconds; one each.
    pub held_up: Vec<(f64, f64)>,
    /// When each group begins to call; without, at once.
    pub from_ms: Vec<f64>,
    /// When each group stops to call; without, it never does.
    pub until_ms: Vec<f64>,
    /// The level of each group's calls; without, the default.
    pub priorities: Vec<u8>,
    pub seed: u64,
}

impl Load {
    pub(super) fn of(callers: impl Into<Vec<Callers>>) -> Load {
        Load {
            callers: callers.into(),
            instances: 1,
            batch_size_max: 4,
            run: (2.0, 0.1),
            deadline_ms: None,
            delay_us: 0,
            greedy: false,
            here: false,
            deadlines_alone: false,
            ms: 6_000.0,
            counted_from_ms: 0.0,
            retry_ms: None,
            held_up: Vec::new(),
            from_ms: Vec::new(),
            until_ms: Vec::new(),
            priorities: Vec::new(),
            seed: 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Eq, Ord)]
enum Event {
    /// One of these callers calls.
    Call {
        group: usize,
        caller: usize,
    },
    End {
        instance: usize,
    },
    Timer {
        instance: usize,
    },
}

/// What a load came to.
#[derive(Debug, Default, Clone)]
pub(super) struct Outcome {
    /// Milliseconds from call to answer, of each answer by group.
    pub latencies: Vec<Vec<f64>>,
    pub refused: usize,
    /// The groups of these, and the milliseconds at which that was.
    pub refused_at: Vec<(usize, f64)>,
    /// Times the queue was found to stand.
    pub episodes: u64,
    pub late: usize,
    pub runs: usize,
    pub counts: holding::Counts,
    pub filling: filling::Counts,
    pub ms: f64,
}

impl Outcome {
    fn all(&self) -> Vec<f64> {
        let mut all = self.latencies.concat();
        all.sort_by(f64::total_cmp);
        all
    }

    pub(super) fn per_s(&self) -> f64 {
        self.all().len() as f64 / self.ms * 1e3
    }

    pub(super) fn percentile(&self, part: f64) -> f64 {
        let all = self.all();
        all[(all.len() as f64 * part) as usize]
    }
}

/// What an instance is at.
#[derive(Debug, Clone, Default)]
enum At {
    #[default]
    Sleep,
    /// Group, caller and time of each of its calls.
    Run(Vec<(usize, usize, f64)>),
    /// The same of a caller that has this instance's place.
    Lent((usize, usize, f64)),
}

struct Machine {
    load: Load,
    state: State,
    origin: Instant,
    now: f64,
    cut: Cut,
    at: Vec<At>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
    numbers: Numbers,
    outcome: Outcome,
}

pub(super) fn simulate(load: &Load) -> Outcome {
    let options = BatcherOptions {
        instances: load.instances,
        batch_size_max: load.batch_size_max,
        batch_delay_us_max: load.delay_us,
        queue_max: 4096,
        queue_bytes_max: usize::MAX,
        ..BatcherOptions::default()
    };
    let origin = Instant::now();
    let mut state = State::new(&options, origin);
    if load.greedy {
        state.be_greedy(origin);
    }
    let mut machine = Machine {
        load: load.clone(),
        state,
        origin,
        now: 0.0,
        cut: Cut::default(),
        at: vec![At::Sleep; load.instances],
        events: BinaryHeap::new(),
        pushed: 0,
        numbers: Numbers(load.seed),
        outcome: Outcome {
            latencies: vec![Vec::new(); load.callers.len()],
            ms: load.ms - load.counted_from_ms,
            ..Outcome::default()
        },
    };
    machine.begin();
    while let Some(Reverse((ns, _, event))) = machine.events.pop() {
        machine.now = ns as f64 / 1e6;
        if machine.now > load.ms {
            break;
        }
        machine.happen(event);
    }
    machine.outcome.counts = machine.state.holding.counts;
    machine.outcome.filling = machine.state.filling.counts;
    machine.outcome.episodes = machine.state.standing.episodes();
    machine.outcome
}

impl Machine {
    fn begin(&mut self) {
        for (group, callers) in self.load.callers.clone().into_iter().enumerate() {
            let first = match callers {
                Callers::Closed { callers, .. } | Callers::Turning { callers, .. } => callers,
                Callers::Open { .. } | Callers::Bursts { .. } => 1,
            };
            for caller in 0..first {
                let from = self.load.from_ms.get(group).copied().unwrap_or(0.0);
                let after = from + self.numbers.even();
                self.push(after, Event::Call { group, caller });
            }
        }
    }

    fn push(&mut self, after_ms: f64, event: Event) {
        self.pushed += 1;
        let ns = ((self.now + after_ms) * 1e6) as u64;
        self.events.push(Reverse((ns, self.pushed, event)));
    }

    fn clock(&self) -> Instant {
        self.origin + Duration::from_nanos((self.now * 1e6) as u64)
    }

    fn happen(&mut self, event: Event) {
        if self.load.deadlines_alone {
            self.state.standing = Standing::default();
        }
        match event {
            Event::Call { group, caller } => self.call(group, caller),
            Event::End { instance } => {
                let at = std::mem::take(&mut self.at[instance]);
                let is_lent = matches!(at, At::Lent(_));
                let calls = match at {
                    At::Run(calls) => calls,
                    At::Lent(call) => vec![call],
                    At::Sleep => return,
                };
                let counts = |(_, _, called): &&(usize, usize, f64)| *called >= self.load.counted_from_ms;
                for (group, _, called) in calls.iter().filter(counts) {
                    self.outcome.latencies[*group].push(self.now - called);
                }
                match is_lent {
                    true => self.give_back(instance),
                    false => self.act(instance),
                }
                for (group, caller, _) in calls {
                    if let Some((mean, deviation)) = self.back_after(group) {
                        let back = self.numbers.normal(mean, deviation).max(0.02);
                        self.push(back, Event::Call { group, caller });
                    }
                }
            }
            Event::Timer { instance } if self.state.holds(instance.into()) => self.act(instance),
            Event::Timer { .. } => {}
        }
    }

    /// After how long a caller that was answered calls again, if it does.
    fn back_after(&self, group: usize) -> Option<(f64, f64)> {
        match &self.load.callers[group] {
            Callers::Closed { back_after, .. } => Some(*back_after),
            Callers::Turning {
                callers,
                back_after,
                turns_after,
            } => Some(back_after[self.outcome.latencies[group].len() / (callers * turns_after) % 2]),
            Callers::Open { .. } | Callers::Bursts { .. } => None,
        }
    }

    /// A caller has no answer.
    fn again(&mut self, group: usize, caller: usize) {
        if let (Some(ms), Some(_)) = (self.load.retry_ms, self.back_after(group)) {
            self.push(ms, Event::Call { group, caller });
        }
    }

    fn call(&mut self, group: usize, caller: usize) {
        if self
            .load
            .until_ms
            .get(group)
            .is_some_and(|until| self.now > *until)
        {
            return;
        }
        match self.load.callers[group].clone() {
            Callers::Closed {
                connections, rows, ..
            } => self.submit(group, caller, (caller % connections) as u64, rows),
            Callers::Turning { .. } => self.submit(group, caller, caller as u64, 1),
            Callers::Open { per_ms, connections } => {
                let source = (self.numbers.even() * connections as f64) as u64;
                self.submit(group, caller, source, 1);
                let next = self.numbers.exponential(per_ms);
                self.push(next, Event::Call { group, caller });
            }
            Callers::Bursts {
                calls,
                every,
                connections,
            } => {
                for number in 0..calls {
                    self.submit(group, caller, number as u64 % connections, 1);
                }
                self.push(every, Event::Call { group, caller });
            }
        }
    }

    fn submit(&mut self, group: usize, caller: usize, source: u64, rows: usize) {
        let now = self.clock();
        let level = self.load.priorities.get(group);
        let priority = level.map_or(Priority::DEFAULT, |level| Priority::new(*level).unwrap());
        let request = Request {
            source: source + 1000 * group as u64,
            priority,
            inputs: Vec::new(),
            rows,
            deadline: self
                .load
                .deadline_ms
                .map(|ms| now + Duration::from_secs_f64(ms / 1e3)),
            gone: Arc::default(),
            // Tells this call from others.
            kept_bytes: group << 32 | caller,
            done: Box::new(|_| ()),
        };
        let visit = match self.load.here {
            true => self.state.visit(request, now),
            false => self.state.submit(request, now).map(Visit::Queued),
        };
        let accepted = match visit {
            Ok(Visit::Queued(accepted)) => accepted,
            Ok(Visit::Lent(lent)) => {
                self.at[lent.place] = At::Lent((group, caller, self.now));
                self.outcome.runs += 1;
                let took = self.load.run.0 + self.load.run.1 * rows as f64;
                let instance = lent.place;
                return self.push(took, Event::End { instance });
            }
            Err(_) => {
                self.outcome.refused += 1;
                self.outcome.refused_at.push((group, self.now));
                return self.again(group, caller);
            }
        };
        assert!(accepted.evicted.is_none());
        if accepted.call {
            self.wake();
        } else if let Some(holder) =
            (0..self.load.instances).find(|instance| self.state.holds((*instance).into()))
        {
            self.act(holder);
        }
    }

    /// A caller is through with the run that it had in this instance's place.
    fn give_back(&mut self, place: usize) {
        match self.state.give_back(place, None, true, self.clock()) {
            Wake::Nobody => {}
            Wake::Sleeper | Wake::Holder => self.wake(),
            Wake::All => panic!("nobody stops"),
        }
    }

    /// The first sleeper takes the call.
    fn wake(&mut self) {
        self.state.called -= 1;
        self.state.take_place();
        let is_asleep = |instance: &usize| {
            matches!(self.at[*instance], At::Sleep) && !self.state.holds((*instance).into())
        };
        let sleeper = (0..self.load.instances).find(is_asleep).unwrap();
        self.act(sleeper);
    }

    fn act(&mut self, instance: usize) {
        let now = self.clock();
        self.cut.batch.clear();
        self.cut.dropped.clear();
        match self.state.next(instance.into(), now, &mut self.cut) {
            Act::Serve { releases } => {
                self.outcome.late += self.cut.dropped.len();
                let rows: usize = self.cut.batch.iter().map(|waiting| waiting.request.rows).sum();
                let origin = self.origin;
                let call_of = |waiting: &Waiting| {
                    let called = waiting.submitted.duration_since(origin).as_secs_f64() * 1e3;
                    let number = waiting.request.kept_bytes;
                    (number >> 32, number & 0xffff_ffff, called)
                };
                let dropped: Vec<_> = self
                    .cut
                    .dropped
                    .iter()
                    .map(|(waiting, _)| call_of(waiting))
                    .collect();
                for (group, caller, _) in dropped {
                    self.again(group, caller);
                }
                self.at[instance] = At::Run(self.cut.batch.iter().map(call_of).collect());
                self.outcome.runs += 1;
                let took = if rows > 0 {
                    self.load.run.0 + self.load.run.1 * rows as f64
                } else {
                    0.0
                };
                let held_up = self
                    .load
                    .held_up
                    .first()
                    .filter(|(from, _)| rows > 0 && *from <= self.now);
                let longer = held_up.map_or(0.0, |(_, longer)| *longer);
                if longer > 0.0 {
                    self.load.held_up.remove(0);
                }
                let took = took + longer;
                self.push(took, Event::End { instance });
                if releases && self.state.called > 0 {
                    self.wake();
                }
            }
            Act::Hold(until) => {
                let after = until.saturating_duration_since(now).as_secs_f64() * 1e3;
                // A little late, as sleepers wake.
                self.push(after + 0.06, Event::Timer { instance });
            }
            Act::Rest => {}
            Act::WarmUp(_) | Act::Stop => panic!("nobody asked for it"),
        }
    }
}
