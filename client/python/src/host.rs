//! This interpreter, as backends look for things in it: ONNX Runtime's package, the Python of workers, and the worker of plugins.
//!
//! It loads nothing. Its invariant: what it says is of the moment when a pipeline or server is opened, `sys.path` too.

use millpond_backends_interface::host::{self, Interpreter};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// What a worker of a plugin runs: this package, wherever it was imported from.
const PLUGIN_WORKER: &str =
    "import sys; sys.path[:] = sys.argv[1:]; from millpond._plugin_worker import main; main()";

/// Has backends know this interpreter.
pub(crate) fn tell(py: Python<'_>) -> PyResult<()> {
    let sys = py.import("sys")?;
    let program: Option<PathBuf> = sys.getattr("executable")?.extract()?;
    let program = program.filter(|program| !program.as_os_str().is_empty());
    let mut packages = Vec::new();
    for entry in sys.getattr("path")?.try_iter()? {
        // What an import hook put there may be no text.
        let entry = entry?.extract::<PathBuf>().ok();
        packages.extend(entry.filter(|entry| entry.is_absolute()));
    }
    let mut plugin_worker = Vec::new();
    if let Some(program) = &program {
        plugin_worker
            .extend([program.as_os_str(), "-c".as_ref(), PLUGIN_WORKER.as_ref()].map(OsString::from));
        plugin_worker.extend(packages.iter().map(|entry| entry.clone().into_os_string()));
    }
    host::set(Interpreter {
        program,
        packages,
        plugin_worker,
        has_standard_error: !sys.getattr("__stderr__")?.is_none(),
    });
    Ok(())
}

/// Serves the process at the other end of standard input with the plugin that it names, until it is gone.
#[pyfunction]
pub(crate) fn serve_plugin(py: Python<'_>) -> std::io::Result<()> {
    py.detach(millpond_backends_plugin::serve_worker)
}
