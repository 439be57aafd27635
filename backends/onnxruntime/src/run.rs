//! A loaded model and its instances. Not a batcher: a run takes the rows it is given. Its one invariant: instances give the same
//! outputs, whether they share a session or each has its own.

use crate::c_api::{self, Names, Value};
use crate::library::Runtime;
use crate::load::{self, Stamp};
use crate::settings::OnnxRuntime;
use crate::{bounded, convert};
use millpond_backends_interface::{Error, Instance, Model, Signature};
use millpond_tensor::Tensor;
use ort::logging::LogLevel;
use ort::session::{RunOptions, Session};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct OnnxModel {
    pub(crate) section: OnnxRuntime,
    pub(crate) runtime: &'static Runtime,
    pub(crate) signature: Signature,
    pub(crate) names: Arc<Names>,
    /// What the file looked like when it was loaded.
    pub(crate) stamp: Stamp,
    pub(crate) sessions: Sessions,
}

/// Where instances get their session.
pub(crate) enum Sessions {
    /// All of them run this one.
    Shared(Arc<Session>),
    /// Each has its own; the first gets the one that was loaded.
    Own(Mutex<Option<Session>>),
}

impl Model for OnnxModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        let session = match &self.sessions {
            Sessions::Shared(session) => Arc::clone(session),
            Sessions::Own(first) => {
                let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                Arc::new(first.map_or_else(|| self.another(), Ok)?)
            }
        };
        let instance = OnnxInstance::new(self.runtime, session, Arc::clone(&self.names), &self.signature);
        Ok(Box::new(instance?))
    }

    /// A session of its own takes memory, and threads or a device, for each net thread.
    fn runs_inline(&self) -> bool {
        self.section.shares_a_session()
    }
}

impl OnnxModel {
    fn another(&self) -> Result<Session, Error> {
        let path = &self.section.path;
        if Stamp::of(path).ok().as_ref() != Some(&self.stamp) {
            let problem = format!(
                "{} has changed since it was loaded; load the model again",
                path.display()
            );
            return Err(Error::Run { problem });
        }
        load::session(&self.section, self.runtime).map_err(|(problem, hint)| Error::Run {
            problem: format!("{problem}; {hint}"),
        })
    }
}

pub(crate) struct OnnxInstance {
    runtime: &'static Runtime,
    session: Arc<Session>,
    names: Arc<Names>,
    /// The type of each output.
    outputs: Vec<millpond_tensor::ElementType>,
    options: RunOptions,
}

impl OnnxInstance {
    pub(crate) fn new(
        runtime: &'static Runtime,
        session: Arc<Session>,
        names: Arc<Names>,
        signature: &Signature,
    ) -> Result<OnnxInstance, Error> {
        let mut options = RunOptions::new().map_err(|error| failed(&error))?;
        // A run's failure is its caller's answer, and callers can cause any number of them.
        options
            .set_log_level(LogLevel::Fatal)
            .map_err(|error| failed(&error))?;
        Ok(OnnxInstance {
            runtime,
            session,
            names,
            outputs: signature.outputs.iter().map(|port| port.element_type).collect(),
            options,
        })
    }
}

impl Instance for OnnxInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let borrowed = inputs.iter().map(|tensor| Value::of_tensor(self.runtime, tensor));
        let borrowed = borrowed.collect::<ort::Result<Vec<Value<'_>>>>();
        let outputs =
            borrowed.and_then(|inputs| c_api::run(&self.session, &self.names, &self.options, &inputs));
        let outputs = outputs.map_err(|error| failed(&error))?;
        let copied = outputs.iter().zip(&self.outputs).map(|(value, element_type)| {
            let (shape, data) = convert::copy(value, *element_type).map_err(|error| failed(&error))?;
            Ok(Tensor::new(shape, data)?)
        });
        copied.collect()
    }
}

fn failed(error: &ort::Error) -> Error {
    Error::Run {
        problem: bounded(error.message()),
    }
}
