//! Where ONNX Runtime's shared library is. It opens no library.
//!
//! Its invariant: whoever names a place gets the library of that place or an error; other places are searched only where none is named.

use crate::Refusal;
use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, path};

/// The environment's name for a library or a folder that holds it.
pub(crate) const VARIABLE: &str = "ORT_DYLIB_PATH";

/// The oldest release whose interface the backend knows.
const OLDEST: Version = Version(1, 24, 0);

/// The beginning of a library's name; its version may follow.
const NAME: &str = "libonnxruntime.so";

/// Where no Python has it.
const SYSTEM: &[&str] = &[
    "usr/local/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "opt/onnxruntime/lib",
];

const INSTALL: &str = "pip install onnxruntime (onnxruntime-gpu for CUDA)";

/// A release, as the name of a library says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    /// Of the file's own name, where `path` may be a link to it.
    fn of(path: &Path) -> Option<Version> {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = real.file_name()?.to_str()?;
        let mut parts = name.strip_prefix(NAME)?.strip_prefix('.')?.splitn(3, '.');
        let mut next = || parts.next()?.parse().ok();
        Some(Version(next()?, next()?, next().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What the search looks at; tests have their own.
pub(crate) struct Surroundings<'a> {
    /// A variable of the environment.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Where the system's folders are.
    pub(crate) root: &'a Path,
    /// Where the Python that this process runs in imports from.
    pub(crate) packages: &'a [PathBuf],
}

/// A variable of this process that says something.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The library to load: of `configured` (onnxruntime.library), else of the environment, else the first that is new enough among
/// those of Pythons and of the system.
pub(crate) fn find(configured: Option<&Path>, around: &Surroundings<'_>) -> Result<PathBuf, Refusal> {
    if let Some(path) = configured {
        return named("onnxruntime.library", path);
    }
    if let Some(path) = (around.variable)(VARIABLE) {
        return named(VARIABLE, Path::new(&path));
    }
    let (mut looked, mut old) = (Vec::new(), Vec::new());
    for folder in places(around) {
        match newest(&folder) {
            Some((Some(version), path)) if version < OLDEST => {
                old.push(format!("{} ({version})", path.display()))
            }
            Some((_, path)) => return Ok(path),
            None => looked.push(folder.display().to_string()),
        }
    }
    let found = match old.is_empty() {
        true => "none was found".to_owned(),
        false => format!("only older ones were found: {}", old.join(", ")),
    };
    let problem = format!("it needs ONNX Runtime 1.24 or newer, and {found}");
    let hint = format!(
        "install it: {INSTALL}, or set onnxruntime.library; looked in: {}",
        looked.join(", ")
    );
    Err((problem, hint))
}

/// The library at `given`, a file or a folder, which `what` names.
fn named(what: &str, given: &Path) -> Result<PathBuf, Refusal> {
    let given = path::absolute(given).unwrap_or_else(|_| given.to_path_buf());
    let shown = given.display();
    let found = if given.is_file() {
        Some((Version::of(&given), given.clone()))
    } else if given.is_dir() {
        folders_of(&given)
            .iter()
            .filter_map(|folder| newest(folder))
            .max_by_key(|(version, _)| *version)
    } else {
        let hint = "name ONNX Runtime's shared library or a folder that holds it, or leave it out";
        return Err((
            format!("{what} names {shown}, which is not there"),
            hint.to_owned(),
        ));
    };
    match found {
        Some((Some(version), path)) if version < OLDEST => Err(too_old(&path, &version.to_string())),
        Some((_, path)) => Ok(path),
        None if folders_of(&given).iter().any(|folder| is_wheel(folder)) => Err((
            format!("{what} names {shown}, whose Python package onnxruntime has no shared library ({NAME}*)"),
            format!("its release is too old: {INSTALL} --upgrade"),
        )),
        None => Err((
            format!("{what} names {shown}, a folder without ONNX Runtime ({NAME}*)"),
            format!("install it there: {INSTALL}, or name the library itself"),
        )),
    }
}

/// What to say of a library of an older release.
pub(crate) fn too_old(path: &Path, version: &str) -> Refusal {
    let problem = format!(
        "it needs ONNX Runtime 1.24 or newer, and {} is {version}",
        path.display()
    );
    (
        problem,
        format!("upgrade it: {INSTALL} --upgrade, or name a newer one (onnxruntime.library)"),
    )
}

/// The library of the highest version in one folder.
fn newest(folder: &Path) -> Option<(Option<Version>, PathBuf)> {
    let libraries = entries(folder, NAME).into_iter().filter(|path| path.is_file());
    // Of one library and links to it, the shortest name.
    libraries
        .map(|path| (Version::of(&path), path))
        .max_by_key(|(version, path)| (*version, Reverse(path.as_os_str().len())))
}

/// The version that the library's own name says, if it says one.
pub(crate) fn version(path: &Path) -> Option<String> {
    Version::of(path).map(|version| version.to_string())
}

/// Whether the native half of the Python package is in `folder`.
fn is_wheel(folder: &Path) -> bool {
    folder.ends_with("onnxruntime/capi") && folder.is_dir()
}

/// Where a folder that somebody names may hold it: a library's own, an environment's, or that of the Python package.
fn folders_of(given: &Path) -> Vec<PathBuf> {
    let own = ["", "lib", "capi", "onnxruntime/capi"];
    let own = own.iter().map(|below| match *below {
        "" => given.to_path_buf(),
        below => given.join(below),
    });
    own.chain(of_python(given)).collect()
}

/// Where packages of the Python at `prefix` have it.
fn of_python(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        for python in entries(&prefix.join(lib), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                found.push(python.join(packages).join("onnxruntime/capi"));
            }
        }
    }
    found
}

/// What begins with `name` in `folder`, in order.
fn entries(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(name))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Where it may be when nobody names it: the Python that this process runs in, other Pythons, then the system's folders.
fn places(around: &Surroundings<'_>) -> Vec<PathBuf> {
    let variable = |name: &str| (around.variable)(name).map(PathBuf::from);
    let all = |name: &str| {
        let value = (around.variable)(name).unwrap_or_default();
        env::split_paths(&value)
            .filter(|path| path.is_absolute())
            .collect::<Vec<_>>()
    };
    let is_python = |bin: &PathBuf| bin.join("python3").is_file();
    let of_path = all("PATH")
        .into_iter()
        .find(is_python)
        .and_then(|bin| Some(bin.parent()?.to_path_buf()));
    let home = variable("HOME").map(|home| home.join(".local"));
    let prefixes = [variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), of_path, home];
    let system = ["usr/local", "usr"].map(|prefix| Some(around.root.join(prefix)));
    let pythons = prefixes.into_iter().chain(system).flatten();
    let imported = around
        .packages
        .iter()
        .map(|folder| folder.join("onnxruntime/capi"));
    let mut found: Vec<PathBuf> = imported.collect();
    found.extend(pythons.flat_map(|prefix| of_python(&prefix)));
    found.extend(all("LD_LIBRARY_PATH"));
    found.extend(SYSTEM.iter().map(|folder| around.root.join(folder)));
    let mut seen = Vec::new();
    found.retain(|folder| {
        let is_new = !seen.contains(folder);
        seen.push(folder.clone());
        is_new
    });
    found
}

#[cfg(test)]
mod tests;
