//! One request on its way through the stages of a pipeline: what can start is started, and several waits join.
//!
//! It knows no kind of stage. Its invariants: a stage runs when all that it reads is settled; a value goes behind its last
//! reader; and a request ends once, however many of its stages wait.

use crate::opening::Work;
use crate::pipeline::{Pipeline, Ready};
use crate::stage::{Given, Slot, State, Step};
use crate::threads::{Caller, Threads};
use crate::verdict::Verdict;
use crate::wait::Kept;
use crate::{Ask, Error, StageTimes, Value, Wait, here, threads};
use millpond_engines_batcher::{self as batcher, Batcher, Timing};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One request on its way through the stages.
pub(crate) struct Run {
    pub(crate) pipeline: Arc<Pipeline>,
    /// Of the inputs, then of what the stages give.
    pub(crate) slots: Vec<Slot>,
    /// Those of the request, where it has them.
    pub(crate) rows: Option<usize>,
    /// Which outputs are wanted; all where it is empty.
    pub(crate) wanted: Vec<usize>,
    /// Of the models that it waited for: their times together, and the batch of the last one.
    pub(crate) timing: Option<Timing>,
    /// The stage that ended the pipeline: it and those behind it are skipped.
    pub(crate) ends_at: Option<usize>,
    /// Who waits for it on this thread, if anyone does.
    pub(crate) caller: Option<Caller>,
    /// When the last stage ended that ran on this thread, since the request came here.
    pub(crate) lap: Option<Instant>,
}

/// How far a request has come.
pub enum Progress {
    /// All stages have run.
    Done(Output),
    /// A stage waits, or several do; the rest runs when what they wait for is there.
    Waits(Waiting),
}

/// What a pipeline came to.
#[derive(Debug)]
pub struct Output {
    /// What its last stage gave; `None` where that was skipped, and for a request of values.
    pub value: Option<Value>,
    /// What a request of values gets, by name.
    pub values: Vec<(Arc<str>, Value)>,
    /// The stages that had no value for a request of values, by name.
    pub skipped: Vec<Arc<str>>,
    /// Where the time of its models went, if one ran; the batch is the last one's.
    pub timing: Option<Timing>,
    /// Where the time of its stages went.
    pub times: StageTimes,
}

impl Output {
    /// One score a row, if that is what the last stage gave.
    pub fn scores(&self) -> Option<&[f32]> {
        self.value.as_ref()?.tensor().ok()?.f32()
    }
}

/// Stages that wait, each with its position: mostly one.
#[derive(Default)]
struct Waits {
    first: Option<(usize, Wait)>,
    more: Vec<(usize, Wait)>,
}

impl Waits {
    fn push(&mut self, wait: (usize, Wait)) {
        match self.first {
            None => self.first = Some(wait),
            Some(_) => self.more.push(wait),
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }
}

/// A request that waits for models, or for threads of its stages.
pub struct Waiting {
    run: Run,
    first: (usize, Wait),
    more: Vec<(usize, Wait)>,
}

impl Waiting {
    /// Which values it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = bool> {
        self.run.slots.iter().map(|slot| slot.value().is_some())
    }

    /// As [`Waiting::start`], for a caller that only waits: this thread runs what the request waits for, model by model, where an instance
    /// is idle ([`Batcher::run_here`]), and the rest of the stages. `done` has been called when this returns, unless something had to wait;
    /// of several models that can run at a time this thread runs one.
    pub fn start_here<D>(self, ask: Ask, done: D)
    where
        D: FnOnce(Result<Output, Error>) + Send + 'static,
    {
        here::turn(|| self.start(ask, here::hand_over, done));
    }

    /// Asks for what it waits for: `submit` gets each request and the batcher that it is for, and hands it over, as
    /// [`submit`](crate::submit) does. What comes later is submitted where an answer comes from. `done` is called once with what the
    /// pipeline came to, on the thread that the request is answered on.
    pub fn start<D>(self, mut ask: Ask, mut hand_over: impl FnMut(Arc<Batcher>, batcher::Request), done: D)
    where
        D: FnOnce(Result<Output, Error>) + Send + 'static,
    {
        let Waiting { mut run, first, more } = self;
        run.caller = None;
        let again = ask.clone();
        ask.kept_bytes = run.kept_bytes(ask.kept_bytes);
        if more.is_empty() {
            let (at, mut wait) = first;
            let kept = std::mem::take(&mut wait.kept);
            let (batcher, request) =
                wait.request(ask, move |answer| run.resume(at, kept, answer, again, done));
            return hand_over(batcher, request);
        }
        let joint = Joint {
            run,
            outstanding: 1 + more.len(),
            done,
        };
        let joint = Arc::new(Mutex::new(Some(joint)));
        for (at, wait) in std::iter::once(first).chain(more) {
            let (batcher, request) = joined(&joint, at, wait, &ask, &again);
            hand_over(batcher, request);
            // One that was refused has ended them all.
            if lock(&joint).is_none() {
                return;
            }
        }
    }
}

/// A request of which several stages wait.
struct Joint<D> {
    run: Run,
    /// How many of its stages wait.
    outstanding: usize,
    done: D,
}

/// `None`: it has ended.
type Shared<D> = Arc<Mutex<Option<Joint<D>>>>;

fn lock<D>(joint: &Shared<D>) -> MutexGuard<'_, Option<Joint<D>>> {
    joint.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The request of one stage of several that wait. Each model's queue counts all bytes that the request keeps: it may wait there alone.
fn joined<D>(
    joint: &Shared<D>,
    at: usize,
    mut wait: Wait,
    ask: &Ask,
    again: &Ask,
) -> (Arc<Batcher>, batcher::Request)
where
    D: FnOnce(Result<Output, Error>) + Send + 'static,
{
    let kept = std::mem::take(&mut wait.kept);
    let (joint, again) = (Arc::clone(joint), again.clone());
    wait.request(ask.clone(), move |answer| {
        resume_joined(&joint, at, kept, answer, &again);
    })
}

/// Goes on where one of several stages has its answer. The lock is not held while requests are handed over: one that gives way may
/// be this request's own.
fn resume_joined<D>(
    joint: &Shared<D>,
    at: usize,
    kept: Kept,
    answer: Result<batcher::Answer, batcher::Error>,
    again: &Ask,
) where
    D: FnOnce(Result<Output, Error>) + Send + 'static,
{
    let mut state = lock(joint);
    let Some(running) = state.as_mut() else { return };
    let mut waits = Waits::default();
    let ran = running.run.answered(at, kept, answer);
    let ran = ran.and_then(|()| running.run.advance(&mut waits));
    running.outstanding = running.outstanding - 1 + waits.len();
    let has_ended = ran.is_err() || running.outstanding == 0;
    let mut ask = again.clone();
    if has_ended {
        let ended = state.take();
        drop(state);
        if let Some(Joint { run, done, .. }) = ended {
            done(ran.map(|()| run.output()));
        }
        return;
    }
    if waits.first.is_some() {
        ask.kept_bytes = running.run.kept_bytes(0);
    }
    drop(state);
    for (at, wait) in waits.first.into_iter().chain(waits.more) {
        let (batcher, request) = joined(joint, at, wait, &ask, again);
        here::hand_over(batcher, request);
        if lock(joint).is_none() {
            return;
        }
    }
}

impl Run {
    /// Runs stages until all have run, or those that can have.
    pub(crate) fn go_on(mut self) -> Result<Progress, Error> {
        let mut waits = Waits::default();
        self.advance(&mut waits)?;
        Ok(match waits.first {
            Some(first) => Progress::Waits(Waiting {
                run: self,
                first,
                more: waits.more,
            }),
            None => Progress::Done(self.output()),
        })
    }

    fn resume<D>(
        mut self,
        at: usize,
        kept: Kept,
        answer: Result<batcher::Answer, batcher::Error>,
        ask: Ask,
        done: D,
    ) where
        D: FnOnce(Result<Output, Error>) + Send + 'static,
    {
        here::go_on(move || {
            self.caller = here::has_turn().then(|| Caller::of(&ask));
            let progress = self.answered(at, kept, answer).and_then(|()| self.go_on());
            match progress {
                Err(error) => done(Err(error)),
                Ok(Progress::Done(output)) => done(Ok(output)),
                Ok(Progress::Waits(waiting)) => waiting.start(ask, here::hand_over, done),
            }
        });
    }

    /// Starts every stage that can.
    fn advance(&mut self, waits: &mut Waits) -> Result<(), Error> {
        let pipeline = Arc::clone(&self.pipeline);
        for (at, ready) in pipeline.stages.iter().enumerate() {
            if !matches!(self.slots[ready.gives.start].state, State::Open) {
                continue;
            }
            let verdict = self.verdict(at, ready);
            match verdict.inspect_err(|_| ready.counts.failed())? {
                // Which stages a filter ends must not depend on which of them was faster.
                Verdict::Open(true) => break,
                Verdict::Open(false) => {}
                Verdict::Skip => self.skip(ready)?,
                Verdict::Gives(slot) => {
                    let value = self.slots[slot].take();
                    let value = value.ok_or_else(|| Error::not_given("what its filter found"))?;
                    // Counted off by the take.
                    self.slots[slot].readers += 1;
                    self.release(ready);
                    self.settle(ready, Step::Value(value))?;
                }
                Verdict::Run => {
                    if let Some(wait) = self.start_timed(ready)? {
                        waits.push((at, wait));
                    }
                }
            }
        }
        // What comes next on this thread may come any time later.
        self.lap = None;
        Ok(())
    }

    fn skip(&mut self, ready: &Ready) -> Result<(), Error> {
        ready.counts.skipped();
        self.release(ready);
        self.settle(ready, Step::Skip)
    }

    /// Counts a stage off among the readers of what it takes and looks at.
    fn release(&mut self, ready: &Ready) {
        let looks = ready.filters.iter().map(|(_, slot)| slot);
        ready
            .takes
            .iter()
            .chain(looks)
            .for_each(|at| self.slots[*at].release());
    }

    /// Runs a stage, and counts what it took unless it waits. The clock is read between stages: once more than stages run here.
    fn start_timed(&mut self, ready: &Ready) -> Result<Option<Wait>, Error> {
        let began = self.lap.take().unwrap_or_else(Instant::now);
        match self.start(ready).inspect_err(|_| ready.counts.failed())? {
            Some(mut wait) => {
                wait.kept.began = Some(began);
                Ok(Some(wait))
            }
            None => {
                let ended = self.lap.unwrap_or_else(Instant::now);
                self.took(ready, Duration::ZERO, ended.saturating_duration_since(began));
                self.lap = Some(ended);
                Ok(None)
            }
        }
    }

    /// Runs a stage whose values are there.
    fn start(&mut self, ready: &Ready) -> Result<Option<Wait>, Error> {
        self.check(ready)?;
        let step = match &ready.work {
            Work::Here(stage) => {
                let step = stage.run(&Given::new(&self.slots, &ready.takes, self.rows))?;
                self.release(ready);
                step
            }
            Work::Threads(threads) => {
                if let Some(step) = self.run_here(ready, threads)? {
                    return self.settle(ready, step).map(|()| None);
                }
                let looks = ready.filters.iter().map(|(_, slot)| *slot);
                looks.for_each(|at| self.slots[at].release());
                let slots = &mut self.slots;
                let values = ready.takes.iter().map(|at| {
                    let value = slots.get_mut(*at).and_then(Slot::take);
                    value.ok_or_else(|| Error::not_given("all that it takes"))
                });
                let inputs = threads::inputs(self.rows, values)?;
                Step::Wait(Wait::new(&threads.batcher, inputs, 1))
            }
        };
        match step {
            Step::Wait(wait) => {
                self.slots[ready.gives.start].state = State::Waits;
                Ok(Some(wait))
            }
            step => self.settle(ready, step).map(|()| None),
        }
    }

    /// Runs a stage that has threads on the thread of the caller, where nothing else of the request could run beside it.
    fn run_here(&mut self, ready: &Ready, threads: &Threads) -> Result<Option<Step>, Error> {
        let Some(caller) = self.caller.filter(|_| ready.is_alone) else {
            return Ok(None);
        };
        let given = Given::new(&self.slots, &ready.takes, self.rows);
        let ran = threads.run_here(&given, &caller, self.kept_bytes(caller.kept_bytes))?;
        Ok(ran.map(|(step, timing)| {
            self.release(ready);
            self.add(timing);
            self.lap = Some(timing.ended);
            step
        }))
    }

    /// What it takes is what it was planned for, where that is known only now.
    fn check(&self, ready: &Ready) -> Result<(), Error> {
        for check in &ready.checks {
            let found = self.slots[ready.takes[check.at]]
                .value()
                .map(|value| &value.items);
            if let Some(found) = found.filter(|found| !check.kinds.contains(&found.kind())) {
                let problem = format!(
                    "stage {:?} of pipeline {:?} takes {} by its key {}, and this request gives it {}{}",
                    ready.name,
                    self.pipeline.name(),
                    check.expected(),
                    check.key,
                    found.found(),
                    check.hint()
                );
                return Err(Error::Request { problem });
            }
        }
        Ok(())
    }

    /// Puts down what a stage came to.
    fn settle(&mut self, ready: &Ready, step: Step) -> Result<(), Error> {
        let slots = &mut self.slots[ready.gives.clone()];
        let put = |slot: &mut Slot, value| {
            slot.state = match slot.readers {
                0 => State::Spent,
                _ => State::There(value),
            };
        };
        match step {
            Step::Value(value) if slots.len() == 1 => put(&mut slots[0], value),
            Step::Values(values) if slots.len() == values.len() => {
                slots
                    .iter_mut()
                    .zip(values)
                    .for_each(|(slot, value)| put(slot, value));
            }
            Step::Skip => slots.iter_mut().for_each(|slot| slot.state = State::Skipped),
            _ => return Err(Error::not_given("a value for each of its outputs")),
        }
        Ok(())
    }

    /// What a stage waited for is there.
    fn answered(
        &mut self,
        at: usize,
        kept: Kept,
        answer: Result<batcher::Answer, batcher::Error>,
    ) -> Result<(), Error> {
        let pipeline = Arc::clone(&self.pipeline);
        let ready = pipeline
            .stages
            .get(at)
            .ok_or_else(|| Error::not_given("its place"))?;
        let finished = self.finish(ready, kept, answer);
        finished.inspect_err(|_| ready.counts.failed())
    }

    /// Settles a stage that waited, and counts its time: before its submission, in the queue, in the run, and after it.
    fn finish(
        &mut self,
        ready: &Ready,
        kept: Kept,
        answer: Result<batcher::Answer, batcher::Error>,
    ) -> Result<(), Error> {
        let answer = answer?;
        let (timing, began) = (answer.timing, kept.began);
        let step = match &ready.work {
            Work::Here(stage) => stage.finish(answer.outputs, kept)?,
            Work::Threads(_) => threads::output(answer.outputs)?,
        };
        self.settle(ready, step)?;
        self.add(timing);
        let now = Instant::now();
        let after = now.saturating_duration_since(timing.ended);
        let whole = now.saturating_duration_since(began.unwrap_or(now));
        let before = whole.saturating_sub(timing.queue + timing.compute + after);
        self.took(ready, timing.queue, before + timing.compute + after);
        self.lap = Some(now);
        Ok(())
    }

    /// Counts the time of a model.
    fn add(&mut self, timing: Timing) {
        self.timing = Some(self.timing.map_or(timing, |before| Timing {
            queue: before.queue + timing.queue,
            compute: before.compute + timing.compute,
            ..timing
        }));
    }

    /// With the bytes of its values.
    fn kept_bytes(&self, beside: usize) -> usize {
        let values = self.slots.iter().filter_map(Slot::value);
        values.map(Value::bytes_held).fold(beside, usize::saturating_add)
    }

    fn output(mut self) -> Output {
        let pipeline = Arc::clone(&self.pipeline);
        let mut output = Output {
            value: None,
            values: Vec::new(),
            skipped: Vec::new(),
            timing: self.timing,
            times: StageTimes::default(),
        };
        if let Some(last) = pipeline.scores {
            output.value = self.slots[last].take();
            output.times = StageTimes::new(pipeline, self.slots);
            return output;
        }
        let skips = |ready: &&Ready| matches!(self.slots[ready.gives.start].state, State::Skipped);
        output.skipped = pipeline
            .stages
            .iter()
            .filter(skips)
            .map(|ready| Arc::clone(&ready.name))
            .collect();
        for (at, (name, slot)) in pipeline.outputs.iter().enumerate() {
            if (self.wanted.is_empty() || self.wanted.contains(&at))
                && let Some(value) = self.slots[*slot].take()
            {
                output.values.push((Arc::clone(name), value));
            }
        }
        output.times = StageTimes::new(pipeline, self.slots);
        output
    }
}
