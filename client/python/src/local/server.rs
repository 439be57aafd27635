//! A server in this process, for notebooks and tests: what `millpond serve` starts, with Python's functions among its models.
//!
//! It writes no log; `millpond serve` does. Its invariant: it serves from the end of its constructor to the end of `stop`, and not in a
//! process that was forked.

use crate::driver::lock;
use crate::ending::detach;
use crate::failure::{forked, local_error};
use crate::host;
use crate::local::config;
use crate::process::OfProcess;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

/// A running server; `millpond.serve` starts it.
#[pyclass(frozen, module = "millpond._native")]
pub(crate) struct Server {
    running: OfProcess<Running>,
}

struct Running {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    /// `None` once it was stopped.
    server: Mutex<Option<millpond_server::Server>>,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (config, port = None))]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>, port: Option<u16>) -> PyResult<Server> {
        host::tell(py)?;
        let mut read = config::of_server(config)?;
        // A dict that names no address is served where there is space.
        let names = |section: &str| -> PyResult<bool> {
            let Ok(dict) = config.cast::<PyDict>() else {
                return Ok(true);
            };
            let section = dict.get_item(section)?;
            section.map_or(Ok(false), |section| section.contains("listen"))
        };
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if !names("server")? {
            read.server.listen = free;
        }
        if !names("admin")? {
            read.admin.listen = free;
        }
        if let Some(port) = port {
            read.server.listen.set_port(port);
        }
        let started = detach(py, || millpond_server::Server::start(read));
        let server = started.map_err(|error| local_error(py, "ConfigError", &error.to_string()))?;
        Ok(Server {
            running: OfProcess::new(Running {
                address: server.local_addr(),
                admin: server.admin_addr(),
                server: Mutex::new(Some(server)),
            }),
        })
    }

    /// "HOST:PORT", where clients connect.
    #[getter]
    fn address(&self) -> PyResult<String> {
        Ok(self.running.get().map_err(forked)?.address.to_string())
    }

    /// "HOST:PORT" of health and metrics.
    #[getter]
    fn admin_address(&self) -> PyResult<Option<String>> {
        let running = self.running.get().map_err(forked)?;
        Ok(running.admin.map(|admin| admin.to_string()))
    }

    /// Finishes what was accepted, and ends. Stopping twice is stopping once.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.get().map_err(forked)?;
        let Some(server) = lock(&running.server).take() else {
            return Ok(());
        };
        let stopped = detach(py, || server.shutdown());
        match stopped.is_clean() {
            true => Ok(()),
            false => {
                let text = format!(
                    "stopped, and not all of it ended in order: {}",
                    stopped.left.join(", ")
                );
                Err(local_error(py, "Error", &text))
            }
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.stop(py)
    }

    fn __repr__(&self) -> String {
        let address = self.running.get().map(|running| running.address.to_string());
        format!(
            "<millpond.Server at {}>",
            address.unwrap_or_else(|_| "another process".to_owned())
        )
    }
}

impl Drop for Server {
    /// Its threads may need the interpreter to end, so it is let go meanwhile.
    fn drop(&mut self) {
        let gone = OfProcess::taken(&mut self.running);
        let _ = Python::try_attach(|py| detach(py, || drop(gone)));
    }
}
