//! A connected client: its calls, from a Python payload to what Python gets back.
//!
//! It waits nowhere itself (`ask.rs` does). Its invariant: a payload that cannot be sent is refused before anything is
//! handed over; what was handed over ends as the Rust client says.

use crate::ask::{Listener, ask};
use crate::driver::{Driver, driver, lock};
use crate::failure::{Failure, closed, forked};
use crate::options::{Options, deadline, priority};
use crate::process::OfProcess;
use crate::values::give;
use crate::{payload, tree};
use millpond_client_rust::schema::payload::decode_map;
use millpond_client_rust::{CallError, Client, Encoding};
use millpond_pipelines::Output;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What ended work gave.
pub(crate) enum Outcome {
    /// A map in msgpack, answered by that method there.
    Map {
        method: String,
        address: String,
        payload: Vec<u8>,
    },
    /// An answer for the caller to read.
    Bytes(Vec<u8>),
    /// Nothing is answered.
    Nothing,
    /// What a pipeline of this process gave.
    Values(Box<Output>),
    /// A connected client.
    Connected(Box<Connected>),
}

impl Outcome {
    /// As Python gets it: a dict, bytes, None or a [`Pool`].
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Outcome::Map {
                method,
                address,
                payload,
            } => match decode_map(Encoding::Msgpack, &payload) {
                Ok(map) => Ok(tree::dict(py, &map)?.into_any().unbind()),
                Err(error) => Err(Failure::Call(CallError::Protocol {
                    addr: address,
                    detail: format!("the answer to {method}: {error}"),
                })
                .into_python(py)),
            },
            Outcome::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any().unbind()),
            Outcome::Nothing => Ok(py.None()),
            Outcome::Values(output) => values(py, &output),
            Outcome::Connected(connected) => {
                let pool = Pool {
                    connected: OfProcess::new(*connected),
                };
                Ok(Py::new(py, pool)?.into_any())
            }
        }
    }
}

/// A pipeline's outputs by name.
fn values(py: Python<'_>, output: &Output) -> PyResult<Py<PyAny>> {
    let dict = PyDict::new(py);
    for (name, value) in &output.values {
        dict.set_item(&**name, give::value(py, value)?)?;
    }
    Ok(dict.into_any().unbind())
}

/// What belongs to the process that connected.
pub(crate) struct Connected {
    driver: Arc<Driver>,
    address: String,
    frame_bytes_max: usize,
    /// Whether it has a second attempt for slow calls.
    hedges: bool,
    /// `None` once it was closed.
    client: Mutex<Option<Client>>,
}

/// A client that was connected. Without `to` a method waits and returns what it gives; with `(arrivals, number)` it
/// returns a ticket, and what it gives comes with the arrivals.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Pool {
    connected: OfProcess<Connected>,
}

#[pymethods]
impl Pool {
    /// Opens every connection of a pool.
    #[staticmethod]
    #[pyo3(signature = (options, to = None))]
    fn connect(py: Python<'_>, options: &Options, to: Option<Listener<'_>>) -> PyResult<Py<PyAny>> {
        let driver = driver(py)?;
        let (address, limits) = (options.address.clone(), options.options.clone());
        let of_pool = driver.clone();
        ask(py, &driver, to, async move {
            let (frame_bytes_max, hedges) = (limits.frame_bytes_max, limits.hedge.is_some());
            let client = Client::connect(&address, limits).await?;
            Ok(Outcome::Connected(Box::new(Connected {
                driver: of_pool,
                address,
                frame_bytes_max,
                hedges,
                client: Mutex::new(Some(client)),
            })))
        })
    }

    /// Calls with a dict and gives a dict.
    #[allow(clippy::too_many_arguments)] // They are Python's keywords.
    #[pyo3(signature = (method, payload, deadline_ms, hedged, to = None, *, priority = None))]
    fn call(
        &self,
        py: Python<'_>,
        method: String,
        payload: &Bound<'_, PyAny>,
        deadline_ms: Option<&Bound<'_, PyAny>>,
        hedged: bool,
        to: Option<Listener<'_>>,
        priority: Option<i64>,
    ) -> PyResult<Py<PyAny>> {
        let (connected, client) = self.open(py)?;
        connected.check_hedged(hedged)?;
        let client = urgent(client, priority)?;
        let deadline = deadline(deadline_ms)?;
        let payload = payload::encode(&method, payload, connected.frame_bytes_max)?;
        let address = connected.address.clone();
        ask(py, &connected.driver, to, async move {
            let msgpack = Encoding::Msgpack;
            let payload = called(&client, &method, msgpack, &payload, deadline, hedged).await?;
            Ok(Outcome::Map {
                method,
                address,
                payload,
            })
        })
    }

    /// Calls with one encoded map and gives the answer's, in the same encoding.
    #[allow(clippy::too_many_arguments)] // They are Python's keywords.
    #[pyo3(signature = (method, payload, deadline_ms, encoding, hedged, to = None, *, priority = None))]
    fn call_raw(
        &self,
        py: Python<'_>,
        method: String,
        payload: PyBackedBytes,
        deadline_ms: Option<&Bound<'_, PyAny>>,
        encoding: &str,
        hedged: bool,
        to: Option<Listener<'_>>,
        priority: Option<i64>,
    ) -> PyResult<Py<PyAny>> {
        let (connected, client) = self.open(py)?;
        connected.check_hedged(hedged)?;
        let client = urgent(client, priority)?;
        let deadline = deadline(deadline_ms)?;
        let encoding = match encoding {
            "msgpack" => Encoding::Msgpack,
            "json" => Encoding::Json,
            other => {
                let text = format!("encoding is {other:?}; expected \"msgpack\" or \"json\"");
                return Err(PyValueError::new_err(text));
            }
        };
        // The driver's thread may not let go of Python's bytes.
        let payload = payload.to_vec();
        ask(py, &connected.driver, to, async move {
            let answer = called(&client, &method, encoding, &payload, deadline, hedged).await?;
            Ok(Outcome::Bytes(answer))
        })
    }

    /// Queues a call that has no answer.
    #[pyo3(signature = (method, payload, to = None))]
    fn oneway(
        &self,
        py: Python<'_>,
        method: String,
        payload: &Bound<'_, PyAny>,
        to: Option<Listener<'_>>,
    ) -> PyResult<Py<PyAny>> {
        let (connected, client) = self.open(py)?;
        let payload = payload::encode(&method, payload, connected.frame_bytes_max)?;
        ask(py, &connected.driver, to, async move {
            client.oneway(&method, &payload).await?;
            Ok(Outcome::Nothing)
        })
    }

    /// Answers that came after their caller had gone.
    fn late_answers(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open(py)?.1.late_answers())
    }

    /// What hedging has done: second attempts sent, won and held back.
    fn hedge_counts(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let counts = self.open(py)?.1.hedge_counts();
        Ok((counts.sent, counts.won, counts.held_back))
    }

    /// Takes no more calls, writes what is queued and closes the connections. Closing twice is closing once.
    #[pyo3(signature = (to = None))]
    fn close(&self, py: Python<'_>, to: Option<Listener<'_>>) -> PyResult<Py<PyAny>> {
        let connected = match self.connected.get() {
            Ok(connected) => connected,
            // A client of a parent process is closed by leaving it alone.
            Err(_) if to.is_none() => return Ok(py.None()),
            Err(pid) => return Err(forked(pid)),
        };
        let client = lock(&connected.client).take();
        ask(py, &connected.driver, to, async move {
            if let Some(client) = client {
                client.close().await;
            }
            Ok(Outcome::Nothing)
        })
    }
}

impl Connected {
    /// A call that may be repeated says so to a client that would repeat it.
    fn check_hedged(&self, hedged: bool) -> PyResult<()> {
        if hedged && !self.hedges {
            let text = "the call is hedged and its client never is; give the client hedge_after_ms";
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }
}

impl Pool {
    fn open(&self, py: Python<'_>) -> PyResult<(&Connected, Client)> {
        let connected = self.connected.get().map_err(forked)?;
        let client = lock(&connected.client).clone();
        let client = client.ok_or_else(|| closed(py, &connected.address))?;
        Ok((connected, client))
    }
}

async fn called(
    client: &Client,
    method: &str,
    encoding: Encoding,
    payload: &[u8],
    deadline: Option<Duration>,
    hedged: bool,
) -> Result<Vec<u8>, CallError> {
    if hedged {
        return client.call_hedged(method, encoding, payload, deadline).await;
    }
    client.call_raw(method, encoding, payload, deadline).await
}

/// The client whose calls have this level.
fn urgent(client: Client, level: Option<i64>) -> PyResult<Client> {
    Ok(match priority(level)? {
        Some(level) => client.with_priority(level),
        None => client,
    })
}

/// For a payload that is refused before it reaches the client.
pub(crate) fn unsendable(py: Python<'_>, method: &str, detail: String) -> PyErr {
    let error = CallError::Unsendable {
        method: method.to_owned(),
        detail,
    };
    Failure::Call(error).into_python(py)
}
