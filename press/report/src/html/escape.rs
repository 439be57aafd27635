//! Text as text, in elements and in quoted attributes.
//!
//! Its invariant: what comes out holds no `<`, `>`, `"` or `'`, and no `&` but that of an entity.

/// Escapes `text`. Control characters, and those that turn the direction of writing, become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// A figure of five digits or more with thin gaps between its thousands; anything else as it is.
pub(crate) fn grouped(text: &str) -> String {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() < 5 || !text.split('.').all(digits) || text.matches('.').count() > 1 {
        return text.to_owned();
    }
    let mut grouped = String::with_capacity(text.len() + 8);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped + &text[whole.len()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("a<b & \"c\"'\u{1}"),
            "a&lt;b &amp; &quot;c&quot;&#39;\u{fffd}"
        );
    }

    #[test]
    fn long_figures_are_grouped() {
        assert_eq!(grouped("1234567.5"), "1\u{202f}234\u{202f}567.5");
        for alone in ["1234", "n/a (10000)", "1.2.3456", "127.0.0.1", "v12345", ""] {
            assert_eq!(grouped(alone), alone);
        }
    }
}
