//! A Python function or class as a model: a list of requests in, a list of as many results out.
//!
//! It knows no pipeline but by a number. Its invariants: each request gets one result; what Python raises, gives too much, too little or of
//! the wrong type is an error that names the backend; and a process that Python forked inside of it never comes back out.

use crate::ending::Use;
use crate::local::inside::{self, Inside};
use crate::process::id as process_id;
use crate::values::{give, take};
use millpond_backends_interface::{Backend, Error, Instance, Model, Signature};
use millpond_pipelines::{Value, pack, unpack};
use millpond_tensor::Tensor;
use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::process;
use std::sync::Arc;
use std::time::Instant;

/// What the status of a process is that came out of a backend which forked it.
const FORKED_STATUS: i32 = 70;

/// A function or class that `millpond.backend` marked.
pub(crate) struct PythonBackend {
    shared: Arc<Shared>,
}

struct Shared {
    /// The model's name, for messages.
    name: String,
    /// The function, or the class whose instances are called.
    marked: Py<PyAny>,
    is_class: bool,
    /// Names of its inputs; where there is none, it takes one value as it is.
    inputs: Vec<String>,
    /// Which pipeline it belongs to.
    owner: u64,
}

impl PythonBackend {
    pub(crate) fn new(
        name: String,
        marked: Py<PyAny>,
        is_class: bool,
        inputs: Vec<String>,
        owner: u64,
    ) -> PythonBackend {
        let shared = Arc::new(Shared {
            name,
            marked,
            is_class,
            inputs,
            owner,
        });
        PythonBackend { shared }
    }
}

impl Backend for PythonBackend {
    fn check(&self, _at: &str, _batch_size_max: usize) -> Result<(), String> {
        Ok(())
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        Ok(Arc::new(PythonModel {
            shared: Arc::clone(&self.shared),
            signature: Signature::default(),
        }))
    }
}

struct PythonModel {
    shared: Arc<Shared>,
    /// It names nothing: any values come and go.
    signature: Signature,
}

impl Model for PythonModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        let shared = Arc::clone(&self.shared);
        let call = attached(|py| match shared.is_class {
            false => Ok(shared.marked.clone_ref(py)),
            true => {
                let made = shared.marked.bind(py).call0();
                let forward = made.and_then(|made| match made.is_callable() {
                    true => Ok(made),
                    false => made.getattr("forward"),
                });
                forward
                    .map(Bound::unbind)
                    .map_err(|error| shared.raised(py, &error, "cannot be made"))
            }
        })?;
        Ok(Box::new(Running { shared, call }))
    }

    /// A function is the same on every thread; an instance of a class belongs to the thread that made it.
    fn runs_inline(&self) -> bool {
        !self.shared.is_class
    }

    fn takes_requests(&self) -> bool {
        true
    }
}

/// What Python calls with a batch.
struct Running {
    shared: Arc<Shared>,
    call: Py<PyAny>,
}

impl Instance for Running {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let mut results = self.run_requests(vec![inputs], None);
        results
            .pop()
            .unwrap_or_else(|| Err(problem("it gave nothing".to_owned())))
    }

    fn run_requests(
        &mut self,
        requests: Vec<Vec<Tensor>>,
        _: Option<Instant>,
    ) -> Vec<Result<Vec<Tensor>, Error>> {
        let count = requests.len();
        let results = attached(|py| self.batch(py, requests));
        results.unwrap_or_else(|error| (0..count).map(|_| Err(error.clone())).collect())
    }
}

impl Running {
    /// Calls with all requests; an error is the whole batch's.
    fn batch(
        &self,
        py: Python<'_>,
        requests: Vec<Vec<Tensor>>,
    ) -> Result<Vec<Result<Vec<Tensor>, Error>>, Error> {
        let shared = &*self.shared;
        let count = requests.len();
        let requests = requests.into_iter().map(|request| shared.request(py, request));
        let batch = requests
            .collect::<PyResult<Vec<_>>>()
            .and_then(|batch| PyList::new(py, batch));
        let batch = batch.map_err(|error| shared.raised(py, &error, "cannot be given its batch"))?;
        let before = process_id();
        let given = {
            let _inside = Inside::enter(shared.owner, &shared.name);
            self.call.bind(py).call1((batch,))
        };
        if process_id() != before {
            shared.end_fork(py, before);
        }
        let given = given.map_err(|error| {
            // Ctrl-C and sys.exit() are no failure of the model's, and are for who called.
            if !error.is_instance_of::<PyException>(py) {
                inside::interrupt(error.clone_ref(py));
            }
            shared.raised(py, &error, "raised")
        })?;
        let Some(items) = take::items(&given) else {
            let found = take::type_name(&given);
            return Err(problem(format!(
                "it gave a {found}; expected a list of {count} results, one for each request"
            )));
        };
        if items.len() != count {
            let found = items.len();
            return Err(problem(format!(
                "it gave {found} results for {count} requests; expected one for each"
            )));
        }
        Ok(items.iter().map(|item| shared.result(py, item)).collect())
    }
}

impl Shared {
    /// What a request asks, as Python gets it: one value, or a dict of them.
    fn request<'py>(&self, py: Python<'py>, packed: Vec<Tensor>) -> PyResult<Bound<'py, PyAny>> {
        let mut packed = packed.into_iter();
        let mut next = || -> PyResult<Bound<'py, PyAny>> {
            let value: Value = unpack(&mut packed)
                .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
            give::value(py, &value)
        };
        if self.inputs.is_empty() {
            return next();
        }
        let dict = PyDict::new(py);
        for name in &self.inputs {
            dict.set_item(name, next()?)?;
        }
        Ok(dict.into_any())
    }

    /// What one request gets.
    fn result(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> Result<Vec<Tensor>, Error> {
        if item.is_instance_of::<PyBaseException>() {
            let error = PyErr::from_value(item.clone());
            return Err(problem(described(py, &error)));
        }
        let value = take::value(item).map_err(|refused| {
            let error = refused.raised("a result");
            problem(described(py, &error))
        })?;
        let mut packed = Vec::new();
        pack(value, &mut packed).map_err(|error| problem(error.to_string()))?;
        Ok(packed)
    }

    /// The error of a batch, which is logged here: nobody else sees its traceback.
    fn raised(&self, py: Python<'_>, error: &PyErr, what: &str) -> Error {
        let logged = || -> PyResult<()> {
            let logger = py.import("logging")?.call_method1("getLogger", ("millpond",))?;
            let kwargs = PyDict::new(py);
            kwargs.set_item(
                "exc_info",
                (error.get_type(py), error.value(py), error.traceback(py)),
            )?;
            logger.call_method(
                "error",
                ("backend %s %s", self.name.as_str(), what),
                Some(&kwargs),
            )?;
            Ok(())
        };
        if let Err(error) = logged() {
            error.write_unraisable(py, None);
        }
        problem(described(py, error))
    }

    /// The process that was forked ends here: its threads and locks are the parent's, and nothing in it can go on.
    fn end_fork(&self, py: Python<'_>, parent: u32) -> ! {
        let text = format!(
            "millpond: backend {} came back in a process that it forked from {parent}, which has none of the parent's threads; \
             the process ends. Start processes with the subprocess module, or end the child inside the backend with os._exit\n",
            self.name
        );
        let ended = || -> PyResult<()> {
            py.import("os")?.call_method1("write", (2, text.as_bytes()))?;
            py.import("os")?.call_method1("_exit", (FORKED_STATUS,))?;
            Ok(())
        };
        let _ = ended();
        process::abort()
    }
}

/// With the interpreter, which ends before its threads do.
fn attached<T>(with: impl FnOnce(Python<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let attached = Use::begin().and_then(|_use| {
        inside::waiting(|has_waited| {
            Python::try_attach(|py| {
                has_waited();
                with(py)
            })
        })
    });
    attached.unwrap_or_else(|| Err(problem("the interpreter ends".to_owned())))
}

fn problem(problem: String) -> Error {
    Error::Run { problem }
}

/// An exception in one line, and its traceback in those behind it.
fn described(py: Python<'_>, error: &PyErr) -> String {
    let formatted = || -> PyResult<String> {
        let value = error.value(py);
        let traceback = error.traceback(py);
        let arguments = PyTuple::new(
            py,
            [
                error.get_type(py).as_any(),
                value.as_any(),
                &traceback.into_pyobject(py)?,
            ],
        )?;
        let lines = py
            .import("traceback")?
            .call_method1("format_exception", arguments)?;
        "".into_pyobject(py)?.call_method1("join", (lines,))?.extract()
    };
    let one_line = error.to_string().replace('\n', " ");
    match formatted() {
        Ok(traceback) => format!("{one_line}\n{}", traceback.trim_end()),
        Err(_) => one_line,
    }
}
