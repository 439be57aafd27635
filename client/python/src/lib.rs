//! The native half of the Python package `millpond`: pipelines in this process, values both ways, and the Rust client with its one
//! thread.
//!
//! It is not the package's face: `millpond/` next to it is, and nothing here is called by anybody else. Its invariant: the
//! thread that talks to servers never touches Python, so that no Python code, however slow, holds up an answer, and none
//! runs while the interpreter ends; and nothing that has threads is touched after a fork.
//!
//! Nothing here relies on the interpreter's lock, so free-threaded Python stays free: what is shared has locks of its own, under which
//! nobody runs Python, lets go of the interpreter or waits for it, and what a thread-local holds is its thread's.

mod arrivals;
mod ask;
mod driver;
mod ending;
mod failure;
mod host;
mod local;
mod options;
mod payload;
mod pool;
mod process;
mod tables;
mod tree;
mod values;

/// `millpond._native`.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::arrivals::Arrivals;
    #[pymodule_export]
    use crate::ask::Ticket;
    #[pymodule_export]
    use crate::ending::end_interpreter;
    #[pymodule_export]
    use crate::host::serve_plugin;
    #[pymodule_export]
    use crate::local::pipeline::{Errand, Pipeline};
    #[pymodule_export]
    use crate::local::server::Server;
    #[pymodule_export]
    use crate::options::Options;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::process::{end_with_server, forget_process};
    #[pymodule_export]
    use crate::tables::build_table;
    #[pymodule_export]
    use crate::values::array::Array;

    /// The package's version.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
