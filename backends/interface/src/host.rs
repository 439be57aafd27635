//! The Python interpreter that this process runs in, where it does: what backends need of it is looked for there first.
//!
//! It knows no Python. Its invariant: nothing is known of it before the Python package has said it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// An interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpreter {
    /// Its program, where it has one.
    pub program: Option<PathBuf>,
    /// The folders that it imports from.
    pub packages: Vec<PathBuf>,
    /// The program and arguments that make it the worker of a plugin.
    pub plugin_worker: Vec<std::ffi::OsString>,
    /// Whether the process began with a standard error. Without one, descriptor 2 may be any file of the program's by now.
    pub has_standard_error: bool,
}

static HOST: Mutex<Option<Interpreter>> = Mutex::new(None);

/// Says which it is; a later word holds from then on.
pub fn set(interpreter: Interpreter) {
    *HOST.lock().unwrap_or_else(PoisonError::into_inner) = Some(interpreter);
}

/// The interpreter; nothing in a process without.
pub fn interpreter() -> Option<Interpreter> {
    HOST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
