//! How many lines of production code each top folder has.
//!
//! Counts the tracked `.rs` files as they are, and `make lint` keeps them formatted. Test code is left out: `tests/`
//! and `fuzz/`, files named as tests, files that only a `#[cfg(test)]` module includes, and every `#[cfg(test)]`
//! item. Invariant: a line is counted in one row or in none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{File, Source, read_files};

/// The attribute of an item that is compiled for tests alone.
const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// What generators write into the first lines of their output.
const GENERATED: &str = "@generated";

/// A folder with a row of its own: programs to compare with, which no limit covers.
const COMPARATORS: &str = "benches/bare";

/// The table of the repository at `root`, a row a folder, then the sum.
pub fn table(root: &Path) -> anyhow::Result<String> {
    Ok(print(&count(&read_files(root)?)))
}

/// Production lines by folder; generated files have a row of their own.
fn count(files: &[File]) -> BTreeMap<String, usize> {
    let sources: Vec<(&File, Production)> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .map(|file| (file, Production::read(&file.text)))
        .collect();
    let included: BTreeSet<String> = sources
        .iter()
        .flat_map(|(file, found)| found.test_modules.iter().map(|name| child(&file.path, name)))
        .collect();
    let mut rows = BTreeMap::new();
    for (file, found) in &sources {
        if !is_test(&file.path) && !is_included(&file.path, &included) {
            *rows.entry(row(file)).or_insert(0) += found.lines;
        }
    }
    rows
}

fn row(file: &File) -> String {
    if file.text.lines().take(3).any(|line| line.contains(GENERATED)) {
        return "generated".to_owned();
    }
    let comparator = file
        .path
        .strip_prefix(COMPARATORS)
        .filter(|rest| rest.starts_with('/'));
    match comparator {
        Some(_) => COMPARATORS.to_owned(),
        None => file.path.split('/').next().unwrap_or_default().to_owned(),
    }
}

/// Test code by its place or its name.
fn is_test(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|folder| folder == "tests")
        || folders.split('/').next() == Some("fuzz")
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
}

/// Whether `path` is a module of `included`, or inside one.
fn is_included(path: &str, included: &BTreeSet<String>) -> bool {
    let module = path.strip_suffix(".rs").unwrap_or(path);
    let module = module.strip_suffix("/mod").unwrap_or(module);
    included.contains(module)
        || module
            .match_indices('/')
            .any(|(at, _)| module.get(..at).is_some_and(|parent| included.contains(parent)))
}

/// The path, without `.rs`, of the module `name` that the file at `path` declares.
fn child(path: &str, name: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/{name}"),
        _ => format!("{}/{name}", path.trim_end_matches(".rs")),
    }
}

/// What one file has beside its tests.
struct Production {
    lines: usize,
    /// The modules in files of their own that only tests include.
    test_modules: Vec<String>,
}

impl Production {
    fn read(text: &str) -> Production {
        let mut production = Production {
            lines: text.lines().count(),
            test_modules: Vec::new(),
        };
        let code = Source::read(text).code;
        let mut rest = code.as_str();
        while let Some((_, item)) = rest.split_once(TEST_ATTRIBUTE) {
            let (body, after) = item.split_at(item_length(item));
            production.lines -= 1 + body.matches('\n').count();
            production.test_modules.extend(declared_module(body));
            rest = after;
        }
        production
    }
}

/// The length of the item that `code` starts with: to its semicolon, or to the brace that closes its body.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, '}' | ';') {
            return at + 1;
        }
    }
    code.len()
}

/// The name in `mod name;`.
fn declared_module(item: &str) -> Option<String> {
    let mut words = item.strip_suffix(';')?.split_whitespace().rev();
    let name = words.next()?;
    (words.next() == Some("mod")).then(|| name.to_owned())
}

/// The sum is of what people wrote.
fn print(rows: &BTreeMap<String, usize>) -> String {
    let all: usize = rows.values().sum();
    let generated = rows.get("generated").copied().unwrap_or(0);
    let mut text = String::new();
    for (folder, lines) in rows {
        text.push_str(&format!("{folder:<14}{lines:>7}\n"));
    }
    text + &format!("{:<14}{:>7}", "sum", all - generated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[(&str, usize)]) {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        let rows = count(&files);
        let found: Vec<(&str, usize)> = rows.iter().map(|(row, lines)| (row.as_str(), *lines)).collect();
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn every_line_of_production_code_counts_in_its_top_folder() {
        check(
            &[
                ("a/src/lib.rs", "//! A.\n\nfn f() {}\n"),
                ("a/b/src/lib.rs", "//! B.\n"),
                ("c/build.rs", "fn main() {}\n"),
                ("c/notes.md", "words\n"),
            ],
            &[("a", 4), ("c", 1)],
        );
        check(
            &[
                ("benches/src/main.rs", "1\n"),
                ("benches/bare/src/main.rs", "1\n2\n"),
                ("benches/bareback.rs", "1\n"),
                ("wire/oip.rs", "// @generated by a tool\n2\n"),
            ],
            &[("benches", 2), ("benches/bare", 2), ("generated", 2)],
        );
    }

    #[test]
    fn test_code_is_left_out_by_its_place_and_its_name() {
        check(
            &[
                ("tests/chaos/src/main.rs", "1\n"),
                ("a/src/b/tests/c.rs", "1\n"),
                ("fuzz/src/lib.rs", "1\n"),
                ("a/src/tests.rs", "1\n"),
                ("a/src/group_tests.rs", "1\n"),
                ("a/src/contests.rs", "1\n"),
            ],
            &[("a", 1)],
        );
    }

    #[test]
    fn test_items_are_left_out_with_their_attribute() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n\nfn c() {}\n";
        check(&[("a/src/lib.rs", text)], &[("a", 4)]);
        let text = "#[cfg(test)]\nuse a::{\n    b,\n};\n#[cfg(test)]\nfn d(x: [u8; 2]) {\n}\nfn c() {}\n";
        check(&[("a/src/lib.rs", text)], &[("a", 1)]);
        check(
            &[("a/src/lib.rs", "f(\"#[cfg(test)]\");\n// #[cfg(test)]\n")],
            &[("a", 2)],
        );
    }

    #[test]
    fn files_that_only_tests_include_are_left_out() {
        check(
            &[
                ("a/src/lib.rs", "#[cfg(test)]\nmod rig;\nmod b;\n"),
                ("a/src/rig.rs", "1\n"),
                ("a/src/rig/deep.rs", "1\n"),
                ("a/src/b.rs", "#[cfg(test)]\npub(crate) mod bed;\n"),
                ("a/src/b/bed/mod.rs", "1\n"),
                ("a/src/b/rig.rs", "1\n"),
            ],
            &[("a", 2)],
        );
    }
}
