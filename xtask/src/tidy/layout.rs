//! Where things stand and what they are called: the module header, and names that say nothing.

use super::File;
use super::source::Source;
use crate::finding::Finding;

/// Names under which anything could hide.
const BANNED_NAMES: &[&str] = &[
    "common", "util", "utils", "core", "helper", "helpers", "types", "misc", "prelude",
];

/// A Rust file opens with what it is.
pub fn header(file: &File) -> Option<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let message = "opens with no //!: say what the module is, what it is not, and its invariant";
    (!first.starts_with("//!")).then(|| Finding::refused(&file.path, message))
}

/// No folder and no source file has a name that says nothing; a file's name is judged up to its first dot.
pub fn names(path: &str) -> Option<Finding> {
    let is_source = path.ends_with(".rs") || path.ends_with(".py");
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.split('.').next().filter(|_| is_source);
    let banned = folders.split('/').chain(stem).find(is_banned)?;
    Some(Finding::refused(
        path,
        format!("{banned:?} says nothing: name the noun it holds"),
    ))
}

/// No inline module has such a name either.
pub fn modules(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for pair in words.windows(2) {
            if pair[0] == "mod" && is_banned(&pair[1]) {
                let message = format!("module {:?} says nothing: name the noun it holds", pair[1]);
                findings.push(Finding::refused(format!("{path}:{}", index + 1), message));
            }
        }
    }
    findings
}

fn is_banned(name: &&str) -> bool {
    BANNED_NAMES.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_refused() {
        let check = |text: &str, expected: bool| {
            let file = File {
                path: "a.rs".to_owned(),
                text: text.to_owned(),
            };
            assert_eq!(header(&file).is_some(), expected, "{text:?}");
        };
        check("//! What it is.\n", false);
        check("", true);
        check("\n//! Late.\n", true);
        check("// Not a header.\n", true);
        check("#![allow(unsafe_code)]\n//! Second.\n", true);
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        let check = |path: &str, expected: bool| assert_eq!(names(path).is_some(), expected, "{path}");
        check("server/src/admission.rs", false);
        check("wire/common/src/lib.rs", true);
        check("server/src/util.rs", true);
        check("examples/helpers.py", true);
        check("press/src/scores.rs", false);
        check("docs/types/shard.md", true);
        check("backends/onnxruntime/tests/data/types.json", false);
    }

    #[test]
    fn inline_modules_are_judged_and_strings_are_not() {
        let found = modules(
            "a.rs",
            &Source::read("pub mod misc {}\nlet a = \"mod util\";\nmod utility {}\n"),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "a.rs:1");
    }
}
