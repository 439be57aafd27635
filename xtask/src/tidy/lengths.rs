//! How long a file and a function may be.
//!
//! Functions are measured from `fn` to the closing brace by counting braces in the code view; what a function
//! holds inside counts as its own. A declaration without a body has no length.

use super::File;
use super::source::Source;
use crate::finding::Finding;

const FILE_LINES_MAX: usize = 700;
const FILE_LINES_AIM: usize = 500;
const FUNCTION_LINES_MAX: usize = 100;
const FUNCTION_LINES_AIM: usize = 70;

/// A file past the aim is worth a thought, past the limit it is refused.
pub fn file(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    judge(
        &file.path,
        &format!("{lines} lines"),
        lines,
        FILE_LINES_AIM,
        FILE_LINES_MAX,
    )
}

/// The same for each function.
pub fn functions(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in measure(&source.code) {
        let place = format!("{path}:{}", function.line);
        let what = format!("fn {} has {} lines", function.name, function.lines);
        findings.extend(judge(
            &place,
            &what,
            function.lines,
            FUNCTION_LINES_AIM,
            FUNCTION_LINES_MAX,
        ));
    }
    findings
}

fn judge(place: &str, what: &str, lines: usize, aim: usize, max: usize) -> Option<Finding> {
    if lines > max {
        return Some(Finding::refused(
            place,
            format!("{what}, more than {max}: split it"),
        ));
    }
    (lines > aim).then(|| Finding::warned(place, format!("{what}, more than {aim}")))
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// An item whose `fn` was read: it waits for its opening brace, or has it and waits for the closing one.
struct Open {
    name: String,
    line: usize,
    /// Braces open outside the body; `None` until the body opens.
    depth: Option<usize>,
}

/// Finds the functions of `code` in the order in which they end.
fn measure(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let (mut line, mut depth, mut brackets) = (1, 0_usize, 0_usize);
    let mut words = Words::default();
    for c in code.chars() {
        if let Some(name) = words.function(c) {
            open.push(Open {
                name,
                line,
                depth: None,
            });
        }
        match c {
            '\n' => line += 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => {
                if let Some(last) = open.last_mut().filter(|last| last.depth.is_none()) {
                    last.depth = Some(depth);
                }
                depth += 1;
            }
            // A semicolon outside brackets ends a declaration: no body will come. Inside, it is an array's length.
            ';' if brackets == 0 && open.last().is_some_and(|last| last.depth.is_none()) => {
                open.pop();
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if let Some(done) = open.pop_if(|last| last.depth == Some(depth)) {
                    found.push(Function {
                        name: done.name,
                        line: done.line,
                        lines: line + 1 - done.line,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// Reads words and tells when one follows `fn`.
#[derive(Default)]
struct Words {
    current: String,
    after_fn: bool,
}

impl Words {
    /// Takes the next character; gives the name when it ends a word that followed `fn`.
    fn function(&mut self, c: char) -> Option<String> {
        if c.is_alphanumeric() || c == '_' || c == '#' {
            self.current.push(c);
            return None;
        }
        let word = std::mem::take(&mut self.current);
        if word.is_empty() {
            // `fn(` is a type, not an item.
            self.after_fn &= c.is_whitespace();
            return None;
        }
        let named = self.after_fn.then_some(word.clone());
        self.after_fn = word == "fn" && c.is_whitespace();
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn check(code: &str, expected: &[(&str, usize, usize)]) {
        let found: Vec<_> = measure(&Source::read(code).code);
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn a_function_reaches_from_fn_to_its_brace() {
        check(
            "fn a() {}\n\nfn b(\n  x: u8,\n) -> u8 {\n  x\n}\n",
            &[("a", 1, 1), ("b", 3, 5)],
        );
        check("impl A {\n  fn a() {\n    if x { y }\n  }\n}\n", &[("a", 2, 3)]);
        check("fn a() {\n  let f = |x| {\n    x\n  };\n}", &[("a", 1, 5)]);
    }

    #[test]
    fn inner_functions_end_before_outer_ones() {
        check("fn a() {\n  fn b() {\n  }\n}", &[("b", 2, 2), ("a", 1, 4)]);
    }

    #[test]
    fn declarations_types_strings_and_comments_are_no_functions() {
        check("trait A { fn a(&self); fn b(x: [u8; 4]) {} }", &[("b", 1, 1)]);
        check("struct A { f: fn(u8) -> u8 }\nfn a() {}", &[("a", 2, 1)]);
        check("fn a() {\n  \"}\"; // }\n  '}';\n}", &[("a", 1, 4)]);
        check("// fn a() {}\nlet s = \"fn b() {}\";", &[]);
    }

    #[test]
    fn lengths_are_judged_by_aim_and_limit() {
        let of = |lines: usize| {
            let code = format!("fn a() {{\n{}}}\n", "x;\n".repeat(lines - 2));
            functions("a.rs", &Source::read(&code))
                .first()
                .map(|finding| finding.level)
        };
        assert_eq!(of(FUNCTION_LINES_AIM), None);
        assert_eq!(of(FUNCTION_LINES_AIM + 1), Some(Level::Warned));
        assert_eq!(of(FUNCTION_LINES_MAX), Some(Level::Warned));
        assert_eq!(of(FUNCTION_LINES_MAX + 1), Some(Level::Refused));
        let of = |lines: usize| {
            file(&File {
                path: "a.rs".to_owned(),
                text: "\n".repeat(lines),
            })
            .map(|f| f.level)
        };
        assert_eq!(of(FILE_LINES_AIM), None);
        assert_eq!(of(FILE_LINES_AIM + 1), Some(Level::Warned));
        assert_eq!(of(FILE_LINES_MAX + 1), Some(Level::Refused));
    }
}
