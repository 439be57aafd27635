//! Switches of feature tables in all processes or in none.
//!
//! All open, the parent takes the step that cannot be taken back, all swap. Its invariants: there is one switch at a time; a
//! process that fails or ends while all open ends the switch everywhere; and one that starts later opens the versions of the
//! others, whatever the tables' folders have by then, and accepts with them.

use super::{Event, Order, Parent, must_hear};
use crate::switch::{Plan, Refusal, Step, busy};
use millpond_catalog::Serving;
use millpond_wire_schema::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long processes may open a version. A disk that never answers is not to end all switches.
const OPEN_MAX: Duration = Duration::from_secs(600);

/// The switch that goes on, and what those before it came to.
#[derive(Default)]
pub(super) struct Switches {
    /// Of the last switch that began.
    number: u64,
    going: Option<Going>,
    /// What each table serves in all processes: what the first of them opened, then what was switched to.
    serving: BTreeMap<String, Serving>,
    /// Processes that got warm meanwhile.
    warm: Vec<usize>,
}

struct Going {
    plan: Plan,
    /// The process that asked, while it is there, and the number of its call.
    asks: Option<(usize, u64)>,
    /// The processes that take part and are still there.
    parts: BTreeSet<usize>,
    /// Those of them that have not taken the step that goes on.
    waiting: BTreeSet<usize>,
    stage: Stage,
    began: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Each opens what the switch takes.
    Opening,
    /// A thread of the parent writes to the table's folder.
    Deciding,
    /// Each swaps; why a restart will not serve it, if it will not.
    Closing(Option<String>),
}

impl Switches {
    /// Whether a process that got warm has to wait for the end of a switch; then it is remembered.
    pub(super) fn waits_for_end(&mut self, number: usize) -> bool {
        if self.going.is_some() {
            self.warm.push(number);
        }
        self.going.is_some()
    }

    /// A process that got warm has opened these. What others serve already stays: it follows.
    pub(super) fn learn(&mut self, serving: BTreeMap<String, Serving>) {
        for (table, serving) in serving {
            self.serving.entry(table).or_insert(serving);
        }
    }

    /// What each table serves, as far as it is known: a process that starts is to open that.
    pub(super) fn serving(&self) -> &BTreeMap<String, Serving> {
        &self.serving
    }

    fn going(&mut self, switch: u64, stage: &Stage) -> Option<&mut Going> {
        let is_of_now = self.number == switch;
        let going = self.going.as_mut().filter(|_| is_of_now)?;
        let is_same = std::mem::discriminant(&going.stage) == std::mem::discriminant(stage);
        is_same.then_some(going)
    }
}

impl Parent {
    /// A call at one process asks for a switch.
    pub(super) fn switch(&mut self, asks: usize, asked: u64, plan: Plan) {
        let mut joining = self.members.iter().map(|member| &member.life);
        let refusal = if self.switches.going.is_some() {
            Some(busy())
        } else if joining.any(|life| life.is_warm && life.ready_since.is_none()) {
            // It is told once what to follow, and that may be on its way.
            let ex = "a process is starting; nothing was changed, try again when all are ready";
            Some(Refusal::passing(Code::Conflict, ex))
        } else {
            let served = self.switches.serving.get(&plan.table);
            plan.check_is_above(served.map_or(0, |served| served.highest))
                .err()
        };
        if let Some(refusal) = refusal {
            return self.answer(Some((asks, asked)), Err(refusal));
        }
        self.switches.number += 1;
        let number = self.switches.number;
        let mut parts = BTreeSet::new();
        for (part, worker) in self.fleet.workers() {
            if self.members[part].life.is_warm {
                parts.insert(part);
                let plan = plan.clone();
                must_hear(worker, Order::Open { switch: number, plan });
            }
        }
        self.switches.going = Some(Going {
            plan,
            asks: Some((asks, asked)),
            waiting: parts.clone(),
            parts,
            stage: Stage::Opening,
            began: Instant::now(),
        });
    }

    /// Ends a switch that takes too long to open.
    pub(super) fn end_late_switch(&mut self, now: Instant) {
        let going = self.switches.going.as_ref();
        let is_late = |going: &&Going| {
            going.stage == Stage::Opening && now.saturating_duration_since(going.began) > OPEN_MAX
        };
        let Some(going) = going.filter(is_late) else {
            return;
        };
        let waiting: Vec<String> = going.waiting.iter().map(ToString::to_string).collect();
        let ex = format!(
            "processes {} have not opened the version within {} s; nothing was changed",
            waiting.join(", "),
            OPEN_MAX.as_secs()
        );
        self.end_switch(Err(Refusal::new(Code::StorageFailed, ex)));
    }

    /// A process has opened what the switch takes, or cannot.
    pub(super) fn opened(&mut self, part: usize, switch: u64, refusal: Option<Refusal>) {
        let Some(going) = self.switches.going(switch, &Stage::Opening) else {
            return;
        };
        if let Some(mut refusal) = refusal {
            refusal.ex = format!("process {part}: {}", refusal.ex);
            return self.end_switch(Err(refusal));
        }
        going.waiting.remove(&part);
        if !going.waiting.is_empty() {
            return;
        }
        going.stage = Stage::Deciding;
        let (plan, events) = (going.plan.clone(), self.beginning.events.clone());
        // This thread does not wait for a disk.
        let thread = std::thread::Builder::new().name("switch".into());
        let started = thread.spawn(move || {
            let decision = plan.check_lasts().and_then(|()| plan.decide());
            let _ = events.send(Event::Decided(switch, decision));
        });
        if let Err(error) = started {
            let ex = format!("the parent of the processes cannot start a thread: {error}");
            self.end_switch(Err(Refusal::new(Code::Internal, ex)));
        }
    }

    /// The step that cannot be taken back is taken, or was refused.
    pub(super) fn decided(&mut self, switch: u64, decision: Result<Option<String>, Refusal>) {
        let Some(going) = self.switches.going(switch, &Stage::Deciding) else {
            return;
        };
        let why_not = match decision {
            Ok(why_not) => why_not,
            Err(refusal) => return self.end_switch(Err(refusal)),
        };
        going.stage = Stage::Closing(why_not);
        going.waiting = going.parts.clone();
        if let Step::Activate { before, .. } = going.plan.step {
            let Plan { table, version, .. } = going.plan.clone();
            let served = self.switches.serving.get(&table);
            let highest = served.map_or(version, |served| served.highest.max(version));
            let serving = Serving {
                version,
                before,
                highest,
            };
            self.switches.serving.insert(table, serving);
        }
        self.close_all(true);
        self.end_when_closed();
    }

    /// A process serves it.
    pub(super) fn closed(&mut self, part: usize, switch: u64) {
        let Some(going) = self.switches.going(switch, &Stage::Closing(None)) else {
            return;
        };
        going.waiting.remove(&part);
        self.end_when_closed();
    }

    /// A process has ended: before the decision that is a failure, after it the process starts with what was decided.
    pub(super) fn left_switch(&mut self, number: usize) {
        self.switches.warm.retain(|warm| *warm != number);
        let Some(going) = &mut self.switches.going else {
            return;
        };
        going.asks.take_if(|(asks, _)| *asks == number);
        going.waiting.remove(&number);
        let took_part = going.parts.remove(&number);
        match going.stage {
            Stage::Opening if took_part => {
                let ex = format!("process {number} ended while it opened the version; nothing was changed");
                self.end_switch(Err(Refusal::new(Code::Internal, ex)));
            }
            Stage::Opening | Stage::Deciding => {}
            Stage::Closing(_) => self.end_when_closed(),
        }
    }

    fn end_when_closed(&mut self) {
        let Some(going) = &mut self.switches.going else {
            return;
        };
        if let (Stage::Closing(why_not), true) = (&mut going.stage, going.waiting.is_empty()) {
            let why_not = why_not.take();
            self.end_switch(Ok(why_not));
        }
    }

    /// Tells all that take part how it was decided.
    fn close_all(&self, is_made: bool) {
        let Some(going) = &self.switches.going else { return };
        let switch = self.switches.number;
        for (number, worker) in self.fleet.workers() {
            if going.parts.contains(&number) {
                must_hear(worker, Order::Close { switch, is_made });
            }
        }
    }

    /// It has ended: says so where it was asked for, and lets processes serve that got warm meanwhile.
    fn end_switch(&mut self, outcome: Result<Option<String>, Refusal>) {
        if outcome.is_err() {
            self.close_all(false);
        }
        let Some(going) = self.switches.going.take() else {
            return;
        };
        self.answer(going.asks, outcome);
        for number in std::mem::take(&mut self.switches.warm) {
            self.warm(number);
        }
    }

    fn answer(&self, asks: Option<(usize, u64)>, outcome: Result<Option<String>, Refusal>) {
        let Some((asks, asked)) = asks else { return };
        if let Some(worker) = self.fleet.worker(asks) {
            must_hear(worker, Order::Switched { asked, outcome });
        }
    }
}
