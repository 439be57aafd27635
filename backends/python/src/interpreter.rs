//! Which Python runs a worker. It starts none.
//!
//! Its invariant: an interpreter that the configuration names is taken or refused; others are looked for only where none is named.

use millpond_backends_interface::host::Interpreter;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What an interpreter is called where none is named.
const NAME: &str = "python3";

/// The interpreter: `configured` (a path, or a name that is looked up in PATH), or the one that this process runs in, or that of the
/// environment: of VIRTUAL_ENV, of CONDA_PREFIX, of PATH.
///
/// # Errors
/// Where it was looked for, to be read behind the key's name.
pub(crate) fn find(
    configured: &Path,
    host: Option<Interpreter>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, String> {
    let shown = configured.display();
    if is_path(configured) {
        return match configured.is_file() {
            true => Ok(configured.to_owned()),
            false => Err(format!(
                "{shown} is no file; name an interpreter of Python, or leave it out"
            )),
        };
    }
    let is_named = !configured.as_os_str().is_empty();
    if let Some(program) = host.and_then(|host| host.program).filter(|_| !is_named) {
        return Ok(program);
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    if !is_named {
        let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"];
        let environments = environments.iter().filter_map(|name| variable(name));
        folders.extend(environments.map(|prefix| Path::new(&prefix).join("bin")));
    }
    let path = variable("PATH").unwrap_or_default();
    folders.extend(env::split_paths(&path).filter(|folder| folder.is_absolute()));
    let name = if is_named { configured } else { Path::new(NAME) };
    let mut found = folders.iter().map(|folder| folder.join(name));
    found.find(|program| program.is_file()).ok_or_else(|| {
        let looked: Vec<String> = folders
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        format!(
            "no {} was found in {}; install Python 3.11 or newer, or name an interpreter",
            name.display(),
            looked.join(", ")
        )
    })
}

/// Whether it says a place, and is not just a name.
pub(crate) fn is_path(interpreter: &Path) -> bool {
    interpreter.components().count() > 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_environments_interpreter_stands_before_that_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let put = |at: &str| {
            let program = folder.path().join(at);
            std::fs::create_dir_all(program.parent().unwrap()).unwrap();
            std::fs::write(&program, "").unwrap();
            program
        };
        let (of_venv, of_path) = (put("venv/bin/python3"), put("path/python3"));
        let special = put("path/python3.12");
        let around = |venv: &'static str| {
            let (venv, path) = (folder.path().join(venv), folder.path().join("path"));
            move |name: &str| match name {
                "VIRTUAL_ENV" => Some(venv.clone().into_os_string()),
                "PATH" => Some(path.clone().into_os_string()),
                _ => None,
            }
        };
        let none = Path::new("");
        assert_eq!(find(none, None, around("venv")), Ok(of_venv.clone()));
        assert_eq!(find(none, None, around("elsewhere")), Ok(of_path));
        assert_eq!(find(Path::new("python3.12"), None, around("venv")), Ok(special));
        assert_eq!(find(&of_venv, None, around("elsewhere")), Ok(of_venv.clone()));
        let host = |program: Option<&PathBuf>| {
            Some(Interpreter {
                program: program.cloned(),
                ..Interpreter::default()
            })
        };
        let here = folder.path().join("here/python");
        assert_eq!(find(none, host(Some(&here)), around("venv")), Ok(here.clone()));
        assert_eq!(
            find(&of_venv, host(Some(&here)), around("elsewhere")),
            Ok(of_venv.clone())
        );
        assert_eq!(find(none, host(None), around("venv")), Ok(of_venv));
        let refused = find(Path::new("pypy"), None, around("venv")).unwrap_err();
        assert!(refused.starts_with("no pypy was found in "), "{refused}");
        let refused = find(Path::new("bin/python3"), None, around("venv")).unwrap_err();
        assert!(refused.starts_with("bin/python3 is no file"), "{refused}");
    }
}
