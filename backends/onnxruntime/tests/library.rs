//! Which library a process loads, each case in a process of its own: a library is loaded once, and a bad one may end it.
//! This file is its own child: with `MILLPOND_LOAD` set, a test loads a model and prints how that went.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;

use installed::{data, is_there};
use millpond_backends_interface::Backend;
use millpond_backends_onnxruntime::{Library, OnnxRuntime};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for a child: the value of `onnxruntime.library`, or nothing.
const LOAD: &str = "MILLPOND_LOAD";

/// The child's half of all tests here; nothing where nobody asks.
#[test]
fn child() {
    let Ok(library) = std::env::var(LOAD) else { return };
    let library = (!library.is_empty()).then(|| PathBuf::from(library));
    let chosen = Library { library }.choose();
    let loaded = chosen.and_then(|()| {
        let loaded = OnnxRuntime::at(data("mlp.onnx")).load();
        loaded.map(|_| ()).map_err(|error| error.to_string())
    });
    println!("RESULT {loaded:?}");
}

/// How a process loads a model that is told of `library`, by configuration or by the environment, and knows no other place but the system's.
fn load(configured: &Path, environment: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture"]).env_clear();
    command.env(LOAD, configured).env("ORT_DYLIB_PATH", environment);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let result = said.lines().find_map(|line| Some(line.split_once("RESULT ")?.1));
    result
        .unwrap_or_else(|| panic!("{:?}: {done:?}", done.status))
        .to_owned()
}

fn check(configured: &Path, environment: &Path, expected: &str) {
    for (configured, environment) in [(configured, environment), (environment, configured)] {
        let found = load(configured, environment);
        assert!(found.contains(expected), "{found}");
    }
}

const NONE: &str = "";

/// The library of the environment that the tests have.
fn library() -> PathBuf {
    let given = std::env::var_os("ORT_DYLIB_PATH").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.demo/venv"),
        PathBuf::from,
    );
    let mut folders = vec![given.canonicalize().unwrap()];
    while let Some(folder) = folders.pop() {
        if folder.is_file() {
            return folder;
        }
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
            let name = name.to_string_lossy();
            if name.starts_with("libonnxruntime.so") {
                return entry.path();
            }
            let leads = name.starts_with("python3")
                || ["lib", "site-packages", "onnxruntime", "capi"].contains(&&*name);
            if leads && kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    panic!("no library below ORT_DYLIB_PATH or .demo/venv")
}

#[test]
fn a_whole_library_is_loaded_by_file_folder_and_link() {
    if !is_there("a_whole_library_is_loaded_by_file_folder_and_link") {
        return;
    }
    let (library, folder) = (library(), tempfile::tempdir().unwrap());
    let link = folder.path().join("libonnxruntime.so");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    for path in [&library, library.parent().unwrap(), &link, folder.path()] {
        check(path, Path::new(NONE), "Ok(())");
    }
}

#[test]
fn a_library_that_is_cut_short_is_refused_before_it_kills_the_process() {
    if !is_there("a_library_that_is_cut_short_is_refused_before_it_kills_the_process") {
        return;
    }
    let whole = std::fs::read(library()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("libonnxruntime.so.1.31.1");
    for length in [whole.len() / 2, 1_000_000, 100] {
        std::fs::write(&cut, &whole[..length]).unwrap();
        check(
            &cut,
            Path::new(NONE),
            &format!("is cut short: it has {length} bytes of at least "),
        );
    }
}

#[test]
fn what_is_no_onnx_runtime_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("libonnxruntime.so");
    std::fs::write(&text, "text").unwrap();
    check(
        &text,
        Path::new(NONE),
        "libonnxruntime.so is no shared library; name libonnxruntime.so itself",
    );
    check(
        &folder.path().join("none"),
        Path::new(NONE),
        "none, which is not there; name ONNX Runtime's shared library",
    );
    // A shared library that every Linux has.
    let others = [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/aarch64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
    ];
    let other = others.iter().map(Path::new).find(|path| path.is_file()).unwrap();
    check(
        other,
        Path::new(NONE),
        "is not ONNX Runtime: it has no OrtGetApiBase",
    );
    // A program is one as well, by its headers, and cannot be loaded.
    let program = std::env::current_exe().unwrap();
    check(&program, Path::new(NONE), "cannot be loaded: ");
    let old = folder.path().join("libonnxruntime.so.1.23.2");
    std::fs::write(&old, "").unwrap();
    check(&old, Path::new(NONE), "it needs ONNX Runtime 1.24 or newer, and ");
}

#[test]
fn configuration_comes_before_the_environment() {
    if !is_there("configuration_comes_before_the_environment") {
        return;
    }
    let library = library();
    assert_eq!(load(&library, Path::new("/nowhere")), "Ok(())");
    assert!(
        load(Path::new("/nowhere"), &library)
            .contains("onnxruntime.library names /nowhere, which is not there")
    );
}

#[test]
fn a_process_has_one_library() {
    if !is_there("a_process_has_one_library") {
        return;
    }
    let same = Library {
        library: Some(library()),
    };
    assert_eq!(same.choose(), Ok(()));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("libonnxruntime.so.1.31.1");
    std::fs::write(&other, "").unwrap();
    let refused = Library { library: Some(other) }.choose().unwrap_err();
    assert!(refused.ends_with("restart it to load another"), "{refused}");
}
