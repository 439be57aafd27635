//! What must not stay behind: notes to oneself, and paths of one machine. Unfinished code is clippy's to find.
//!
//! The words are put together from halves, so that this file passes its own check.

use super::source::Source;
use super::{File, holds_word};
use crate::finding::Finding;

const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
];

/// Notes in the code and the comments of a Rust file.
pub fn rust(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (code, comment)) in source.code.lines().zip(source.comments.lines()).enumerate() {
        let notes = NOTES
            .iter()
            .filter(|note| holds_word(code, note) || holds_word(comment, note));
        for word in notes {
            findings.push(refused(path, index, word));
        }
    }
    findings
}

/// Notes in any other kind of source: scripts, manifests, recipes. Documents may speak of them.
pub fn notes(file: &File) -> Vec<Finding> {
    let sources = [".py", ".toml", ".sh", "Makefile", ".ci/run"];
    if !sources.iter().any(|end| file.path.ends_with(end)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        findings.extend(
            NOTES
                .iter()
                .filter(|note| holds_word(line, note))
                .map(|n| refused(&file.path, index, n)),
        );
    }
    findings
}

/// Absolute paths that exist on one machine only, in any text file.
pub fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if MACHINE_PATHS.iter().any(|path| starts_a_path(line, path)) {
            let message = "holds an absolute path of one machine: make it relative";
            findings.push(Finding::refused(format!("{}:{}", file.path, index + 1), message));
        }
    }
    findings
}

/// Whether `start` begins a path in `line`: no path character before it, a letter after it.
fn starts_a_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line.get(..at).and_then(|rest| rest.chars().next_back());
        let after = line.get(at + start.len()..).and_then(|rest| rest.chars().next());
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}*)".contains(c))
            && after.is_some_and(char::is_alphabetic)
    })
}

fn refused(path: &str, index: usize, word: &str) -> Finding {
    Finding::refused(
        format!("{path}:{}", index + 1),
        format!("{word} stayed behind: finish it or leave it out"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn notes_are_refused_where_they_stand() {
        let check = |text: &str, expected: usize| {
            let found = rust("a.rs", &Source::read(text));
            assert_eq!(found.len(), expected, "{text:?}: {found:?}");
        };
        check(&format!("// {}: later", NOTES[0]), 1);
        check(&format!("fn {}() {{}}", NOTES[1]), 1);
        check(&format!("let s = \"{}\";", NOTES[2]), 0);
        check(&format!("let A{}B = 1;", NOTES[2]), 0);
    }

    #[test]
    fn notes_are_refused_in_scripts_and_not_in_documents() {
        let line = format!("x = 1  # {} later\n", NOTES[1]);
        assert_eq!(notes(&file("examples/a.py", &line))[0].place, "examples/a.py:1");
        assert_eq!(notes(&file("Makefile", &line)).len(), 1);
        assert!(notes(&file("docs/a.md", &line)).is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_refused() {
        let check = |text: String, expected: bool| {
            assert_eq!(
                !machine_paths(&file("a.md", &text)).is_empty(),
                expected,
                "{text:?}"
            );
        };
        for path in MACHINE_PATHS {
            check(format!("see {path}me/x"), true);
            check(format!("\"{path}me\""), true);
            check(format!("docs{path}me"), false);
            check(format!("{path} alone"), false);
        }
        check("relative/path and /tmp/x".to_owned(), false);
    }
}
