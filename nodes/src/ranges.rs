//! Sets of buckets as text: "0-511,1024". Its invariant: what is written reads as the same set, in order and as short as it can be.

use std::fmt::Write as _;

/// A range that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRange {
    pub(crate) text: String,
    pub(crate) why: &'static str,
}

/// Reads ranges, each with its first and its last bucket, one after the other as they are written. An empty text has none.
pub(crate) fn read(text: &str) -> impl Iterator<Item = Result<(u64, u64), BadRange>> {
    let parts = (!text.trim().is_empty()).then(|| text.split(','));
    parts.into_iter().flatten().map(|part| {
        let part = part.trim();
        range(part).map_err(|why| BadRange {
            text: crate::error::excerpt(part),
            why,
        })
    })
}

fn range(part: &str) -> Result<(u64, u64), &'static str> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    if first > last {
        return Err("its first bucket is after its last");
    }
    Ok((first, last))
}

fn number(text: &str) -> Result<u64, &'static str> {
    match text {
        "" => Err("a number is missing"),
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => Err("it is no number and no range"),
        _ => text.parse().map_err(|_| "its number is too large"),
    }
}

/// Writes buckets, which come in order and each once.
pub(crate) fn write(buckets: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    let mut buckets = buckets.into_iter().peekable();
    while let Some(first) = buckets.next() {
        let mut last = first;
        while let Some(next) = buckets.next_if(|next| *next == last + 1) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match last == first {
            true => write!(text, "{comma}{first}"),
            false => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_refused() {
        let check = |text: &str, expected: Result<Vec<(u64, u64)>, &str>| {
            let found: Result<Vec<_>, _> = read(text).collect();
            assert_eq!(found.map_err(|bad| bad.why), expected, "{text:?}");
        };
        check("", Ok(vec![]));
        check(" ", Ok(vec![]));
        check("7", Ok(vec![(7, 7)]));
        check("0-511, 1024", Ok(vec![(0, 511), (1024, 1024)]));
        check("1,", Err("a number is missing"));
        check("-1", Err("a number is missing"));
        check("1-", Err("a number is missing"));
        check("a", Err("it is no number and no range"));
        check("1-2-3", Err("it is no number and no range"));
        check("5-3", Err("its first bucket is after its last"));
        check("99999999999999999999", Err("its number is too large"));
    }

    #[test]
    fn sets_are_written_as_ranges() {
        let check = |set: &[u32], expected: &str| assert_eq!(write(set.iter().copied()), expected);
        check(&[], "");
        check(&[3], "3");
        check(&[0, 1, 2, 5, 7, 8], "0-2,5,7-8");
    }
}
