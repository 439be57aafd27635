//! The keys of a Python model's section, and what is known to be wrong with them. It starts nothing.
//!
//! Its invariant: what passes here names one function, an interpreter that is there, and a signature.

use crate::port::Batch;
use crate::{interpreter, port, worker};
use millpond_backends_interface::{Backend, Error, Model, Signature, host};
use millpond_backends_worker::requests_max;
use serde::Deserialize;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

/// What a run takes at most when nothing is said, in milliseconds.
const RUN_MS_DEFAULT: u64 = 10_000;
/// What loading takes at most when nothing is said.
const START_MS_DEFAULT: u64 = 60_000;
/// The longest of either.
const MS_MAX: u64 = 3_600_000;
/// The least that an interpreter with numpy can do anything with.
const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// The least memory that is shared.
const SHARED_BYTES_MIN: u64 = 64 << 10;

/// `backend = "python"`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Python {
    /// The module that has the function, as the interpreter imports it.
    pub module: String,
    /// Or the file that has it.
    pub file: PathBuf,
    /// The function's or the class's name; must be given.
    pub function: String,
    /// The interpreter; that of the environment when left out.
    pub python: PathBuf,
    /// What goes in, as `x: f32[N, 80]`; must be given.
    pub inputs: Vec<String>,
    /// What comes out.
    pub outputs: Vec<String>,
    /// Whether its requests are joined by rows, or come as they are in a list.
    pub batch: Batch,
    /// How long a run may take before its process is ended, whatever its callers' deadlines are.
    pub run_ms_max: Option<u64>,
    /// How long the function's module may load.
    pub start_ms_max: Option<u64>,
    /// Bytes of data that a process may have, shared memory aside.
    pub memory_bytes_max: Option<u64>,
    /// Bytes that the inputs of a run may take, and its outputs.
    pub shared_bytes_max: Option<u64>,
}

impl Python {
    /// Its keys in the configuration.
    pub const KEYS: &'static [&'static str] = &[
        "module",
        "file",
        "function",
        "python",
        "inputs",
        "outputs",
        "batch",
        "run_ms_max",
        "start_ms_max",
        "memory_bytes_max",
        "shared_bytes_max",
    ];

    pub(crate) fn run_ms_max(&self) -> u64 {
        self.run_ms_max.unwrap_or(RUN_MS_DEFAULT)
    }

    pub(crate) fn start_ms_max(&self) -> u64 {
        self.start_ms_max.unwrap_or(START_MS_DEFAULT)
    }

    /// Where the function is, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self.module.is_empty() {
            true => self.file.clone(),
            false => PathBuf::from(&self.module),
        }
    }

    /// Checks what says where the function is.
    fn check_source(&self, at: &str) -> Result<(), String> {
        let file = self.file.display();
        match (self.module.is_empty(), self.file.as_os_str().is_empty()) {
            (true, true) => {
                return Err(format!(
                    "{at} has neither module nor file; name the one that has the function (docs/python.md)"
                ));
            }
            (false, false) => return Err(format!("{at} has both module and file; name one of them")),
            (false, true) => {
                let is_name = |part: &str| is_identifier(part);
                if !self.module.split('.').all(is_name) {
                    return Err(format!(
                        "{at}.module is {:?}, which cannot be imported; name a module, or its file by file",
                        self.module
                    ));
                }
            }
            (true, false) => {
                if self.file.extension().is_none_or(|end| end != "py") {
                    return Err(format!(
                        "{at}.file: {file} does not end with .py; name a file of Python"
                    ));
                }
                if !self.file.is_file() {
                    return Err(format!("{at}.file: {file} is no file; name a file of Python"));
                }
            }
        }
        match self.function.as_str() {
            "" => Err(format!(
                "{at}.function is missing; name a function or class that millpond.backend marks"
            )),
            function if !is_identifier(function) => Err(format!(
                "{at}.function is {function:?}, which is no name of Python's; name a function or class"
            )),
            _ => Ok(()),
        }
    }

    /// What goes in and what comes out, as it is declared.
    pub(crate) fn signature(&self) -> Result<Signature, String> {
        port::signature(&self.inputs, &self.outputs, self.batch)
    }

    /// Checks what is declared, and that a message can name as many requests as a run has.
    fn check_ports(&self, at: &str, batch_size_max: usize) -> Result<(), String> {
        let signature = self.signature().map_err(|problem| format!("{at}.{problem}"))?;
        let most = requests_max(&signature);
        match self.batch == Batch::List && batch_size_max > most {
            false => Ok(()),
            true => Err(format!(
                "{at}.batch_size_max is {batch_size_max}, and with so many inputs and outputs a list has at most {most} requests; set {most} or less"
            )),
        }
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
            (
                "shared_bytes_max",
                self.shared_bytes_max,
                SHARED_BYTES_MIN,
                1 << 40,
            ),
        ];
        for (key, found, least, most) in bounds {
            let Some(found) = found else { continue };
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

/// Whether Python can have such a name. It knows more letters than these, and the import says so where it does not.
fn is_identifier(name: &str) -> bool {
    let is_letter = |letter: char| letter == '_' || letter.is_alphanumeric();
    name.chars().all(is_letter) && name.chars().next().is_some_and(|first| !first.is_numeric())
}

impl Backend for Python {
    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let mut paths = Vec::new();
        if !self.file.as_os_str().is_empty() {
            paths.push(&mut self.file);
        }
        if interpreter::is_path(&self.python) {
            paths.push(&mut self.python);
        }
        paths
    }

    fn check(&self, at: &str, batch_size_max: usize) -> Result<(), String> {
        self.check_source(at)?;
        self.check_ports(at, batch_size_max)?;
        self.check_bounds(at)?;
        let found = interpreter::find(&self.python, host::interpreter(), |name| env::var_os(name));
        found
            .map(drop)
            .map_err(|problem| format!("{at}.python: {problem}"))
    }

    fn load(&self) -> Result<Arc<dyn Model>, Error> {
        worker::launch(self)?.load()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const WHOLE: &str =
        "module = \"a.b\"\nfunction = \"f\"\ninputs = [\"x: f32[N]\"]\noutputs = [\"y: f32[N]\"]\n";

    fn check(keys: &str, expected: &str) {
        let found = toml::from_str::<Python>(keys)
            .map_err(|error| error.to_string())
            .and_then(|section| section.check("models.a", 256));
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
        let without = |key: &str| {
            let lines = WHOLE.lines().filter(|line| !line.starts_with(key));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        check(WHOLE, "");
        check(
            &format!(
                "{WHOLE}run_ms_max = 50\nstart_ms_max = 9\nmemory_bytes_max = 1073741824\nshared_bytes_max = 65536"
            ),
            "",
        );
        check(&without("module"), "models.a has neither module nor file");
        check(
            &format!("{WHOLE}file = \"b.py\""),
            "models.a has both module and file",
        );
        check(
            &WHOLE.replace("a.b", "a-b"),
            "models.a.module is \"a-b\", which cannot be imported",
        );
        check(&WHOLE.replace("a.b", "a..b"), "which cannot be imported");
        check(&without("function"), "models.a.function is missing");
        check(&WHOLE.replace("\"f\"", "\"f()\""), "models.a.function is \"f()\"");
        check(
            &without("inputs"),
            "models.a.inputs and outputs cannot be: it has 0 inputs",
        );
        check(
            &WHOLE.replace("y: f32", "y: f33"),
            "models.a.outputs: \"y: f33[N]\"",
        );
        let file = |name: &str| format!("{}file = {name:?}\n", without("module"));
        check(&file("b.txt"), "models.a.file: b.txt does not end with .py");
        check(&file("nowhere.py"), "models.a.file: nowhere.py is no file");
        check(
            &format!("{WHOLE}python = \"nowhere/python3\""),
            "models.a.python: nowhere/python3 is no file",
        );
        check(
            &format!("{WHOLE}python = \"python4.99\""),
            "models.a.python: no python4.99 was found",
        );
        check(
            &format!("{WHOLE}run_ms_max = 0"),
            "models.a.run_ms_max is 0; expected at least 1",
        );
        check(
            &format!("{WHOLE}start_ms_max = 3600001"),
            "expected at most 3600000",
        );
        check(
            &format!("{WHOLE}memory_bytes_max = 1"),
            "expected at least 67108864",
        );
        check(&format!("{WHOLE}shared_bytes_max = 1"), "expected at least 65536");
        let list = |keys: &str| format!("{}batch = \"list\"", keys.replace('N', "?"));
        check(&list(WHOLE), "");
        check(
            &format!("{WHOLE}batch = \"list\""),
            "models.a.inputs: \"x: f32[N]\" begins with N",
        );
        check(&format!("{WHOLE}batch = \"dict\""), "unknown variant `dict`");
        let many: Vec<String> = (0..9).map(|at| format!("\"x{at}: f32[?]\"")).collect();
        check(
            &list(&WHOLE.replace("\"x: f32[N]\"", &many.join(", "))),
            "models.a.batch_size_max is 256, and with so many inputs and outputs a list has at most 221 requests",
        );
        check(&format!("{WHOLE}isolate = true"), "unknown field `isolate`");
    }

    #[test]
    fn files_and_interpreters_by_path_belong_to_the_configurations_folder() {
        let mut section = Python {
            file: "f.py".into(),
            python: "venv/bin/python3".into(),
            ..Python::default()
        };
        assert_eq!(section.paths_mut().len(), 2);
        section.python = "python3".into();
        assert_eq!(section.paths_mut(), [&mut PathBuf::from("f.py")]);
    }
}
