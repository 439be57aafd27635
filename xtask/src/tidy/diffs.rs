//! The diffs of a document still apply: each line that one keeps or removes is in the file that it names.
//!
//! It does not compile what a diff adds. Its invariant: a diff whose file was renamed or edited is a finding.

use super::File;
use crate::finding::Finding;

const ADDING: &str = "docs/adding.md";

/// Holds the diffs of docs/adding.md against the files.
pub fn check(files: &[File]) -> Vec<Finding> {
    let document = files.iter().find(|file| file.path == ADDING);
    document.map_or_else(Vec::new, |document| stale(document, files))
}

/// A diff block has lines `PATH:`, and below each the lines of that file behind a blank, `+` or `-`.
fn stale(document: &File, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut in_diff, mut named): (bool, Option<&File>) = (false, None);
    for (index, line) in document.text.lines().enumerate() {
        let mut refuse = |message: String| {
            findings.push(Finding::refused(
                format!("{}:{}", document.path, index + 1),
                message,
            ));
        };
        if line.starts_with("```") {
            (in_diff, named) = (line == "```diff", None);
        } else if !in_diff {
            continue;
        } else if let Some(kept) = line.strip_prefix([' ', '-']) {
            match named {
                Some(file) if !file.text.lines().any(|line| line == kept) => {
                    refuse(format!(
                        "{} has no line {kept:?}: bring the diff up to date",
                        file.path
                    ));
                }
                Some(_) => {}
                None => refuse("stands below no file of the repository".to_owned()),
            }
        } else if !line.starts_with('+') {
            let path = line.trim_end_matches(':');
            named = files.iter().find(|file| file.path == path);
            if named.is_none() {
                refuse(format!("names the file {path:?}, which is not there"));
            }
        }
    }
    findings
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

    fn check(diff: &str, expected: &[&str]) {
        let document = file(ADDING, &format!("Text.\n\n```diff\n{diff}```\n b\n"));
        let files = [file("a.rs", "mod a;\n    mod b;\n\n"), document];
        let messages: Vec<String> = super::check(&files)
            .into_iter()
            .map(|found| found.message)
            .collect();
        assert_eq!(messages, expected);
    }

    #[test]
    fn lines_that_a_diff_keeps_or_removes_are_in_its_file() {
        check("a.rs:\n mod a;\n+mod c;\n     mod b;\n \n", &[]);
        check("a.rs:\n-mod a;\n", &[]);
        check(
            "a.rs:\n mod b;\n-mod z;\n",
            &[
                "a.rs has no line \"mod b;\": bring the diff up to date",
                "a.rs has no line \"mod z;\": bring the diff up to date",
            ],
        );
    }

    #[test]
    fn a_diff_names_a_file_that_is_there() {
        check(
            "b.rs:\n mod a;\n",
            &[
                "names the file \"b.rs\", which is not there",
                "stands below no file of the repository",
            ],
        );
    }
}
