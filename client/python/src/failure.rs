//! Errors as Python sees them: each case of the Rust client's is a class of `millpond/_errors.py`.
//!
//! It decides nothing. Its invariant: an exception has the Rust client's words, and what a program may want of it as
//! attributes.

use millpond_client_rust::CallError;
use millpond_engines_batcher as batcher;
use millpond_pipelines as pipelines;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::time::Duration;

/// Why work gave nothing.
pub(crate) enum Failure {
    /// The client's own reason.
    Call(CallError),
    /// A pipeline's.
    Pipeline(Box<NotRun>),
    /// The deadline of a call of this pipeline passed before any model had answered.
    Late { pipeline: String, deadline: Duration },
    /// The work panicked, or its thread did.
    Lost,
}

/// A call of a pipeline that gave nothing.
pub(crate) struct NotRun {
    /// The pipeline's name.
    pub(crate) pipeline: String,
    /// What the call allowed.
    pub(crate) deadline: Option<Duration>,
    /// Why.
    pub(crate) error: pipelines::Error,
}

impl Failure {
    /// The exception to raise.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Call(error) => raised(py, error),
            Failure::Pipeline(not_run) => not_run.raised(py),
            Failure::Late { pipeline, deadline } => {
                let text = "the deadline passed before the answer was there; allow more time, or find out what holds its models";
                told_of_running(py, late(py, text, &pipeline, deadline), true)
            }
            Failure::Lost => {
                let text = "the client failed inside; what it was asked for may have been done. Please report what is on standard error";
                told_of_running(py, exception(py, "Error", text, &[]), true)
            }
        }
    }
}

impl NotRun {
    fn raised(self, py: Python<'_>) -> PyErr {
        let text = self.error.to_string();
        let class = match &self.error {
            pipelines::Error::Request { .. } | pipelines::Error::Missing { .. } => "InputError",
            pipelines::Error::Model(batcher) => return self.of_model(py, batcher),
            _ => "Error",
        };
        exception(py, class, &text, &[])
    }

    fn of_model(&self, py: Python<'_>, error: &batcher::Error) -> PyErr {
        let text = error.to_string();
        // Behind the first line of a Python backend's problem is its traceback.
        let (text, traceback) = text.split_once('\n').unwrap_or((&text, ""));
        let raised = match error {
            batcher::Error::DeadlinePassed { .. } => {
                late(py, text, &self.pipeline, self.deadline.unwrap_or_default())
            }
            batcher::Error::Rejected {
                model,
                reason: batcher::Rejected::Stopping,
            }
            | batcher::Error::Stopping { model } => {
                let text = format!("model `{model}` is stopping: the pipeline was closed");
                exception(py, "ClosedError", &text, &[("address", Attribute::Text(HERE))])
            }
            batcher::Error::Rejected { model, .. } | batcher::Error::Evicted { model, .. } => {
                exception(py, "OverloadedError", text, &[("model", Attribute::Text(model))])
            }
            batcher::Error::ModelFailed { model, .. } => {
                let attributes = [
                    ("model", Attribute::Text(model.as_str())),
                    ("traceback", Attribute::Text(traceback)),
                ];
                return told_of_running(py, exception(py, "ModelError", text, &attributes), true);
            }
            _ => exception(py, "Error", text, &[]),
        };
        told_of_running(py, raised, false)
    }
}

/// For a call of a pipeline whose deadline passed.
fn late(py: Python<'_>, text: &str, pipeline: &str, deadline: Duration) -> PyErr {
    let attributes = [
        ("address", Attribute::Text(HERE)),
        ("method", Attribute::Text(pipeline)),
        ("deadline_ms", Attribute::Float(deadline.as_secs_f64() * 1000.0)),
    ];
    exception(py, "TimeoutError", text, &attributes)
}

/// What `address` is of an error that no server is part of.
const HERE: &str = "this process";

/// An error of this process's own: of that class, without attributes.
pub(crate) fn local_error(py: Python<'_>, class: &str, text: &str) -> PyErr {
    exception(py, class, text, &[])
}

/// For a pipeline that was closed.
pub(crate) fn closed_pipeline(py: Python<'_>, name: &str) -> PyErr {
    let text = format!("pipeline {name:?} was closed; make a new one");
    exception(py, "ClosedError", &text, &[("address", Attribute::Text(HERE))])
}

/// For a value that belongs to the process `pid`, which is another one.
pub(crate) fn forked(pid: u32) -> PyErr {
    Python::attach(|py| {
        let text = format!(
            "this was made in process {pid}, before a fork; make one of its own in process {}",
            std::process::id()
        );
        exception(py, "Error", &text, &[])
    })
}

/// For a client that was closed.
pub(crate) fn closed(py: Python<'_>, address: &str) -> PyErr {
    let text = format!("this client of {address} was closed; make a new one");
    exception(py, "ClosedError", &text, &[("address", Attribute::Text(address))])
}

fn raised(py: Python<'_>, error: CallError) -> PyErr {
    use Attribute::{Flag, Number, Text};
    // In Python the options are the constructors' keywords.
    let text = error.to_string().replace("Options::", "");
    let raised = match &error {
        CallError::Connect {
            addr, retry_after, ..
        } => untried(py, "ConnectError", &text, addr, *retry_after),
        CallError::Tls {
            addr, retry_after, ..
        } => untried(py, "TlsError", &text, addr, *retry_after),
        CallError::Closed { addr, .. } => exception(py, "ClosedError", &text, &[("address", Text(addr))]),
        CallError::Timeout {
            method,
            addr,
            deadline,
        } => {
            let deadline_ms = deadline.as_secs_f64() * 1000.0;
            let attributes = [
                ("address", Text(addr)),
                ("method", Text(method)),
                ("deadline_ms", Attribute::Float(deadline_ms)),
            ];
            exception(py, "TimeoutError", &text, &attributes)
        }
        CallError::Status(status) => {
            let attributes = [
                ("code", Number(status.code.number())),
                ("name", Text(&format!("{:?}", status.code))),
                ("message", Text(&status.ex)),
                ("retryable", Flag(status.code.retryable())),
            ];
            exception(py, "StatusError", &text, &attributes)
        }
        CallError::Protocol { addr, .. } => exception(py, "ProtocolError", &text, &[("address", Text(addr))]),
        CallError::TooManyInFlight { addr, .. } => {
            exception(py, "TooManyInFlightError", &text, &[("address", Text(addr))])
        }
        CallError::Map(_) => exception(py, "Error", &text, &[]),
        CallError::Unsendable { method, .. } => {
            exception(py, "UnsendableError", &text, &[("method", Text(method))])
        }
    };
    told_of_running(py, raised, error.may_have_run())
}

/// For a connection that was not made.
fn untried(py: Python<'_>, class: &str, text: &str, address: &str, retry_after: Duration) -> PyErr {
    let retry_after_ms = retry_after.as_secs_f64() * 1000.0;
    let attributes = [
        ("address", Attribute::Text(address)),
        ("retry_after_ms", Attribute::Float(retry_after_ms)),
    ];
    exception(py, class, text, &attributes)
}

/// Says whether the call may have been worked on.
fn told_of_running(py: Python<'_>, raised: PyErr, may_have_run: bool) -> PyErr {
    match raised.value(py).setattr("may_have_run", may_have_run) {
        Ok(()) => raised,
        Err(error) => error,
    }
}

/// What an exception says to a program.
enum Attribute<'a> {
    Text(&'a str),
    Number(u32),
    Float(f64),
    Flag(bool),
}

/// Makes an exception of that class; the attributes are set after it, so that it can be pickled by its text.
fn exception(py: Python<'_>, class: &str, text: &str, attributes: &[(&str, Attribute<'_>)]) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let class = py.import("millpond._errors")?.getattr(class)?;
        let made = class.call1(PyTuple::new(py, [text])?)?;
        for (name, value) in attributes {
            match value {
                Attribute::Text(text) => made.setattr(*name, *text)?,
                Attribute::Number(number) => made.setattr(*name, *number)?,
                Attribute::Float(number) => made.setattr(*name, *number)?,
                Attribute::Flag(flag) => made.setattr(*name, *flag)?,
            }
        }
        Ok(made)
    };
    made().map_or_else(|error| error, PyErr::from_value)
}
