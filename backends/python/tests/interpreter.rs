//! Interpreters that cannot run a worker: what they lack is the error of the load. `client/python/tests/local` runs those that can.
#![allow(clippy::unwrap_used, missing_docs)]

use millpond_backends_interface::Backend as _;
use millpond_backends_python::Python;
use std::os::unix::fs::PermissionsExt as _;

/// What loading says where this shell script is the interpreter.
fn refused(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (python, file) = (folder.path().join("python3"), folder.path().join("score.py"));
    std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&file, "").unwrap();
    let section = Python {
        file,
        function: "score".to_owned(),
        python,
        inputs: vec!["x: f32[N]".to_owned()],
        outputs: vec!["y: f32[N]".to_owned()],
        start_ms_max: Some(20_000),
        ..Python::default()
    };
    section.check("models.a", 1).unwrap();
    section.load().err().unwrap().to_string()
}

#[test]
fn an_interpreter_without_packages_says_what_to_install() {
    let said = refused("exec python3 -I -S \"$@\"");
    assert!(said.contains("score.py: its interpreter /"), "{said}");
    assert!(
        said.contains("cannot import numpy") && said.contains("pip install numpy"),
        "{said}"
    );
}

#[test]
fn a_program_that_is_no_interpreter_says_how_it_ended() {
    let said = refused("exit 9");
    assert!(
        said.contains("its worker process ended (exit status: 9) while it loaded"),
        "{said}"
    );
}
