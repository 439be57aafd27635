//! From a file to a model that can run: look at the file, build a session, read its ports, find out about its batch.
//!
//! Its one invariant: whatever the file holds, it ends in a model or in an error that names the file, what is wrong, and a hint;
//! never in a panic.

use crate::c_api::Names;
use crate::library::{self, Runtime};
use crate::limit::Limit;
use crate::ports::{self, Ports};
use crate::providers::Provider;
use crate::run::{OnnxInstance, OnnxModel, Sessions};
use crate::settings::{OnnxRuntime, Optimization};
use crate::spread::Spread;
use crate::{Refusal, bounded, options};
use millpond_backends_interface::{Error, Instance, Port, Signature};
use millpond_tensor::Tensor;
use millpond_threads::contain;
use ort::error::ErrorCode;
use ort::session::Session;
use ort::session::builder::{AutoDevicePolicy, GraphOptimizationLevel, SessionBuilder};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use std::{fs, io};

/// Bytes of zeros that a model is tried with at most.
const TRIAL_BYTES_MAX: usize = 64 << 20;

/// What an empty string takes there and in ONNX Runtime.
const STRING_BYTES: usize = 64;

/// What tells one state of a file from another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> io::Result<Stamp> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        Ok(Stamp {
            bytes: metadata.len(),
            changed: metadata.modified().ok(),
        })
    }
}

pub(crate) fn load(section: &OnnxRuntime) -> Result<OnnxModel, Error> {
    let loaded = contain(|| load_file(section)).unwrap_or_else(|panic| {
        let problem = format!("ONNX Runtime cannot load it: {}", bounded(&panic.message));
        Err((problem, NOT_LOADED.to_owned()))
    });
    loaded.map_err(|(problem, hint)| Error::Load {
        path: section.path.clone(),
        problem,
        hint,
    })
}

fn load_file(section: &OnnxRuntime) -> Result<OnnxModel, Refusal> {
    let stamp = Stamp::of(&section.path).map_err(|error| unreadable(&error))?;
    // Opened as well, because metadata can be read of a file that cannot.
    fs::File::open(&section.path).map_err(|error| unreadable(&error))?;
    if stamp.bytes == 0 {
        return Err(("it is empty".to_owned(), AGAIN.to_owned()));
    }
    let runtime = library::runtime()?;
    let places = section.places();
    let first = places.first().copied().flatten();
    let session = Arc::new(session(section, runtime, first)?);
    let mut ports = ports::read(&session)?;
    let names = Arc::new(ports::names(&ports)?);
    let limit = section.run_longest().map(Limit::start).transpose();
    let limit = limit.map_err(|error| {
        let problem = format!("no thread for run_ms_max: {error}");
        (
            problem,
            "raise the limit of threads, or leave run_ms_max out".to_owned(),
        )
    })?;
    let trial = Trial::new(runtime, &session, &names, &ports, limit.as_ref())?;
    let batched = is_batched(section, &mut ports, trial)?;
    let signature = Signature {
        inputs: ports.inputs,
        outputs: ports.outputs,
        batched,
    };
    let sessions = match Arc::try_unwrap(session) {
        Ok(session) if !section.shares_a_session() => Sessions::Own(Mutex::new(Some(session))),
        Ok(session) => Sessions::Shared(Arc::new(session)),
        Err(shared) => Sessions::Shared(shared),
    };
    let model = OnnxModel {
        section: section.clone(),
        runtime,
        signature,
        names,
        stamp,
        sessions,
        spread: Spread::over(places),
        limit,
    };
    if section.binds() && model.has_strings() {
        let path = section.path.display();
        tracing::warn!(%path, "it has strings, which cannot be bound, so its runs bind nothing; say io_binding = false");
    }
    Ok(model)
}

/// A session of the file on that device, as the section says.
pub(crate) fn session(
    section: &OnnxRuntime,
    runtime: &Runtime,
    device: Option<u16>,
) -> Result<Session, Refusal> {
    let plain = |error: ort::Error<SessionBuilder>| not_set(error.message());
    let level = match section.optimization.unwrap_or(Optimization::All) {
        Optimization::None => GraphOptimizationLevel::Disable,
        Optimization::Basic => GraphOptimizationLevel::Level1,
        Optimization::Extended => GraphOptimizationLevel::Level2,
        Optimization::All => GraphOptimizationLevel::All,
    };
    let mut builder = Session::builder(&runtime.environment)
        .map_err(|error| not_set(error.message()))?
        .with_auto_device(AutoDevicePolicy::PreferCPU)
        .map_err(plain)?
        .with_intra_threads(section.threads())
        .map_err(plain)?
        .with_inter_threads(1)
        .map_err(plain)?
        .with_optimization_level(level)
        .map_err(plain)?
        // A thread that waits by spinning takes a processor from net threads.
        .with_config_entry("session.intra_op.allow_spinning", "0")
        .map_err(plain)?;
    for provider in section.accelerators() {
        let Some(dispatch) = section.dispatch(provider, device) else {
            continue;
        };
        let set = builder.with_execution_providers([dispatch.error_on_failure()]);
        builder = set.map_err(|error| no_provider(provider, runtime, error.message()))?;
    }
    builder = options::apply(builder, &section.options).map_err(|problem| not_set(&problem))?;
    builder
        .commit_from_file(&section.path)
        .map_err(|error| not_loaded(&section.path, error.code(), error.message()))
}

/// Runs of zeros, to see what a model does with rows.
struct Trial {
    instance: OnnxInstance,
}

impl Trial {
    fn new(
        runtime: &'static Runtime,
        session: &Arc<Session>,
        names: &Arc<Names>,
        ports: &Ports,
        limit: Option<&Limit>,
    ) -> Result<Trial, Refusal> {
        let signature = Signature {
            inputs: Vec::new(),
            outputs: ports.outputs.clone(),
            batched: false,
        };
        let (session, names) = (Arc::clone(session), Arc::clone(names));
        let instance = OnnxInstance::new(runtime, session, names, &signature, limit);
        let instance = instance.map_err(|error| not_set(&error.to_string()))?;
        Ok(Trial { instance })
    }

    /// The outputs for zeros, with `rows` for a free dimension 0 and 1 for other free sizes; `None` where that is too much to try.
    fn run(&mut self, inputs: &[Port], rows: usize) -> Option<Result<Vec<Tensor>, Error>> {
        let mut bytes = 0usize;
        let mut zeros = Vec::with_capacity(inputs.len());
        for port in inputs {
            let size = |(at, size): (usize, &Option<usize>)| size.unwrap_or(if at == 0 { rows } else { 1 });
            let shape: Vec<usize> = port.shape.iter().enumerate().map(size).collect();
            let len = shape
                .iter()
                .try_fold(1usize, |len, size| len.checked_mul(*size))?;
            let width = port.element_type.bytes().unwrap_or(STRING_BYTES);
            bytes = bytes.checked_add(len.checked_mul(width)?)?;
            if bytes > TRIAL_BYTES_MAX {
                return None;
            }
            zeros.push(Tensor::zeros(port.element_type, shape).ok()?);
        }
        Some(self.instance.run(zeros))
    }
}

/// Whether dimension 0 of every port is the batch. Learns the shapes that the file leaves out.
fn is_batched(section: &OnnxRuntime, ports: &mut Ports, mut trial: Trial) -> Result<bool, Refusal> {
    if !ports.unshaped.is_empty() {
        learn_shapes(ports, &mut trial)?;
    }
    let all = || ports.inputs.iter().chain(&ports.outputs);
    let without = all().find(|port| port.shape.first() != Some(&None));
    match (section.batched, without) {
        (Some(false), _) => return Ok(false),
        (Some(true), Some(port)) => {
            let problem = format!("batched is true, and `{port}` has no free dimension 0");
            return Err((
                problem,
                "leave batched out, or export the model with free rows".to_owned(),
            ));
        }
        (Some(true), None) => return Ok(!ports.inputs.is_empty()),
        (None, Some(_)) => return Ok(false),
        (None, None) if ports.inputs.is_empty() => return Ok(false),
        (None, None) => {}
    }
    if ports.inputs.iter().any(|port| port.row_len().is_none()) {
        // Only requests know the other sizes; what the file says holds.
        return Ok(true);
    }
    let mut follows = |rows| match trial.run(&ports.inputs, rows) {
        None => Ok(true),
        Some(Ok(outputs)) => Ok(outputs.iter().all(|output| output.shape().first() == Some(&rows))),
        Some(Err(error)) if trial.instance.was_ended => Err(not_in_time(&error)),
        Some(Err(error)) => {
            let path = section.path.display();
            tracing::warn!(%path, rows, %error, "a trial with zeros fails, so each request runs alone; say batched = true if rows may share a run");
            Ok(false)
        }
    };
    Ok(follows(2)? && follows(3)?)
}

fn learn_shapes(ports: &mut Ports, trial: &mut Trial) -> Result<(), Refusal> {
    let outputs = match trial.run(&ports.inputs, 1) {
        Some(Ok(outputs)) => outputs,
        Some(Err(error)) if trial.instance.was_ended => return Err(not_in_time(&error)),
        Some(Err(error)) => return Err(no_shape(ports, &format!("a run of zeros fails: {error}"))),
        None => return Err(no_shape(ports, "its inputs are too large for a trial")),
    };
    for &index in &ports.unshaped {
        ports.outputs[index].shape = vec![None; outputs[index].shape().len()];
    }
    Ok(())
}

/// A trial was ended by `run_ms_max`.
fn not_in_time(error: &Error) -> Refusal {
    let problem = format!("a trial with zeros does not end: {error}");
    (problem, "check the model with zeros as its inputs".to_owned())
}

fn no_shape(ports: &Ports, why: &str) -> Refusal {
    let name = ports
        .unshaped
        .first()
        .map_or("", |index| &ports.outputs[*index].name);
    let problem = format!("output `{name}` has no shape, and {why}");
    (
        problem,
        "export the model with shapes (onnx.shape_inference)".to_owned(),
    )
}

const AGAIN: &str = "copy or export the file again";
const NOT_LOADED: &str = "check it with onnx.checker, and export it again for the installed ONNX Runtime";

fn unreadable(error: &io::Error) -> Refusal {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path in the configuration",
        io::ErrorKind::PermissionDenied => "let the server's user read it",
        _ => "check the path and the disk",
    };
    (format!("it cannot be read: {error}"), hint.to_owned())
}

fn not_loaded(model: &Path, code: ErrorCode, said: &str) -> Refusal {
    if let Some(file) = missing_weights(said) {
        return without_weights(model, Path::new(file));
    }
    // Paths that are absolute, lead upwards or are links, each in words of its own.
    let is_outside = ["escapes", "Absolute path"]
        .iter()
        .any(|words| said.contains(words));
    if is_outside && said.contains("xternal data") {
        let problem = format!(
            "it has weights in a file outside the model's folder: {}",
            bounded(said)
        );
        return (
            problem,
            "put the file beside the model, itself and not a link, and name it by its name alone".to_owned(),
        );
    }
    let hint = match code {
        ErrorCode::InvalidProtobuf => AGAIN,
        ErrorCode::InvalidGraph | ErrorCode::NotImplemented => {
            "check it with onnx.checker, and export it with operators that the installed ONNX Runtime has"
        }
        _ => NOT_LOADED,
    };
    (
        format!("ONNX Runtime cannot load it: {}", bounded(said)),
        hint.to_owned(),
    )
}

/// The file of weights that was not found, in the words of ONNX Runtime 1.31 and in those of 1.24.
fn missing_weights(said: &str) -> Option<&str> {
    let between = |before: &str, end: char| {
        let (_, behind) = said.split_once(before)?;
        behind.split_once(end).map(|(file, _)| file)
    };
    between("External data path does not exist: \"", '"')
        .or_else(|| between("cannot get file size: No such file or directory [", ']'))
}

fn without_weights(model: &Path, file: &Path) -> Refusal {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (model, file) = (whole(model), whole(file));
    let folder = model.parent().unwrap_or(&model);
    let name = file.strip_prefix(folder).unwrap_or(&file);
    let problem = format!("it has weights in the file {}, which is missing", name.display());
    let hint = format!(
        "copy that file, too, into the model's folder, {}",
        folder.display()
    );
    (problem, hint)
}

fn not_set(said: &str) -> Refusal {
    let problem = format!("ONNX Runtime cannot be set up for it: {}", bounded(said));
    (problem, "check the keys of the model's section".to_owned())
}

fn no_provider(provider: Provider, runtime: &Runtime, said: &str) -> Refusal {
    let name = provider.name();
    let problem = format!(
        "provider {name:?} is not to be had from {}: {}",
        runtime.path.display(),
        bounded(said)
    );
    let package = match provider {
        Provider::OpenVino => "onnxruntime-openvino",
        _ => "onnxruntime-gpu",
    };
    let hint = format!(
        "pip install {package}, with the libraries that it asks for, or take {name:?} out of providers"
    );
    (problem, hint)
}
