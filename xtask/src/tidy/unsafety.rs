//! Unsafe code stands in files of a named list; clippy checks that each block says why it is sound.

use super::File;
use super::source::Source;
use crate::finding::Finding;

/// The files that may `allow(unsafe_code)`. Anywhere else the workspace denies it.
const ALLOWED_FILES: &[&str] = &[
    "backends/onnxruntime/src/c_api.rs",
    "backends/onnxruntime/src/c_api/binding.rs",
    "backends/plugin/src/c_api.rs",
    "backends/worker/src/memory.rs",
    "client/python/src/tables/given.rs",
    "client/python/src/values/array.rs",
    "client/python/src/values/dlpack.rs",
    "client/python/src/values/memory.rs",
    "client/python/src/values/take.rs",
    "engines/features/src/guard.rs",
    "engines/features/src/map.rs",
    "engines/features/src/write/behind.rs",
    "engines/ordered/src/tree/words.rs",
    "fuzz/src/memory.rs",
    "fuzz/src/unread.rs",
    "prefetch/src/lib.rs",
    "press/recorder/src/proc/accelerator.rs",
    "press/recorder/src/process.rs",
];

/// The files that allow unsafe code are exactly the named ones.
pub fn listed_files(files: &[File]) -> Vec<Finding> {
    check_list(files, ALLOWED_FILES)
}

fn check_list(files: &[File], listed: &[&str]) -> Vec<Finding> {
    let allows = |file: &File| {
        file.path.ends_with(".rs") && Source::read(&file.text).code.contains("allow(unsafe_code)")
    };
    let allowing: Vec<&str> = files
        .iter()
        .filter(|file| allows(file))
        .map(|file| file.path.as_str())
        .collect();
    let mut findings = Vec::new();
    for path in allowing.iter().filter(|path| !listed.contains(path)) {
        let message = "allows unsafe code and is not on the list (xtask/src/tidy/unsafety.rs)";
        findings.push(Finding::refused(*path, message));
    }
    for path in listed.iter().filter(|path| !allowing.contains(path)) {
        findings.push(Finding::refused(
            *path,
            "is on the list of unsafe files and allows none: take it off",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_files_are_held_together() {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let allowing = [
            file("a.rs", "//! Maps.\n#![allow(unsafe_code)]\n"),
            file("b.rs", "// allow(unsafe_code)\n"),
        ];
        assert!(check_list(&allowing, &["a.rs"]).is_empty());
        assert!(check_list(&allowing, &[])[0].message.contains("not on the list"));
        assert!(
            check_list(&allowing, &["a.rs", "b.rs"])[0]
                .message
                .contains("take it off")
        );
    }
}
