//! Where a client connects to, its limits and habits, checked before anything is opened.
//!
//! It opens nothing. Its invariant: what it holds, the Rust client takes, and does something.

use crate::payload::type_name;
use millpond_client_rust as client;
use millpond_client_rust::{Backoff, Hedge, HedgeAfter, Tls, TlsIdentity};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// Connections of one pool; a process has fewer files than that to open.
const CONNECTIONS_MAX: usize = 65_535;
/// A frame's length is a u32.
const FRAME_BYTES_MAX: usize = u32::MAX as usize;
/// Calls are numbered by a u32.
const IN_FLIGHT_MAX: usize = u32::MAX as usize;
/// Letters of an object that a message shows.
const SHOWN_MAX: usize = 60;

/// The options of both clients; `millpond/_endpoint.py` has their defaults.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Options {
    /// One address, or several with commas between.
    pub(crate) address: String,
    /// The rest.
    pub(crate) options: client::Options,
}

/// What a constructor was given, by its keywords.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    connections: i64,
    connect_timeout_ms: f64,
    frame_bytes_max: i64,
    in_flight_max: i64,
    keep_alive_ms: Option<f64>,
    backoff_ms_first: f64,
    backoff_ms_max: f64,
    hedge_after_ms: Option<After>,
    hedge_percent_max: i64,
    tls_ca: Option<PathBuf>,
    tls_server_name: Option<String>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

/// When the second attempt of a hedged call begins.
#[derive(FromPyObject)]
enum After {
    Ms(f64),
    Named(String),
}

#[pymethods]
impl Options {
    #[new]
    fn new(address: String, given: Given) -> PyResult<Options> {
        let mut options = client::Options {
            connections: count("connections", given.connections, CONNECTIONS_MAX)?,
            connect_timeout: milliseconds("connect_timeout_ms", given.connect_timeout_ms)?,
            frame_bytes_max: count("frame_bytes_max", given.frame_bytes_max, FRAME_BYTES_MAX)?,
            in_flight_max: count("in_flight_max", given.in_flight_max, IN_FLIGHT_MAX)?,
            ..client::Options::default()
        };
        options.backoff = Backoff {
            first: milliseconds("backoff_ms_first", given.backoff_ms_first)?,
            most: milliseconds("backoff_ms_max", given.backoff_ms_max)?,
            ..Backoff::default()
        };
        let keep_alive = |ms| milliseconds("keep_alive_ms", ms);
        options.keep_alive = given.keep_alive_ms.map(keep_alive).transpose()?;
        options.hedge = hedge(&given)?;
        options.tls = tls(given)?;
        Ok(Options { address, options })
    }
}

fn hedge(given: &Given) -> PyResult<Option<Hedge>> {
    let after = match &given.hedge_after_ms {
        None => return Ok(None),
        Some(After::Ms(ms)) => HedgeAfter::Delay(milliseconds("hedge_after_ms", *ms)?),
        Some(After::Named(name)) if name == "p95" => HedgeAfter::P95,
        Some(After::Named(name)) => {
            let text = format!("hedge_after_ms is {name:?}; expected milliseconds, \"p95\" or None");
            return Err(PyValueError::new_err(text));
        }
    };
    let percent = count("hedge_percent_max", given.hedge_percent_max, 100)?;
    Ok(Some(Hedge {
        after,
        percent_max: u32::try_from(percent).unwrap_or(100),
    }))
}

fn tls(given: Given) -> PyResult<Option<Tls>> {
    let identity = match (given.tls_certificate, given.tls_key) {
        (Some(certificate), Some(key)) => Some(TlsIdentity { certificate, key }),
        (None, None) => None,
        _ => {
            return Err(PyValueError::new_err(
                "tls_certificate and tls_key go together: give both",
            ));
        }
    };
    let Some(ca) = given.tls_ca else {
        if identity.is_some() || given.tls_server_name.is_some() {
            let text = "TLS is set up without tls_ca; give the file of the authority that the server's certificate comes from";
            return Err(PyValueError::new_err(text));
        }
        return Ok(None);
    };
    Ok(Some(Tls {
        ca,
        server_name: given.tls_server_name,
        identity,
    }))
}

/// A span of time that a caller gave.
pub(crate) fn milliseconds(name: &str, given: f64) -> PyResult<Duration> {
    // A span has less than 2**64 seconds.
    Duration::try_from_secs_f64(given / 1000.0).map_err(|_| {
        let shown = match given.abs() > 1e15 {
            true => format!("{given:e}"),
            false => given.to_string(),
        };
        PyValueError::new_err(format!(
            "{name} is {shown}; expected milliseconds, from 0 to 1.8e22"
        ))
    })
}

/// How long a caller waits for its answer.
pub(crate) fn deadline(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    let number = given.extract().map_err(|error: PyErr| {
        let py = given.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            let text =
                "deadline_ms is out of range; expected milliseconds, from 0 to 1.8e22, or None for no deadline";
            return PyValueError::new_err(text);
        }
        if !error.is_instance_of::<PyTypeError>(py) {
            // The object's own, or Ctrl-C.
            return error;
        }
        let (shown, found) = (shown(given), type_name(given));
        PyTypeError::new_err(format!(
            "deadline_ms is {shown}, a {found}; expected milliseconds as a number, or None for no deadline"
        ))
    });
    milliseconds("deadline_ms", number?).map(Some)
}

/// What an object shows of itself, cut short.
fn shown(object: &Bound<'_, PyAny>) -> String {
    let shown = object
        .repr()
        .map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
    match shown.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// A call's level among those that wait for the same model.
pub(crate) fn priority(given: Option<i64>) -> PyResult<Option<u8>> {
    let level = |given: i64| u8::try_from(given).ok().filter(|level| *level <= 9);
    let refused = |given| {
        PyValueError::new_err(format!(
            "priority is {given}; expected a level from 0 (first) to 9"
        ))
    };
    given
        .map(|given| level(given).ok_or_else(|| refused(given)))
        .transpose()
}

fn count(name: &str, given: i64, max: usize) -> PyResult<usize> {
    usize::try_from(given)
        .ok()
        .filter(|count| (1..=max).contains(count))
        .ok_or_else(|| PyValueError::new_err(format!("{name} is {given}; expected 1 to {max}")))
}
