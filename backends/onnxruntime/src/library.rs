//! ONNX Runtime itself: one library and one environment a process, loaded when the first model needs them. It knows no model.
//!
//! Its invariant: nothing of `ort` is called before the library is loaded, since that would search for one by itself and panic;
//! whoever has a [`Runtime`] may call it.

mod search;

use crate::{Refusal, bounded};
use millpond_backends_elf::{self as elf, Flaw};
use millpond_backends_interface::host;
use millpond_threads::{LineLimit, contain};
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use search::Surroundings;
use serde::Deserialize;
use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// `[onnxruntime]`: which library the process loads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Library {
    /// The shared library, or a folder that holds it, as a Python environment does. Searched for when left out.
    pub library: Option<PathBuf>,
}

/// What [`Library::choose`] was given.
static CHOSEN: Mutex<Option<PathBuf>> = Mutex::new(None);
static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());
/// The library that the loader has, for ever, whatever became of its environment.
static OPENED: OnceLock<PathBuf> = OnceLock::new();

impl Library {
    /// What is known to be wrong before it is loaded.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self) -> Result<(), String> {
        match &self.library {
            Some(_) => self.find().map(drop),
            None => Ok(()),
        }
    }

    fn find(&self) -> Result<PathBuf, String> {
        let found = find(self.library.as_deref());
        found.map_err(|(problem, hint)| format!("{problem}; {hint}"))
    }

    /// Has the process load this one, from the first model on. Without a path it says nothing: what was chosen before holds.
    ///
    /// # Errors
    /// When another one is loaded already: a process has one.
    pub fn choose(&self) -> Result<(), String> {
        let Some(path) = &self.library else {
            return Ok(());
        };
        let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = RUNTIME.get().filter(|_| chosen.as_ref() != Some(path)) {
            let found = self.find()?;
            if fs::canonicalize(found).ok().as_ref() != Some(&runtime.path) {
                return Err(format!(
                    "onnxruntime.library is {}, and this process has loaded {}; restart it to load another",
                    path.display(),
                    runtime.path.display()
                ));
            }
        }
        *chosen = Some(path.clone());
        Ok(())
    }
}

/// The loaded library.
pub(crate) struct Runtime {
    pub(crate) environment: Environment,
    /// The memory that tensors of ours lie in.
    pub(crate) memory: MemoryInfo<'static>,
    /// Where the library is, links resolved.
    pub(crate) path: PathBuf,
}

/// The library, loaded by the first call; a failed one may be tried again.
pub(crate) fn runtime() -> Result<&'static Runtime, Refusal> {
    if let Some(known) = RUNTIME.get() {
        return Ok(known);
    }
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = RUNTIME.get() {
        return Ok(known);
    }
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let found = find(chosen.as_deref())?;
    let runtime = load(&found)?;
    let (version, about) = (search::version(&runtime.path), ort::info());
    tracing::info!(version, library = %runtime.path.display(), about, "ONNX Runtime is loaded");
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// The library to load.
fn find(configured: Option<&Path>) -> Result<PathBuf, Refusal> {
    let packages = host::interpreter().map(|host| host.packages).unwrap_or_default();
    let around = Surroundings {
        variable: &search::variable,
        root: Path::new("/"),
        packages: &packages,
    };
    search::find(configured, &around)
}

fn load(found: &Path) -> Result<Runtime, Refusal> {
    let path = fs::canonicalize(found).map_err(|error| cannot_load(found, &error.to_string()))?;
    if let Some(opened) = OPENED.get().filter(|opened| **opened != path) {
        let problem = format!("{} is loaded, which could not be set up", opened.display());
        return Err(cannot_load(&path, &problem));
    }
    elf::check(&path).map_err(|flaw| flawed(&path, &flaw))?;
    match contain(|| open(&path)) {
        Ok(opened) => opened,
        Err(panic) => Err(cannot_load(&path, &panic.message)),
    }
}

fn open(path: &Path) -> Result<Runtime, Refusal> {
    use ort::LoadDynamicError::{BadVersion, Dlopen, MissingApi};
    let builder = ort::init_from(path).map_err(|error| match error {
        BadVersion { version_str, .. } => search::too_old(path, &version_str),
        MissingApi { .. } => (
            format!("{} is not ONNX Runtime: it has no OrtGetApiBase", path.display()),
            "name libonnxruntime.so itself (onnxruntime.library)".to_owned(),
        ),
        Dlopen { error, .. } => {
            let inner = error.source().map_or(error.to_string(), ToString::to_string);
            cannot_load(path, &inner)
        }
        other => cannot_load(path, &other.to_string()),
    })?;
    let _ = OPENED.set(path.to_path_buf());
    let limit = LineLimit::default();
    let logger = move |level: LogLevel, _: &str, _: &str, place: &str, message: &str| {
        // A panic that left here would end the process: the caller is C++.
        drop(contain(|| log(&limit, level, place, message)));
    };
    let failed = |error: ort::Error| cannot_load(path, error.message());
    let environment = builder
        .with_name("millpond")
        .with_telemetry(false)
        .with_logger(Arc::new(logger))
        .build()
        .map_err(failed)?;
    environment.set_log_level(LogLevel::Warning);
    let memory = MemoryInfo::new(
        AllocationDevice::CPU,
        0,
        AllocatorType::Device,
        MemoryType::Default,
    );
    Ok(Runtime {
        environment,
        memory: memory.map_err(failed)?,
        path: path.to_path_buf(),
    })
}

/// What the library says from a warning upwards, a line a second.
fn log(limit: &LineLimit, level: LogLevel, place: &str, message: &str) {
    if matches!(level, LogLevel::Verbose | LogLevel::Info) {
        return;
    }
    let Some(left_out) = limit.admits() else { return };
    let (message, left_out) = (bounded(message), left_out.0);
    match level {
        LogLevel::Error | LogLevel::Fatal => tracing::error!(left_out, place, "ONNX Runtime: {message}"),
        _ => tracing::warn!(left_out, place, "ONNX Runtime: {message}"),
    }
}

fn flawed(path: &Path, flaw: &Flaw) -> Refusal {
    let shown = path.display();
    match flaw {
        Flaw::Unreadable(error) => cannot_load(path, error),
        Flaw::NotALibrary => (
            format!("{shown} is no shared library"),
            "name libonnxruntime.so itself (onnxruntime.library)".to_owned(),
        ),
        Flaw::Cut { promised, has } => (
            format!("the library {shown} is cut short: it has {has} bytes of at least {promised}"),
            "copy or install it again".to_owned(),
        ),
    }
}

fn cannot_load(path: &Path, problem: &str) -> Refusal {
    (
        format!(
            "the library {} cannot be loaded: {}",
            path.display(),
            bounded(problem)
        ),
        "install what it asks for, or another ONNX Runtime (onnxruntime.library)".to_owned(),
    )
}
