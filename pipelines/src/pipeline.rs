//! A pipeline with its tables, stores and models found, and the executor of its stages.
//!
//! It keeps what it found: another version of a table makes another pipeline. Its invariant: one request reads one version of
//! each table, from its first stage to its last, and gets one result.

use crate::planner::Taken;
use crate::stage::{Given, Model, Opening, Stage, Step};
use crate::{Ask, Error, Expected, Items, Parts, Plan, Request, RequestKind, Value, Wait};
use millpond_backends_interface::Port;
use millpond_engines_batcher::{self as batcher, Batcher, Timing};
use millpond_engines_features::Table;
use millpond_tensor::{ElementType, Tensor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pipeline that can run, for any number of requests at a time.
pub struct Pipeline {
    plan: Plan,
    sample_width: usize,
    stages: Vec<Ready>,
    /// Each table once, with its name.
    tables: Vec<(String, Arc<Table>)>,
    /// What requests wait for first.
    model: Model,
    /// What they wait for after it, in order.
    later: Vec<Model>,
}

/// A stage with its place among the values: those of the inputs, then those of the stages.
struct Ready {
    stage: Box<dyn Stage>,
    takes: Vec<usize>,
    /// Values that no later stage takes.
    spent: Vec<usize>,
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
        };
        let inputs = plan.inputs.len();
        let mut ports: Vec<Option<Port>> = vec![None; inputs];
        let mut stages: Vec<Ready> = Vec::with_capacity(plan.stages.len());
        for planned in &plan.stages {
            let index = |taken: &Taken| match taken {
                Taken::Input(at) => *at,
                Taken::Stage(at) => inputs + at,
            };
            let takes: Vec<usize> = planned.takes.iter().map(index).collect();
            let given: Vec<Option<Port>> = takes.iter().map(|at| ports[*at].clone()).collect();
            let name = &planned.description.name;
            let (_, action) = planned
                .description
                .action()
                .ok_or_else(|| Error::not_given("its key"))?;
            let opened = action.open(name, &given, &mut opening)?;
            ports.push(opened.gives);
            // Whoever takes a value last is found last.
            stages
                .iter_mut()
                .for_each(|earlier| earlier.spent.retain(|at| !takes.contains(at)));
            stages.push(Ready {
                stage: opened.stage,
                spent: takes.clone(),
                takes,
            });
        }
        if let Some(last) = ports.last().and_then(Option::as_ref)
            && !(last.element_type == ElementType::F32 && matches!(last.row_len(), None | Some(1)))
        {
            return Err(opening.unfit(format!("the last model gives {last}; expected one f32 a row")));
        }
        let Opening { tables, models, .. } = opening;
        let mut models = models.into_iter();
        let model = models.next().ok_or_else(|| Error::not_given("a model"))?;
        Ok(Pipeline {
            sample_width: plan.sample_width(),
            plan,
            stages,
            tables,
            model,
            later: models.collect(),
        })
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

    /// The name of the model that gives the scores.
    pub fn model(&self) -> &str {
        &self.later.last().unwrap_or(&self.model).name
    }

    /// What runs the model that requests wait for first.
    pub fn batcher(&self) -> &Arc<Batcher> {
        &self.model.batcher
    }

    /// What runs its models.
    pub fn batchers(&self) -> impl Iterator<Item = &Arc<Batcher>> {
        std::iter::once(&self.model)
            .chain(&self.later)
            .map(|model| &model.batcher)
    }

    /// Bytes that the first model's input takes for so many rows.
    pub fn input_bytes(&self, rows: usize) -> usize {
        self.model.row_bytes.saturating_mul(rows)
    }

    /// Each of its tables with the version that its requests read.
    pub fn versions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tables
            .iter()
            .map(|(name, table)| (name.as_str(), table.version()))
    }

    /// Runs the stages for one request until one has to wait, or all have run.
    ///
    /// # Errors
    /// A request, or something stored, that does not fit.
    pub fn run(self: &Arc<Self>, request: &dyn Request) -> Result<Progress, Error> {
        request.check(self.expected())?;
        let mut values = Vec::with_capacity(self.plan.inputs.len() + self.stages.len());
        for source in &self.plan.inputs {
            values.push(Some(request.read(source)?));
        }
        let run = Run {
            pipeline: Arc::clone(self),
            values,
            rows: request.rows(),
            timing: None,
        };
        run.go_on()
    }

    /// Runs stages behind those that `values` hold the values of, until one waits.
    fn advance(&self, values: &mut Vec<Option<Value>>, rows: usize) -> Result<Option<Wait>, Error> {
        while let Some(ready) = self.stages.get(values.len() - self.plan.inputs.len()) {
            let is_there = |at: &usize| values.get(*at).is_some_and(Option::is_some);
            let step = match ready.takes.iter().all(is_there) {
                false => Step::Skip,
                true => ready.stage.run(&Given {
                    values: values.as_slice(),
                    takes: &ready.takes,
                    rows,
                })?,
            };
            for &at in &ready.spent {
                values[at] = None;
            }
            match step {
                Step::Value(value) => values.push(Some(value)),
                Step::Skip => values.push(None),
                Step::Wait(wait) => return Ok(Some(wait)),
            }
        }
        Ok(None)
    }
}

/// One request on its way through the stages.
struct Run {
    pipeline: Arc<Pipeline>,
    /// Of the inputs, then of the stages that have run. `None`: skipped, or no later stage takes it.
    values: Vec<Option<Value>>,
    rows: usize,
    /// Of the models that it waited for: their times together, and the batch of the last one.
    timing: Option<Timing>,
}

/// How far a request has come.
pub enum Progress {
    /// All stages have run.
    Done(Output),
    /// A stage waits; the rest runs when what it waits for is there.
    Waits(Waiting),
}

/// What a pipeline came to.
#[derive(Debug)]
pub struct Output {
    /// What its last stage gave; `None` where that was skipped.
    pub value: Option<Value>,
    /// Where the time of its models went, if one ran; the batch is the last one's.
    pub timing: Option<Timing>,
}

impl Output {
    /// One score a row, if that is what the last stage gave.
    pub fn scores(&self) -> Option<&[f32]> {
        self.value.as_ref()?.tensor().ok()?.f32()
    }
}

/// A request whose next stage waits for a model.
pub struct Waiting {
    run: Run,
    wait: Wait,
}

impl Waiting {
    /// What it waits for: a request, and the batcher that it is for. `done` is called once with what the pipeline came to, on the
    /// thread that the request is answered on.
    pub fn request<D>(self, mut ask: Ask, done: D) -> (Arc<Batcher>, batcher::Request)
    where
        D: FnOnce(Result<Output, Error>) + Send + 'static,
    {
        let Waiting { run, wait } = self;
        let again = ask.clone();
        let kept = run.values.iter().flatten().map(Value::bytes_held);
        ask.kept_bytes = kept.fold(ask.kept_bytes, usize::saturating_add);
        wait.request(ask, move |answer| run.resume(answer, again, done))
    }
}

impl Run {
    fn go_on(mut self) -> Result<Progress, Error> {
        let wait = self.pipeline.advance(&mut self.values, self.rows)?;
        Ok(match wait {
            Some(wait) => Progress::Waits(Waiting { run: self, wait }),
            None => Progress::Done(Output {
                value: self.values.pop().flatten(),
                timing: self.timing,
            }),
        })
    }

    /// What a model gave: a tensor of as many rows as the request has; behind the last stage as many floats.
    fn checked(&self, outputs: Vec<Tensor>) -> Result<Tensor, Error> {
        let given = outputs.into_iter().next();
        let output = given.ok_or_else(|| Error::not_given("an output of its model"))?;
        let stages = self.pipeline.plan.inputs.len() + self.pipeline.stages.len();
        let is_last = self.values.len() + 1 == stages;
        let is_scores = !is_last || output.f32().is_some_and(|scores| scores.len() == self.rows);
        if output.rows() == self.rows && is_scores {
            return Ok(output);
        }
        let (element_type, shape, rows) = (output.element_type(), output.shape(), self.rows);
        let problem = format!(
            "a model of pipeline {:?} gave {element_type}{shape:?} for {rows} rows",
            self.pipeline.plan.name
        );
        Err(Error::Internal { problem })
    }

    fn resume<D>(mut self, answer: Result<batcher::Answer, batcher::Error>, ask: Ask, done: D)
    where
        D: FnOnce(Result<Output, Error>) + Send + 'static,
    {
        let progress = answer.map_err(Error::from).and_then(|answer| {
            let output = self.checked(answer.outputs)?;
            self.values.push(Some(Value::rows(Items::Tensor(output))));
            let timing = answer.timing;
            self.timing = Some(self.timing.map_or(timing, |before| Timing {
                queue: before.queue + timing.queue,
                compute: before.compute + timing.compute,
                ..timing
            }));
            self.go_on()
        });
        match progress {
            Err(error) => done(Err(error)),
            Ok(Progress::Done(output)) => done(Ok(output)),
            Ok(Progress::Waits(waiting)) => {
                let (batcher, request) = waiting.request(ask, done);
                if let Err((reason, request)) = batcher.submit(request) {
                    let model = batcher.name().to_owned();
                    (request.done)(Err(batcher::Error::Rejected { model, reason }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
