//! Unsafe code stands in files of a named list, and each block says why it is sound.

use super::source::Source;
use super::{File, holds_word};
use crate::finding::Finding;

/// The files that may `allow(unsafe_code)`. Anywhere else the workspace denies it.
const ALLOWED_FILES: &[&str] = &[
    "engines/features/src/map.rs",
    "engines/features/src/prefetch.rs",
    "fuzz/src/memory.rs",
    "fuzz/src/unread.rs",
    "press/recorder/src/proc/accelerator.rs",
    "press/recorder/src/process.rs",
];

/// How many lines above a block its comment may begin.
const COMMENT_LINES_MAX: usize = 8;

/// Every unsafe block and impl has a SAFETY comment on its line or above it.
pub fn blocks(path: &str, source: &Source) -> Vec<Finding> {
    let comments: Vec<&str> = source.comments.lines().collect();
    let mut findings = Vec::new();
    for (index, code) in source.code.lines().enumerate() {
        let near = index.saturating_sub(COMMENT_LINES_MAX)..=index;
        let said = comments
            .get(near)
            .is_some_and(|near| near.iter().any(|line| line.contains("SAFETY:")));
        if opens_unsafe(code) && !said {
            let message = "unsafe without a // SAFETY: line that says why it is sound";
            findings.push(Finding::refused(format!("{path}:{}", index + 1), message));
        }
    }
    findings
}

/// A block or an impl; `unsafe fn` and `unsafe trait` state an obligation, which their docs carry.
fn opens_unsafe(code: &str) -> bool {
    let declares = ["unsafe fn", "unsafe trait", "unsafe extern"]
        .iter()
        .any(|start| code.contains(start));
    holds_word(code, "unsafe") && !declares
}

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
    fn a_block_without_its_reason_is_refused() {
        let check = |text: &str, expected: usize| {
            let found = blocks("a.rs", &Source::read(text));
            assert_eq!(found.len(), expected, "{text:?}: {found:?}");
        };
        check("let x = unsafe { f() };", 1);
        check("// SAFETY: f has no preconditions.\nlet x = unsafe { f() };", 0);
        check("unsafe impl Send for A {} // SAFETY: A holds no pointer.", 0);
        check("unsafe impl Send for A {}", 1);
        check("/// # Safety\n/// x is valid.\nunsafe fn f() {}", 0);
        check("\"unsafe { }\"; // unsafe in words", 0);
        check(
            &format!(
                "// SAFETY: far above.\n{}unsafe {{ f() }}",
                "\n".repeat(COMMENT_LINES_MAX)
            ),
            1,
        );
    }

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
