//! The search in folders of the tests' own: no library is opened, so empty files will do.
#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::HashMap;
use tempfile::TempDir;

/// A root with `files` in it, and variables whose values lie below it.
struct Machine {
    root: TempDir,
    variables: HashMap<&'static str, OsString>,
}

impl Machine {
    fn new(files: &[&str], variables: &[(&'static str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        let under = |(name, value): &(&'static str, &str)| (*name, root.path().join(value).into_os_string());
        let variables = variables.iter().map(under).collect();
        Machine { root, variables }
    }

    fn find(&self, configured: Option<&str>) -> Result<String, Refusal> {
        self.find_from(configured, &[])
    }

    /// In a Python that imports from these folders.
    fn find_from(&self, configured: Option<&str>, packages: &[&str]) -> Result<String, Refusal> {
        let packages: Vec<PathBuf> = packages
            .iter()
            .map(|folder| self.root.path().join(folder))
            .collect();
        let variable = |name: &str| self.variables.get(name).cloned();
        let around = Surroundings {
            variable: &variable,
            root: self.root.path(),
            packages: &packages,
        };
        let configured = configured.map(|path| self.root.path().join(path));
        let found = find(configured.as_deref(), &around)?;
        Ok(found
            .strip_prefix(self.root.path())
            .unwrap()
            .display()
            .to_string())
    }
}

const CAPI: &str = "lib/python3.12/site-packages/onnxruntime/capi";

fn wheel(prefix: &str, version: &str) -> String {
    format!("{prefix}/{CAPI}/libonnxruntime.so.{version}")
}

#[test]
fn what_is_named_comes_first_and_is_final() {
    let (venv, named) = (wheel("venv", "1.31.1"), wheel("named", "1.25.0"));
    let files = [
        venv.as_str(),
        &named,
        "own/libonnxruntime.so.1.26.2",
        "empty/readme",
    ];
    let machine = Machine::new(&files, &[("VIRTUAL_ENV", "venv"), (VARIABLE, "named")]);
    assert_eq!(machine.find(None).unwrap(), named);
    for configured in ["own", "own/libonnxruntime.so.1.26.2"] {
        assert_eq!(
            machine.find(Some(configured)).unwrap(),
            "own/libonnxruntime.so.1.26.2"
        );
    }
    assert_eq!(machine.find(Some(&format!("venv/{CAPI}"))).unwrap(), venv);
    assert_eq!(machine.find(Some("venv")).unwrap(), venv);
    let (problem, hint) = machine.find(Some("empty")).unwrap_err();
    assert!(problem.starts_with("onnxruntime.library names /"), "{problem}");
    assert!(
        problem.ends_with("a folder without ONNX Runtime (libonnxruntime.so*)"),
        "{problem}"
    );
    assert!(hint.contains("pip install onnxruntime"), "{hint}");
    let (problem, _) = machine.find(Some("nowhere")).unwrap_err();
    assert!(problem.ends_with("/nowhere, which is not there"), "{problem}");
}

#[test]
fn what_is_named_must_be_new_enough() {
    let old = wheel("old", "1.23.2");
    let without = format!("without/{CAPI}/libonnxruntime_providers_shared.so");
    let machine = Machine::new(&[&old, &without], &[(VARIABLE, "old")]);
    let (problem, hint) = machine.find(None).unwrap_err();
    assert!(
        problem.starts_with("it needs ONNX Runtime 1.24 or newer, and /"),
        "{problem}"
    );
    assert!(
        problem.ends_with("libonnxruntime.so.1.23.2 is 1.23.2"),
        "{problem}"
    );
    assert!(hint.contains("--upgrade"), "{hint}");
    let (problem, _) = machine.find(Some("without")).unwrap_err();
    assert!(
        problem.contains("has no shared library (libonnxruntime.so*)"),
        "{problem}"
    );
}

#[test]
fn pythons_come_before_the_system_and_old_libraries_are_passed_over() {
    let old = wheel("venv", "1.23.2");
    let new = wheel("conda", "1.24.0");
    let system = "usr/lib/libonnxruntime.so.1.30.0";
    let variables = [("VIRTUAL_ENV", "venv"), ("CONDA_PREFIX", "conda")];
    let machine = Machine::new(&[&old, &new, system], &variables);
    assert_eq!(machine.find(None).unwrap(), new);
    // The package that this very Python would import.
    let here = ["conda/lib/python3.12/site-packages"];
    assert_eq!(machine.find_from(None, &here).unwrap(), new);
    let machine = Machine::new(&[&old, system], &variables);
    assert_eq!(machine.find(None).unwrap(), system);
    let machine = Machine::new(&[&old], &variables);
    let (problem, hint) = machine.find(None).unwrap_err();
    assert!(problem.contains("only older ones were found: /"), "{problem}");
    assert!(problem.ends_with("(1.23.2)"), "{problem}");
    assert!(hint.contains("/opt/onnxruntime/lib"), "{hint}");
}

#[test]
fn the_python_on_the_path_and_the_users_own_packages_are_searched() {
    let on_path = wheel("python", "1.27.0");
    let machine = Machine::new(&[&on_path, "python/bin/python3"], &[("PATH", "python/bin")]);
    assert_eq!(machine.find(None).unwrap(), on_path);
    let users = wheel("home/.local", "1.27.0");
    assert_eq!(
        Machine::new(&[&users], &[("HOME", "home")]).find(None).unwrap(),
        users
    );
    let debian = "usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.28.0";
    assert_eq!(Machine::new(&[debian], &[]).find(None).unwrap(), debian);
    let libraries = "libraries/libonnxruntime.so.1.28.0";
    let machine = Machine::new(&[libraries], &[("LD_LIBRARY_PATH", "libraries")]);
    assert_eq!(machine.find(None).unwrap(), libraries);
    let (problem, _) = Machine::new(&[], &[]).find(None).unwrap_err();
    assert_eq!(problem, "it needs ONNX Runtime 1.24 or newer, and none was found");
}

#[test]
fn of_several_in_a_folder_the_highest_version_is_taken() {
    let files = [
        "lib/libonnxruntime.so.1.9.1",
        "lib/libonnxruntime.so.1.31.1",
        "lib/libonnxruntime_providers_shared.so",
    ];
    assert_eq!(Machine::new(&files, &[]).find(Some("lib")).unwrap(), files[1]);
    // Without a version it is loaded to be asked.
    let unknown = Machine::new(&["lib/libonnxruntime.so"], &[]);
    assert_eq!(unknown.find(Some("lib")).unwrap(), "lib/libonnxruntime.so");
}
