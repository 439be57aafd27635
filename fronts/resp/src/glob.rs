//! Patterns of SCAN and CONFIG GET: `*`, `?`, `[a-c]`, `[^a]`, `\x`.
//!
//! Its invariant: a match takes at most the pattern's length times the text's, whatever the pattern.
//! Source: Redis, src/util.c (stringmatchlen).

/// Whether a text is one of those that a pattern means.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern_at, mut text_at) = (0, 0);
    // Behind the last `*`, and where the text that it takes ends.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(pattern_at..).unwrap_or_default();
        if rest.first() == Some(&b'*') {
            pattern_at += 1;
            star = Some((pattern_at, text_at));
            continue;
        }
        let next = text.get(text_at);
        match (rest.is_empty(), next) {
            (true, None) => return true,
            (_, None) => return false,
            (false, Some(byte)) => {
                if let Some(taken) = takes(rest, *byte) {
                    (pattern_at, text_at) = (pattern_at + taken, text_at + 1);
                    continue;
                }
            }
            (true, Some(_)) => {}
        }
        // The last star takes one more.
        let Some((behind, end)) = star else { return false };
        star = Some((behind, end + 1));
        (pattern_at, text_at) = (behind, end + 1);
    }
}

/// What every text begins with that a pattern means.
pub(crate) fn literal(pattern: &[u8]) -> Vec<u8> {
    let mut literal = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    loop {
        rest = match rest {
            [] | [b'*' | b'?' | b'[', ..] => return literal,
            [b'\\', escaped, rest @ ..] => {
                literal.push(*escaped);
                rest
            }
            [byte, rest @ ..] => {
                literal.push(*byte);
                rest
            }
        };
    }
}

/// Whether the front of a pattern means a byte: its length.
fn takes(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (is_in, len) = class(rest, byte);
            is_in.then_some(1 + len)
        }
        [other, ..] => (*other == byte).then_some(1),
        [] => None,
    }
}

/// Whether what stands between brackets means a byte, and its length with the closing one; the end of the pattern closes too.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let inverted = pattern.first() == Some(&b'^');
    let (mut at, mut is_in) = (usize::from(inverted), false);
    loop {
        let len = match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= *escaped == byte;
                2
            }
            [from, b'-', to, ..] => {
                let (least, most) = (from.min(to), from.max(to));
                is_in |= (least..=most).contains(&&byte);
                3
            }
            [other, ..] => {
                is_in |= *other == byte;
                1
            }
        };
        at += len;
    }
    (is_in != inverted, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_begins_whatever_is_meant() {
        let check = |pattern: &str, expected: &str| {
            assert_eq!(literal(pattern.as_bytes()), expected.as_bytes(), "{pattern}");
        };
        check("", "");
        check("*", "");
        check("user:*", "user:");
        check("user", "user");
        check("u?er", "u");
        check("[u]ser", "");
        check("a\\*b*", "a*b");
        check("a\\", "a\\");
    }

    #[test]
    fn patterns_mean_what_they_mean_to_redis() {
        let check = |pattern: &str, text: &str, expected: bool| {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        };
        check("*", "", true);
        check("", "", true);
        check("", "1", false);
        check("1*", "123", true);
        check("*3", "123", true);
        check("1*2*3", "1002003", true);
        check("1*2*3", "100200", false);
        check("?", "", false);
        check("h?llo", "hallo", true);
        check("h[ae]llo", "hello", true);
        check("h[^e]llo", "hello", false);
        check("h[a-c]llo", "hbllo", true);
        check("h[c-a]llo", "hbllo", true);
        check("h[b", "hb", true);
        check("\\*", "*", true);
        check("\\*", "a", false);
        check("[\\]]", "]", true);
        check("1[0-9][0-9]", "142", true);
        let long = "*a".repeat(500);
        check(&long, &"a".repeat(499), false);
    }
}
