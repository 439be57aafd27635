//! How a worker process of Python is started, and what it is told to load. The protocol is `backends/worker`'s.
//!
//! Its invariant: a Python that cannot be a worker says by the protocol what it lacks.

use crate::interpreter;
use crate::port::Batch;
use crate::section::Python;
use millpond_backends_interface::{Error, Port, host};
use millpond_backends_worker::{Launch, SHARED_BYTES_MAX};
use serde_json::{Value, json};
use std::env;
use std::process::Command;
use std::time::Duration;

/// What the interpreter runs first: it finds the package, or says that there is none.
const START: &str = include_str!("start.py");
/// What lists of processes show behind it.
const SHOWN: &str = "millpond-worker";

pub(crate) fn launch(section: &Python) -> Result<Launch, Error> {
    let failed = |problem: String, hint: &str| Error::Load {
        path: section.path(),
        problem,
        hint: hint.to_owned(),
    };
    let signature = section
        .signature()
        .map_err(|problem| failed(problem, "declare its inputs and outputs (docs/python.md)"))?;
    let python = interpreter::find(&section.python, host::interpreter(), |name| env::var_os(name))
        .map_err(|problem| failed(problem, "docs/python.md says what a worker needs"))?;
    // The interpreter of this process has its packages there too, however it found them; another one has its own.
    let host =
        host::interpreter().filter(|host| host.program.is_some() && section.python.as_os_str().is_empty());
    let packages = host.map(|host| host.packages).unwrap_or_default();
    let shared = section
        .shared_bytes_max
        .and_then(|bytes| usize::try_from(bytes).ok());
    let shared_bytes_max = shared.unwrap_or(SHARED_BYTES_MAX);
    let Some(file) = section.file.to_str() else {
        let problem = "its path cannot be passed to a worker process".to_owned();
        return Err(failed(problem, "use a path that is UTF-8"));
    };
    let what = json!({
        "module": section.module,
        "file": file,
        "function": section.function,
        "signature": {
            "inputs": written(&signature.inputs),
            "outputs": written(&signature.outputs),
            "batched": signature.batched,
        },
        "shared_bytes_max": shared_bytes_max,
        "takes_requests": section.batch == Batch::List,
    });
    let path = section.path();
    let shown = format!("{}:{}", path.display(), section.function);
    Ok(Launch {
        command: Box::new(move || {
            let mut command = Command::new(&python);
            command.args(["-c", START, SHOWN, &shown]).args(&packages);
            Ok(command)
        }),
        what: what.to_string(),
        path,
        start_max: Duration::from_millis(section.start_ms_max()),
        run_max: Duration::from_millis(section.run_ms_max()),
        memory_bytes_max: section.memory_bytes_max,
        shared_bytes_max,
        takes_requests: section.batch == Batch::List,
    })
}

/// Ports as a worker writes them in its signature.
fn written(ports: &[Port]) -> Vec<Value> {
    let one =
        |port: &Port| json!({ "name": port.name, "type": port.element_type.as_str(), "shape": port.shape });
    ports.iter().map(one).collect()
}
