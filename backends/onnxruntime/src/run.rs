//! A loaded model and its instances. Not a batcher: a run takes the rows it is given. Its one invariant: instances give the same
//! outputs, whether they share a session or each has its own.

use crate::c_api::binding::{Binding, Known};
use crate::c_api::{self, Names, Value};
use crate::library::Runtime;
use crate::limit::{Limit, Place};
use crate::load::{self, Stamp};
use crate::settings::OnnxRuntime;
use crate::spread::{Seat, Spread};
use crate::{bounded, convert};
use millpond_backends_interface::{Error, Instance, Loss, Model, Port, Signature};
use millpond_tensor::{ElementType, Tensor};
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
    /// Which device an instance's own session is on.
    pub(crate) spread: Arc<Spread>,
    /// What ends runs that last too long, where the section says how long they may.
    pub(crate) limit: Option<Limit>,
}

/// Where instances get their session.
pub(crate) enum Sessions {
    /// All of them run this one.
    Shared(Arc<Session>),
    /// Each has its own; the first on the first device gets the one that was loaded.
    Own(Mutex<Option<Session>>),
}

impl Model for OnnxModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(self.made()?))
    }

    fn devices(&self) -> usize {
        self.spread.len()
    }

    /// A session of its own takes memory, and threads or a device, for each net thread.
    fn runs_inline(&self) -> bool {
        self.section.shares_a_session()
    }

    fn is_overdue(&self) -> bool {
        self.limit.as_ref().is_some_and(Limit::is_overdue)
    }
}

impl OnnxModel {
    fn made(&self) -> Result<OnnxInstance, Error> {
        let seat = self.spread.seat();
        let session = match &self.sessions {
            Sessions::Shared(session) => Arc::clone(session),
            Sessions::Own(first) => {
                let first = || first.lock().unwrap_or_else(PoisonError::into_inner).take();
                let first = (seat.at == 0).then(first).flatten();
                Arc::new(first.map_or_else(|| self.another(seat.device()), Ok)?)
            }
        };
        let names = Arc::clone(&self.names);
        let limit = self.limit.as_ref();
        let mut instance = OnnxInstance::new(self.runtime, session, names, &self.signature, limit)?;
        if self.section.binds() && !self.has_strings() {
            instance.bind(self.section.pinned(seat.device()))?;
        }
        instance.seat = Some(seat);
        Ok(instance)
    }

    /// Whether an input or output is of strings, which cannot be bound.
    pub(crate) fn has_strings(&self) -> bool {
        let mut ports = self.signature.inputs.iter().chain(&self.signature.outputs);
        ports.any(|port| port.element_type == ElementType::Bytes)
    }

    fn another(&self, device: Option<u16>) -> Result<Session, Error> {
        let path = &self.section.path;
        if Stamp::of(path).ok().as_ref() != Some(&self.stamp) {
            let problem = format!(
                "{} has changed since it was loaded; load the model again",
                path.display()
            );
            return Err(Error::Run { problem });
        }
        load::session(&self.section, self.runtime, device).map_err(|(problem, hint)| {
            let at = device.map_or(String::new(), |device| format!("device {device}: "));
            let problem = format!("{at}{problem}; {hint}");
            Error::Run { problem }
        })
    }
}

pub(crate) struct OnnxInstance {
    runtime: &'static Runtime,
    session: Arc<Session>,
    names: Arc<Names>,
    /// What comes out, and whether its first size is that of the inputs.
    outputs: Vec<Port>,
    batched: bool,
    /// What binds its runs, if they are bound.
    binding: Option<Binding>,
    /// Its place on a device, which is another's when it is gone.
    seat: Option<Seat>,
    options: Arc<RunOptions>,
    /// Where its runs are watched, if they are.
    place: Option<Arc<Place>>,
    /// Its last run took too long.
    pub(crate) was_ended: bool,
}

impl OnnxInstance {
    pub(crate) fn new(
        runtime: &'static Runtime,
        session: Arc<Session>,
        names: Arc<Names>,
        signature: &Signature,
        limit: Option<&Limit>,
    ) -> Result<OnnxInstance, Error> {
        let mut options = RunOptions::new().map_err(|error| failed(&error))?;
        // A run's failure is its caller's answer, and callers can cause any number of them.
        options
            .set_log_level(LogLevel::Fatal)
            .map_err(|error| failed(&error))?;
        let options = Arc::new(options);
        Ok(OnnxInstance {
            place: limit.map(|limit| limit.place(&options)),
            was_ended: false,
            runtime,
            session,
            names,
            outputs: signature.outputs.clone(),
            batched: signature.batched,
            binding: None,
            seat: None,
            options,
        })
    }

    /// Binds runs from now on, to pinned memory of that device where it is to be had.
    fn bind(&mut self, pinned: Option<i32>) -> Result<(), Error> {
        let binding = |pinned| Binding::new(&self.session, &self.names, pinned);
        let bound = match (pinned, binding(pinned)) {
            (Some(device), Err(error)) => {
                let error = bounded(error.message());
                tracing::warn!(
                    device,
                    error,
                    "no pinned memory, so runs are bound to the processor's own"
                );
                binding(None)
            }
            (_, bound) => bound,
        };
        self.binding = Some(bound.map_err(|error| failed(&error))?);
        Ok(())
    }
}

/// The shape of an output in a run of so many rows, where its signature says it.
fn known(port: &Port, rows: Option<usize>) -> Option<Known> {
    let size = |(at, size): (usize, &Option<usize>)| size.or(rows.filter(|_| at == 0));
    let shape = port.shape.iter().enumerate().map(size);
    Some((port.element_type, shape.collect::<Option<_>>()?))
}

impl Instance for OnnxInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        if let Some(place) = &self.place {
            place.begin();
        }
        let outputs = match &mut self.binding {
            Some(binding) => {
                let rows = inputs.first().map(Tensor::rows).filter(|_| self.batched);
                let known = self.outputs.iter().map(|port| known(port, rows));
                binding.run(self.runtime, &self.session, &self.options, &inputs, known)
            }
            None => {
                let borrowed = inputs.iter().map(|tensor| Value::of_tensor(self.runtime, tensor));
                let borrowed = borrowed.collect::<ort::Result<Vec<Value<'_>>>>();
                borrowed.and_then(|inputs| c_api::run(&self.session, &self.names, &self.options, &inputs))
            }
        };
        let ended = self.place.as_ref().and_then(|place| place.end());
        self.was_ended = outputs.is_err() && ended.is_some();
        let outputs = outputs.map_err(|error| match ended {
            Some(problem) => Error::Lost {
                loss: Loss::Hang,
                problem,
            },
            None => failed(&error),
        })?;
        let copied = outputs.iter().zip(&self.outputs).map(|(value, port)| {
            let (shape, data) = convert::copy(value, port.element_type).map_err(|error| failed(&error))?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::installed;

    fn check(name: &str, keys: &str, expected: bool) {
        let mut section: OnnxRuntime = toml::from_str(keys).unwrap();
        section.path = installed::data(name);
        let instance = load::load(&section).unwrap().made().unwrap();
        assert_eq!(instance.binding.is_some(), expected, "{name}, {keys}");
    }

    #[test]
    fn runs_are_bound_where_the_section_says_so() {
        if !installed::is_there("runs_are_bound_where_the_section_says_so") {
            return;
        }
        check("mlp.onnx", "io_binding = true", true);
        check("mlp.onnx", "io_binding = true\nthreads = 2", true);
        check("mlp.onnx", "", false);
        check("strings.onnx", "io_binding = true", false);
    }
}
