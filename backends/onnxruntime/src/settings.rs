//! The backend's keys of `[models.NAME]`, and what is known to be wrong with them before anything is loaded.
//!
//! Its invariant: a key that passes [`Backend::check`] is either obeyed or refused by ONNX Runtime when the model is loaded.

use crate::providers::Provider;
use crate::{load, options};
use millpond_backends_interface::{Backend, Error, Model};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Threads of one instance at most.
const THREADS_MAX: usize = 1024;

/// Milliseconds that a run may be allowed at most: an hour.
const RUN_MS_MAX: u64 = 3_600_000;

/// `backend = "onnxruntime"`: a model that is one ONNX file, with the files of weights that it names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnnxRuntime {
    /// The file.
    pub path: PathBuf,
    /// What runs the operators, the first that can; `["cpu"]` when left out.
    pub providers: Option<Vec<Provider>>,
    /// Options of providers, by their own names.
    pub provider_options: BTreeMap<Provider, BTreeMap<String, Scalar>>,
    /// Devices that have `instances` each, by their numbers; that of the provider's options when left out.
    pub devices: Option<Vec<u16>>,
    /// Whether inputs and outputs are bound to memory that is kept; where a device copies from it when left out.
    pub io_binding: Option<bool>,
    /// Threads that one run uses; 1 when left out.
    pub threads: Option<usize>,
    /// How far the graph is rewritten when it is loaded; `all` when left out.
    pub optimization: Option<Optimization>,
    /// Whether dimension 0 is the batch; found out when left out.
    pub batched: Option<bool>,
    /// Milliseconds after which a run is ended and fails; without, a run lasts as long as it does.
    pub run_ms_max: Option<u64>,
    /// Options of the session, by ONNX Runtime's names.
    pub options: BTreeMap<String, Scalar>,
}

/// How far the graph is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimization {
    /// Not at all.
    None,
    /// Constants are folded, what does nothing is removed.
    Basic,
    /// Operators are fused as well.
    Extended,
    /// And memory is laid out for the machine.
    All,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "a text, a whole number, true or false (an option's whole name stands in quotes)"
)]
pub enum Scalar {
    /// Written 1 or 0.
    Truth(bool),
    /// Written in decimal.
    Number(i64),
    /// Written as it is.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Truth(truth) => write!(f, "{}", u8::from(*truth)),
            Scalar::Number(number) => number.fmt(f),
            Scalar::Text(text) => text.fmt(f),
        }
    }
}

impl OnnxRuntime {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &[
        "path",
        "providers",
        "provider_options",
        "devices",
        "io_binding",
        "threads",
        "optimization",
        "batched",
        "run_ms_max",
        "options",
    ];

    /// The model in that file, with all else as it is when left out.
    pub fn at(path: impl Into<PathBuf>) -> OnnxRuntime {
        OnnxRuntime {
            path: path.into(),
            ..OnnxRuntime::default()
        }
    }

    /// How long a run may last.
    pub(crate) fn run_longest(&self) -> Option<Duration> {
        self.run_ms_max.map(Duration::from_millis)
    }

    /// Threads that one run uses.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or(1)
    }

    /// Whether one session serves all instances: ONNX Runtime lets threads share one where a run is its thread's own work.
    pub(crate) fn shares_a_session(&self) -> bool {
        let has_threads = self.threads() > 1 || self.options.contains_key("session.execution_mode");
        !has_threads && self.accelerators().next().is_none()
    }

    /// What runs the operators that it can run: the first provider, by its name.
    pub fn provider(&self) -> &'static str {
        let mut providers = self.providers.iter().flatten();
        providers.next().copied().unwrap_or(Provider::Cpu).name()
    }
}

impl Backend for OnnxRuntime {
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let is_given = !self.path.as_os_str().is_empty();
        is_given.then_some(&mut self.path).into_iter().collect()
    }

    fn check(&self, at: &str, _batch_size_max: usize) -> Result<(), String> {
        if self.path.as_os_str().is_empty() {
            return Err(format!(
                "{at}.path is missing; name an ONNX model, or set backend = \"practice\" for a model of known behaviour"
            ));
        }
        if !self.path.is_file() {
            let path = self.path.display();
            return Err(format!("{at}.path: {path} is no file; name an ONNX model"));
        }
        if let Some(threads) = self
            .threads
            .filter(|threads| !(1..=THREADS_MAX).contains(threads))
        {
            return Err(format!("{at}.threads is {threads}; expected 1 to {THREADS_MAX}"));
        }
        if let Some(ms) = self.run_ms_max.filter(|ms| !(1..=RUN_MS_MAX).contains(ms)) {
            return Err(format!("{at}.run_ms_max is {ms}; expected 1 to {RUN_MS_MAX}"));
        }
        self.check_providers(at)?;
        options::check(&format!("{at}.options"), &self.options)
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        Ok(Arc::new(load::load(self)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(keys: &str, expected: &str) {
        let file = std::env::current_exe().unwrap();
        let found = toml::from_str::<OnnxRuntime>(&format!("path = {file:?}\n{keys}"))
            .map_err(|error| error.to_string())
            .and_then(|section| section.check("models.a", 1));
        match found {
            Ok(()) => assert_eq!(expected, "", "{keys}"),
            Err(problem) => assert!(
                !expected.is_empty() && problem.contains(expected),
                "{keys}: {problem}"
            ),
        }
    }

    #[test]
    fn sections_that_cannot_be_meant_are_refused() {
        check("", "");
        check(
            "threads = 4\noptimization = \"basic\"\nbatched = false\nproviders = [\"cuda\", \"cpu\"]",
            "",
        );
        check("provider_options.cuda.device_id = 1\nproviders = [\"cuda\"]", "");
        check("threads = 0", "models.a.threads is 0; expected 1 to 1024");
        check("threads = 1025", "models.a.threads is 1025");
        check("run_ms_max = 300", "");
        check(
            "run_ms_max = 0",
            "models.a.run_ms_max is 0; expected 1 to 3600000",
        );
        check("run_ms_max = 3600001", "models.a.run_ms_max is 3600001");
        check("optimization = \"some\"", "unknown variant `some`");
        check("providers = []", "models.a.providers is empty");
        check(
            "providers = [\"rocm\"]",
            "unknown variant `rocm`, expected one of `cpu`, `cuda`, `tensorrt`, `openvino`",
        );
        check("providers = [\"cuda\", \"cuda\"]", "names \"cuda\" twice");
        check("providers = [\"cpu\", \"cuda\"]", "name it last");
        check(
            "provider_options.cuda.device_id = 1",
            "\"cuda\" is not in providers",
        );
        check("provider_options.cpu.arena = 1", "\"cpu\" has no options");
        check(
            "providers = [\"cuda\"]\nprovider_options.cuda.\"a\\u0000\" = 1",
            "a zero byte",
        );
        check("provider = [\"cuda\"]", "unknown field `provider`");
        check(
            "providers = [\"tensorrt\", \"cuda\"]\ndevices = [1, 0]\nio_binding = true",
            "",
        );
        check(
            "providers = [\"cuda\"]\ndevices = []",
            "models.a.devices is empty",
        );
        check(
            "providers = [\"cuda\"]\ndevices = [1, 0, 1]",
            "models.a.devices names 1 twice",
        );
        check("providers = [\"cuda\"]\ndevices = [-1]", "expected u16");
        check(
            "devices = [0]",
            "only \"cuda\" and \"tensorrt\" have devices by number",
        );
        check(
            "providers = [\"openvino\", \"cpu\"]\ndevices = [0]",
            "provider_options.openvino.device_type",
        );
        check(
            "providers = [\"cuda\"]\ndevices = [0]\nprovider_options.cuda.device_id = 1",
            "models.a.provider_options.cuda.device_id and models.a.devices both name devices",
        );
    }

    #[test]
    fn options_are_texts_numbers_and_truths() {
        let section: OnnxRuntime = toml::from_str("options = { a = true, b = 7, c = \"x\" }").unwrap();
        let values: Vec<String> = section.options.values().map(Scalar::to_string).collect();
        assert_eq!(values, ["1", "7", "x"]);
        let nested = toml::from_str::<OnnxRuntime>("options.session.disable_prepacking = 1").unwrap_err();
        assert!(
            nested.to_string().contains("whole name stands in quotes"),
            "{nested}"
        );
    }

    #[test]
    fn the_first_provider_is_what_runs_the_operators() {
        let provider = |keys: &str| toml::from_str::<OnnxRuntime>(keys).unwrap().provider();
        assert_eq!(provider(""), "cpu");
        assert_eq!(provider("providers = [\"tensorrt\", \"cuda\"]"), "tensorrt");
    }

    #[test]
    fn a_session_is_shared_where_a_run_is_its_threads_own_work() {
        let shares = |keys: &str| toml::from_str::<OnnxRuntime>(keys).unwrap().shares_a_session();
        assert!(shares("") && shares("threads = 1\nproviders = [\"cpu\"]"));
        assert!(!shares("threads = 2") && !shares("providers = [\"cuda\", \"cpu\"]"));
    }
}
