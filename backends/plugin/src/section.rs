//! The keys of a plugin's section, and what is known to be wrong with them. It loads nothing itself.
//!
//! Its invariant: a key that only a worker process can keep is refused without one.

use crate::{model, worker};
use millpond_backends_interface::{Backend, Error, Model};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// What a run in a worker process takes at most when nothing is said, in milliseconds.
const RUN_MS_DEFAULT: u64 = 10_000;
/// What loading in a worker process takes at most when nothing is said.
const START_MS_DEFAULT: u64 = 60_000;
/// The longest of either.
const MS_MAX: u64 = 3_600_000;
/// The least that a worker process can do anything with.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// `backend = "plugin"`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plugin {
    /// The shared library; must be given.
    pub path: PathBuf,
    /// What its `init` receives: keys, and values of any form.
    pub options: BTreeMap<String, Value>,
    /// Whether each instance runs in a process of its own.
    pub isolate: bool,
    /// How long a run may take in a worker process before it is ended, whatever its callers' deadlines are.
    pub run_ms_max: Option<u64>,
    /// How long a worker process may load.
    pub start_ms_max: Option<u64>,
    /// Bytes of data that a worker process may have.
    pub memory_bytes_max: Option<u64>,
    /// The worker program and its arguments; this program with [`WORKER`](crate::WORKER) when left out.
    #[serde(skip)]
    pub worker: Vec<OsString>,
}

impl Plugin {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &[
        "path",
        "options",
        "isolate",
        "run_ms_max",
        "start_ms_max",
        "memory_bytes_max",
    ];

    /// The plugin in that file, with all else as it is when left out.
    pub fn at(path: impl Into<PathBuf>) -> Plugin {
        Plugin {
            path: path.into(),
            ..Plugin::default()
        }
    }

    pub(crate) fn run_ms_max(&self) -> u64 {
        self.run_ms_max.unwrap_or(RUN_MS_DEFAULT)
    }

    pub(crate) fn start_ms_max(&self) -> u64 {
        self.start_ms_max.unwrap_or(START_MS_DEFAULT)
    }

    fn check_bounds(&self, at: &str) -> Result<(), String> {
        let bounds = [
            ("run_ms_max", self.run_ms_max, 1, MS_MAX),
            ("start_ms_max", self.start_ms_max, 1, MS_MAX),
            (
                "memory_bytes_max",
                self.memory_bytes_max,
                MEMORY_BYTES_MIN,
                u64::MAX,
            ),
        ];
        for (key, found, least, most) in bounds {
            let Some(found) = found else { continue };
            if !self.isolate {
                return Err(format!(
                    "{at}.{key} bounds a worker process; add isolate = true, or leave it out"
                ));
            }
            if found < least {
                return Err(format!("{at}.{key} is {found}; expected at least {least}"));
            }
            if found > most {
                return Err(format!("{at}.{key} is {found}; expected at most {most}"));
            }
        }
        Ok(())
    }
}

impl Backend for Plugin {
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let is_given = !self.path.as_os_str().is_empty();
        is_given.then_some(&mut self.path).into_iter().collect()
    }

    fn check(&self, at: &str, _batch_size_max: usize) -> Result<(), String> {
        let path = self.path.display();
        if self.path.as_os_str().is_empty() {
            return Err(format!(
                "{at}.path is missing; name a shared library that exports millpond_plugin_get (docs/plugins.md)"
            ));
        }
        if !self.path.is_file() {
            return Err(format!("{at}.path: {path} is no file; name a shared library"));
        }
        for (key, value) in &self.options {
            if key.contains('\0') || model::text_of(value).contains('\0') {
                return Err(format!(
                    "{at}.options.{key:?} holds a zero byte, where a text ends in C; leave it out"
                ));
            }
        }
        self.check_bounds(at)
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        match self.isolate {
            true => worker::launch(self)?.load(),
            false => model::load(&self.path, &self.options),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(keys: &str, expected: &str) {
        let file = std::env::current_exe().unwrap();
        let found = toml::from_str::<Plugin>(&format!("path = {file:?}\n{keys}"))
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
            "options = { dim = 8, name = \"x\", list = [1, 2], on = true }",
            "",
        );
        check(
            "isolate = true\nrun_ms_max = 50\nstart_ms_max = 1000\nmemory_bytes_max = 1073741824",
            "",
        );
        check(
            "run_ms_max = 50",
            "models.a.run_ms_max bounds a worker process; add isolate = true",
        );
        check(
            "memory_bytes_max = 1073741824",
            "models.a.memory_bytes_max bounds a worker",
        );
        check(
            "isolate = true\nrun_ms_max = 0",
            "models.a.run_ms_max is 0; expected at least 1",
        );
        check("isolate = true\nrun_ms_max = 3600001", "expected at most 3600000");
        check(
            "isolate = true\nmemory_bytes_max = 1",
            "expected at least 16777216",
        );
        check("isolated = true", "unknown field `isolated`");
        check(
            "options = { a = \"x\\u0000y\" }",
            "models.a.options.\"a\" holds a zero byte",
        );
        let missing = Plugin::default().check("models.a", 1).unwrap_err();
        assert!(missing.contains("models.a.path is missing"), "{missing}");
        let gone = Plugin::at("/nowhere/dnn.so").check("models.a", 1).unwrap_err();
        assert!(gone.contains("/nowhere/dnn.so is no file"), "{gone}");
    }
}
