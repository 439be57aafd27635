//! A pipeline with its tables, stores and models found.
//!
//! It keeps what it found: another version of a table makes another pipeline. Its invariant: one request reads one version of
//! each table, from its first stage to its last, and gets one result.

use crate::opening::{Here, Model, Opening, Work};
use crate::planner::{Check, PlannedFilter, PlannedStage, Taken};
use crate::run::{Progress, Run};
use crate::stage::{Slot, State};
use crate::threads::Caller;
use crate::times::StageCounts;
use crate::{Ask, Error, Expected, Parts, Plan, Request, RequestKind, Source, Value, Values};
use millpond_backends_interface::Port;
use millpond_engines_batcher::Batcher;
use millpond_engines_features::Table;
use millpond_tensor::ElementType;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// A pipeline that can run, for any number of requests at a time.
pub struct Pipeline {
    plan: Plan,
    sample_width: usize,
    pub(crate) stages: Vec<Ready>,
    /// How many stages and outputs read each value: those of the inputs, then those of the stages.
    readers: Vec<u32>,
    /// Where the scores of a request of items or samples are.
    pub(crate) scores: Option<usize>,
    /// Where the outputs of a request of values are.
    pub(crate) outputs: Vec<(Arc<str>, usize)>,
    /// Each table once, with its name.
    tables: Vec<(String, Arc<Table>)>,
    /// What requests wait for, in order.
    models: Vec<Model>,
    /// The threads of its stages.
    threads: Vec<Arc<Batcher>>,
}

/// A stage with its place among the values: those of the inputs, then those of the stages.
pub(crate) struct Ready {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work,
    pub(crate) takes: Vec<usize>,
    pub(crate) checks: Vec<Check>,
    /// What decides whether it runs, each with the place of the value that it looks at.
    pub(crate) filters: Vec<(PlannedFilter, usize)>,
    /// Where what it gives goes: one place, or one for each output that others read by name.
    pub(crate) gives: Range<usize>,
    /// It waits for a model or for threads.
    pub(crate) waits: bool,
    /// It does, and no other stage that does could run beside it.
    pub(crate) is_alone: bool,
    /// What is counted of it; pipelines that follow one another share it.
    pub(crate) counts: Arc<StageCounts>,
}

/// Where the values of a plan lie.
struct Places {
    inputs: usize,
    /// Of each stage.
    stages: Vec<Range<usize>>,
}

impl Places {
    fn of(plan: &Plan) -> Places {
        let inputs = plan.inputs.len();
        let mut end = inputs;
        let place = |stage: &PlannedStage| {
            let start = end;
            end += stage.outputs.len().max(1);
            start..end
        };
        Places {
            inputs,
            stages: plan.stages.iter().map(place).collect(),
        }
    }

    fn at(&self, taken: Taken) -> usize {
        match taken {
            Taken::Input(at) => at,
            Taken::Stage(stage) => self.stages[stage].start,
            Taken::Output(stage, output) => self.stages[stage].start + output,
        }
    }

    fn count(&self) -> usize {
        self.stages.last().map_or(self.inputs, |last| last.end)
    }
}

impl Pipeline {
    /// Finds what a plan names.
    ///
    /// # Errors
    /// [`Error::Unfit`] for what is not there, and for a model that takes something else than its stage gives.
    pub fn open(plan: Plan, parts: &dyn Parts) -> Result<Pipeline, Error> {
        let mut opening = Opening {
            pipeline: &plan.name,
            parts,
            tables: Vec::new(),
            models: Vec::new(),
            threads: Vec::new(),
            at: Here::default(),
        };
        let places = Places::of(&plan);
        let declared = |input: &Source| match input {
            Source::Input(name) => plan.declared.get(name)?.port(name),
            _ => None,
        };
        let mut ports: Vec<Option<Port>> = plan.inputs.iter().map(declared).collect();
        let mut stages: Vec<Ready> = Vec::with_capacity(plan.stages.len());
        let has_scores = plan.request != RequestKind::Values;
        for (at, planned) in plan.stages.iter().enumerate() {
            let is_scores = has_scores && at + 1 == plan.stages.len();
            let gives = places.stages[at].clone();
            let ready = open_stage(planned, (&places, gives), is_scores, &mut ports, &mut opening)?;
            stages.push(ready);
        }
        find_alone(&mut stages);
        let last = ports.last().and_then(Option::as_ref).filter(|_| has_scores);
        if let Some(last) = last
            && !(last.element_type == ElementType::F32 && matches!(last.row_len(), None | Some(1)))
        {
            return Err(opening.unfit(format!("the last model gives {last}; expected one f32 a row")));
        }
        let Opening {
            tables,
            models,
            threads,
            ..
        } = opening;
        let outputs = plan
            .outputs
            .iter()
            .map(|(name, taken)| (Arc::from(name.as_str()), places.at(*taken)));
        let outputs: Vec<(Arc<str>, usize)> = outputs.collect();
        let scores = has_scores.then(|| places.count().saturating_sub(1));
        let mut readers = vec![0; places.count()];
        let takes = stages.iter().flat_map(|stage| stage.takes.iter().copied());
        let ends = outputs.iter().map(|(_, slot)| *slot).chain(scores);
        let looks = stages
            .iter()
            .flat_map(|stage| stage.filters.iter().map(|(_, slot)| *slot));
        takes.chain(ends).chain(looks).for_each(|slot| readers[slot] += 1);
        Ok(Pipeline {
            sample_width: plan.sample_width(),
            plan,
            stages,
            readers,
            scores,
            outputs,
            tables,
            models,
            threads,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// What it expects of a request.
    pub fn expected(&self) -> Expected<'_> {
        Expected {
            pipeline: &self.plan.name,
            kind: self.plan.request,
            sample_width: self.sample_width,
        }
    }

    /// What its requests hold.
    pub fn request(&self) -> RequestKind {
        self.plan.request
    }

    /// The fields of a user that its stages read.
    pub fn user_fields(&self) -> BTreeSet<&str> {
        self.plan.user_fields()
    }

    /// The name of the model that gives the scores, or runs last; a pipeline of values may have none.
    pub fn model(&self) -> Option<&str> {
        self.models.last().map(|model| model.name.as_str())
    }

    /// What runs the model that requests wait for first.
    pub fn batcher(&self) -> Option<&Arc<Batcher>> {
        self.models.first().map(|model| &model.batcher)
    }

    /// What runs its models.
    pub fn batchers(&self) -> impl Iterator<Item = &Arc<Batcher>> {
        self.models.iter().map(|model| &model.batcher)
    }

    /// The names of its outputs, for a request of values.
    pub fn outputs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.outputs.iter().map(|(name, _)| name)
    }

    /// Whether several of its stages can wait at a time, for models or threads.
    pub fn waits_jointly(&self) -> bool {
        self.stages.iter().any(|stage| stage.waits && !stage.is_alone)
    }

    /// The threads of its stages.
    pub fn threads(&self) -> &[Arc<Batcher>] {
        &self.threads
    }

    /// Bytes that the first model's input takes for so many rows.
    pub fn input_bytes(&self, rows: usize) -> usize {
        self.models
            .first()
            .map_or(0, |model| model.row_bytes.saturating_mul(rows))
    }

    /// Each of its tables with the version that its requests read.
    pub fn versions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tables
            .iter()
            .map(|(name, table)| (name.as_str(), table.version()))
    }

    /// Runs the stages for one request until those that are left have to wait, or all have run.
    ///
    /// # Errors
    /// A request, or something stored, that does not fit.
    pub fn run(self: &Arc<Self>, request: &dyn Request) -> Result<Progress, Error> {
        request.check(self.expected())?;
        let mut slots = Vec::with_capacity(self.readers.len());
        for (source, readers) in self.plan.inputs.iter().zip(&self.readers) {
            slots.push(Slot {
                state: State::There(request.read(source)?),
                readers: *readers,
                ..Slot::default()
            });
        }
        self.begin(slots, Some(request.rows()), Vec::new()).go_on()
    }

    /// As [`Pipeline::run`], for a request of values. A caller in this process goes on as here:
    ///
    /// ```
    /// use millpond_pipelines::{Ask, Description, Items, Parts, Pipeline, Progress, Value, Values, submit};
    /// # use std::sync::{Arc, mpsc};
    /// # struct Nothing;
    /// # impl Parts for Nothing {
    /// #     fn table(&self, _: &str) -> Option<Arc<millpond_engines_features::Table>> { None }
    /// #     fn store(&self, _: &str) -> Option<millpond_engines_ordered::Store> { None }
    /// #     fn model(&self, _: &str) -> Option<Arc<millpond_engines_batcher::Batcher>> { None }
    /// # }
    /// # let parts = Nothing; // a catalog
    /// let text = "request = \"values\"\nstages = [{ name = \"keys\", hash = { slot = \"film\" } }]";
    /// let description: Description = toml::from_str(text)?;
    /// let pipeline = Arc::new(Pipeline::open(description.plan("names")?, &parts)?);
    /// let names = Value::rows(Items::Bytes(["a", "b"].into_iter().collect()));
    /// let values = Values { inputs: vec![("data".to_owned(), names)], outputs: Vec::new() };
    /// let output = match pipeline.run_values(values)? {
    ///     Progress::Done(output) => output,
    ///     Progress::Waits(waiting) => {
    ///         let ask = Ask { source: 1, priority: Default::default(), deadline: None, gone: Arc::default(), kept_bytes: 0 };
    ///         let (send, done) = mpsc::sync_channel(1);
    ///         let done_with = move |output| drop(send.send(output));
    ///         waiting.start(ask, |batcher, request| submit(&batcher, request), done_with);
    ///         done.recv()??
    ///     }
    /// };
    /// let (name, keys) = &output.values[0];
    /// assert_eq!((name.as_ref(), keys.items.len()), ("keys", 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub fn run_values(self: &Arc<Self>, request: Values) -> Result<Progress, Error> {
        self.begin_values(request)?.go_on()
    }

    /// As [`Pipeline::run_values`], for a caller that only waits: stages with threads of their own run here too where one of those is
    /// idle, and take their values as they are. What is left goes on by [`Waiting::start_here`](crate::Waiting::start_here).
    ///
    /// # Errors
    /// As [`Pipeline::run_values`], and those of such stages.
    pub fn run_values_here(self: &Arc<Self>, request: Values, ask: &Ask) -> Result<Progress, Error> {
        let mut run = self.begin_values(request)?;
        run.caller = Some(Caller::of(ask));
        run.go_on()
    }

    fn begin_values(self: &Arc<Self>, request: Values) -> Result<Run, Error> {
        if self.plan.request != RequestKind::Values {
            let (name, method) = match self.plan.request {
                RequestKind::Samples => (&self.plan.name, "samples; call infer"),
                _ => (&self.plan.name, "a user and items; call rank"),
            };
            let problem = format!("pipeline {name:?} takes {method}");
            return Err(Error::Request { problem });
        }
        let wanted = self.wanted(&request.outputs)?;
        let mut given: Vec<Option<Value>> = vec![None; self.plan.inputs.len()];
        for (name, value) in request.inputs {
            let mut sources = self.plan.inputs.iter();
            let at = sources.position(|source| matches!(source, Source::Input(known) if *known == name));
            let at = at.ok_or_else(|| self.refused(format!("key \"inputs.{name}\" is unknown")))?;
            if !value.is_whole() {
                return Err(self.refused(format!(
                    "key \"inputs.{name}\" has offsets that do not fit its items"
                )));
            }
            if let Some(declared) = self.plan.declared.get(&name) {
                declared.check(&name, &value)?;
            }
            if given[at].replace(value).is_some() {
                return Err(self.refused(format!("key \"inputs.{name}\" is given twice")));
            }
        }
        let mut slots = Vec::with_capacity(self.readers.len());
        for ((source, value), readers) in self.plan.inputs.iter().zip(given).zip(&self.readers) {
            let Some(value) = value else {
                let name = match source {
                    Source::Input(name) => name.as_str(),
                    _ => "",
                };
                return Err(self.refused(format!("key \"inputs.{name}\" is missing")));
            };
            slots.push(Slot {
                state: State::There(value),
                readers: *readers,
                ..Slot::default()
            });
        }
        Ok(self.begin(slots, None, wanted))
    }

    /// The outputs of those names.
    fn wanted(&self, names: &[String]) -> Result<Vec<usize>, Error> {
        let position = |name: &String| {
            let found = self.outputs.iter().position(|(known, _)| **known == **name);
            found.ok_or_else(|| {
                let there: Vec<&str> = self.outputs.iter().map(|(known, _)| &**known).collect();
                let problem = format!(
                    "key \"outputs\" names {name:?}; pipeline {:?} gives {there:?}",
                    self.name()
                );
                Error::Request { problem }
            })
        };
        names.iter().map(position).collect()
    }

    /// The refusal of inputs, with those that the pipeline reads.
    fn refused(&self, problem: String) -> Error {
        let read = self.plan.inputs.iter().filter_map(|source| match source {
            Source::Input(name) => Some(name.as_str()),
            _ => None,
        });
        let read: Vec<&str> = read.collect();
        let problem = format!("{problem}; pipeline {:?} reads {read:?}", self.plan.name);
        Error::Request { problem }
    }

    /// A request whose inputs are in `slots`.
    fn begin(self: &Arc<Self>, mut slots: Vec<Slot>, rows: Option<usize>, wanted: Vec<usize>) -> Run {
        slots.extend(self.readers[slots.len()..].iter().map(|readers| Slot {
            readers: *readers,
            ..Slot::default()
        }));
        Run {
            pipeline: Arc::clone(self),
            slots,
            rows,
            wanted,
            timing: None,
            ends_at: None,
            caller: None,
            lap: None,
        }
    }
}

/// Finds the stages that wait and are before or behind each other one that does.
fn find_alone(stages: &mut [Ready]) {
    // Whether a stage takes from another, by way of others too; stages stand behind those that they take from.
    let mut behind: Vec<Vec<bool>> = Vec::with_capacity(stages.len());
    for ready in stages.iter() {
        let looks = ready.filters.iter().map(|(_, slot)| slot);
        let reads: Vec<usize> = ready.takes.iter().chain(looks).copied().collect();
        let mut own = vec![false; stages.len()];
        for (at, before) in behind.iter().enumerate() {
            if reads.iter().any(|slot| stages[at].gives.contains(slot)) {
                own[at] = true;
                own.iter_mut()
                    .zip(before)
                    .for_each(|(own, before)| *own |= before);
            }
        }
        behind.push(own);
    }
    let waits: Vec<usize> = (0..stages.len()).filter(|at| stages[*at].waits).collect();
    for &at in &waits {
        let mut others = waits.iter().filter(|other| **other != at);
        stages[at].is_alone = others.all(|other| behind[at][*other] || behind[*other][at]);
    }
}

/// Opens one stage, behind those whose tensors are in `ports`.
fn open_stage<'p>(
    planned: &'p PlannedStage,
    (places, gives): (&Places, Range<usize>),
    scores: bool,
    ports: &mut Vec<Option<Port>>,
    opening: &mut Opening<'p>,
) -> Result<Ready, Error> {
    let takes: Vec<usize> = planned.takes.iter().map(|taken| places.at(*taken)).collect();
    let given: Vec<Option<Port>> = takes.iter().map(|at| ports[*at].clone()).collect();
    let name = &planned.name;
    opening.at = Here {
        name,
        keys: planned.description.threads(),
        outputs: &planned.outputs,
        scores,
    };
    let (_, action) = planned
        .description
        .action()
        .ok_or_else(|| Error::not_given("its key"))?;
    let models = opening.models.len();
    let opened = action.open(name, &given, opening)?;
    let waits = opening.models.len() > models || matches!(opened.work, Work::Threads(_));
    if opened.gives.len() != gives.len() {
        let outputs = planned.outputs.join(", ");
        let problem =
            format!("stage {name:?} has no outputs to read by name ({outputs}); read it as {name:?}");
        return Err(opening.unfit(problem));
    }
    let filters = planned.filters.iter();
    let filters: Vec<(PlannedFilter, usize)> = filters
        .map(|filter| (filter.clone(), places.at(filter.taken())))
        .collect();
    // Of two tensors that may be its value only what both say is known.
    let differs = |gives: &Option<Port>| {
        let mut filters = filters.iter();
        filters.any(|(filter, at)| matches!(filter, PlannedFilter::Or(_)) && ports[*at] != *gives)
    };
    let known: Vec<Option<Port>> = opened
        .gives
        .into_iter()
        .map(|gives| if differs(&gives) { None } else { gives })
        .collect();
    ports.extend(known);
    Ok(Ready {
        name: Arc::from(name.as_str()),
        work: opened.work,
        takes,
        checks: planned.checks.clone(),
        filters,
        gives,
        waits,
        is_alone: false,
        counts: Arc::default(),
    })
}

#[cfg(test)]
mod tests;
