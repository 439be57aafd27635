//! Tidy sources: what a reader of this repository may count on in every file.
//!
//! Reads the files git knows (and new ones it does not ignore) and hands each to pure checks. It formats
//! nothing and knows no Rust beyond strings, comments and braces; rustfmt and clippy do the rest.

mod diffs;
mod layout;
mod leftovers;
mod lengths;
mod listings;
mod source;
mod unsafety;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::finding::Finding;
use crate::workspace::Workspace;
pub use source::Source;

/// A file of the repository: its path from the root and its text.
#[derive(Debug)]
pub struct File {
    /// The path from the root of the repository.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Runs every tidy check over the files of the workspace.
pub fn check(workspace: &Workspace) -> anyhow::Result<Vec<Finding>> {
    let files = read_files(Path::new(&workspace.root))?;
    let mut findings = Vec::new();
    for file in &files {
        findings.extend(layout::names(&file.path));
        findings.extend(leftovers::machine_paths(file));
        if file.path.ends_with(".rs") {
            findings.extend(check_rust(file));
        } else {
            findings.extend(leftovers::notes(file));
        }
    }
    findings.extend(unsafety::listed_files(&files));
    findings.extend(listings::check(workspace, &files));
    findings.extend(diffs::check(&files));
    Ok(findings)
}

/// The checks of one Rust file.
fn check_rust(file: &File) -> Vec<Finding> {
    let source = Source::read(&file.text);
    let mut findings = Vec::new();
    findings.extend(layout::header(file));
    findings.extend(layout::modules(&file.path, &source));
    findings.extend(leftovers::rust(&file.path, &source));
    findings.extend(lengths::file(file));
    findings.extend(lengths::functions(&file.path, &source));
    findings
}

/// The text files git tracks or would track; deleted and binary ones are left out.
pub fn read_files(root: &Path) -> anyhow::Result<Vec<File>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("starting git ls-files")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let mut files = Vec::new();
    for path in String::from_utf8(output.stdout)
        .context("a path that is not UTF-8")?
        .split_terminator('\0')
    {
        let full = root.join(path);
        if !full.is_file() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| format!("reading {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(files)
}

/// Whether `text` holds `word` with no letter, digit or underscore on either side.
fn holds_word(text: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text.get(..start).and_then(|rest| rest.chars().next_back());
        let after = text
            .get(start + word.len()..)
            .and_then(|rest| rest.chars().next());
        !before.is_some_and(in_word) && !after.is_some_and(in_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert!(holds_word("a unsafe {", "unsafe"));
        assert!(holds_word("unsafe", "unsafe"));
        assert!(!holds_word("unsafe_code", "unsafe"));
        assert!(!holds_word("é_unsafe unsafely", "unsafe"));
    }

    #[test]
    fn one_bad_file_gathers_the_findings_of_every_check() {
        let text = "fn f() { h() }\nmod util { fn g() { h() } }\n".to_owned();
        let found = check_rust(&File {
            path: "server/src/a.rs".to_owned(),
            text,
        });
        let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
    }
}
