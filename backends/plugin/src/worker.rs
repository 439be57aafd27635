//! A plugin in worker processes: how the server starts them, and what they do. The protocol is `backends/worker`'s.
//!
//! Its invariant: a worker is this very program, or the package of the Python that it runs in, so both sides are of one version.

use crate::model;
use crate::section::Plugin;
use millpond_backends_interface::{Error, host};
use millpond_backends_worker::{Launch, SHARED_BYTES_MAX, serve};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The argument that makes this program a worker: its main function then calls [`serve_worker`] and nothing else.
pub const WORKER: &str = "plugin-worker";
/// This program's file, were its name given to another one meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What a worker is to load.
#[derive(Serialize, Deserialize)]
struct What {
    path: PathBuf,
    options: BTreeMap<String, Value>,
}

pub(crate) fn launch(section: &Plugin) -> Result<Launch, Error> {
    let what = What {
        path: section.path.clone(),
        options: section.options.clone(),
    };
    let what = serde_json::to_string(&what).map_err(|error| Error::Load {
        path: section.path.clone(),
        problem: format!("its path or options cannot be passed to a worker process: {error}"),
        hint: "use a path that is UTF-8".to_owned(),
    })?;
    let program = match section.worker.is_empty() {
        true => host_worker(section)?,
        false => section.worker.clone(),
    };
    Ok(Launch {
        command: Box::new(move || command(&program)),
        what,
        path: section.path.clone(),
        start_max: Duration::from_millis(section.start_ms_max()),
        run_max: Duration::from_millis(section.run_ms_max()),
        memory_bytes_max: section.memory_bytes_max,
        shared_bytes_max: SHARED_BYTES_MAX,
        takes_requests: false,
    })
}

/// The worker where this program is Python; nothing where it is its own worker.
fn host_worker(section: &Plugin) -> Result<Vec<OsString>, Error> {
    match host::interpreter() {
        None => Ok(Vec::new()),
        Some(host) if host.plugin_worker.is_empty() => Err(Error::Load {
            path: section.path.clone(),
            problem: "this process has Python in it, and its sys.executable names no program that could run the worker".to_owned(),
            hint: "leave out isolate, or use millpond serve".to_owned(),
        }),
        Some(host) => Ok(host.plugin_worker),
    }
}

fn command(program: &[OsString]) -> io::Result<Command> {
    let Some((program, arguments)) = program.split_first() else {
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0("millpond").arg(WORKER);
        return Ok(command);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// The worker: serves the server at the other end of standard input until it is gone.
///
/// # Errors
/// When standard input is no channel to a server, or breaks.
pub fn serve_worker() -> io::Result<()> {
    serve(|what| {
        let what: What = serde_json::from_str(what).map_err(|error| Error::Run {
            problem: format!("it was asked to load what it cannot read: {error}"),
        })?;
        model::load(&what.path, &what.options)
    })
}
