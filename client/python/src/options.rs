//! Where a client connects to and its limits, checked before anything is opened.
//!
//! It opens nothing. Its invariant: what it holds, the Rust client takes.

use millpond_client_rust as client;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::Duration;

/// Connections of one pool; a process has fewer files than that to open.
const CONNECTIONS_MAX: usize = 65_535;
/// A frame's length is a u32.
const FRAME_BYTES_MAX: usize = u32::MAX as usize;
/// Calls are numbered by a u32.
const IN_FLIGHT_MAX: usize = u32::MAX as usize;

/// The options of both clients; `millpond/_endpoint.py` has their defaults.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Options {
    /// "HOST:PORT".
    pub(crate) address: String,
    /// The rest.
    pub(crate) options: client::Options,
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (address, *, connections, connect_timeout_ms, frame_bytes_max, in_flight_max))]
    fn new(
        address: String,
        connections: i64,
        connect_timeout_ms: f64,
        frame_bytes_max: i64,
        in_flight_max: i64,
    ) -> PyResult<Options> {
        let mut options = client::Options {
            connections: count("connections", connections, CONNECTIONS_MAX)?,
            connect_timeout: milliseconds("connect_timeout_ms", connect_timeout_ms)?,
            frame_bytes_max: count("frame_bytes_max", frame_bytes_max, FRAME_BYTES_MAX)?,
            ..client::Options::default()
        };
        options.in_flight_max = count("in_flight_max", in_flight_max, IN_FLIGHT_MAX)?;
        Ok(Options { address, options })
    }
}

/// A span of time that a caller gave.
///
/// # Errors
/// `ValueError` for what is no number of milliseconds from 0 up.
pub(crate) fn milliseconds(name: &str, given: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(given / 1000.0)
        .map_err(|_| PyValueError::new_err(format!("{name} is {given}; expected milliseconds, 0 or more")))
}

fn count(name: &str, given: i64, max: usize) -> PyResult<usize> {
    usize::try_from(given)
        .ok()
        .filter(|count| (1..=max).contains(count))
        .ok_or_else(|| PyValueError::new_err(format!("{name} is {given}; expected 1 to {max}")))
}
