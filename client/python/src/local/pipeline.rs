//! A pipeline of this process, as Python calls it: from a thread that waits, or with an errand whose end an event loop or a thread is told.
//!
//! It knows no stage. Its invariants: inputs that cannot be taken are refused before anything runs; every call ends once; and a call
//! that nobody waits for any more is not begun by a model.

use crate::arrivals::Queue;
use crate::ask::{Ended, Listener, Reply, To};
use crate::ending::{detach, hold};
use crate::failure::{Failure, NotRun, closed_pipeline, forked, local_error};
use crate::host;
use crate::local::inside::Part;
use crate::local::keeping::Keeping;
use crate::local::waiting::Waiting;
use crate::local::{config, inside, stats, torchpipe};
use crate::options::{deadline, priority};
use crate::pool::Outcome;
use crate::process::OfProcess;
use crate::values::{give, take};
use millpond_catalog::Handle;
use millpond_engines_batcher::{self as batcher, Batcher, Sweep};
use millpond_pipelines::{self as pipelines, Ask, Priority, Progress, Values, submit};
use millpond_server::config::Config;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a close waits for calls under way.
const DRAIN: Duration = Duration::from_secs(10);
/// So many calls of a list wait at a time: fewer than a queue takes by default.
const LIST_PART: usize = 1024;

thread_local! {
    /// What this thread runs itself.
    static SWEEP: RefCell<Sweep> = RefCell::default();
    /// The number that batchers know this thread by.
    static SOURCE: Cell<u64> = const { Cell::new(0) };
}

static SOURCES: AtomicU64 = AtomicU64::new(1);

/// What `of_torchpipe` gives.
type OfTorchpipe = (BTreeMap<String, Pipeline>, Vec<String>, BTreeMap<String, bool>);

/// What was opened for a pipeline.
struct Opened {
    name: String,
    /// The number that its backends know it by.
    owner: u64,
    /// Of all pipelines that were opened together.
    handle: Arc<Handle>,
    pipeline: Arc<pipelines::Pipeline>,
    /// The pipeline's outputs, as Python's names.
    names: Vec<(Arc<str>, Py<PyString>)>,
    is_closed: AtomicBool,
    /// Who keeps the interpreter.
    keeping: Keeping,
}

/// A pipeline of this process; `millpond.Pipeline` is its face.
#[pyclass(frozen, subclass, module = "millpond._native")]
pub(crate) struct Pipeline {
    opened: OfProcess<Arc<Opened>>,
}

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (config, *, pipeline = None))]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>, pipeline: Option<String>) -> PyResult<Pipeline> {
        host::tell(py)?;
        let read = config::of_pipeline(config, pipeline)?;
        if !config::takes_values(&read.config, &read.pipeline) {
            let text = format!(
                "pipeline {:?} has another request than \"values\"; serve it, and call rank or infer",
                read.pipeline
            );
            return Err(local_error(py, "ConfigError", &text));
        }
        let handle = open(py, &read.config)?;
        Pipeline::of(
            py,
            read.pipeline,
            read.owner,
            handle,
            config::instances(&read.config),
        )
    }

    /// The pipelines of a configuration in torchpipe's form by their first nodes, over the same models; what became of its keys; and which
    /// take the request's number beside `data`, and have stages of ours read that. `make` gives the class of a registered backend's model.
    #[staticmethod]
    fn of_torchpipe(
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        registered: BTreeSet<String>,
        make: &Bound<'_, PyAny>,
    ) -> PyResult<OfTorchpipe> {
        host::tell(py)?;
        let read = torchpipe::read(config, &registered, make)?;
        let handle = open(py, &read.config)?;
        let instances = config::instances(&read.config);
        let roots = read.roots.into_iter().map(|root| {
            let pipeline = Pipeline::of(py, root.clone(), read.owner, Arc::clone(&handle), instances)?;
            Ok((root, pipeline))
        });
        Ok((roots.collect::<PyResult<_>>()?, read.notes, read.brings))
    }

    /// Runs it for a dict of inputs, or for each of a list of them, and waits.
    #[pyo3(signature = (inputs, *, deadline_ms = None, priority = None))]
    fn __call__(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        deadline_ms: Option<&Bound<'_, PyAny>>,
        priority: Option<i64>,
    ) -> PyResult<Py<PyAny>> {
        let opened = self.opened(py)?;
        let deadline = deadline(deadline_ms)?;
        let priority = level(priority)?;
        let Ok(list) = inputs.cast::<PyList>() else {
            let call = opened.call(request(inputs, "inputs")?, deadline, priority);
            return opened.wait_for_one(py, call);
        };
        let mut calls = Vec::with_capacity(list.len());
        for (at, inputs) in list.iter().enumerate() {
            calls.push(opened.call(request(&inputs, &format!("inputs[{at}]"))?, deadline, priority));
        }
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            answers.extend(opened.wait_for(py, calls.by_ref().take(LIST_PART).collect())?);
        }
        let answers = answers.into_iter().map(|answer| ended(py, Some(answer)));
        Ok(PyList::new(py, answers.collect::<PyResult<Vec<_>>>()?)?
            .into_any()
            .unbind())
    }

    /// Begins a call; its end comes with the arrivals.
    #[pyo3(signature = (inputs, deadline_ms, to, *, priority = None))]
    fn begin(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        deadline_ms: Option<&Bound<'_, PyAny>>,
        to: Listener<'_>,
        priority: Option<i64>,
    ) -> PyResult<Errand> {
        let opened = self.opened(py)?;
        let deadline = deadline(deadline_ms)?;
        let priority = level(priority)?;
        let (arrivals, number) = to;
        let queue: Arc<Queue> = arrivals.queue.get().map_err(forked)?.clone();
        let call = opened.call(request(inputs, "inputs")?, deadline, priority);
        let gone = Arc::clone(&call.ask.gone);
        let opened = Arc::clone(opened);
        let reply = Reply::new(To::Loop { queue, number });
        detach(py, || {
            opened.start(call, reply, |batcher, request| submit(&batcher, request))
        });
        Ok(Errand { gone })
    }

    /// What its models and stages have done since it was opened.
    ///
    /// `{"pipeline": name, "models": {name: {"accepted": …, "answered": …, …}}, "stages": {name: {"answered": …, "failed": …,
    /// "skipped": …, "work_s": …, "wait_s": …}}}`. Models have the counts that `*infos` has: `refused` with its causes, `failed`,
    /// `batches`, `rows`, `holds` and others. Times are seconds of answered calls together; a stage without a queue has no `wait_s`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.opened(py)?;
        let dict = PyDict::new(py);
        dict.set_item("pipeline", &opened.name)?;
        dict.set_item("models", stats::models(py, &opened.handle.pin())?)?;
        dict.set_item("stages", stats::stages(py, &opened.pipeline)?)?;
        Ok(dict)
    }

    /// Refuses new calls and waits up to 10 s for running ones; raises `Error` with the names of what has not ended. Closing
    /// twice is closing once.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Ok(opened) = self.opened.get() else {
            // A parent's is closed by leaving it alone.
            return Ok(());
        };
        if let Some(backend) = inside::of(opened.owner) {
            return Err(waits_for_itself(py, &backend));
        }
        if opened.is_closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let left = detach(py, || opened.handle.pin().stop_by(Instant::now() + DRAIN));
        match left.is_empty() {
            true => Ok(()),
            false => Err(local_error(
                py,
                "Error",
                &format!(
                    "closed, but {} has not ended; it is left to itself",
                    left.join(", ")
                ),
            )),
        }
    }

    fn __repr__(&self) -> String {
        let name = self
            .opened
            .get()
            .map_or("of another process", |opened| &opened.name);
        format!("<millpond.Pipeline {name}>")
    }
}

/// Opens what a configuration describes. Backends in Python are made by the models' threads, which need the interpreter for it.
fn open(py: Python<'_>, config: &Config) -> PyResult<Arc<Handle>> {
    let opened = detach(py, || {
        let handle = Handle::open(config.sections(), config.resources())?;
        handle.warm()?;
        handle.pin().forget_counts();
        Ok(Arc::new(handle))
    });
    opened.map_err(|error: millpond_catalog::Error| local_error(py, "ConfigError", &error.to_string()))
}

impl Drop for Pipeline {
    /// Its threads may need the interpreter to end, so it is let go meanwhile.
    fn drop(&mut self) {
        let gone = OfProcess::taken(&mut self.opened);
        let dropped = Python::try_attach(|py| detach(py, || drop(gone)));
        let _ = dropped;
    }
}

impl Pipeline {
    fn of(
        py: Python<'_>,
        name: String,
        owner: u64,
        handle: Arc<Handle>,
        instances: usize,
    ) -> PyResult<Pipeline> {
        let Some(pipeline) = handle.pin().pipelines.get(&name).cloned() else {
            let text = format!("there is no pipeline {name:?}");
            return Err(local_error(py, "ConfigError", &text));
        };
        let names = pipeline.outputs();
        let names = names.map(|name| (Arc::clone(name), PyString::intern(py, name).unbind()));
        let opened = Opened {
            name,
            owner,
            handle,
            names: names.collect(),
            keeping: Keeping::new(instances, !pipeline.waits_jointly()),
            pipeline,
            is_closed: AtomicBool::new(false),
        };
        Ok(Pipeline {
            opened: OfProcess::new(Arc::new(opened)),
        })
    }

    fn opened(&self, py: Python<'_>) -> PyResult<&Arc<Opened>> {
        hold(py);
        let opened = self.opened.get().map_err(forked)?;
        if opened.is_closed.load(Ordering::Relaxed) {
            return Err(closed_pipeline(py, &opened.name));
        }
        match inside::of(opened.owner) {
            Some(backend) => Err(waits_for_itself(py, &backend)),
            None => Ok(opened),
        }
    }
}

fn waits_for_itself(py: Python<'_>, backend: &str) -> PyErr {
    let text = format!(
        "backend {backend:?} uses the pipeline that runs it, which would wait for itself; call the function that it needs, or make it a stage"
    );
    local_error(py, "Error", &text)
}

/// The inputs of a dict; `place` is what it was given as.
fn request(inputs: &Bound<'_, PyAny>, place: &str) -> PyResult<Values> {
    let Ok(dict) = inputs.cast::<PyDict>() else {
        let found = take::type_name(inputs);
        let text =
            format!("{place} is a {found}; expected a dict of values by name, or a list of such dicts");
        return Err(pyo3::exceptions::PyTypeError::new_err(text));
    };
    let mut values = Values::default();
    if dict.len() == 1
        && let Some((name, value)) = dict.iter().next()
    {
        values.inputs.push(input(&name, &value, place)?);
        return Ok(values);
    }
    // A copy, because the code of objects inside may change the dict meanwhile.
    for (name, value) in dict.copy()?.iter() {
        values.inputs.push(input(&name, &value, place)?);
    }
    Ok(values)
}

/// One input, by its name.
fn input(
    name: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    place: &str,
) -> PyResult<(String, pipelines::Value)> {
    let Ok(name) = name.extract::<String>() else {
        let found = take::type_name(name);
        let text = format!("{place} has a key of type {found}; expected str");
        return Err(pyo3::exceptions::PyTypeError::new_err(text));
    };
    let value = take::value(value).map_err(|refused| refused.raised(&format!("{place}[{name:?}]")))?;
    Ok((name, value))
}

/// The level of a call; without one, that of calls that name none.
fn level(given: Option<i64>) -> PyResult<Priority> {
    Ok(priority(given)?.and_then(Priority::new).unwrap_or_default())
}

/// What the caller gets.
fn ended(py: Python<'_>, ended: Option<Ended>) -> PyResult<Py<PyAny>> {
    let ended = ended.unwrap_or(Err(Failure::Lost));
    ended.map_err(|failure| failure.into_python(py))?.into_python(py)
}

/// A call that has not begun.
struct Call {
    values: Values,
    ask: Ask,
    deadline: Option<Duration>,
}

impl Call {
    /// Bytes of its inputs.
    fn bytes(&self) -> usize {
        let inputs = self.values.inputs.iter();
        inputs.map(|(_, value)| value.bytes_held()).sum()
    }
}

impl Opened {
    fn call(&self, values: Values, deadline: Option<Duration>, priority: Priority) -> Call {
        let source = SOURCE.get();
        let source = match source {
            0 => {
                let source = SOURCES.fetch_add(1, Ordering::Relaxed);
                SOURCE.set(source);
                source
            }
            source => source,
        };
        let ask = Ask {
            source,
            priority,
            deadline: deadline.and_then(|deadline| Instant::now().checked_add(deadline)),
            gone: Arc::new(AtomicBool::new(false)),
            kept_bytes: 0,
        };
        Call {
            values,
            ask,
            deadline,
        }
    }

    /// Runs one call on this thread, models and all where they are idle, and waits for what it cannot run.
    fn wait_for_one(&self, py: Python<'_>, call: Call) -> PyResult<Py<PyAny>> {
        let (deadline, bytes) = (call.ask.deadline, call.bytes());
        let waits = OnceLock::<Waiting>::new();
        let mut output = None;
        let run = || {
            let part = Part::begin();
            output = self.start_here(call, &waits);
            // What went to other threads says nothing of this one's time.
            if output.is_some() || waits.get().is_some_and(Waiting::has_ended) {
                self.keeping.learn(&part, bytes);
            }
        };
        let interrupt = self.keeping.run(py, bytes, deadline, run);
        hold(py);
        if let Some(interrupt) = interrupt {
            waits.get().into_iter().for_each(Waiting::give_up);
            return Err(interrupt);
        }
        match (output, waits.get()) {
            (Some(Ok(output)), _) => self.outputs(py, &output),
            (Some(Err(failure)), _) => Err(failure.into_python(py)),
            (None, Some(waiting)) => match waiting.wait(py, &self.name)? {
                Ok(Outcome::Values(output)) => self.outputs(py, &output),
                answer => ended(py, Some(answer)),
            },
            (None, None) => ended(py, None),
        }
    }

    /// What all stages came to where nothing waited; the rest comes to `waits`.
    fn start_here(
        &self,
        call: Call,
        waits: &OnceLock<Waiting>,
    ) -> Option<Result<pipelines::Output, Failure>> {
        let Call {
            values,
            ask,
            deadline,
        } = call;
        match self.pipeline.run_values_here(values, &ask) {
            Ok(Progress::Done(output)) => Some(Ok(output)),
            Ok(Progress::Waits(waiting)) => {
                let mine = Waiting::new(&ask, deadline);
                let reply = mine.reply();
                let _ = waits.set(mine);
                waiting.start_here(ask, self.teller(deadline, reply));
                None
            }
            Err(error) => Some(Err(failure(self.pipeline.name(), deadline, error))),
        }
    }

    /// A pipeline's outputs by name.
    fn outputs(&self, py: Python<'_>, output: &pipelines::Output) -> PyResult<Py<PyAny>> {
        let dict = PyDict::new(py);
        for (name, value) in &output.values {
            let value = give::value(py, value)?;
            match self.names.iter().find(|(known, _)| Arc::ptr_eq(known, name)) {
                Some((_, name)) => dict.set_item(name, value)?,
                None => dict.set_item(&**name, value)?,
            }
        }
        Ok(dict.into_any().unbind())
    }

    /// Runs the calls, on this thread as far as it can, and waits for the rest.
    fn wait_for(&self, py: Python<'_>, calls: Vec<Call>) -> PyResult<Vec<Ended>> {
        let waits = calls.iter().map(|call| Waiting::new(&call.ask, call.deadline));
        let waits: Vec<Waiting> = waits.collect();
        let deadline = calls.iter().filter_map(|call| call.ask.deadline).min();
        let bytes = calls.iter().map(Call::bytes).sum();
        let run = || {
            let part = Part::begin();
            // One of its own, because a backend may call another pipeline meanwhile.
            let mut sweep = SWEEP.take();
            for (call, waiting) in calls.into_iter().zip(&waits) {
                self.start(call, waiting.reply(), |batcher, request| {
                    swept(&mut sweep, &batcher, request)
                });
            }
            sweep.run();
            SWEEP.set(sweep);
            self.keeping.learn(&part, bytes);
        };
        let interrupt = self.keeping.run(py, bytes, deadline, run);
        hold(py);
        if let Some(interrupt) = interrupt {
            waits.iter().for_each(Waiting::give_up);
            return Err(interrupt);
        }
        let ended = waits.iter().map(|waiting| waiting.wait(py, &self.name));
        let ended: PyResult<Vec<Ended>> = ended.collect();
        ended.inspect_err(|_| waits.iter().for_each(Waiting::give_up))
    }

    /// Runs a call until it waits, and hands over what it waits for.
    fn start(&self, call: Call, reply: Reply, hand_over: impl FnMut(Arc<Batcher>, batcher::Request)) {
        let Call {
            values,
            ask,
            deadline,
        } = call;
        let tell = self.teller(deadline, reply);
        match self.pipeline.run_values(values) {
            Ok(Progress::Done(output)) => tell(Ok(output)),
            Ok(Progress::Waits(waiting)) => waiting.start(ask, hand_over, tell),
            Err(error) => tell(Err(error)),
        }
    }

    /// Sends what a call came to.
    fn teller(
        &self,
        deadline: Option<Duration>,
        reply: Reply,
    ) -> impl FnOnce(Result<pipelines::Output, pipelines::Error>) + Send + 'static {
        let pipeline = Arc::clone(&self.pipeline);
        move |result| {
            let result = result.map(|output| Outcome::Values(Box::new(output)));
            reply.send(result.map_err(|error| failure(pipeline.name(), deadline, error)));
        }
    }
}

fn failure(pipeline: &str, deadline: Option<Duration>, error: pipelines::Error) -> Failure {
    Failure::Pipeline(Box::new(NotRun {
        pipeline: pipeline.to_owned(),
        deadline,
        error,
    }))
}

/// As [`submit`], for this thread to run where the model is known to be fast enough.
fn swept(sweep: &mut Sweep, batcher: &Arc<Batcher>, request: batcher::Request) {
    if let Err((reason, request)) = sweep.submit(batcher, request) {
        let model = batcher.name().to_owned();
        (request.done)(Err(batcher::Error::Rejected { model, reason }));
    }
}

/// A call that was begun. Given up, no model begins it.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Errand {
    gone: Arc<AtomicBool>,
}

#[pymethods]
impl Errand {
    /// Nobody waits for it any more.
    fn abandon(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}
