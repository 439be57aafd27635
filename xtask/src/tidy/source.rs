//! Tells the code of a Rust file from its comments and strings.
//!
//! Not a parser: one pass that knows line and nested block comments, strings with escapes, raw strings, and
//! characters against lifetimes. Invariant: `code` and `comments` have the text's lines, with blanks for the rest.

/// A file's text in two views of the same lines.
#[derive(Debug)]
pub struct Source {
    /// Code, with comments and the inside of strings and characters blanked.
    pub code: String,
    /// Comments, with everything else blanked.
    pub comments: String,
}

/// What a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Splits `text` into its two views.
    pub fn read(text: &str) -> Source {
        let mut source = Source {
            code: String::with_capacity(text.len()),
            comments: String::new(),
        };
        let mut rest = text;
        while !rest.is_empty() {
            let (kind, length) = next(rest, source.code.chars().next_back());
            let (stretch, after) = rest.split_at(length);
            source.push(kind, stretch);
            rest = after;
        }
        source
    }

    fn push(&mut self, kind: Kind, stretch: &str) {
        for c in stretch.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if kind == Kind::Code { c } else { blank });
            self.comments.push(if kind == Kind::Comment { c } else { blank });
        }
    }
}

/// The kind and length in bytes of what `text` starts with; `before` is the code's character in front of it.
fn next(text: &str, before: Option<char>) -> (Kind, usize) {
    let first = text.chars().next().map_or(0, char::len_utf8);
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if text.starts_with("//") {
        return (Kind::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Kind::Comment, block_comment(text));
    }
    if text.starts_with('"') {
        return (Kind::Literal, string(text));
    }
    if let Some(length) = raw_string(text).filter(|_| !in_word) {
        return (Kind::Literal, length);
    }
    if let Some(length) = character(text) {
        return (Kind::Literal, length);
    }
    (Kind::Code, first)
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let step = if rest.starts_with("/*") {
            depth += 1;
            2
        } else if rest.starts_with("*/") {
            depth -= 1;
            2
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string with escapes; an open one reaches to the end.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#` and their `b` and `c` forms.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inside = rest.get(hashes..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let opened = text.len() - inside.len();
    Some(
        inside
            .find(&close)
            .map_or(text.len(), |at| opened + at + close.len()),
    )
}

/// The length of a character; `None` for a lifetime, whose quote has no partner.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        let close = inside.get(2..)?.find('\'')?;
        return Some(1 + 2 + close + 1);
    }
    let first = inside.chars().next()?.len_utf8();
    inside.get(first..)?.starts_with('\'').then_some(1 + first + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, comments: &str) {
        let source = Source::read(text);
        assert_eq!(
            source.code.split_whitespace().collect::<String>(),
            code,
            "code of {text}"
        );
        assert_eq!(
            source.comments.split_whitespace().collect::<String>(),
            comments,
            "comments of {text}"
        );
        let lines = text.matches('\n').count();
        assert_eq!(source.code.matches('\n').count(), lines, "{text}");
        assert_eq!(source.comments.matches('\n').count(), lines, "{text}");
    }

    #[test]
    fn comments_are_not_code() {
        check("a // b\nc", "ac", "//b");
        check("a /* b /* c\n */ d */ e", "ae", "/*b/*c*/d*/");
        check("a /* open", "a", "/*open");
        check("//! é\nfn f() {}", "fnf(){}", "//!é");
    }

    #[test]
    fn strings_hide_what_they_hold() {
        check(r#"f("// {", x)"#, "f(,x)", "");
        check(r#"f("a\"{\\", x)"#, "f(,x)", "");
        check(r###"f(r#"a " } b"#, br"\", x)"###, "f(,,x)", "");
        check("f(b\"}\", \"line\n}\")", "f(b,)", "");
        check("\"open {", "", "");
        check("for\"x\"", "for", "");
        check("r#fn()", "r#fn()", "");
    }

    #[test]
    fn characters_hide_what_they_hold_and_lifetimes_stay() {
        check(r"f('{', '\'', '\u{7d}', b'}', 'é')", "f(,,,b,)", "");
        check("fn f<'a>(x: &'a str) { }", "fnf<'a>(x:&'astr){}", "");
        check(r"'\\' }", "}", "");
    }
}
